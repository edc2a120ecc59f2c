"""The pictures of runs: accuracy against what it costs, and what ran when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from ttsflow.analysis.measures import COSTS
from ttsflow.reporting.baseline import Point, Rung, frontier
from ttsflow.reporting.drawing import COLOURS, INK, Spec, cycled, field, layer
from ttsflow.reporting.panels import Panel
from ttsflow.runs.timeline import Moment

__all__ = ["accuracy", "main_picture", "timeline"]

#: Points beyond which only those on the front are named in a picture; moments of a timeline; panels and
#: characters of a name in the main picture.
_NAMED, _MOMENTS, _PANELS, _NAME = 24, 250, 6, 24
_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")
#: Above this ratio of the dearest to the cheapest, an axis is logarithmic.
_WIDE = 5
#: A tick in words of Vega: 1.5k and 60, not 6e+1, and 0.4, not 400m. Those that an axis leaves empty stay so.
_TICK = "datum.label === '' ? '' : format(datum.value, abs(datum.value) >= 1000 ? '~s' : '~r')"
_MEANING = "bars: 95 % Wilson intervals; steps: the front; dashes: plain sampling, mixed to equal cost"


def accuracy(panel: Panel, cost: str, *, width: int = 310, height: int = 250) -> Spec:
    """Return accuracy against one cost: runs with their intervals, the front, and the plain strategies."""
    shorts = _shorts(panel.drawn)
    records = [
        {**_record(point, cost, panel), "short": short}
        for point, short in zip(panel.drawn, shorts, strict=True)
    ]
    front = [record for record in records if record["front"]]
    # Plain ones first, so that they have one colour in every picture, that of the dashed line.
    strategies = list(dict.fromkeys(p.run.strategy for p in sorted(panel.drawn, key=lambda p: not p.plain)))
    x, y = _cost_axis([record["cost"] for record in records], cost, panel.clock), _share_axis("accuracy")
    legend = {"orient": "bottom", "columns": max(1, width // 130), "symbolLimit": 0, "symbolOpacity": 1}
    colour = _of_strategy(strategies, COLOURS, legend=legend)
    few = len(records) <= _NAMED
    bars = {"opacity": 0.45 if few else 0.2, "strokeWidth": 1.2}
    steps = {"interpolate": "step-after", "color": "#777777", "strokeWidth": 1.2}
    beside = {"align": "left", "baseline": "bottom", "dx": 6, "dy": -3, "fontSize": 10, "color": INK}
    # Among many the first setting has to do, which is n as a rule.
    named = records if few else [{**record, "short": record["short"].partition(" ")[0]} for record in front]
    return {
        "width": width,
        "height": height,
        "layer": [
            layer(records, "rule", bars, x=x, y=_share_axis("low"), y2={"field": "high"}, color=colour),
            *_plain_lines(panel, cost, x, y),
            layer(front, "line", steps, x=x, y=y, order=field("cost")),
            layer(
                records,
                "point",
                {"filled": True, "size": 64, "opacity": 1},
                x=x,
                y=y,
                color=colour,
                shape=_of_strategy(strategies, _SHAPES),
                description=field("told", "nominal"),
            ),
            layer(named, "text", beside, x=x, y=y, text=field("short", "nominal")),
        ],
    }


def _of_strategy(strategies: Sequence[str], values: Sequence[str], **rest: Any) -> Spec:
    scale = {"domain": list(strategies), "range": cycled(values, len(strategies))}
    return field("strategy", "nominal", title=None, scale=scale, **rest)


def _cost_axis(prices: Sequence[float], cost: str, clock: str = "") -> Spec:
    wide = min(prices) > 0 and max(prices) / min(prices) > _WIDE
    scale = {"type": "log", "nice": False} if wide else {"zero": False, "nice": True}
    axis = {"labelExpr": _TICK, "tickCount": 5, "labelOverlap": "greedy"}
    title = f"{COSTS[cost]} per question{clock if cost == 'seconds' else ''}"
    return field("cost", title=title, scale={**scale, "padding": 14}, axis=axis)


def _share_axis(name: str) -> Spec:
    return field(name, title="accuracy", scale={"zero": False, "nice": True}, axis={"format": "%"})


def _record(point: Point, cost: str, panel: Panel) -> Spec:
    numbers = point.measures
    low, high = numbers.interval or (0.0, 1.0)
    price, right = getattr(numbers, cost), numbers.accuracy or 0.0
    on_front = point.name in panel.fronts[cost]
    told = f"{point.name}: accuracy {right:.1%} ({low:.1%} to {high:.1%}), {price:,.4g} {COSTS[cost]}"
    return {
        "cost": price,
        "accuracy": right,
        "low": low,
        "high": high,
        "strategy": point.run.strategy,
        "front": on_front,
        "told": f"{told}, on the front" if on_front else told,
    }


def _shorts(points: Sequence[Point]) -> list[str]:
    """Return what stands beside the marks: names without the strategy, with an ellipsis where they are long.

    The ellipsis is at the end, or in the middle where several begin alike.
    """
    rest = [point.name.removeprefix(point.run.strategy).strip() for point in points]
    cut = [text if len(text) <= _NAME else f"{text[: _NAME - 1]}\u2026" for text in rest]
    half = _NAME // 2
    return [
        short if short == text or cut.count(short) == 1 else f"{text[: half - 1]}\u2026{text[-half:]}"
        for short, text in zip(cut, rest, strict=True)
    ]


def _plain_lines(panel: Panel, cost: str, x: Spec, y: Spec) -> list[Spec]:
    """Return a dashed line through the best plain runs of each setting; mixtures of two lie on it."""
    style = {"strokeDash": [5, 4], "color": COLOURS[0], "strokeWidth": 1.2, "opacity": 0.7}
    lines = [
        _mixtures([(price, right) for price, right, _ in frontier(_priced(rungs, cost))])
        for rungs in panel.curves.values()
    ]
    return [layer(line, "line", style, x=x, y=y, order=field("cost")) for line in lines if len(line) > 1]


def _priced(rungs: Sequence[Rung], cost: str) -> Iterator[tuple[float, float, Rung]]:
    for rung in rungs:
        price = rung.costs[cost]
        if price is not None:
            yield price, rung.accuracy, rung


def _mixtures(known: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    found = [{"cost": cost, "accuracy": right} for cost, right in known[:1]]
    for (cost, right), (dearer, better) in pairwise(known):
        # Straight between two costs, which is bent where the axis is logarithmic.
        for part in range(1, 9):
            share = part / 8
            found.append(
                {"cost": cost + share * (dearer - cost), "accuracy": right + share * (better - right)}
            )
    return found


def main_picture(found: Sequence[Panel]) -> Spec:
    """Return all pictures of accuracy in one: two in a row, panel below panel."""
    rows = []
    for panel in found[:_PANELS]:
        charts = [accuracy(panel, cost, width=360, height=280) for cost in panel.costs]
        if charts:
            title = {"text": f"{panel.title}, {panel.engines}", "subtitle": _MEANING}
            rows.append({"title": title, "concat": charts, "columns": 2})
    return {"vconcat": rows}


def timeline(moments: Sequence[Moment], *, width: int = 330) -> Spec:
    """Return what ran when: sequences and KV blocks over the seconds of the engine's clock."""
    every = max(1, len(moments) // _MOMENTS)
    thin = [*moments[::every], *moments[-1:]]
    batch = _series(thin, {"running": "running", "waiting": "waiting", "verifying": "being verified"})
    memory = _series(thin, {"used": "in use", "cached": "kept for later"})
    drawn = [_steps(batch, "sequences", width), _steps(memory, "KV blocks", width)]
    return {"vconcat": drawn, "spacing": 8, "resolve": {"scale": {"color": "independent"}}}


def _series(moments: Sequence[Moment], columns: dict[str, str]) -> list[Spec]:
    return [
        {"seconds": moment.seconds, "count": getattr(moment, column), "what": name}
        for column, name in columns.items()
        if any(getattr(moment, column) for moment in moments)
        for moment in moments
    ]


def _steps(records: list[Spec], title: str, width: int) -> Spec:
    kinds = list(dict.fromkeys(record["what"] for record in records))
    colour = field(
        "what",
        "nominal",
        title=None,
        scale={"domain": kinds, "range": cycled(COLOURS, len(kinds))},
        legend={"orient": "top"},
    )
    x = field("seconds", title="seconds on the engine's clock", axis={"tickCount": 5})
    y = field("count", title=title, axis={"tickCount": 4, "labelExpr": _TICK})
    style = {"interpolate": "step-before", "strokeWidth": 1.3}
    return {"width": width, "height": 110, **layer(records, "line", style, x=x, y=y, color=colour)}
