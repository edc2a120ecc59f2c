"""`make demo`: five strategies on a real model, one table and one picture.

The verifier ``equations`` checks every addition a step writes. On sums it is close to an oracle, so
best_of_n and beam_search show what a very good verifier is worth, not what any verifier gives.
"""

from __future__ import annotations

import argparse
import datetime as dt
import time
from collections.abc import Sequence
from pathlib import Path

from common import Done, run

from ttsflow.display import print_summaries
from ttsflow.engines import warm
from ttsflow.listing import wide_console

STRATEGIES = {
    "single": ["strategy=single"],
    "majority": ["strategy=majority"],
    "ffs": ["strategy=ffs", "strategy.k=4"],
    "best_of_n": ["strategy=best_of_n", "verifier=equations"],
    "beam_search": ["strategy=beam_search", "verifier=equations"],
}


def picture(runs: Sequence[Done], file: Path, n: int) -> None:
    """Draw accuracy with its 95 % interval against decoded tokens per problem."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.8), layout="constrained")
    longest = 0.0
    for done, marker in zip(runs, "osD^v", strict=True):
        summary = done.summary
        if summary.accuracy is None or summary.accuracy_ci95 is None:
            continue
        tokens = float(summary.usage["decoded_tokens"] or 0) / summary.problems
        low, high = summary.accuracy_ci95
        spread = [[summary.accuracy - low], [high - summary.accuracy]]
        label = f"{summary.strategy}  {summary.accuracy:.2f}"
        style = {"fmt": marker, "capsize": 4, "markersize": 8, "alpha": 0.85}
        axes.errorbar(tokens, summary.accuracy, yerr=spread, label=label, **style)
        longest = max(longest, tokens)
    axes.set_xlabel("decoded tokens per problem, pruned and aborted ones included")
    axes.set_ylabel("accuracy, with 95 % interval")
    axes.set_ylim(0, 1.02)
    axes.set_xlim(0, longest * 1.1)
    figure.legend(loc="outside right upper", frameon=False, title="accuracy")
    axes.set_title(f"SmolLM2-135M on sums of three digits, n = {n}", loc="left", fontsize=11)
    axes.grid(alpha=0.3)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=150)


def main() -> int:
    """Run the strategies one after another on one engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--n", type=int, default=8, help="samples of every strategy but single")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    stamp = dt.datetime.now().astimezone().strftime("%Y-%m-%d_%H-%M-%S")
    folder = arguments.folder or Path("outputs") / f"demo-{stamp}"
    console = wide_console()
    console.print(
        f"SmolLM2-135M-Instruct, {arguments.problems} sums of three one-digit numbers, n = {arguments.n}.\n"
        "The verifier of best_of_n and beam_search checks written additions: close to an oracle here."
    )
    began = time.monotonic()
    runs = []
    for label, overrides in STRATEGIES.items():
        size = [] if label == "single" else [f"strategy.n={arguments.n}"]
        flow = ["concurrency=16", f"task.size={arguments.problems}"]
        runs.append(run(label, [*overrides, *size, *flow], folder))
        summary = runs[-1].summary
        seconds = float(summary.usage["wall_seconds"] or 0)
        console.print(f"  {label}: accuracy {summary.accuracy:.3f} in {seconds:.0f} s")
    warm.close_all()
    print_summaries([done.summary for done in runs], console)
    picture(runs, folder / "accuracy_vs_tokens.png", arguments.n)
    console.print(f"Picture: {folder / 'accuracy_vs_tokens.png'}")
    console.print(f"Runs, with every sample in trace.jsonl: {folder}")
    console.print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
