"""How long all samples of a file of recordings take through one strategy on the engine ``replay``."""

from __future__ import annotations

import argparse
import time

from common import finish

from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.engines.replay import Replay
from ttsflow.ledger import Budget
from ttsflow.plugins import load
from ttsflow.recordings import read_recordings
from ttsflow.session import Session
from ttsflow.setup import Setup
from ttsflow.tasks.recorded import Recorded
from ttsflow.types import Sampling

STRATEGIES = {
    "majority": ["strategy=majority"],
    "ffs_1": ["strategy=ffs", "strategy.k=1"],
    "ffs_4": ["strategy=ffs", "strategy.k=4"],
}
MOST_SECONDS = 5.0


def main() -> int:
    """Run every strategy over every problem, each with all the samples it has, and time it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="recorded samples")
    arguments = parser.parse_args()
    began = time.perf_counter()
    recordings = read_recordings(arguments.file)
    figures: dict[str, object] = {
        "samples": sum(len(recording.samples) for recording in recordings),
        "read_seconds": time.perf_counter() - began,
    }
    sizes = {recording.id: len(recording.samples) for recording in recordings}
    engine, task = Replay(path=arguments.file), Recorded(path=arguments.file)
    problems = task.problems()
    checks = {}
    for name, words in STRATEGIES.items():
        seconds = tokens = 0.0
        for n in sorted(set(sizes.values())):
            strategy = build("stage", compose([*words, f"strategy.n={n}"])["strategy"], "strategy", load())
            setup = Setup(strategy, engine, task, None, {}, Budget(), Sampling(max_tokens=1 << 40))
            alike = [problem for problem in problems if sizes[problem.id] == n]
            with Session(setup) as session:
                began = time.perf_counter()
                tokens += sum(result.usage.decoded for result in session.run(alike))
                seconds += time.perf_counter() - began
        figures |= {f"{name}_seconds": seconds, f"{name}_decoded": int(tokens)}
        checks[f"{name} in under {MOST_SECONDS:g} s"] = seconds < MOST_SECONDS
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
