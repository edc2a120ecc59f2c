"""Whether search pays: sums of six one-digit numbers on the demo model, n = 16, exact verifier and control.

``beam_search`` and ``dvts`` with the verifier ``equations`` against ``majority`` with as many samples,
compared problem by problem, and the same beam search with a random verifier, which must not pay.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from common import finish, run

from ttsflow.display import print_summaries
from ttsflow.engines import warm
from ttsflow.metrics import paired_bootstrap

RUNS = {
    "majority": ["strategy=majority"],
    "beam_search": ["strategy=beam_search", "verifier=equations"],
    "dvts": ["strategy=dvts", "verifier=equations"],
    "beam_search_random": ["strategy=beam_search", "verifier=random"],
}


def main() -> int:
    """Run all four, compare, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=24)
    parser.add_argument("--n", type=int, default=16)
    arguments = parser.parse_args()
    common = ["task.terms=6", f"task.size={arguments.problems}", f"strategy.n={arguments.n}", "seed=0"]
    with tempfile.TemporaryDirectory() as name:
        done = {label: run(label, [*words, *common], Path(name)) for label, words in RUNS.items()}
    warm.close_all()
    print_summaries(item.summary for item in done.values())
    decoded = {label: int(item.summary.usage["decoded_tokens"] or 0) for label, item in done.items()}
    gains = {
        label: paired_bootstrap(item.correct, done["majority"].correct)
        for label, item in done.items()
        if label != "majority"
    }
    figures = {
        **{label: item.summary.accuracy or 0.0 for label, item in done.items()},
        **{f"{label}_decoded": count for label, count in decoded.items()},
        **{f"{label}_minus_majority": [round(value, 4) for value in gain] for label, gain in gains.items()},
    }
    checks = {
        "beam_search above majority, lower end above 0": gains["beam_search"][1] > 0,
        "dvts above majority, lower end above 0": gains["dvts"][1] > 0,
        "beam_search decodes no more": decoded["beam_search"] <= decoded["majority"],
        "dvts decodes no more": decoded["dvts"] <= decoded["majority"],
        "a random verifier is not above majority": gains["beam_search_random"][1] <= 0,
    }
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
