"""Pictures from specifications of Vega-Lite, drawn by vl-convert without a browser.

A specification is plain data, in the words of https://vega.github.io/vega-lite/docs/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import vl_convert

from ttsflow.trace import finite

__all__ = [
    "COLOURS",
    "GRID",
    "INK",
    "Draw",
    "Spec",
    "cycled",
    "drawn",
    "field",
    "for_page",
    "layer",
    "png",
    "whole",
]

Spec = dict[str, Any]
#: Draws a picture for a page, as ``for_page`` says, sooner or later.
Draw = Callable[[Spec, str], "Future[str]"]

#: Colours that the page replaces where it is dark; nothing else may have them.
INK, GRID = "#333333", "#dddddd"
#: Colours that people who see few of them can tell apart (Okabe and Ito 2008), then two more.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#6a3d9a")
_VERSION = "5.21"
_CONFIG: Spec = {
    "font": "sans-serif",
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "gridColor": GRID,
        "domainColor": INK,
        "tickColor": INK,
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 11, "labelLimit": 160},
    "title": {"color": INK, "fontSize": 13, "anchor": "start"},
    "view": {"stroke": None},
}


def field(name: str, kind: str = "quantitative", **rest: Any) -> Spec:
    """Return a channel that shows a field of the data."""
    return {"field": name, "type": kind, **rest}


def layer(values: Sequence[Mapping[str, Any]], mark: str, style: Mapping[str, Any], **channels: Any) -> Spec:
    """Return one layer: marks of one kind for ``values``."""
    return {"data": {"values": list(values)}, "mark": {"type": mark, **style}, "encoding": channels}


def cycled(values: Sequence[str], count: int) -> list[str]:
    """Return so many values, from the beginning again where there are fewer."""
    return [values[place % len(values)] for place in range(count)]


def for_page(svg: str, name: str) -> str:
    """Return a picture for a page: as wide as its place, its ids beginning with ``name``."""
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    return re.sub(r'^<svg ([^>]*?)width="[\d.]+" height="[\d.]+"', r"<svg \1", svg, count=1)


def drawn(text: str) -> str:
    """Return the SVG of a whole specification."""
    return str(vl_convert.vegalite_to_svg(text, vl_version=_VERSION))


def png(svg: str) -> bytes:
    """Return a picture that is drawn as SVG as PNG, at twice its size."""
    return bytes(vl_convert.svg_to_png(svg, scale=2))


def whole(spec: Spec, background: str) -> str:
    """Return a specification with fonts, colours and background, as JSON."""
    # A damaged trace may have numbers that JSON does not know; a mark without one stands at the edge.
    known = finite({**spec, "config": {**_CONFIG, "background": background}})
    text = json.dumps(known, ensure_ascii=False)
    # Half a character, as a broken file may hold, is no text for a library that takes UTF-8.
    return text.encode("utf-8", "replace").decode()
