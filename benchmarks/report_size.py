"""How long ``ttsflow report`` takes on a sweep of 200 jobs, and how large the page is.

The jobs are run here: most on recorded samples of 258 problems each (engine ``replay``), a tenth searches on
the engine ``sim`` with traces and timelines. One fails, and one has a broken line.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path

from common import finish

from ttsflow.config import compose
from ttsflow.run import run_config
from ttsflow.runs.job import record_failure

PLAIN = ("majority", "ffs", "lfs", "adaptive_consistency", "esc")
SEARCHES = ("beam_search", "dvts", "best_of_n", "majority", "rebase")
MOST_SECONDS, MOST_MEGABYTES = 10.0, 20.0


def jobs(count: int) -> list[list[str]]:
    """Return the overrides of so many jobs."""
    replay = ["engine=replay", "task=recorded"]
    replayed = [
        [*replay, f"task.model={model}", f"strategy={name}", f"strategy.n={n}", f"engine.shuffle={shuffle}"]
        for shuffle, model, n, name in product(range(9), ("R1", "R1DistilQwen"), (4, 8), PLAIN)
    ]
    searched = [
        ["engine=sim", "task=simulated", "verifier=simulated", f"strategy={name}", f"strategy.n={n}"]
        for n, name in product((4, 8, 16, 32), SEARCHES)
    ]
    made = [*searched, *replayed]
    return [[*made[place % len(made)], f"seed={place // len(made)}"] for place in range(count)]


def main() -> int:
    """Run the sweep, make the report in a process of its own, and print seconds and megabytes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument(
        "--folder", type=Path, help="where the sweep is kept; one that is there is used again"
    )
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp())
    began = time.perf_counter()
    for number, overrides in enumerate(jobs(args.jobs - 1)):
        if not (folder / str(number)).exists():
            run_config(compose(overrides), folder / str(number))
    record_failure(folder / str(args.jobs - 1), RuntimeError("a job that fails"))
    broken = folder / "0" / "results.jsonl"
    broken.write_text(broken.read_text("utf-8").rstrip()[:-40] + "\n", "utf-8")
    page, swept = folder / "report.html", time.perf_counter() - began
    began = time.perf_counter()
    command = [sys.executable, "-m", "ttsflow", "report", str(folder), "-o", str(page)]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(told.stdout, end="")
    megabytes = page.stat().st_size / 1e6
    results = sum(file.read_bytes().count(b"\n") for file in folder.glob("*/results.jsonl"))
    figures = {
        "jobs": args.jobs,
        "results": results,
        "sweep_seconds": swept,
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "mb": megabytes,
    }
    checks = {
        f"under {MOST_SECONDS:g} s": seconds < MOST_SECONDS,
        f"under {MOST_MEGABYTES:g} MB": megabytes < MOST_MEGABYTES,
    }
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
