"""A few search trees: what a search kept, dropped and chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from ttsflow.analysis.runs import Row
from ttsflow.analysis.tree import Node, Tree, ending, grow, walk
from ttsflow.reporting.baseline import Point
from ttsflow.reporting.charts import GRID, INK, svg
from ttsflow.reporting.panels import Panel
from ttsflow.reporting.traces import is_search, problem_events

__all__ = ["Shown", "search_trees"]

#: Nodes of a tree that is shown, generations, runs of a panel and trees of a page.
_NODES, _DEEPEST, _RUNS, _TREES = 400, 60, 3, 12
#: Trees that are looked at before a run is passed over, and characters of a node's text.
_TRIED, _TEXT = 6, 400
_FATES = {
    "chosen": ("diamond", 130),
    "finished": ("circle", 60),
    "goes on": ("circle", 22),
    "dropped": ("cross", 45),
    "cut": ("square", 45),
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One tree: where it is from, why it was taken, its picture, and which nodes lie on the way to the answer."""

    run: str
    folder: str
    why: str
    tree: Tree
    picture: str
    way: frozenset[tuple[int, ...]]
    depth: int = _DEEPEST

    @property
    def roots(self) -> list[dict[str, Any]]:
        """The tree for the page: nodes with what is said of them, and those below."""
        return [_told(node, self.way, 1) for node in self.tree.roots]


def search_trees(found: Sequence[Panel]) -> tuple[list[list[Shown]], list[str]]:
    """Return the trees of every panel, and what was left out."""
    shown: list[list[Shown]] = []
    notes, count = [], 0
    for panel in found:
        mine: list[Shown] = []
        searches = [p for p in panel.points if is_search(p.run.folder / "trace.jsonl")]
        for point in _best_of_each(searches)[:_RUNS]:
            for tree, why in _trees(point, panel):
                if count < _TREES:
                    picture = svg(_picture(tree), f"tree{count}")
                    mine.append(Shown(point.name, str(point.run.folder), why, tree, picture, _way(tree)))
                    count += 1
        if searches:
            every = sum(len(point.run.rows) for point in searches)
            notes.append(
                f"{len(mine)} of {every} trees of {panel.title} are drawn, of the best runs of up to {_RUNS} "
                f"strategies and with at most {_NODES} nodes; `ttsflow show RUN --problem ID` draws any."
            )
        shown.append(mine)
    return shown, notes


def _best_of_each(points: Sequence[Point]) -> list[Point]:
    """Return the best run of every strategy, best first."""
    order = sorted(points, key=lambda p: (-(p.measures.accuracy or 0.0), p.measures.decoded or 0.0))
    return list({p.run.strategy: p for p in reversed(order)}.values())[::-1]


def _trees(point: Point, panel: Panel) -> Iterator[tuple[Tree, str]]:
    """Yield a problem that search alone has right, and one that it has wrong; small trees first."""
    plain = max((p for p in panel.drawn if p.plain), key=lambda p: p.measures.accuracy or 0.0, default=None)
    other = plain.run.rows if plain is not None and plain is not point else {}

    def lost(row: Row) -> bool:
        return row.id in other and other[row.id].correct is False

    rows = sorted(point.run.rows.values(), key=lambda row: (row.decoded, row.id))
    right, wrong = [r for r in rows if r.correct], [r for r in rows if r.correct is False]
    ahead, behind = [r for r in right if lost(r)], [r for r in wrong if r.id in other and not lost(r)]
    name = plain.name if plain is not None else ""
    wanted = [
        (ahead, f"right, where {name} is wrong") if ahead else (right, "right"),
        (behind, f"wrong, where {name} is right") if behind else (wrong, "wrong"),
        ([] if right or wrong else rows, "without a gold answer"),
    ]
    trace = point.run.folder / "trace.jsonl"
    tried = {why: [row.id for row in some[:_TRIED]] for some, why in wanted}
    events = problem_events(trace, {name for ids in tried.values() for name in ids})
    for why, ids in tried.items():
        for problem in ids:
            tree = grow(problem, events[problem])
            if 1 < len(tree.nodes) <= _NODES:
                yield tree, why
                break


def _way(tree: Tree) -> frozenset[tuple[int, ...]]:
    chosen = [node.path for node in tree.nodes.values() if node.chosen]
    return frozenset(path[:depth] for path in chosen for depth in range(1, len(path) + 1))


def _fate(node: Node) -> str:
    if node.chosen:
        return "chosen"
    if node.pruned or node.aside:
        return "dropped"
    if node.finish == "stop":
        return "finished"
    return "goes on" if node.children else "cut"


def _told(node: Node, way: frozenset[tuple[int, ...]], depth: int) -> dict[str, Any]:
    below = sum(1 for _ in walk(node.children)) if depth >= _DEEPEST else 0
    text = " ".join(node.text.split())
    return {
        "path": ".".join(map(str, node.path)),
        "tokens": node.tokens,
        "ending": ending(node),
        "scores": ["-" if score is None else f"{score:.3g}" for score in node.scores],
        "answer": node.answer,
        "chosen": node.chosen,
        "pruned": node.pruned,
        "aside": node.aside,
        "reason": node.reason,
        "text": text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}\u2026",
        "open": node.path in way,
        "hidden": below,
        "children": [] if below else [_told(child, way, depth + 1) for child in node.children],
    }


def _picture(tree: Tree) -> alt.LayerChart:
    """Return a tree as a picture: tokens of the path from left to right, one line for every leaf."""
    lanes: dict[tuple[int, ...], float] = {}
    leaves = 0
    for node in [*walk(tree.roots)][::-1]:
        below = [lanes[child.path] for child in node.children]
        lanes[node.path] = sum(below) / len(below) if below else float(leaves)
        leaves += not below
    way = _way(tree)
    nodes = [_mark(node, lanes) for node in walk(tree.roots)]
    edges = [
        {
            "tokens": tree.nodes[node.path[:-1]].length if node.path[:-1] in tree.nodes else 0,
            "end": node.length,
            "lane": lanes.get(node.path[:-1], lanes[node.path]),
            "to": lanes[node.path],
            "way": node.path in way,
        }
        for node in walk(tree.roots)
    ]
    x = alt.X("tokens:Q", title="tokens from the beginning", axis=alt.Axis(tickCount=6, format="~s"))
    y = alt.Y("lane:Q", axis=None, scale=alt.Scale(domain=[-1, max(1, leaves)]))
    lines = (
        alt.Chart(alt.Data(values=edges))
        .mark_rule()
        .encode(
            x=x,
            y=y,
            x2="end:Q",
            y2="to:Q",
            color=alt.condition("datum.way", alt.value(INK), alt.value("#999999")),
            size=alt.condition("datum.way", alt.value(2), alt.value(0.8)),
        )
    )
    known = any(node["score"] is not None for node in nodes)
    colour: Any = (
        alt.Color(
            "score:Q",
            title="score",
            scale=alt.Scale(scheme="viridis"),
            legend=alt.Legend(orient="top", gradientLength=120, gradientThickness=8, titleOrient="left"),
        )
        if known
        else alt.value("#0072b2")
    )
    fates = [fate for fate in _FATES if any(node["fate"] == fate for node in nodes)]
    points = (
        alt.Chart(alt.Data(values=nodes))
        .mark_point(filled=True, opacity=1, stroke=GRID, strokeWidth=0.4)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=alt.Shape(
                "fate:N",
                title=None,
                scale=alt.Scale(domain=fates, range=[_FATES[fate][0] for fate in fates]),
                legend=alt.Legend(orient="bottom", columns=5, symbolFillColor="#777777", symbolStrokeWidth=0),
            ),
            size=alt.Size(
                "fate:N", scale=alt.Scale(domain=fates, range=[_FATES[fate][1] for fate in fates]), legend=None
            ),
            description="told:N",
        )
    )
    return alt.layer(lines, points).properties(width=330, height=min(460, max(120, 13 * leaves)))


def _mark(node: Node, lanes: dict[tuple[int, ...], float]) -> dict[str, Any]:
    known = [score for score in node.scores if score is not None]
    parts = [".".join(map(str, node.path)), _fate(node), f"{node.length} tokens"]
    parts += [f"score {known[-1]:.3g}"] if known else []
    parts += [f"answer {str(node.answer)[:40]}"] if node.answer is not None else []
    parts += [f"dropped {node.pruned}"] if node.pruned else []
    return {
        "tokens": node.length,
        "lane": lanes[node.path],
        "score": known[-1] if known else None,
        "fate": _fate(node),
        "told": ", ".join(parts),
    }
