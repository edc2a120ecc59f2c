"""How long a decision of the controllers takes: from a question's samples to what it asks for next.

Through the driver on the fake engine, books and prices included, with 1 to 64 questions in flight. Samples of
the fake engine agree as those of a weak model do, so that nearly every question is looked at several times.
Decisions that wait for the first prices, or for other questions, are left out. The machine has to be quiet,
since the seconds are those of a clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any

from common import finish
from rich.table import Table

from ttsflow.controllers.online import Online
from ttsflow.controllers.reserve import Reserve
from ttsflow.ledger import Budget
from ttsflow.listing import wide_console
from ttsflow.ops import Generate, Op, Wait
from ttsflow.protocols import Stage
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence, run_stage
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import State

EVERY = (1, 2, 3, 4, 5, 6, 7, 8)
CONTROLLED: Mapping[str, Ladder] = {
    "atest_online": Ladder(controller=Online()),
    "atest_reserve": Ladder(gain="planned", rungs=EVERY, alpha=None, controller=Reserve(rungs=EVERY)),
}
QUESTIONS, TOKENS = 300, 26_000.0


@dataclass(frozen=True)
class Timed:
    """A stage, and the seconds of its decisions: its own, and those in which the books reply."""

    stage: Stage
    engine: FakeEngine
    seconds: list[float] = field(default_factory=list, compare=False)

    def __call__(self, state: State) -> Generator[Op, Any, State]:
        """Run the stage."""
        steps, reply = run_stage(self.stage, state), None
        began, step = time.perf_counter(), self.engine.now()
        while True:
            try:
                op = steps.send(reply)
            except StopIteration as end:
                self._take(began, step)
                return end.value
            if isinstance(op, Generate):
                self._take(began, step)
            reply = yield op
            if isinstance(op, Generate | Wait):
                began, step = time.perf_counter(), self.engine.now()

    def _take(self, began: float, step: float) -> None:
        if self.engine.now() == step:
            self.seconds.append(time.perf_counter() - began)


def decisions(ladder: Ladder, concurrency: int) -> list[float]:
    """Return the seconds of every decision of a run."""
    engine = FakeEngine(capacity=512)
    timed = Timed(ladder, engine)
    run_fake(
        Sequence({"climb": timed, "vote": Aggregate()}),
        FakeTask(size=QUESTIONS).problems(),
        engine=engine,
        budget=Budget(run={"tokens": TOKENS}),
        concurrency=concurrency,
    )
    return timed.seconds


def main() -> int:
    """Time the decisions of both controllers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    table = Table(title="milliseconds of a decision", title_justify="left")
    for name in ("strategy", "in flight", "decisions", "median", "mean", "95 % below"):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    figures: dict[str, float] = {}
    for name, ladder in CONTROLLED.items():
        for count in arguments.in_flight:
            # The first run fills what is kept between runs.
            took = min((decisions(ladder, count) for _ in range(arguments.repeat)), key=statistics.fmean)
            told = [statistics.median(took), statistics.fmean(took), statistics.quantiles(took, n=20)[-1]]
            table.add_row(name, str(count), str(len(took)), *(f"{1e3 * value:.3f}" for value in told))
            figures |= {f"{name}_{count}_median_ms": 1e3 * told[0], f"{name}_{count}_mean_ms": 1e3 * told[1]}
    wide_console().print(table)
    checks = {"a decision takes under a millisecond": all(value < 1 for value in figures.values())}
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
