"""ATEST on real vLLM on this CPU: fewer samples as others load the machine, and budgets that hold.

The demo model works on sums, with a budget for the run in seconds, then in joules of the power model. Others'
load is made by the injector, a level for each run, and seen by the monitor of the CPU. The price of a sample
is learnt on the way, from nothing, in every run. A budget may be exceeded by what a step of the engine takes.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from common import finish
from rich.table import Table

from ttsflow import cli
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.listing import wide_console
from ttsflow.load.injector import Injector
from ttsflow.session import Session
from ttsflow.status import Status

#: The power model: what two cores of a server take when busy, about. Only ratios matter here.
METER = ("meter=model", "meter.busy_watts=20", "meter.idle_watts=4")
TASK = ("task=arithmetic", "task.terms=3", "sampling.max_tokens=40", "engine.model=demo")


class Told(NamedTuple):
    """One run: all samples drawn, those of a question that has any, and the cost of the longest step."""

    drawn: int
    samples: float
    deferred: int
    accuracy: float
    spent: float
    budget: float
    step: float
    load: float


class Steps:
    """Notes how long steps take."""

    def __init__(self) -> None:
        self._last: float | None = None
        self.longest = 0.0

    def __call__(self, _: Status) -> None:
        """Take in that one is over."""
        now = time.perf_counter()
        if self._last is not None:
            self.longest = max(self.longest, now - self._last)
        self._last = now


def profile(folder: Path, unit: str, levels: Sequence[float], problems: int) -> Path:
    """Return the file of a calibration under these loads, as the command line makes it."""
    file = folder / f"{unit}.json"
    loads = [str(level) for level in levels]
    words = ["--unit", unit, "--problems", str(problems), "--loads", *loads, "-o", str(file)]
    if cli.main(["calibrate", *TASK, f"task.size={problems}", "load=cpu", *METER, *words]):
        raise SystemExit(f"the calibration in {unit} failed.")
    return file


def run(
    strategy: str, unit: str, budget: float, level: float, problems: int, *, file: Path | None = None
) -> Told:
    """Run once under a load; ``file`` is the profile of a calibration."""
    words = [
        *TASK,
        f"strategy={strategy}",
        *([] if file is None else [f"strategy.profile={file}"]),
        f"task.size={problems}",
        "concurrency=1",
        "load=cpu",
        f"budget.run.{unit}={budget}",
        *METER,
    ]
    setup = assemble(compose(words))
    steps = Steps()
    with Injector(level) as injector, Session(setup) as session:
        results = list(session.run(list(setup.task.problems()), on_step=steps))
        wall = session.wall_seconds
    stretch = injector.stretches[-1]
    answered = [result for result in results if result.usage.requests]
    joules = sum(result.usage.joules or 0.0 for result in results)
    spent = wall if unit == "seconds" else joules
    return Told(
        sum(result.usage.requests for result in results),
        fmean(result.usage.requests for result in answered),
        len(results) - len(answered),
        fmean(bool(result.correct) for result in results),
        spent,
        budget,
        steps.longest if unit == "seconds" else steps.longest * spent / wall,
        stretch.achieved,
    )


def main() -> int:
    """Run all levels in both units and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--levels", type=float, nargs="+", default=[0.0, 0.5, 0.9])
    parser.add_argument("--problems", type=int, default=12)
    parser.add_argument("--strategies", nargs="*", default=["atest_online", "atest_reserve"])
    parser.add_argument(
        "--calibrated", type=int, metavar="N", help="atest_calibrated too, by a profile of N questions"
    )
    parser.add_argument("--share", type=float, default=1.2, help="the budget, in questions of four samples")
    arguments = parser.parse_args()
    seconds, joules = reference()
    profiles: dict[str, Path] = {}
    if arguments.calibrated:
        folder = Path(tempfile.mkdtemp())
        for unit in ("seconds", "joules"):
            profiles[unit] = profile(folder, unit, arguments.levels, arguments.calibrated)
        arguments.strategies.append("atest_calibrated")
    table = Table(title="ATEST on this CPU", title_justify="left")
    for name in ("strategy", "unit", "load", "samples", "deferred", "accuracy", "spent", "budget", "a step"):
        table.add_column(name, justify="right" if name not in {"strategy", "unit"} else "left")
    found: dict[tuple[str, str], list[Told]] = {}
    for strategy in arguments.strategies:
        for unit, each in (("seconds", seconds), ("joules", joules)):
            budget = round(arguments.share * each * arguments.problems, 1)
            for level in arguments.levels:
                file = profiles[unit] if strategy == "atest_calibrated" else None
                told = run(strategy, unit, budget, level, arguments.problems, file=file)
                found.setdefault((strategy, unit), []).append(told)
                table.add_row(
                    strategy,
                    unit,
                    f"{told.load:.2f}",
                    f"{told.samples:.2f}",
                    str(told.deferred),
                    f"{told.accuracy:.2f}",
                    f"{told.spent:.1f}",
                    f"{told.budget:.1f}",
                    f"{told.step:.2f}",
                )
                print(strategy, unit, told, flush=True)
    warm.close_all()
    wide_console().print(table)
    checks = {f"{' in '.join(key)}: fewer samples under load": falls(runs) for key, runs in found.items()}
    checks |= {
        f"{' in '.join(key)}: budget kept to a step": all(t.spent <= t.budget + t.step for t in runs)
        for key, runs in found.items()
    }
    return finish({" in ".join(key): [list(told) for told in runs] for key, runs in found.items()}, checks)


def falls(runs: Sequence[Told]) -> bool:
    """Return whether at each higher load fewer samples are drawn in all; a deferred question has none."""
    return all(low.drawn > high.drawn for low, high in itertools.pairwise(runs))


def reference() -> tuple[float, float]:
    """Return seconds and joules of a question of four samples, the model loaded and nothing beside it."""
    words = [*TASK, "strategy=majority", "strategy.n=4", "task.size=4", "concurrency=1", *METER]
    setup = assemble(compose(words))
    with Session(setup) as session:
        problems = list(setup.task.problems())
        list(session.run(problems[:1]))
        results = list(session.run(problems))
        seconds = session.wall_seconds
    return seconds / 4, sum(result.usage.joules or 0.0 for result in results) / 4


if __name__ == "__main__":
    raise SystemExit(main())
