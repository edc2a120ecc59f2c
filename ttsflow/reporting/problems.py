"""Every problem of every run, packed for the script of the page, which shows those that are opened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ttsflow.analysis.runs import Row
from ttsflow.reporting.baseline import Point
from ttsflow.reporting.panels import Panel
from ttsflow.reporting.traces import Vote, votes

__all__ = ["pack"]

#: What one page holds at most: results, characters of trajectories, bytes of traces that are looked through.
MOST_RESULTS, MOST_TEXT, MOST_TRACE = 100_000, 2_000_000, 400_000_000
#: Fewer characters than this tell nothing.
_LEAST_TEXT = 80


class _Strings:
    """Texts by number: most of them occur many times."""

    def __init__(self) -> None:
        self.numbers: dict[str | None, int] = {None: 0}

    def __call__(self, text: str | None) -> int:
        return self.numbers.setdefault(text, len(self.numbers))


def pack(found: Sequence[Panel]) -> tuple[dict[str, Any], list[str]]:
    """Return the data of the page's script, and what was left out of it and why."""
    strings, notes = _Strings(), []
    results = sum(len(point.run.rows) for panel in found for point in panel.points)
    room = min(MOST_TEXT // max(1, results), 2000)
    if room < _LEAST_TEXT:
        room = 0
        notes.append(
            "The texts of trajectories are left out where so many results are on one page: "
            "`ttsflow show RUN --problem ID` shows them."
        )
    share = MOST_RESULTS / max(1, results)
    packed, read, silent = [], 0, 0
    for panel in found:
        told = []
        for point in panel.points:
            trace = point.run.folder / "trace.jsonl"
            size = trace.stat().st_size if trace.is_file() else 0
            read += size
            fits = size and read <= MOST_TRACE
            silent += not fits
            told.append(votes(trace) if fits else {})
        ids, left = _chosen(panel, share)
        if left:
            notes.append(
                f"{left} of {len(ids) + left} problems of {panel.title} are left out, those first on which "
                "all runs agree: `ttsflow show RUN` lists all of a run."
            )
        packed.append(
            {
                "runs": [strings(point.name) for point in panel.points],
                "problems": [_problem(name, panel.points, told, strings, room) for name in ids],
            }
        )
    if silent:
        notes.append(f"Of {silent} runs no votes are shown: they have no trace, or the traces are too large.")
    return {"strings": list(strings.numbers), "panels": packed}, notes


def _chosen(panel: Panel, share: float) -> tuple[list[str], int]:
    """Return the problems that are shown, and how many are not."""
    ids = list(dict.fromkeys(name for point in panel.points for name in point.run.rows))
    most = max(1, int(len(ids) * share))
    if len(ids) <= most:
        return ids, 0
    rows = {name: [p.run.rows[name] for p in panel.points if name in p.run.rows] for name in ids}
    kept = set(sorted(ids, key=lambda name: len(set(map(_verdict, rows[name]))) < 2)[:most])
    return [name for name in ids if name in kept], len(ids) - most


def _verdict(row: Row) -> int:
    return 2 if row.correct is None else int(row.correct)


def _problem(
    name: str, points: Sequence[Point], told: Sequence[dict[str, Vote]], strings: _Strings, room: int
) -> list[Any]:
    """Return a problem: its id, gold answer, and a cell per run, 0 where the run has no result of it."""
    rows = [point.run.rows.get(name) for point in points]
    gold = next((row.gold for row in rows if row is not None and row.gold is not None), None)
    cells = [
        _cell(row, known.get(name), strings, room) if row is not None else 0
        for row, known in zip(rows, told, strict=True)
    ]
    return [strings(name), strings(gold), cells]


def _cell(row: Row, vote: Vote | None, strings: _Strings, room: int) -> list[Any]:
    """Return a result; what the script reads by position is listed in ``report.js``."""
    why = "; ".join(part for part in (row.stopped, row.reason) if part) or None
    cell: list[Any] = [
        _verdict(row),
        strings(row.outcome),
        strings(row.answer),
        row.decoded,
        row.serial,
        _brief(row.seconds),
        strings(why),
    ]
    text = row.text[:room] if room and row.text and row.text != row.answer else None
    if vote is None and text is None:
        return cell
    counted = _counted(vote, strings) if vote else 0
    return [*cell, counted, strings(text)] if text else [*cell, counted]


def _counted(vote: Vote, strings: _Strings) -> list[Any]:
    weights = [part for answer, weight in vote.weights for part in (strings(answer), _brief(weight))]
    score = None if vote.score is None else _brief(vote.score)
    return [strings(vote.how), weights, vote.others, score, int(vote.tied)]


def _brief(value: float) -> float:
    """Return a number with the digits that are shown of it."""
    return float(f"{value:.4g}")
