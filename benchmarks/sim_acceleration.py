"""What each technique brings on a simulated RTX 4090: goodput as a multiple of the plain loop, and why.

The three published pairs of generator and verifier (FastTTS, arXiv 2509.00195), beam search of width 4, one
problem at a time. The plain loop generates all steps of a round, then the verifier reads every path from its
first token. Everything that is compared gives the same answers to the token, which is checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from statistics import fmean
from typing import Any

from common import finish
from pairs import PAIRS
from rich.table import Table

from ttsflow import Pipeline
from ttsflow.listing import wide_console

_EARLY = {"speculation": True, "eager_verify": True}

#: What is switched on: settings of the engine, and whether the verifier keeps what it has read.
ROWS: Mapping[str, tuple[Mapping[str, Any], bool]] = {
    "plain": ({}, False),
    "verifier_cache": ({}, True),
    "prefix_order": ({"prefix_order": True}, False),
    "speculation": (_EARLY, False),
    "all_but_memory": ({**_EARLY, "prefix_order": True}, True),
    "all": ({**_EARLY, "prefix_order": True, "memory": "auto"}, True),
}


def measure(pair: str, n: int, row: str, problems: int) -> tuple[float, list[Any], Mapping[str, float]]:
    """Return goodput, what the run came to, and what the engine counted."""
    generator, verifier, ours, theirs = PAIRS[pair]
    more, cache = ROWS[row]
    pipeline = Pipeline(
        "beam_search",
        engine={"use": "sim", "model": generator, "memory_share": ours, **more},
        task={"use": "simulated", "size": problems},
        verifier={"use": "simulated", "model": verifier, "memory_share": theirs, "prefix_cache": cache},
        hardware="rtx4090",
        n=n,
        concurrency=1,
    )
    run = pipeline.run()
    told = [(r.answer, r.text, r.usage.output, r.usage.serial) for r in run.results]
    return run.summary.goodput, told, run.summary.work


def main() -> int:
    """Run the grid and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--problems", type=int, default=4)
    arguments = parser.parse_args()
    table = Table(title="goodput over the plain loop", title_justify="left")
    for name in ("pair", "n", "plain, tokens/s", *list(ROWS)[1:]):
        table.add_column(name, justify="left" if name == "pair" else "right")
    figures: dict[str, Any] = {}
    gains: dict[str, list[float]] = {row: [] for row in ROWS}
    same = True
    for pair in PAIRS:
        for n in arguments.n:
            plain, told, _ = measure(pair, n, "plain", arguments.problems)
            cells = []
            for row in list(ROWS)[1:]:
                goodput, came, _ = measure(pair, n, row, arguments.problems)
                same &= came == told
                gains[row].append(goodput / plain)
                cells.append(f"{goodput / plain:.2f}")
                figures[f"{pair}_{n}_{row}"] = goodput / plain
            table.add_row(pair, str(n), f"{plain:.0f}", *cells)
            print(pair, n, *cells, flush=True)
    wide_console().print(table)
    figures |= {f"mean_{row}": fmean(values) for row, values in gains.items() if values}
    return finish(figures, {"the same answers to the token": same})


if __name__ == "__main__":
    raise SystemExit(main())
