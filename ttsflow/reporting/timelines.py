"""Timelines of a few runs: what ran when on their engines."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from ttsflow.analysis.timeline import figures
from ttsflow.errors import DataError
from ttsflow.reporting.charts import timeline
from ttsflow.reporting.drawing import Draw
from ttsflow.reporting.panels import Panel
from ttsflow.runs.timeline import FILE, read_timeline

__all__ = ["Drawn", "timelines"]

#: Runs of a panel whose timeline is drawn, and of a page.
_RUNS, _MOST = 4, 8


class Drawn(NamedTuple):
    """The timeline of a run, and its figures by name."""

    run: str
    folder: str
    picture: Future[str]
    figures: dict[str, str]


def timelines(found: Sequence[Panel], draw: Draw) -> tuple[list[list[Drawn]], list[str]]:
    """Return the timelines of every panel, and what was left out or cannot be read."""
    every: list[list[Drawn]] = []
    notes, count = [], 0
    for panel in found:
        mine: list[Drawn] = []
        known = [point for point in panel.drawn if (point.run.folder / FILE).is_file()]
        best = sorted(known, key=lambda p: (-(p.measures.accuracy or 0.0), p.measures.decoded or 0.0))
        firsts = {p.run.strategy: p for p in reversed(best)}
        for point in sorted(firsts.values(), key=best.index)[:_RUNS]:
            if count >= _MOST:
                break
            try:
                moments = read_timeline(point.run.folder)
            except DataError as error:
                notes.append(str(error))
                continue
            numbers = {
                name: f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"
                for name, value in figures(moments).items()
            }
            picture = draw(timeline(moments), f"time{count}")
            mine.append(Drawn(point.name, str(point.run.folder), picture, numbers))
            count += 1
        if len(mine) < len(known):
            notes.append(
                f"{len(mine)} of {len(known)} timelines of {panel.title} are drawn, of the best run of a "
                "strategy: `ttsflow timeline RUN` draws any."
            )
        every.append(mine)
    return every, notes
