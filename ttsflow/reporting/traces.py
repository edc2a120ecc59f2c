"""What a page needs of a trace, without parsing the rest: votes, and the events of a few problems."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Vote", "is_search", "problem_events", "votes"]

#: Where an event's kind stands in its line, and the beginning of a trace in which a search shows itself.
_HEAD, _BEGINNING = 24, 1 << 18
_STEPPED = re.compile(rb'"path":\s*\[\d+,\s*\d')
#: Answers of a vote that are kept, and characters of each.
_MOST, _WORDS = 6, 60


@dataclass(frozen=True, slots=True)
class Vote:
    """How an answer came about: weights of answers, largest first, and the score of the chosen candidate."""

    how: str
    weights: tuple[tuple[str, float], ...]
    others: int
    score: float | None
    tied: bool


def _records(trace: Path, words: Collection[bytes], within: int = sys.maxsize) -> Iterator[dict[str, Any]]:
    """Yield the records of lines that have one of ``words``; what is no record is left out."""
    wanted = re.compile(b"|".join(map(re.escape, words))).search
    try:
        with trace.open("rb") as lines:
            for line in lines:
                if wanted(line, 0, within):
                    try:
                        record = json.loads(line.decode(errors="replace"))
                    except (ValueError, RecursionError):
                        continue
                    if isinstance(record, dict):
                        yield record
    except OSError:
        return


def is_search(trace: Path) -> bool:
    """Whether a run continued its candidates, so that they form trees."""
    try:
        with trace.open("rb") as file:
            return bool(_STEPPED.search(file.read(_BEGINNING)))
    except OSError:
        return False


def problem_events(trace: Path, problems: Collection[str]) -> dict[str, list[dict[str, Any]]]:
    """Return the events of some problems, in order."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in problems}
    forms = [json.dumps(name, ensure_ascii=escaped) for name in problems for escaped in (True, False)]
    words = {form.encode(errors="replace") for form in forms}
    for event in _records(trace, words):
        if event.get("problem") in found:
            found[event["problem"]].append(event)
    return found


def votes(trace: Path) -> dict[str, Vote]:
    """Return how the answer of each problem came about, as far as the trace says so."""
    found: dict[str, Vote] = {}
    scores: dict[str, dict[tuple[Any, ...], float]] = {}
    for event in _records(trace, (b'"event":"aggregate"', b'"event":"score"'), _HEAD):
        problem = str(event.get("problem"))
        try:
            if event.get("event") == "score":
                known = [score for score in event["scores"] if score is not None]
                if known:
                    scores.setdefault(problem, {})[tuple(event["path"])] = float(known[-1])
            elif event.get("event") == "aggregate":
                found[problem] = _vote(event, scores.pop(problem, {}))
        except (KeyError, TypeError, ValueError, AttributeError):
            continue  # a damaged event; `ttsflow show` says so
    return found


def _vote(event: Mapping[str, Any], scores: Mapping[tuple[Any, ...], float]) -> Vote:
    weights = sorted(
        ((str(answer)[:_WORDS], float(weight)) for answer, weight in (event.get("weights") or {}).items()),
        key=lambda one: -one[1],
    )
    score = event.get("score", scores.get(tuple(event.get("chosen") or ())))
    return Vote(
        how=str(event.get("how")),
        weights=tuple(weights[:_MOST]),
        others=max(0, len(weights) - _MOST),
        score=None if score is None else float(score),
        tied=bool(event.get("tied")),
    )
