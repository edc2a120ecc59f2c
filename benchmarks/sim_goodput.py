"""Simulated goodput of beam search on an RTX 4090 against published figures, with one set of factors.

Goodput as published (FastTTS, arXiv 2509.00195): mean tokens of a finished path per mean seconds of a
problem. The plain loop: generator and verifier in turns, no prefix cache for the verifier, one problem at a
time.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean

from common import events, finish, run
from pairs import PAIRS

#: Published tokens per second at n = 8.
PUBLISHED = {"1.5B+7B": 62.0, "7B+1.5B": 24.0, "1.5B+1.5B": 88.0}
MOST_OFF = 0.3


def main() -> int:
    """Run the three pairs and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=30)
    parser.add_argument(
        "overrides", nargs="*", help="further overrides, such as hardware.efficiency.launch=.003"
    )
    arguments = parser.parse_args()
    figures: dict[str, object] = {}
    checks = {}
    with tempfile.TemporaryDirectory() as name:
        for label, published in PUBLISHED.items():
            generator, verifier, ours, theirs = PAIRS[label]
            words = [
                *("engine=sim", "task=simulated", f"task.size={arguments.problems}", "concurrency=1"),
                *("strategy=beam_search", "strategy.n=8", "strategy.width=4", "seed=0"),
                *(f"engine.model={generator}", f"engine.memory_share={ours}"),
                *("verifier=simulated", f"verifier.model={verifier}", f"verifier.memory_share={theirs}"),
            ]
            done = run(label, [*words, *arguments.overrides], Path(name), show=False)
            paths = [e["tokens"] for e in events(Path(name), label, "candidate") if e["finish"] == "stop"]
            seconds = fmean(result["usage"]["seconds"] for result in done.results.values())
            goodput = fmean(paths) / seconds
            figures |= {f"{label}_goodput": goodput, f"{label}_published": published}
            checks[f"{label} within {MOST_OFF:.0%}"] = abs(goodput / published - 1) <= MOST_OFF
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
