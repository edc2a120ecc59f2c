"""What each technique of acceleration costs where it cannot help: processor time with and without.

On the fake engine, whose step takes microseconds, so that nothing hides the cost; it is told as a share of a
step of 10 ms, which is a short one on a GPU. Nothing can be begun early: ``majority`` asks for nothing behind
what it has, and four searches at once take every seat of ``beam_search``. The fake's steps of a search are
about 5 tokens; what is done when a candidate ends is spread over 50, a short step of a real one. Pairs of
runs, alternated.
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
#: Tokens after which a candidate ends: under ``majority`` each counts by itself, under a search a short step.
TOKENS: Mapping[str, int] = {"majority": 1, "beam_search": 50}

TECHNIQUES: Mapping[str, Acceleration] = {
    "prefix_order": Acceleration(prefix_order=True),
    "speculation": Acceleration(speculation=True),
    "eager_verify": Acceleration(eager_verify=True),
    "all": Acceleration(prefix_order=True, speculation=True, eager_verify=True),
}


def seconds(strategy: Stage, n: int, acceleration: Acceleration) -> tuple[float, float]:
    """Return processor seconds by token of the output, and by candidate; n seats for four problems."""
    engine = FakeEngine(capacity=n)
    began = time.process_time()
    run = run_fake(strategy, task=FakeTask(size=12), engine=engine, concurrency=4, acceleration=acceleration)
    spent = time.process_time() - began
    usage = [result.usage for result in run.values()]
    return spent / sum(one.output for one in usage), spent / sum(one.requests for one in usage)


def main() -> int:
    """Measure every technique under two strategies and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=15)
    arguments = parser.parse_args()
    table = Table(title=f"share of a step of {arguments.n} sequences", title_justify="left")
    for name in ("strategy", *TECHNIQUES):
        table.add_column(name, justify="left" if name == "strategy" else "right")
    figures: dict[str, float] = {}
    for name, tokens in TOKENS.items():
        words = [f"strategy={name}", f"strategy.n={arguments.n}"]
        strategy = build("stage", compose(words)["strategy"], "strategy", load())
        longer: dict[str, list[float]] = {label: [] for label in TECHNIQUES}
        for _ in range(arguments.repeat):
            for label, acceleration in TECHNIQUES.items():
                plain, with_it = (
                    seconds(strategy, arguments.n, one)[tokens > 1] for one in (PLAIN, acceleration)
                )
                longer[label].append((with_it - plain) * arguments.n / tokens / STEP)
        for label, values in longer.items():
            figures[f"{name}_{label}"] = statistics.median(values)
        table.add_row(name, *(f"{figures[f'{name}_{label}']:.2%}" for label in TECHNIQUES))
    wide_console().print(table)
    most = max(share for name, share in figures.items() if not name.endswith("_all"))
    return finish(figures, {f"no technique takes more than {MOST:.0%} of a step of 10 ms": most <= MOST})


if __name__ == "__main__":
    raise SystemExit(main())
