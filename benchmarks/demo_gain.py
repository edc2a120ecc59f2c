"""How much the strategies gain on the demo model: 120 sums of three one-digit numbers, n = 8.

The verifier ``equations`` is close to an oracle on this task; ``constant`` is its control.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from common import Done, events, finish, run

from ttsflow.display import print_summaries
from ttsflow.engines import warm
from ttsflow.metrics import paired_bootstrap

STRATEGIES = {
    "single": ["strategy=single"],
    "majority": ["strategy=majority", "strategy.n=8"],
    "best_of_n": ["strategy=best_of_n", "strategy.n=8", "verifier=equations"],
    "best_of_n_constant": ["strategy=best_of_n", "strategy.n=8", "verifier=constant"],
    "beam_search": ["strategy=beam_search", "strategy.n=8", "verifier=equations"],
}


def any_of(folder: Path, label: str, done: Done) -> float:
    """Return the share of problems for which any sample of a run was right."""
    right = {
        event["problem"]
        for event in events(folder, label, "candidate")
        if event.get("answer") == done.results[event["problem"]]["gold"]
    }
    return len(right) / len(done.results)


def main() -> int:
    """Run all, compare by problem, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=120)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = {
            label: run(label, [*overrides, f"task.size={arguments.problems}", "seed=0"], folder)
            for label, overrides in STRATEGIES.items()
        }
        any_of_8 = any_of(folder, "best_of_n", done["best_of_n"])
    warm.close_all()
    print_summaries(item.summary for item in done.values())
    gain = {
        label: paired_bootstrap(item.correct, done["single"].correct)
        for label, item in done.items()
        if label != "single"
    }
    accuracy = {label: item.summary.accuracy or 0.0 for label, item in done.items()}
    figures = {
        **accuracy,
        "any_of_8": any_of_8,
        "majority_minus_single": gain["majority"][0],
        "majority_minus_single_low95": gain["majority"][1],
        "constant_minus_single": gain["best_of_n_constant"][0],
        "constant_minus_single_ci95": list(gain["best_of_n_constant"][1:]),
        "decoded_tokens": {label: item.summary.usage["decoded_tokens"] for label, item in done.items()},
    }
    low, high = gain["best_of_n_constant"][1:]
    checks = {
        "majority minus single above .05 (lower 95 %)": gain["majority"][1] > 0.05,
        "best_of_n at most any-of-8": accuracy["best_of_n"] <= any_of_8,
        "best_of_n at least single + .2": accuracy["best_of_n"] >= accuracy["single"] + 0.2,
        "a constant verifier equals single within noise": low <= 0 <= high,
        "beam_search at least single + .2": accuracy["beam_search"] >= accuracy["single"] + 0.2,
    }
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
