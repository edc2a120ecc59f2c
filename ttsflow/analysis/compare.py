"""``ttsflow compare``: two runs on the questions they share, with a paired test."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ttsflow.analysis.clock import clock_note, virtual_clock
from ttsflow.analysis.measures import COSTS, Measures, measure
from ttsflow.analysis.runs import Row, Run, one_run
from ttsflow.analysis.settings import Difference, differences, names
from ttsflow.errors import DataError
from ttsflow.listing import wide_console
from ttsflow.metrics import mcnemar, paired_bootstrap, paired_ratio
from ttsflow.trace import finite

__all__ = ["Comparison", "Interval", "compare", "main", "show_comparison"]

_LISTED = 20  # discordant questions that are printed of each side

#: A value with the ends of its 95 % interval.
Interval = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs on the questions they share: ``first`` against ``second``, their names, and their ``folders``.

    ``measures`` are of the shared questions alone. ``difference`` is first - second in accuracy over the
    ``graded`` of them, with a paired bootstrap interval over questions; ``p_value`` that of the exact McNemar
    test. ``only_first`` and ``only_second`` are the questions that one alone has right. ``ratios`` are
    what a question took in the first, divided by that in the second; ``clock`` says whether seconds are
    virtual, and is empty where none are. ``notes`` say what else is to be known.
    """

    first: str
    second: str
    folders: tuple[str, str]
    shared: int
    graded: int
    measures: tuple[Measures, Measures]
    difference: Interval | None
    p_value: float | None
    both: int
    neither: int
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    ratios: Mapping[str, Interval]
    clock: str
    settings: tuple[Difference, ...]
    notes: tuple[str, ...]


def compare(first: Run, second: Run, labels: tuple[str, str] | None = None) -> Comparison:
    """Compare two runs; ``labels`` are their names where they have some already.

    Raises ``DataError`` when they share no question, or those they share by their ids are others by their
    gold answers.
    """
    named = labels or _names(first, second)
    shared, notes = _shared(first, second)
    pairs = [(first.rows[name], second.rows[name]) for name in shared]
    graded = [(one, other) for one, other in pairs if one.correct is not None and other.correct is not None]
    if len(graded) < len(pairs):
        notes.append(f"{len(pairs) - len(graded)} shared questions have no verdict in one of the runs")
    won = tuple(one.id for one, other in graded if one.correct and not other.correct)
    lost = tuple(one.id for one, other in graded if other.correct and not one.correct)
    both = sum(bool(one.correct and other.correct) for one, other in graded)
    return Comparison(
        first=named[0],
        second=named[1],
        folders=(str(first.folder), str(second.folder)),
        shared=len(pairs),
        graded=len(graded),
        measures=(_only(first, shared), _only(second, shared)),
        difference=paired_bootstrap(
            [bool(one.correct) for one, _ in graded], [bool(other.correct) for _, other in graded]
        )
        if graded
        else None,
        p_value=mcnemar(len(won), len(lost)) if graded else None,
        both=both,
        neither=len(graded) - both - len(won) - len(lost),
        only_first=won,
        only_second=lost,
        ratios=_ratios(pairs),
        clock=clock_note(map(virtual_clock, (first, second))),
        settings=tuple(differences(first, second)),
        notes=tuple(notes),
    )


def _names(first: Run, second: Run) -> tuple[str, str]:
    one, other = names([first, second])
    return one, other


def _shared(first: Run, second: Run) -> tuple[list[str], list[str]]:
    """Return the questions that both have a result of, and what is to be known of them."""
    notes = [
        f"{run.folder} is {run.status}: {run.error}" for run in (first, second) if run.status != "complete"
    ]
    for run in (first, second):
        if run.skipped:
            lines = ", ".join(str(one.line) for one in run.skipped[:_LISTED])
            notes.append(f"{len(run.skipped)} lines of {run.folder} are no results and were skipped: {lines}")
    common = [name for name in first.rows if name in second.rows]
    same = [name for name in common if first.rows[name].gold == second.rows[name].gold]
    if not same:
        sides = " and ".join(f"{run.folder} has {len(run.rows)} of {run.task}" for run in (first, second))
        why = f"; {len(common)} have one id and different gold answers" if common else ""
        raise DataError(f"the runs share no question: {sides}{why}. Compare runs of one task.")
    if len(same) < len(common):
        notes.append(f"{len(common) - len(same)} questions have one id and different gold answers; left out")
    alone = {run.folder: len(run.rows) - len(common) for run in (first, second)}
    notes += [f"{count} questions are in {where} alone; left out" for where, count in alone.items() if count]
    return same, notes


def _only(run: Run, shared: Sequence[str]) -> Measures:
    rows = {name: run.rows[name] for name in shared}
    return measure(Run(run.folder, run.status, run.config, run.summary, rows))


def _ratios(pairs: Sequence[tuple[Row, Row]]) -> dict[str, Interval]:
    """Return what the first took for one of what the second took, where both are known."""
    found = {}
    for cost in COSTS:
        values = [(getattr(one, cost), getattr(other, cost)) for one, other in pairs]
        known = [(one, other) for one, other in values if one is not None and other is not None]
        if len(known) == len(values) and any(other for _, other in known):
            found[cost] = paired_ratio([one for one, _ in known], [other for _, other in known])
    return found


def main(argv: Sequence[str], parser: argparse.ArgumentParser) -> int:
    """Compare the two runs that the arguments name; print the numbers, or all of them as JSON."""
    parser.add_argument("first", metavar="A", type=Path, help="the folder of a run")
    parser.add_argument("second", metavar="B", type=Path, help="the folder of another one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(argv)
    found = compare(one_run(args.first), one_run(args.second))
    if args.json:
        settings = [one._asdict() for one in found.settings]
        print(json.dumps(finite({**asdict(found), "settings": settings}), indent=1))  # noqa: T201
    else:
        show_comparison(found)
    return 0


def show_comparison(found: Comparison) -> None:
    """Print a comparison."""
    console = wide_console()
    _print_accuracy(console, found)
    _print_costs(console, found)
    for name, questions in (("A", found.only_first), ("B", found.only_second)):
        if questions:
            more = f" and {len(questions) - _LISTED} more" if len(questions) > _LISTED else ""
            listed = ", ".join(map(_plain, questions[:_LISTED]))
            console.print(Text(f"only {name} is right ({len(questions)}): {listed}{more}"))
    if found.settings:
        console.print()
        table = Table(box=None, pad_edge=False, header_style="bold")
        for head in ("setting", "A", "B"):
            table.add_column(head, overflow="fold")
        for setting in found.settings:
            table.add_row(*(Text(_plain("-" if cell is None else cell)) for cell in setting))
        console.print(table)
    for note in found.notes:
        console.print(Text(f"note: {_plain(note)}", style="yellow"))


def _print_accuracy(console: Console, found: Comparison) -> None:
    # A name that needs its folder to be told apart has it already.
    named = [
        name if name.endswith(f"({folder})") else f"{name} [{folder}]"
        for name, folder in zip((found.first, found.second), found.folders, strict=True)
    ]
    for letter, name, one in zip("AB", named, found.measures, strict=True):
        told = "no accuracy"
        if one.accuracy is not None and one.interval is not None:
            told = f"accuracy {one.accuracy:.3f} ({one.interval[0]:.3f}-{one.interval[1]:.3f})"
        console.print(Text(f"{letter}  {_plain(name)}: {told}, answered {one.coverage or 0:.1%}"))
    console.print(Text(f"on {found.shared} shared questions, {found.graded} of them graded in both"))
    if found.difference is not None and found.p_value is not None:
        gain, low, high = found.difference
        console.print(
            Text(f"A - B: {gain:+.3f} ({low:+.3f} to {high:+.3f}), paired bootstrap, 95 %", style="bold")
        )
        console.print(
            Text(
                f"McNemar, exact: p = {found.p_value:.3g}; A alone is right on {len(found.only_first)}, B "
                f"alone on {len(found.only_second)}, both on {found.both}, neither on {found.neither}"
            )
        )
    console.print()


def _print_costs(console: Console, found: Comparison) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("of a question")
    for head in ("A", "B", "A / B", "95 % interval"):
        table.add_column(head, justify="right")
    for cost, (ratio, low, high) in found.ratios.items():
        means = (getattr(one, cost) for one in found.measures)
        cells = (*(f"{mean:,.1f}" for mean in means), f"{ratio:.2f}", f"{low:.2f}-{high:.2f}")
        table.add_row(COSTS[cost] + (found.clock if cost == "seconds" else ""), *cells)
    console.print(table)
    console.print()


def _plain(text: str) -> str:
    """Return a text without what a terminal would obey."""
    return "".join(char if char.isprintable() else " " for char in text)
