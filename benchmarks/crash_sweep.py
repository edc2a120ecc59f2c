"""A sweep that is killed again and again (kill -9, at any moment) and run again each time.

At the end it must be complete, with no result lost or doubled, every trace whole, and every problem's answer,
outcome and tokens those of a sweep that nobody disturbed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common import finish

from ttsflow.runs.progress import progress, read_plan

#: The fake engine takes no time; with this a step takes a little, so that there is a moment to be killed in.
CHILD = """
import sys, time
from ttsflow.testing import FakeEngine
step, pause = FakeEngine.step, float(sys.argv[1])
FakeEngine.step = lambda self: (time.sleep(pause), step(self))[1]
from ttsflow.cli import main
sys.exit(main(sys.argv[2:]))
"""


def words(engine: str, problems: int) -> list[str]:
    """Return the sweep: three ways of choosing and a search, at two sizes."""
    task = ["task=arithmetic", f"task.size={problems}", "sampling.max_tokens=40"]
    # One at a time: how far samples are that are ended early depends on what else is running.
    own = [f"engine={engine}", "concurrency=1"]
    own += [] if engine == "fake" else ["engine.model=demo", "engine.dtype=float32", "engine.kv_gib=0.25"]
    strategies = "majority,best_of_n,ffs,beam_search" if engine == "fake" else "majority,best_of_n"
    return [*own, *task, "verifier=equations", f"strategy={strategies}", "strategy.n=4,8"]


def start(arguments: Sequence[str], pause: float, folder: Path) -> subprocess.Popen[bytes]:
    """Start the sweep in a process, and in a process group, of its own."""
    command = [
        sys.executable,
        "-c",
        CHILD,
        str(pause),
        "run",
        "-q",
        "-m",
        *arguments,
        f"hydra.sweep.dir={folder}",
    ]
    with (folder.parent / "said.txt").open("ab") as said:
        return subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)


def killed(process: subprocess.Popen[bytes]) -> None:
    """Kill a process of ours with all its children, which an engine may have."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def results(folder: Path) -> tuple[dict[tuple[str, str], Any], list[str]]:
    """Return what each problem of each job came to, and what is wrong with the files."""
    found: dict[tuple[str, str], Any] = {}
    wrong: list[str] = []
    for _, _, path in read_plan(folder):
        for line in (path / "results.jsonl").read_text("utf-8").splitlines():
            record = json.loads(line)
            key, usage = (path.name, record["id"]), record["usage"]
            wrong += [f"{key} is doubled"] if key in found else []
            tokens = [usage[name] for name in ("decoded", "serial", "verifier", "requests")]
            found[key] = (record["answer"], record["outcome"], tokens)
        kinds: dict[str, list[str]] = {}
        for line in (path / "trace.jsonl").read_text("utf-8").splitlines():
            event = json.loads(line)
            kinds.setdefault(event["problem"], []).append(event["event"])
        wrong += [
            f"{path.name}: the trace of {problem} is not one of one problem"
            for problem, mine in kinds.items()
            if (mine.count("start"), mine.count("result")) != (1, 1)
        ]
        if progress(path).state != "complete":
            wrong.append(f"{path.name} is {progress(path)}")
    return found, wrong


def crash(
    folder: Path,
    *,
    engine: str = "fake",
    kills: int = 100,
    problems: int = 25,
    pause: float = 0.002,
    seed: int = 0,
) -> tuple[dict[str, Any], bool]:
    """Run the sweep undisturbed, then killed ``kills`` times; return figures, and whether all is well."""
    rng = random.Random(seed)  # noqa: S311 - it chooses when to kill
    arguments = words(engine, problems)
    begun = time.monotonic()
    undisturbed = start(arguments, pause, folder / "whole")
    if undisturbed.wait():
        raise SystemExit((folder / "said.txt").read_text())
    wall = time.monotonic() - begun
    done, within, restarts = 0, wall / 2 if engine == "fake" else wall * 1.2, 0
    progressed: set[int] = set()
    while done < kills:
        process = start(arguments, pause, folder / "killed")
        restarts += 1
        try:
            process.wait(rng.uniform(0, within))
        except subprocess.TimeoutExpired:
            killed(process)
            done += 1
        else:
            # It has ended before its time: what is complete is thrown away, and the killing goes on.
            if process.returncode:
                break
            if done < kills:
                _forget_some(folder / "killed", rng)
        progressed.add(_results(folder / "killed"))
    last = start(arguments, pause, folder / "killed")
    code = last.wait()
    one, two = results(folder / "whole"), results(folder / "killed")
    figures = {
        "engine": engine,
        "kills": done,
        "starts": restarts + 1,
        "exit code": code,
        "results": len(two[0]),
        "wanted": len(one[0]),
        "differ": sum(one[0].get(key) != value for key, value in two[0].items()),
        "lost": len(one[0].keys() - two[0].keys()),
        "wrong": len(two[1]),
        "numbers of results seen": len(progressed),
        "undisturbed seconds": round(wall, 1),
    }
    for text in two[1][:5]:
        print(text)
    fine = not code and done == kills and one == two and not two[1]
    return figures, fine


def _results(folder: Path) -> int:
    return sum(file.read_bytes().count(b"\n") for file in folder.glob("*/results.jsonl"))


def _forget_some(folder: Path, rng: random.Random) -> None:
    """Make a sweep that is complete partial again: half of its results, and the end of a line, are gone."""
    for _, _, path in read_plan(folder):
        for name in ("results.jsonl", "trace.jsonl"):
            size = (path / name).stat().st_size
            os.truncate(path / name, rng.randint(0, size - 2))


def main() -> int:
    """Print the figures; the exit code is 1 when anything was lost, doubled or changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="fake", choices=["fake", "vllm"])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--problems", type=int, default=25)
    parser.add_argument("--pause", type=float, default=0.002, help="seconds of a step of the fake engine")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures, fine = crash(Path(folder), **vars(args))
    return finish(figures, {"as undisturbed": fine})


if __name__ == "__main__":
    sys.exit(main())
