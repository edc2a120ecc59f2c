"""What a profile of a model says, in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ttsflow.analysis.advice import HORIZONS
from ttsflow.analysis.horizon import DRAWS, EFFECT, FEWEST, LONG, OFTEN, SURE, Estimate, Verdict
from ttsflow.analysis.lengths import Cell, Profile
from ttsflow.listing import wide_console

__all__ = ["as_dict", "print_profile"]

_WARN = 0.05
"""The share of samples without an answer, or cut, above which it is said."""


def as_dict(found: Profile) -> dict[str, Any]:
    """Return a profile as ``--json`` prints it: its type, all its figures, and the reasons in words."""
    reasons = [line.lstrip(" -!") for line in (*_reasons(found), *_cautions(found))]
    return {"model": found.model, "type": found.verdict.kind, "reasons": reasons} | asdict(found)


def print_profile(found: Profile, console: Console | None = None) -> None:
    """Print the type with its reasons, the four cells, and the strategies that suit it."""
    console = console or wide_console()
    name = found.model or "the model"
    console.print(Text(f"{name}: {found.verdict.kind}", style="bold"))
    for line in (*_facts(found), *_reasons(found), *_cautions(found)):
        console.print(Text(line))
    console.print(_cells(found))
    console.print(_advice(found))
    settings = f"strategy=recipe strategy.horizon={HORIZONS[found.verdict.kind]} strategy.profile=measured"
    console.print(Text(f"The strategy recipe chooses among these itself: {settings}\n"))


def _facts(found: Profile) -> Iterator[str]:
    sets = f" ({', '.join(found.datasets)})" if found.datasets else ""
    right = f"{found.accuracy:.1%} of them right"
    yield f"  {found.questions} questions{sets}, {found.samples:,} samples, {right}"


def _reasons(found: Profile) -> Iterator[str]:
    what = found.verdict
    known = "short" if what.short else "not short" if what.long > OFTEN else "not known to be short"
    yield (
        f"- traces are {known}: {what.long:.1%} are over {LONG:,} tokens and {found.cut:.1%} were cut by a "
        f"limit; with at most {OFTEN:.0%} of each they are short"
    )
    if what.shorter is None:
        yield "- no question has both a right and a wrong sample: length cannot be compared with being right"
    else:
        yield (
            "- of a right and a wrong sample of one question the right one is the shorter in "
            f"{_range(what.shorter)}; 50% says nothing, {EFFECT:.0%} is the least that counts"
        )
        groups = (("easy", found.easy), ("hard", found.hard))
        alone = ", ".join(f"{_range(one)} on {name} questions" for name, one in groups if one)
        yield f"  {alone} (easy: {found.difficulty:.0%} or more of the samples are right)"
    gain, low, high = (100 * part for part in (what.first.value, what.first.low, what.first.high))
    yield (
        "- the shortest sample with an answer instead of any one (ffs, k=1): "
        f"{gain:+.1f} points of accuracy ({low:+.1f} to {high:+.1f})"
    )
    if any(what.shares.values()):
        yield f"- how sure: of {DRAWS:,} resamples of the questions {_shares(what)}"
    if what.kind == "undecided" and what.nearest is not None:
        mixed = f"only {what.mixed} questions have both right and wrong samples, {FEWEST} are needed"
        few = f"{FEWEST} questions are needed" if what.short else mixed
        weak = f"no type is found in {SURE:.0%} of the resamples"
        enough = (found.questions if what.short else what.mixed) >= FEWEST
        yield f"- undecided: {weak if enough else few}; the nearest is {what.nearest}"


def _cautions(found: Profile) -> Iterator[str]:
    if found.left_out:
        yield f"! {found.left_out} questions were not graded and are left out"
    if found.ended:
        yield (
            f"! {found.ended} samples were ended early by the run's strategy and are left out; "
            "the rest leans towards short ones: record with strategy=majority"
        )
    if found.missing > _WARN:
        yield f"! {found.missing:.0%} of the samples have no answer; they count as wrong"
    if found.cut > _WARN:
        yield f"! {found.cut:.0%} of the samples were cut by a limit: how long they would be is not known"
    if found.oddity:
        yield f"! not all samples were recorded alike: {'; '.join(found.oddity.signs)}"
        without = found.oddity.without
        if without:
            rest = "" if without.kind == found.verdict.kind else ": the type rests on them"
            yield f"  without these samples {without.kind} ({_shares(without)}){rest}"


def _cells(found: Profile) -> Table:
    columns = ("questions", "traces", "tokens", "samples", "accuracy", "95 % interval")
    table = _table(columns, left=columns[:3])
    for cells, fixed in ((found.cells, False), (found.fixed, True)):
        for cell in cells:
            own = found.tokens["mean" if fixed else cell.questions]
            side = {"short": "up to", "long": "over"} if fixed else {"short": "below", "long": "above"}
            what = "the mean," if fixed else "the question's median, about"
            border = "-" if own is None else f"{side[cell.traces]} {what} {own:,.0f}"
            table.add_row(cell.questions, cell.traces, border, *_row(cell))
        table.add_section()
    return table


def _row(cell: Cell) -> tuple[str, ...]:
    low, high = cell.ci95
    interval = "-" if cell.accuracy is None else f"{low:.3f}-{high:.3f}"
    return f"{cell.samples:,}", "-" if cell.accuracy is None else f"{cell.accuracy:.3f}", interval


def _advice(found: Profile) -> Table:
    columns = ("profile", "budget", "objective", "questions", "ttsflow run ...")
    table = _table(columns, left=columns)
    objectives: dict[tuple[str, ...], list[str]] = {}
    for line in found.advice:
        key = (line.profile, line.budget, line.questions, line.words)
        objectives.setdefault(key, []).append(line.objective)
    for (name, budget, questions, words), names in objectives.items():
        table.add_row(name, budget, names[0] if len(names) == 1 else "any", questions, words)
    return table


def _table(columns: Sequence[str], left: Sequence[str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="left" if column in left else "right", no_wrap=True)
    return table


def _range(one: Estimate) -> str:
    return f"{one.value:.1%} ({one.low:.0%}-{one.high:.0%})"


def _shares(what: Verdict) -> str:
    """Return the types and how many resamples have them, the most frequent first."""
    shares = sorted(what.shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{kind} in {share:.0%}" for kind, share in shares if share >= 0.005)
