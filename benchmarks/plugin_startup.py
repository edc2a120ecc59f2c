"""What installed plugins add to the start of every command: nothing, and 50 of them, in turns.

    python benchmarks/plugin_startup.py [--plugins 50] [--times 21]

Each plugin is a distribution of its own with a hook, three parts, and a config package with two strategies.
Two things are measured, each in new processes: the time until all plugins are loaded, and the whole command
``ttsflow list until``, by the clock and in seconds of the processor, which other processes disturb less. What
is printed is the median of each, the median of the differences of neighbours with its quartiles, and the
difference of the fastest runs, which is what a machine with nothing else to do takes.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import finish

#: What so many plugins may add to a start, in milliseconds.
MOST = 50

HOOK = """from ttsflow import hookimpl
ttsflow_api = 1
@hookimpl
def ttsflow_register(registry):
    for kind in ("stage", "verifier", "cost"):
        registry.add(kind, "{name}", "{package}.parts:Part")
    registry.add_configs("{package}.conf")
"""
STRATEGY = "# What: made up\n# Source: a benchmark\n# Cost: nothing\ndefaults: [majority, _self_]\nn: 4\n"
LOADING = """
import time
wall, used = time.perf_counter(), time.process_time()
from ttsflow import plugins
plugins.load()
print(time.perf_counter() - wall, time.process_time() - used, len(plugins.plugins()), len(plugins.problems()))
"""


def write(site: Path, count: int) -> None:
    """Write so many distributions below ``site``, as pip leaves them."""
    for number in range(count):
        name, package = f"made_{number}", f"ttsflow_made_{number}"
        folder = site / package
        (folder / "conf" / "strategy").mkdir(parents=True)
        (folder / "__init__.py").write_text(HOOK.format(name=name, package=package))
        (folder / "parts.py").write_text("class Part:\n    pass\n")
        (folder / "conf" / "__init__.py").write_text("")
        for which in ("a", "b"):
            (folder / "conf" / "strategy" / f"{name}_{which}.yaml").write_text(STRATEGY)
        info = site / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: ttsflow-made-{number}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[ttsflow]\n{name} = {package}\n")


def run(command: list[str], site: Path | None) -> tuple[dict[str, float], str]:
    """Return the seconds of a command in a new process, by clock and processor, and what it printed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    if site is not None:
        environment["PYTHONPATH"] = os.pathsep.join(
            [str(site), *filter(None, [environment.get("PYTHONPATH")])]
        )
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    took, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"clock": took, "processor": used}, done.stdout


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plugins", type=int, default=50)
    parser.add_argument("--times", type=int, default=21)
    args = parser.parse_args()
    took: dict[str, tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder)
        write(site, args.plugins)
        commands = {
            "loading": [sys.executable, "-c", LOADING],
            "ttsflow list until": [sys.executable, "-m", "ttsflow.cli", "list", "until"],
        }
        for turn in range(args.times + 1):
            for name, command in commands.items():
                for which, place in ((0, None), (1, site)):
                    seconds, told = run(command, place)
                    if name == "loading":
                        inside, used, count, problems = told.split()
                        assert (int(count) > args.plugins) == bool(which)
                        assert problems == "0"
                        seconds = {"clock": float(inside), "processor": float(used)}
                    for clock, value in seconds.items():
                        pair = took.setdefault(f"{name}, {clock}", ([], []))
                        if turn:  # the first one compiles
                            pair[which].append(1000 * value)
    print(f"{args.plugins} plugins and none, in turns, {args.times} times; milliseconds")
    figures: dict[str, float] = {}
    for name, (none, some) in took.items():
        added = [b - a for a, b in zip(none, some, strict=True)]
        low, middle, high = statistics.quantiles(added, n=4)
        print(
            f"  {name:30} {statistics.median(none):7.1f} without, {statistics.median(some):7.1f} with, "
            f"added {middle:+.1f} (quartiles {low:+.1f} to {high:+.1f}), fastest {min(some) - min(none):+.1f}"
        )
        figures[f"{name}, added ms"] = middle
        figures[f"{name}, added ms, fastest"] = min(some) - min(none)
    most = figures["loading, clock, added ms, fastest"]
    return finish(figures, {f"{args.plugins} plugins add under {MOST} ms": most < MOST})


if __name__ == "__main__":
    raise SystemExit(main())
