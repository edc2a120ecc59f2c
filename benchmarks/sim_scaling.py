"""What simulating a large beam search costs on one core: time, memory, and how time grows with n."""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time

from common import finish

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.session import Session

SIZES = (8, 32, 128, 512, 2048)
MOST_SECONDS, MOST_GIB = 60.0, 2.0
#: The exponent that n log n has between the smallest and the largest size.
MOST_EXPONENT = 1 + math.log(math.log(SIZES[-1]) / math.log(SIZES[0])) / math.log(SIZES[-1] / SIZES[0])


def words(n: int, problems: int) -> list[str]:
    """Return the overrides of a beam search on a described RTX 4090."""
    return [
        *("engine=sim", "task=simulated", f"task.size={problems}", "trace=false", "seed=0"),
        *("strategy=beam_search", f"strategy.n={n}", "engine.memory_share=0.45"),
        *("verifier=simulated", "verifier.model=skywork-prm-1.5b"),
    ]


def cost(n: int, problems: int) -> tuple[float, int]:
    """Return CPU seconds of a search without what is loaded once, and its decoded tokens."""
    setup = assemble(compose(words(n, problems)))
    with Session(setup) as session:
        began = time.process_time()
        decoded = sum(result.usage.decoded for result in session.run(setup.task.problems()))
        return time.process_time() - began, decoded


def command(n: int, problems: int) -> tuple[float, float]:
    """Return CPU seconds and peak memory in GiB of the whole command ``ttsflow run``."""
    with tempfile.TemporaryDirectory() as folder:
        line = [
            sys.executable,
            "-m",
            "ttsflow",
            "run",
            "-q",
            *words(n, problems),
            f"hydra.run.dir={folder}/run",
        ]
        subprocess.run(line, check=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20


def main() -> int:
    """Time every size, and the large run of the target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=30)
    arguments = parser.parse_args()
    cost(8, 2)  # what is loaded once is no part of it
    each = {n: cost(n, max(2, 512 // n))[0] / max(2, 512 // n) for n in SIZES}
    seconds, gib = command(512, arguments.problems)
    logs = [(math.log(n), math.log(value)) for n, value in each.items()]
    x, y = (sum(pair[i] for pair in logs) / len(logs) for i in (0, 1))
    exponent = sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)
    figures = {
        "problems": arguments.problems,
        "cpu_seconds_512": seconds,
        "peak_gib": gib,
        "cpu_seconds_a_problem": {str(n): round(value, 4) for n, value in each.items()},
        "exponent": exponent,
        "exponent_n_log_n": MOST_EXPONENT,
    }
    checks = {
        f"n = 512 under {MOST_SECONDS:g} s": seconds < MOST_SECONDS,
        f"under {MOST_GIB:g} GiB": gib < MOST_GIB,
        "no worse than n log n": exponent <= MOST_EXPONENT,
    }
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
