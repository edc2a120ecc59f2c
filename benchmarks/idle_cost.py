"""What each technique of acceleration costs where it cannot help: seconds of a step, with and without.

On the fake engine, whose step takes microseconds, so that nothing hides the cost; it is told as a share of a
step of 10 ms, which is a short one on a GPU. Nothing can be begun early: ``majority`` asks for nothing behind
what it has, and ``beam_search`` has every seat taken. Pairs of runs, alternated.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping

from common import finish
from rich.table import Table

from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.listing import wide_console
from ttsflow.plugins import load
from ttsflow.protocols import Stage
from ttsflow.testing import FakeEngine, FakeTask, run_fake

#: A short step of a GPU, in seconds.
STEP = 0.010
#: What a technique may cost, as a share of that.
MOST = 0.03

TECHNIQUES: Mapping[str, Acceleration] = {
    "prefix_order": Acceleration(prefix_order=True),
    "speculation": Acceleration(speculation=True),
    "eager_verify": Acceleration(eager_verify=True),
    "all": Acceleration(prefix_order=True, speculation=True, eager_verify=True),
}


def seconds(strategy: Stage, n: int, acceleration: Acceleration) -> float:
    """Return processor seconds of a step; there are just as many seats as sequences."""
    engine = FakeEngine(capacity=n)
    steps = 0
    plain = engine.step

    def counted() -> object:
        nonlocal steps
        steps += 1
        return plain()

    engine.step = counted  # type: ignore[method-assign,assignment]
    began = time.process_time()
    run_fake(strategy, task=FakeTask(size=12), engine=engine, concurrency=1, acceleration=acceleration)
    return (time.process_time() - began) / steps


def main() -> int:
    """Measure every technique under two strategies and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    table = Table(
        title=f"microseconds that a step of {arguments.n} sequences takes longer", title_justify="left"
    )
    for name in ("strategy", "plain", *TECHNIQUES):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    figures: dict[str, float] = {}
    for name in ("majority", "beam_search"):
        words = [f"strategy={name}", f"strategy.n={arguments.n}"]
        strategy = build("stage", compose(words)["strategy"], "strategy", load())
        plain: list[float] = []
        longer: dict[str, list[float]] = {label: [] for label in TECHNIQUES}
        for _ in range(arguments.repeat):
            for label, acceleration in TECHNIQUES.items():
                plain.append(seconds(strategy, arguments.n, PLAIN))
                longer[label].append(seconds(strategy, arguments.n, acceleration) - plain[-1])
        cells = []
        for label, values in longer.items():
            figures[f"{name}_{label}"] = statistics.median(values) / STEP
            cells.append(f"{statistics.median(values) * 1e6:.0f}")
        table.add_row(name, f"{statistics.median(plain) * 1e6:.0f}", *cells)
    wide_console().print(table)
    return finish(figures, {f"at most {MOST:.0%} of a step of 10 ms": max(figures.values()) <= MOST})


if __name__ == "__main__":
    raise SystemExit(main())
