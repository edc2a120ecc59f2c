"""The grid that FastTTS publishes (arXiv 2509.00195), on ``sim``: three pairs, n from 8 to 512, short KV.

Goodput as a multiple of the published baseline, ``sim_paper_loop``. ``paper`` is the published variant:
shared speculation, copies side by side, its memory split, a verifier that reads every path whole; ``exact``
is all that ttsflow has. What is not shared speculation gives the same answers to the token, which is checked.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from statistics import fmean
from typing import Any, NamedTuple

from common import finish
from pairs import PAIRS
from rich.table import Table
from sim_paper_loop import Cell, measure

from ttsflow.listing import wide_console

#: One continuation is begun for all children, with no look at what it costs, as far ahead as there is time.
SHARED = {"speculation": {"mode": "shared", "curve": False, "depth": 4}}
EXACT = {"speculation": True, "eager_verify": True}
ORDER = {"prefix_order": True}
MEMORY = {"memory": True}


class Row(NamedTuple):
    """A variant: settings of the engine, whether the verifier keeps what it has read, problems in flight."""

    engine: Mapping[str, Any]
    cache: bool = False
    flight: int = 1


ROWS: Mapping[str, Row] = {
    "plain": Row({}),
    "order": Row(ORDER),
    "order, memory": Row({**ORDER, **MEMORY}),
    "paper": Row({**SHARED, **ORDER, **MEMORY}),
    "paper, cache": Row({**SHARED, **ORDER, **MEMORY}, cache=True),
    "exact speculation": Row(EXACT),
    "cache": Row({}, cache=True),
    "exact": Row({**EXACT, **ORDER, **MEMORY}, cache=True),
    # What the published loop cannot do. Its goodput is a throughput; the baseline's is one as well.
    "exact, 4 in flight": Row({**EXACT, **ORDER, **MEMORY}, cache=True, flight=4),
}

#: Problems of a cell with several in flight, at least.
FLOWING = 4

#: What was published for 1.5, 2 and 14 GB of KV cache: prefix order, and with the memory split.
SHORT = {1.5: (0.58, 1.45), 2.0: (0.13, 0.24), 14.0: (0.0, 0.05)}


def grid(pairs: list[str], sizes: list[int], problems: int | None) -> tuple[Table, dict[str, Any], bool]:
    """Return the table of all pairs and sizes, the figures in it, and whether answers were the same."""
    table = Table(title="goodput over the published baseline", title_justify="left")
    for name in ("pair", "n", "baseline, tokens/s", *ROWS):
        table.add_column(name, justify="left" if name == "pair" else "right")
    figures: dict[str, Any] = {}
    same = True
    for pair in pairs:
        for n in sizes:
            # Small searches differ more from problem to problem, and cost less.
            count = problems or max(1, min(12, 256 // n))
            base = measure(pair, n, {}, cache=False, apart=True, problems=count)
            cells = []
            bases = {count: base}
            for name, row in ROWS.items():
                some = count if row.flight == 1 else problems or max(FLOWING, count)
                if some not in bases:
                    bases[some] = measure(pair, n, {}, cache=False, apart=True, problems=some)
                base = bases[some]
                cell = measure(pair, n, row.engine, cache=row.cache, problems=some, flight=row.flight)
                # Problems end in another order when several are in flight.
                same &= name.startswith("paper") or sorted(cell.told) == sorted(base.told)
                figures[f"{pair}_{n}_{name}"] = cell.goodput / base.goodput
                figures[f"{pair}_{n}_{name}_distinct"] = cell.distinct / base.distinct
                cells.append(f"{cell.goodput / base.goodput:.2f}")
            table.add_row(pair, str(n), f"{bases[count].goodput:.1f}", *cells)
            print(pair, n, *cells, flush=True)
    means = {
        name: fmean(value for key, value in figures.items() if key.endswith(f"_{name}"))
        for name in (*ROWS, *(f"{name}_distinct" for name in ROWS))
    }
    for label, end in (("mean", ""), ("mean, distinct tokens", "_distinct")):
        table.add_row(label, "", "", *(f"{means[name + end]:.2f}" for name in ROWS))
    return table, figures | {f"mean_{name}": value for name, value in means.items()}, same


def short(n: int, problems: int) -> tuple[Table, dict[str, Any]]:
    """Return the table of short KV caches, 1.5B + 1.5B, and the figures in it."""
    table = Table(title=f"1.5B + 1.5B, n = {n}, by the KV memory of both", title_justify="left")
    for name in ("GB", "order", "published", "and memory", "published", "exact"):
        table.add_column(name, justify="right")
    figures: dict[str, Any] = {}
    for size, published in SHORT.items():
        given = {"problems": problems, "kv_gib": size * 1e9 / (1 << 30)}

        def run(row: Row, *, apart: bool = False, given: Mapping[str, Any] = given) -> Cell:
            return measure("1.5B+1.5B", n, row.engine, cache=row.cache, apart=apart, **given)

        base = run(Row({}), apart=True).goodput
        gains = [run(ROWS[name]).goodput / base - 1 for name in ("order", "order, memory", "exact")]
        names = ("order", "memory", "exact")
        figures |= {f"{size:g}_GB_{name}": gain for name, gain in zip(names, gains, strict=True)}
        told = [gains[0], published[0], gains[1], published[1], gains[2]]
        table.add_row(f"{size:g}", *(f"{value:+.0%}" for value in told))
        print(size, *told, flush=True)
    return table, figures


def main() -> int:
    """Run grid and short caches, and print them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", nargs="+", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--n", type=int, nargs="+", default=[8, 32, 128, 512])
    parser.add_argument("--problems", type=int, help="of each cell; without it fewer for larger n")
    parser.add_argument("--short-n", type=int, default=512, help="n of the short KV caches")
    arguments = parser.parse_args()
    table, figures, same = grid(arguments.pairs, arguments.n, arguments.problems)
    caches, more = short(arguments.short_n, arguments.problems or 1)
    for one in (table, caches):
        wide_console().print(one)
    figures |= more
    paper = [v for k, v in figures.items() if k.endswith("_paper") and not k.startswith("mean")]
    rising = [figures.get(f"7B+1.5B_{n}_paper", 0.0) for n in sorted(arguments.n)]
    checks = {
        "the same answers to the token": same,
        "paper between 1.2 and 5.4": 1.2 <= min(paper) <= max(paper) <= 5.4,
        "paper near 2.2 on average": abs(figures["mean_paper"] - 2.2) <= 0.4,
        "paper rises with n for 7B+1.5B": rising[-1] > rising[0],
        "exact, one at a time, at least as good on average": figures["mean_exact"] >= figures["mean_paper"],
        "exact, 4 in flight, at least as good on average (throughput)": figures["mean_exact, 4 in flight"]
        >= figures["mean_paper"],
        "and in distinct tokens": figures["mean_exact_distinct"] >= figures["mean_paper_distinct"],
        "exact better than paper where memory is short": figures.get("7B+1.5B_512_exact", 0.0)
        > figures.get("7B+1.5B_512_paper", 0.0),
    }
    for size, (order, _) in SHORT.items():
        checks[f"order at {size:g} GB within 15 points"] = abs(figures[f"{size:g}_GB_order"] - order) <= 0.15
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
