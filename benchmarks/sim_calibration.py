"""Whether the simulator foresees real vLLM on this machine: fitted on 8 samples, asked about 16 and 32.

Majority voting on the demo model in five variants of the engine. The three factors of the hardware (compute,
launch, sequence) are fitted to the wall times at n = 8; trajectories of 16 and 32 samples are drawn from
those of the 8. Every real run is made twice, in turns; pairs of variants whose difference is within the
spread of their own two runs are not counted.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import tempfile
from collections.abc import Mapping
from pathlib import Path

from common import finish, run

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.session import Session

SEEN, ASKED = 8, (16, 32)
#: What differs from the base: overrides of a real run, and of a simulated one.
VARIANTS: Mapping[str, tuple[list[str], list[str]]] = {
    "base": ([], []),
    "one problem": (["concurrency=1"], ["concurrency=1"]),
    "8 seats": (["engine.seats=8"], ["engine.seats=8"]),
    "small cache": (["engine.kv_gib=0.04", "engine.context=512"], ["engine.kv_gib=0.04"]),
    "no prefix cache": (["+engine.args.enable_prefix_caching=false"], ["engine.prefix_cache=false"]),
}
MOST_OFF = 0.2
Cell = tuple[str, int]


def real(problems: int, rounds: int, folder: Path) -> dict[Cell, list[float]]:
    """Return the wall seconds of every cell, each run so many times in turns."""
    seconds: dict[Cell, list[float]] = {}
    for turn in range(rounds):
        for name, (words, _) in VARIANTS.items():
            for n in (SEEN, *ASKED):
                label = f"{name} {n} {turn}"
                done = run(label, [*common(problems, n), "engine.seats=32", *words], folder, show=False)
                seconds.setdefault((name, n), []).append(done.summary.usage["wall_seconds"])
        print(
            f"round {turn + 1}: {[(cell, round(times[-1], 1)) for cell, times in seconds.items()]}",
            flush=True,
        )
    warm.close_all()
    return seconds


def common(problems: int, n: int) -> list[str]:
    """Return what real and simulated runs share."""
    return [
        "strategy=majority",
        f"strategy.n={n}",
        f"task.size={problems}",
        "sampling.max_tokens=48",
        "seed=0",
    ]


def simulated(cell: Cell, factors: Mapping[str, float], problems: int, folder: Path) -> float:
    """Return the seconds that the simulator foresees."""
    name, n = cell
    words = [
        *("engine=sim", "engine.model=smollm2-135m", "engine.weight_bits=32", "engine.kv_bits=32"),
        *("engine.block_size=32", "engine.chunked=false", "engine.batch_tokens=2080", "engine.seats=32"),
        *("engine.kv_gib=1", "engine.context=2048", "hardware=cpu", "trace=false"),
        f"engine.paths={{use: trace, run: '{folder / f'base {SEEN} 0'}'}}",
        *(f"hardware.efficiency.{key}={value:.9f}" for key, value in factors.items()),
        *common(problems, n),
        *VARIANTS[name][1],
    ]
    setup = assemble(compose(words))
    with Session(setup) as session:
        for _ in session.run(setup.task.problems()):
            pass
        return session.wall_seconds


def fitted(seconds: Mapping[Cell, float], problems: int, folder: Path) -> dict[str, float]:
    """Return the factors whose squared errors of log time are least, by a pattern search."""
    factors = {"compute": 0.3, "launch": 0.01, "sequence": 0.002}

    def error(candidate: Mapping[str, float]) -> float:
        return sum(
            math.log(simulated(cell, candidate, problems, folder) / wall) ** 2
            for cell, wall in seconds.items()
        )

    best, step = error(factors), 1.6
    while step > 1.02:
        moves = [(key, factors[key] * by) for key in factors for by in (step, 1 / step)]
        tried = [{**factors, key: min(value, 1.0)} for key, value in moves]
        found, choice = min(((error(candidate), i) for i, candidate in enumerate(tried)), default=(best, 0))
        if found < best:
            best, factors = found, tried[choice]
        else:
            step = math.sqrt(step)
    return factors


def main() -> int:
    """Run, fit, foresee and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="a folder to keep the real runs in")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = arguments.keep or Path(name)
        problems = arguments.problems
        walls = real(problems, arguments.rounds, folder)
        mean = {cell: statistics.fmean(times) for cell, times in walls.items()}
        seen = {cell: wall for cell, wall in mean.items() if cell[1] == SEEN}
        factors = fitted(seen, problems, folder)
        asked = [cell for cell in mean if cell[1] != SEEN]
        foreseen = {cell: simulated(cell, factors, problems, folder) for cell in asked}
    off = {cell: foreseen[cell] / mean[cell] - 1 for cell in asked}
    clear = right = 0
    wrong = []
    for one, other in itertools.combinations(asked, 2):
        if one[1] != other[1]:
            continue
        spread = sum(max(walls[cell]) - min(walls[cell]) for cell in (one, other)) / 2
        if abs(mean[one] - mean[other]) > spread:
            clear += 1
            agrees = (mean[one] > mean[other]) == (foreseen[one] > foreseen[other])
            right += agrees
            wrong += [] if agrees else [f"{one[0]} / {other[0]} at {one[1]}"]
    median = statistics.median(abs(value) for value in off.values())
    figures = {
        **{f"{key}": value for key, value in factors.items()},
        "real": {f"{a} {n}": [round(t, 2) for t in walls[a, n]] for a, n in walls},
        "foreseen": {f"{a} {n}": round(foreseen[a, n], 2) for a, n in asked},
        "off": {f"{a} {n}": round(off[a, n], 3) for a, n in asked},
        "median_off": median,
        "clear_pairs": clear,
        "ordered_rightly": right,
        "wrong": wrong,
    }
    checks = {
        "median error of the wall time at most 20 %": median <= MOST_OFF,
        "every clear pair ordered rightly": right == clear,
    }
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
