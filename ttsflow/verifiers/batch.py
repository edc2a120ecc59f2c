"""A plain scoring function as a verifier, and the one rule for what a step is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

from ttsflow.errors import ConfigError
from ttsflow.ops import Verdict
from ttsflow.types import Candidate, Problem

__all__ = ["Batched", "ScoreBatch", "check_separator", "check_unchecked", "finite", "scores_in", "steps_of"]

Item = tuple[Problem, Candidate]
ScoreBatch = Callable[[Sequence[Item]], Sequence[Sequence[float | None]]]


def steps_of(text: str, separator: str) -> list[str]:
    """Return the non-empty steps of a text; a text that ends in the separator has no step after it."""
    return [step for step in text.split(separator) if step.strip()]


def check_separator(separator: str) -> None:
    """Raise ``ConfigError`` for a separator that could never end a step."""
    if not separator:
        raise ConfigError("is empty; give the string that ends a step", "separator")
    if "\\n" in separator:
        raise ConfigError(
            f"is {separator!r}, a backslash and an n, which no text contains; "
            'in YAML write it in double quotes: "\\n"',
            "separator",
        )


def check_unchecked(score: float | None) -> None:
    """Raise ``ConfigError`` for a score of steps that say nothing which is no score."""
    if score is not None and not 0 <= score <= 1:
        raise ConfigError(f"must lie between 0 and 1 or be null, got {score!r}", "unchecked")


class _Failed(NamedTuple):
    """Why there are no scores."""

    reason: str


class Batched:
    """Wraps ``score(batch)`` into the verifier protocol: all that is pending is one batch a step.

    ``score`` gets (problem, candidate) pairs and returns a list of step scores for each. When it
    raises or returns another number of lists, every pair is scored alone, and only those that still
    fail get a verdict without scores and with a reason. A score that is not a finite number is None,
    never 0 or -1. With ``separator`` set, the scores must be as many as the candidate has steps.
    """

    def __init__(self, score: ScoreBatch, separator: str | None = None) -> None:
        self._score = score
        self._separator = separator
        self._pending: dict[str, Item] = {}

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate under a new id; an id that is waiting is a ``ValueError``."""
        if id in self._pending:
            raise ValueError(f"{id!r} is already waiting for its scores")
        self._pending[id] = (problem, candidate)

    def step(self) -> list[Verdict]:
        """Score everything that waits and return the verdicts in the order of submission."""
        pending, self._pending = self._pending, {}
        items = list(pending.values())
        if not items:
            return []
        replies = self._ask(items)
        if isinstance(replies, _Failed):
            alone = map(self._ask, ([item] for item in items))
            replies = [reply if isinstance(reply, _Failed) else reply[0] for reply in alone]
        return [
            self._verdict(name, item[1], reply)
            for (name, item), reply in zip(pending.items(), replies, strict=True)
        ]

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget queued candidates; unknown ids are ignored."""
        for name in ids:
            self._pending.pop(name, None)

    def close(self) -> None:
        """Forget everything; may be called twice."""
        self._pending.clear()

    def _ask(self, items: list[Item]) -> list[object] | _Failed:
        """Return one reply per item, or why there is none."""
        try:
            replies: list[object] = list(self._score(items))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a verifier that fails must not end the run
            return _Failed(f"{type(error).__name__}: {error}")
        if len(replies) != len(items):
            return _Failed(f"returned {len(replies)} results for {len(items)} candidates")
        return replies

    def _verdict(self, id: str, candidate: Candidate, reply: object) -> Verdict:
        if isinstance(reply, _Failed):
            return Verdict(id, (), reason=reply.reason)
        values = scores_in(reply)
        if values is None:
            return Verdict(id, (), reason=f"returned {type(reply).__name__} instead of a list of step scores")
        steps = None if self._separator is None else len(steps_of(candidate.text, self._separator))
        if steps is not None and len(values) != steps:
            return Verdict(id, (), reason=f"returned {len(values)} scores for {steps} steps")
        scores = tuple(finite(value) for value in values)
        wrong = [
            value for value, score in zip(values, scores, strict=True) if score is None and value is not None
        ]
        return Verdict(id, scores, reason=f"{wrong[0]!r} is no finite number" if wrong else "")


def scores_in(reply: Any) -> list[Any] | None:
    """Return the scores that a verifier gave, None when what it gave is no list of anything."""
    try:
        return None if isinstance(reply, str | bytes) else list(reply)
    except Exception:  # noqa: BLE001 - whatever it is: a plugin's own sequence may raise anything
        return None


def finite(value: object) -> float | None:
    """Return a score as a float, None when it is no finite number."""
    if type(value) is float:  # by far the most, and asking an abstract class takes its time
        return value if math.isfinite(value) else None
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if math.isfinite(number) else None
