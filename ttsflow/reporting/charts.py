"""The pictures: specifications of Vega-Lite by Altair, drawn without a browser by vl-convert."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert

from ttsflow.analysis.measures import COSTS
from ttsflow.reporting.baseline import Point, Rung
from ttsflow.reporting.panels import Panel
from ttsflow.timeline import Moment

__all__ = ["GRID", "INK", "accuracy", "main_picture", "plain_svg", "png", "svg", "timeline"]

#: Colours that the page replaces where it is dark; nothing else may have them.
INK, GRID = "#333333", "#dddddd"
_FRONT = "#777777"
#: Points beyond which only those on the front are named in the picture, and moments of a timeline.
_NAMED, _MOMENTS = 24, 400
#: Colours that people who see few colours can tell apart (Okabe and Ito 2008), then those of Tableau.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#6a3d9a")
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
#: Above this ratio of the dearest to the cheapest, an axis is logarithmic.
_WIDE = 5

_AXES = {"labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": INK, "tickColor": INK}
_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": "sans-serif",
    "axis": {**_AXES, "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"},
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "labelLimit": 160},
    "title": {"color": INK, "fontSize": 13, "anchor": "start"},
    "view": {"stroke": None},
}


def accuracy(panel: Panel, cost: str, *, width: int = 310, height: int = 250, title: str = "") -> alt.LayerChart:
    """Return accuracy against one cost: runs with their intervals, the front, and the plain strategies."""
    records = [_record(point, cost, panel) for point in panel.drawn]
    # Plain ones first, so that they have one colour in every picture, that of the dashed line.
    strategies = list(dict.fromkeys(p.run.strategy for p in sorted(panel.drawn, key=lambda p: not p.plain)))
    prices = [record["cost"] for record in records]
    wide = min(prices) > 0 and max(prices) / min(prices) > _WIDE
    x = alt.X(
        "cost:Q",
        title=f"{COSTS[cost]} per question",
        scale=alt.Scale(type="log", nice=False, padding=14) if wide else alt.Scale(zero=False, nice=True, padding=14),
        axis=alt.Axis(format="~s", tickCount=5, labelOverlap="greedy"),
    )
    y = alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False, nice=True), axis=alt.Axis(format="%"))
    base = alt.Chart(alt.Data(values=records))
    colour = alt.Color(
        "strategy:N",
        title=None,
        scale=alt.Scale(domain=strategies, range=_cycled(_COLOURS, len(strategies))),
        legend=alt.Legend(orient="bottom", columns=max(1, width // 130), symbolLimit=0, symbolOpacity=1),
    )
    shape = alt.Shape("strategy:N", scale=alt.Scale(domain=strategies, range=_cycled(_SHAPES, len(strategies))))
    layers: list[alt.Chart] = [
        base.mark_rule(opacity=0.45, strokeWidth=1.2).encode(
            x=x, y=alt.Y("low:Q", title="accuracy"), y2="high:Q", color=colour
        ),
        *_plain_lines(panel, cost, x, y),
        _line([record for record in records if record["front"]], x, y, interpolate="step-after"),
        base.mark_point(filled=True, size=64, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, description=alt.Description("told:N")
        ),
        alt.Chart(alt.Data(values=[r for r in records if r["front"] or len(records) <= _NAMED]))
        .mark_text(align="left", baseline="bottom", dx=6, dy=-3, fontSize=10, color=INK)
        .encode(x=x, y=y, text="short:N"),
    ]
    return alt.layer(*layers).properties(width=width, height=height, **({"title": title} if title else {}))


def _record(point: Point, cost: str, panel: Panel) -> dict[str, Any]:
    numbers = point.measures
    low, high = numbers.interval or (0.0, 1.0)
    price, right = getattr(numbers, cost), numbers.accuracy or 0.0
    on_front = point.name in panel.fronts[cost]
    return {
        "cost": price,
        "accuracy": right,
        "low": low,
        "high": high,
        "strategy": point.run.strategy,
        "front": on_front,
        "short": point.name.removeprefix(point.run.strategy).strip()[:24],
        "told": f"{point.name}: accuracy {right:.1%} ({low:.1%} to {high:.1%}), {price:,.4g} {COSTS[cost]} per question"
        + (", on the front" if on_front else ""),
    }


def _line(records: Sequence[dict[str, Any]], x: alt.X, y: alt.Y, **style: Any) -> alt.Chart:
    drawn = {"color": _FRONT, "strokeWidth": 1.2, "opacity": 0.9} | style
    return alt.Chart(alt.Data(values=list(records))).mark_line(**drawn).encode(x=x, y=y, order="cost:Q")


def _plain_lines(panel: Panel, cost: str, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Return a dashed line through the plain runs of each setting; mixtures of two lie on it."""
    lines = []
    for rungs in panel.curves.values():
        records = _mixtures([(rung.costs[cost], rung.accuracy) for rung in rungs])
        if len(records) > 1:
            lines.append(_line(records, x, y, strokeDash=[5, 4], color=_COLOURS[0], opacity=0.7))
    return lines


def _mixtures(steps: Sequence[tuple[float | None, float]]) -> list[dict[str, float]]:
    known = sorted((cost, right) for cost, right in steps if cost is not None)
    found = [{"cost": cost, "accuracy": right} for cost, right in known[:1]]
    for (cost, right), (dearer, better) in zip(known, known[1:], strict=False):
        # Straight between two costs, which is bent where the axis is logarithmic.
        for part in range(1, 9):
            share = part / 8
            found.append({"cost": cost + share * (dearer - cost), "accuracy": right + share * (better - right)})
    return found


def _cycled(values: Sequence[str], count: int) -> list[str]:
    return [values[place % len(values)] for place in range(count)]


def main_picture(found: Sequence[Panel]) -> alt.VConcatChart:
    """Return all pictures of accuracy in one: a row or two for each panel."""
    rows = []
    for panel in found:
        charts = [accuracy(panel, cost, width=360, height=280) for cost in panel.costs]
        if charts:
            rows.append(alt.concat(*charts, columns=2).properties(title=f"{panel.title}, {panel.engines}"))
    return alt.vconcat(*rows).configure(**_CONFIG | {"background": "white"})


def timeline(moments: Sequence[Moment], *, width: int = 310) -> alt.VConcatChart:
    """Return what ran when: sequences and KV blocks over the seconds of the engine's clock."""
    every = max(1, len(moments) // _MOMENTS)
    thin = [*moments[::every], *moments[-1:]]
    batch = _series(thin, {"running": "running", "waiting": "waiting", "verifying": "being verified"})
    memory = _series(thin, {"used": "in use", "cached": "kept for later"})
    return alt.vconcat(
        _steps(batch, "sequences", width), _steps(memory, "KV blocks", width), spacing=8
    ).resolve_scale(color="independent")


def _series(moments: Sequence[Moment], columns: dict[str, str]) -> list[dict[str, Any]]:
    return [
        {"seconds": moment.seconds, "count": getattr(moment, column), "what": name}
        for column, name in columns.items()
        if any(getattr(moment, column) for moment in moments)
        for moment in moments
    ]


def _steps(records: list[dict[str, Any]], title: str, width: int) -> alt.Chart:
    kinds = list(dict.fromkeys(record["what"] for record in records))
    return (
        alt.Chart(alt.Data(values=records))
        .mark_line(interpolate="step-before", strokeWidth=1.3)
        .encode(
            x=alt.X("seconds:Q", title="seconds on the engine's clock", axis=alt.Axis(tickCount=5)),
            y=alt.Y("count:Q", title=title, axis=alt.Axis(tickCount=4, format="~s")),
            color=alt.Color(
                "what:N",
                title=None,
                scale=alt.Scale(domain=kinds, range=_cycled(_COLOURS, len(kinds))),
                legend=alt.Legend(orient="top"),
            ),
        )
        .properties(width=width, height=110)
    )


def svg(chart: alt.TopLevelMixin, name: str) -> str:
    """Return a chart as SVG for a page: as wide as its place, its ids beginning with ``name``."""
    drawn: str = vl_convert.vegalite_to_svg(chart.configure(**_CONFIG).to_dict())
    drawn = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', drawn)
    drawn = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", drawn)
    return re.sub(r'^<svg ([^>]*?)width="[\d.]+" height="[\d.]+"', r'<svg role="img" \1', drawn, count=1)


def png(chart: alt.TopLevelMixin) -> bytes:
    """Return a chart as PNG, at twice its size."""
    return bytes(vl_convert.vegalite_to_png(chart.to_dict(), scale=2))


def plain_svg(chart: alt.TopLevelMixin) -> bytes:
    """Return a chart as a file of SVG."""
    return str(vl_convert.vegalite_to_svg(chart.to_dict())).encode()
