"""A search tree as a picture: tokens from left to right, one line for every leaf."""

from __future__ import annotations

from typing import Any

from ttsflow.analysis.tree import Node, Tree, walk
from ttsflow.lineage import Path
from ttsflow.reporting.drawing import COLOURS, GRID, INK, Spec, field, layer

__all__ = ["fate", "picture", "way"]

#: What became of a candidate: the shape and the size of its mark.
_FATES = {
    "chosen": ("diamond", 130),
    "finished": ("circle", 60),
    "goes on": ("circle", 22),
    "dropped": ("cross", 45),
    "not finished": ("square", 45),
}
_LEAF, _LEAST, _MOST = 13, 120, 460  # pixels: of a leaf, and of the picture


def way(tree: Tree) -> frozenset[Path]:
    """Return the paths that lead to the candidate the answer was taken from, its own included."""
    chosen = [node.path for node in tree.nodes.values() if node.chosen]
    return frozenset(path[:depth] for path in chosen for depth in range(1, len(path) + 1))


def fate(node: Node) -> str:
    """Return what became of a candidate, in a word or two."""
    if node.chosen:
        return "chosen"
    if node.pruned or node.aside:
        return "dropped"
    if node.finish == "stop":
        return "finished"
    return "goes on" if node.children else "not finished"


def picture(tree: Tree) -> Spec:
    """Return the picture of a tree; colours are scores where there are any."""
    order = [*walk(tree.roots)]
    lanes, leaves = _lanes(order)
    nodes, leading = [_mark(node, lanes[node.path]) for node in order], way(tree)
    x = field("tokens", title="tokens from the beginning", axis={"tickCount": 6, "format": "~s"})
    y = field("lane", axis=None, scale={"domain": [-1, max(1, leaves)]})
    fates = [one for one in _FATES if any(node["fate"] == one for node in nodes)]
    legend = {"orient": "bottom", "columns": 5, "symbolFillColor": "#777777", "symbolStrokeWidth": 0}
    return {
        "width": 330,
        "height": min(_MOST, max(_LEAST, _LEAF * leaves)),
        "layer": [
            layer(
                [_edge(node, tree, lanes, on=node.path in leading) for node in order],
                "rule",
                {},
                x=x,
                y=y,
                x2={"field": "end"},
                y2={"field": "to"},
                color={"condition": {"test": "datum.on", "value": INK}, "value": "#999999"},
                size={"condition": {"test": "datum.on", "value": 2}, "value": 0.8},
            ),
            layer(
                nodes,
                "point",
                {"filled": True, "opacity": 1, "stroke": GRID, "strokeWidth": 0.4},
                x=x,
                y=y,
                color=_colour(nodes),
                shape=_of_fate(fates, 0, legend),
                size=_of_fate(fates, 1, legend),
                description=field("told", "nominal"),
            ),
        ],
    }


def _lanes(order: list[Node]) -> tuple[dict[Path, float], int]:
    """Return the height of every candidate, a parent amid its children, and how many leaves there are."""
    lanes: dict[Path, float] = {}
    leaves = 0
    for node in reversed(order):
        below = [lanes[child.path] for child in node.children]
        lanes[node.path] = sum(below) / len(below) if below else float(leaves)
        leaves += not below
    return lanes, leaves


def _edge(node: Node, tree: Tree, lanes: dict[Path, float], *, on: bool) -> Spec:
    parent = tree.nodes.get(node.path[:-1])
    return {
        "tokens": parent.length if parent else 0,
        "end": node.length,
        "lane": lanes[parent.path] if parent else lanes[node.path],
        "to": lanes[node.path],
        "on": on,
    }


def _mark(node: Node, lane: float) -> Spec:
    known = [score for score in node.scores if score is not None]
    parts = [".".join(map(str, node.path)), fate(node), f"{node.length} tokens"]
    parts += [f"score {known[-1]:.3g}"] if known else []
    parts += [f"answer {str(node.answer)[:40]}"] if node.answer is not None else []
    parts += [f"dropped {node.pruned}"] if node.pruned else []
    score = known[-1] if known else None
    return {"tokens": node.length, "lane": lane, "score": score, "fate": fate(node), "told": ", ".join(parts)}


def _colour(nodes: list[Spec]) -> Spec:
    if all(node["score"] is None for node in nodes):
        return {"value": COLOURS[0]}
    legend = {"orient": "top", "gradientLength": 120, "gradientThickness": 8, "titleOrient": "left"}
    return field("score", title="score", scale={"scheme": "viridis"}, legend=legend)


def _of_fate(fates: list[str], place: int, legend: Any) -> Spec:
    scale = {"domain": fates, "range": [_FATES[one][place] for one in fates]}
    return field("fate", "nominal", title=None, scale=scale, legend=legend)
