"""What a trace says of one problem, as a tree: who came from whom, what it scored, why it ended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as File
from typing import Any

from ttsflow.analysis.runs import check_one
from ttsflow.errors import DataError
from ttsflow.lineage import Path
from ttsflow.runs.lines import read_lines

__all__ = [
    "Node",
    "Tree",
    "ending",
    "grow",
    "read_events",
    "read_trace",
    "walk",
]

_MOST = 2**63  # more than any count; sums of larger ones might be too long to print


@dataclass(slots=True)
class Node:
    """One candidate; ``text`` and ``tokens`` are its own, ``full`` and ``length`` with its ancestors'.

    ``pruned`` says why it was dropped, ``chosen`` that the answer was taken from it, ``aside`` what it
    is when it is no part of the search (a probe, a rollout), ``engine`` which further engine decoded it.
    """

    path: Path
    finish: str
    tokens: int
    text: str
    full: str = ""
    length: int = 0
    answer: str | None = None
    reason: str | None = None
    scores: tuple[float | None, ...] = ()
    pruned: str | None = None
    chosen: bool = False
    aside: str | None = None
    engine: str | None = None
    children: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Tree:
    """All candidates of a problem by path, the first ones, and what was decided about them in order."""

    problem: str
    nodes: dict[Path, Node]
    roots: list[Node]
    decisions: list[str]
    result: Mapping[str, Any]


def read_events(folder: File) -> dict[str, list[dict[str, Any]]]:
    """Return the events of a run by problem, in order. Raises ``DataError`` without a trace."""
    return read_trace(folder)[0]


def read_trace(folder: File) -> tuple[dict[str, list[dict[str, Any]]], list[int]]:
    """Return the events of a run as ``read_events`` does, and the numbers of the lines that are none."""
    path = folder / "trace.jsonl"
    if not path.is_file():
        check_one(folder)
        raise DataError(f"{folder} holds no trace.jsonl; is it a run folder, and was `trace` true?")
    events: dict[str, list[dict[str, Any]]] = {}
    records, broken = read_lines(path)
    for event in records:
        events.setdefault(str(event.get("problem")), []).append(event)
    return events, broken


def grow(problem: str, events: Iterable[Mapping[str, Any]]) -> Tree:
    """Return the tree of one problem from its events."""
    tree = Tree(problem, {}, [], [], {})
    damaged = 0
    for event in events:
        take = _TAKES.get(str(event.get("event")))
        if take is None:
            continue
        try:
            take(tree, event)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
            damaged += 1
    if damaged:
        tree.decisions.append(f"{damaged} damaged events of the trace were skipped")
    for node in sorted(tree.nodes.values(), key=lambda node: node.path):
        parent = tree.nodes.get(node.path[:-1])
        if parent is not None:
            # A stop string over the border may have taken away the end of what the parent said.
            node.text = node.full[_shared(node.full, parent.full) :]
        (tree.roots if parent is None else parent.children).append(node)
    return tree


def _shared(text: str, other: str) -> int:
    """Return with how many characters both begin."""
    if text.startswith(other):
        return len(other)
    pairs = enumerate(zip(text, other, strict=False))
    return next((place for place, (one, two) in pairs if one != two), min(len(text), len(other)))


def walk(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield nodes and all below them."""
    # A stack, for a tree may be deeper than calls may be.
    waiting = [*nodes][::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def ending(node: Node) -> str:
    """Return how a candidate ended, in words."""
    if node.finish == "stop" and node.answer is None:
        return "stop without an answer"
    if node.finish == "step" and not (node.children or node.pruned or node.aside):
        return "step, left open"
    return node.finish


def _count(value: Any) -> int:
    number = int(value)
    if abs(number) > _MOST:
        raise ValueError(value)
    return number


def _value(score: Any) -> float | None:
    if score is not None and not isinstance(score, int | float):
        raise TypeError(score)
    return None if score is None else float(score)


def _add(tree: Tree, event: Mapping[str, Any]) -> None:
    path = tuple(map(_count, event["path"]))
    text = str(event.get("text", ""))
    tree.nodes[path] = Node(
        path=path,
        finish=str(event.get("finish")),
        tokens=_count(event.get("tokens_new", 0)),
        text=text,
        full=text,
        length=_count(event.get("tokens", 0)),
        answer=event.get("answer"),
        reason=event.get("reason"),
        aside=event.get("aside"),
        engine=event.get("engine"),
    )


def _score(tree: Tree, event: Mapping[str, Any]) -> None:
    node = tree.nodes.get(tuple(event["path"]))
    if node is not None:
        node.scores = tuple(map(_value, event["scores"]))
        node.reason = event.get("reason", node.reason)


def _lookahead(tree: Tree, event: Mapping[str, Any]) -> None:
    for one in event["scores"]:
        node = tree.nodes.get(tuple(one["path"]))
        if node is not None:
            node.scores = (_value(one["score"]),)


def _left_out(tree: Tree, event: Mapping[str, Any]) -> None:
    for path in map(tuple, event["paths"]):
        if path in tree.nodes:
            tree.nodes[path].pruned = f"from the vote: not among the best {event['top']}"


def _decide(tree: Tree, event: Mapping[str, Any]) -> None:
    tree.decisions.append(f"{event['event']}: {_told(event)}")


def _end(tree: Tree, event: Mapping[str, Any]) -> None:
    tree.result = event


def _select(tree: Tree, event: Mapping[str, Any]) -> None:
    by = str(event.get("by"))
    kept = [tree.nodes[path] for path in map(tuple, event["kept"]) if path in tree.nodes]
    last = kept[-1] if kept else None
    for path in map(tuple, event["dropped"]):
        node = tree.nodes.get(path)
        if node is None:
            continue
        if event.get("answered") and (node.finish != "stop" or node.answer is None):
            continue  # its own end says why
        worth, best = _worth(node, by), _worth(last, by) if last else None
        node.pruned = f"by {by}" + (f": {worth}, the last kept has {best}" if worth and best else "")


def _worth(node: Node, by: str) -> str | None:
    if by == "tokens":
        return str(node.length)
    if by in {"score", "rebase", "proportional"}:
        known = [score for score in node.scores if score is not None]
        return f"{known[-1]:.3g}" if known else "no score"
    return None


def _aggregate(tree: Tree, event: Mapping[str, Any]) -> None:
    chosen = tree.nodes.get(tuple(event.get("chosen") or ()))
    if chosen is not None:
        chosen.chosen = True
    weights = event.get("weights")
    votes = ", ".join(f"{answer} {weight:.4g}" for answer, weight in weights.items()) if weights else ""
    tie = " (a tie)" if event.get("tied") else ""
    if not votes and chosen is None:
        votes = "nobody had a vote" + (f": {event['reason']}" if event.get("reason") else "")
    tree.decisions.append(f"{event.get('how')}: {votes or _told(event)}{tie}")


def _told(event: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in event.items() if key not in {"event", "problem", "traceback", "how"}}
    return ", ".join(f"{key} {value}" for key, value in rest.items() if value is not None)


_TAKES = {
    "candidate": _add,
    "score": _score,
    "select": _select,
    "aggregate": _aggregate,
    "lookahead": _lookahead,
    "left_out": _left_out,
    "watch": _decide,
    "stop": _decide,
    "failed": _decide,
    "recipe": _decide,
    "result": _end,
}
