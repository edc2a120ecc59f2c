"""A few search trees: what a search kept, dropped and chose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from ttsflow.analysis.runs import Row
from ttsflow.analysis.tree import Node, Tree, ending, grow, walk
from ttsflow.lineage import Path
from ttsflow.reporting.baseline import Point
from ttsflow.reporting.drawing import Draw
from ttsflow.reporting.panels import Panel
from ttsflow.reporting.traces import is_search, problem_events
from ttsflow.reporting.tree_picture import picture, way

__all__ = ["Shown", "search_trees"]

#: Nodes of a tree that is shown, generations, runs of a panel and trees of a page.
_NODES, _DEEPEST, _RUNS, _TREES = 400, 60, 3, 12
#: Trees that are looked at before a run is passed over, and characters of a node's text.
_TRIED, _TEXT = 6, 400


@dataclass(frozen=True, slots=True)
class Shown:
    """One tree: where it is from, why it was taken, its picture, and the nodes on the way to the answer."""

    run: str
    folder: str
    why: str
    tree: Tree
    picture: Future[str]
    way: frozenset[Path]

    @property
    def roots(self) -> list[dict[str, Any]]:
        """The tree for the page: nodes with what is said of them, and those below."""
        return [_told(node, self.way, 1) for node in self.tree.roots]


def search_trees(found: Sequence[Panel], draw: Draw) -> tuple[list[list[Shown]], list[str]]:
    """Return the trees of every panel, and what was left out."""
    shown: list[list[Shown]] = []
    notes, count = [], 0
    for panel in found:
        mine: list[Shown] = []
        searches = [p for p in panel.points if is_search(p.run.folder / "trace.jsonl")]
        for point in _best_of_each(searches)[:_RUNS]:
            for tree, why in _trees(point, panel):
                if count < _TREES:
                    drawn = draw(picture(tree), f"tree{count}")
                    mine.append(Shown(point.name, str(point.run.folder), why, tree, drawn, way(tree)))
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


def _told(node: Node, way: frozenset[Path], depth: int) -> dict[str, Any]:
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
        "engine": node.engine,
        "reason": node.reason,
        "text": text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}\u2026",
        "open": node.path in way,
        "hidden": below,
        "children": [] if below else [_told(child, way, depth + 1) for child in node.children],
    }
