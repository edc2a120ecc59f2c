"""The page: what was found, put into one file of HTML that asks for nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ttsflow.analysis.measures import COSTS, MOST_TRUNCATED
from ttsflow.analysis.runs import Run
from ttsflow.reporting.charts import accuracy
from ttsflow.reporting.drawing import Draw
from ttsflow.reporting.panels import Panel
from ttsflow.reporting.problems import pack
from ttsflow.reporting.timelines import timelines
from ttsflow.reporting.trees import search_trees

__all__ = ["page"]

#: Panels that get pictures, and lines or jobs that are listed by name.
_PICTURES, _LISTED = 6, 100


def page(runs: Sequence[Run], found: Sequence[Panel], asked: Sequence[str], draw: Draw) -> str:
    """Return the page of ``runs``, put side by side in ``found``; ``asked`` are the folders named."""
    # Pictures first: what draws them is at work while the rest is read.
    pictures = [_pictures(panel, number, draw) for number, panel in enumerate(found[:_PICTURES])]
    trees, left_trees = search_trees(found, draw)
    times, left_times = timelines(found, draw)
    data, notes = pack(found)
    skipped = [line for run in runs for line in run.skipped]
    unfinished = [run for run in runs if run.status != "complete" or run.error]
    if len(found) > _PICTURES:
        notes.append(f"Pictures are of the {_PICTURES} sets of problems with the most runs.")
    # Whatever a model has written is data: everything is escaped but pictures, which are made here.
    environment = Environment(
        loader=PackageLoader("ttsflow.reporting", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "percent": _percent, "signed": _signed}
    folder = files("ttsflow.reporting") / "page"
    template = environment.get_template("report.html")
    return template.render(
        title=f"ttsflow report: {', '.join(asked)}",
        asked=asked,
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        version=_version(),
        style=Markup((folder / "report.css").read_text("utf-8")),  # noqa: S704 - a file of this package
        script=Markup((folder / "report.js").read_text("utf-8")),  # noqa: S704 - a file of this package
        counts={
            status: sum(run.status == status for run in runs) for status in ("complete", "partial", "failed")
        },
        unfinished=unfinished[:_LISTED],
        more_unfinished=max(0, len(unfinished) - _LISTED),
        skipped=skipped[:_LISTED],
        more_skipped=max(0, len(skipped) - _LISTED),
        panels=[
            {
                "panel": panel,
                "pictures": pictures[number] if number < _PICTURES else [],
                "trees": trees[number],
                "timelines": times[number],
            }
            for number, panel in enumerate(found)
        ],
        costs=COSTS,
        most_truncated=MOST_TRUNCATED,
        data=data,
        notes=[*notes, *left_trees, *left_times],
    )


def _pictures(panel: Panel, number: int, draw: Draw) -> list[dict[str, Any]]:
    return [
        {
            "cost": COSTS[cost] + (panel.clock if cost == "seconds" else ""),
            "front": panel.fronts[cost],
            "picture": draw(accuracy(panel, cost), f"p{number}{cost}"),
        }
        for cost in panel.costs
    ]


def _version() -> str:
    try:
        return version("ttsflow")
    except PackageNotFoundError:
        return ""


def _number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many digits that count, in groups of three; a dash for None."""
    if value is None:
        return "\u2013"
    if value == 0 or abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"


def _percent(value: float | None, digits: int = 1) -> str:
    return "\u2013" if value is None else f"{100 * value:.{digits}f}"


def _signed(value: float, digits: int = 1) -> str:
    """Return percentage points with their sign; what rounds to 0 has none."""
    text = f"{100 * value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "\u2212")
