"""Conditions: what `repeat.until` and `when.if` may ask of a state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.protocols import Until
from ttsflow.strategies.aggregate import checked_weight, voters
from ttsflow.types import State

__all__ = [
    "Agreed",
    "AllFinished",
    "AllOf",
    "AnyOf",
    "BestFinished",
    "Finished",
    "Not",
    "PoolSize",
    "Stopped",
]


@dataclass(frozen=True, slots=True)
class AllFinished:
    """No candidate of the pool can go on. The natural end of a search."""

    def __call__(self, state: State) -> str | None:
        """Return the empty reason when nothing is left to extend."""
        return "" if state.pool and not any(c.active for c in state.pool) else None


@dataclass(frozen=True, slots=True)
class Agreed:
    """One answer has at least ``share`` of the votes, and there are at least ``at_least`` votes.

    With ``by`` score a vote weighs its candidate's score, which must not be negative; one without a score
    has no vote. Answers that tie for the lead do not agree, whatever the share.
    """

    share: float = 0.5
    at_least: int = 2
    by: Literal["votes", "score"] = "votes"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"a share lies above 0 and up to 1, got {self.share}.", "share")
        if self.at_least < 1:
            raise ConfigError(f"at least one vote is needed, got {self.at_least}.", "at_least")

    @property
    def needs(self) -> frozenset[str]:
        """Scores, where they decide."""
        return frozenset({"scores"}) if self.by == "score" else frozenset()

    def __call__(self, state: State) -> str | None:
        """Return who agrees."""
        pool = [c for c in voters(state.pool) if self.by == "votes" or c.score is not None]
        weights: dict[str, float] = {}
        for candidate in pool:
            weight = 1.0 if self.by == "votes" else checked_weight(candidate.score or 0.0)
            key = candidate.answer.key if candidate.answer else ""
            weights[key] = weights.get(key, 0.0) + weight
        total = math.fsum(weights.values())
        if len(pool) < self.at_least or not total:
            return None
        top, *others = sorted(weights.values(), reverse=True)
        # As in the vote itself, sums that differ in the last bits alone are a tie.
        tied = any(math.isclose(weight, top, rel_tol=1e-12) for weight in others)
        agreed = top / total >= self.share and not tied
        return f"agreed: {top:.4g} of {total:.4g} votes" if agreed else None


@dataclass(frozen=True, slots=True)
class PoolSize:
    """The pool holds at least ``at_least`` candidates."""

    at_least: int

    def __post_init__(self) -> None:
        if self.at_least < 1:
            raise ConfigError(f"at least one candidate is needed, got {self.at_least}.", "at_least")

    def __call__(self, state: State) -> str | None:
        """Return the size reached."""
        return f"pool of {len(state.pool)}" if len(state.pool) >= self.at_least else None


@dataclass(frozen=True, slots=True)
class Finished:
    """At least ``at_least`` candidates of the pool have finished by themselves."""

    at_least: int

    def __post_init__(self) -> None:
        if self.at_least < 1:
            raise ConfigError(f"at least one candidate is needed, got {self.at_least}.", "at_least")

    def __call__(self, state: State) -> str | None:
        """Return how many have finished; at the end of a search that is nothing early."""
        count = sum(candidate.finished for candidate in state.pool)
        if count < self.at_least:
            return None
        return f"{count} candidates finished" if any(c.active for c in state.pool) else ""


@dataclass(frozen=True, slots=True)
class BestFinished:
    """The candidate with the highest score has finished by itself; of equal ones, one that has.

    While an active candidate has no score the best is not known, and the condition does not hold.
    """

    @property
    def needs(self) -> frozenset[str]:
        """Scores decide."""
        return frozenset({"scores"})

    def __call__(self, state: State) -> str | None:
        """Return the empty reason: for a search this is nothing early."""
        active = [c.score for c in state.pool if c.active]
        finished = [c.score for c in state.pool if c.finished and c.score is not None]
        if not finished or None in active:
            return None
        best = max(finished)
        return "" if all(score is not None and score <= best for score in active) else None


@dataclass(frozen=True, slots=True)
class Stopped:
    """An earlier stage ended something early, for instance because funds ran low."""

    def __call__(self, state: State) -> str | None:
        """Return that stage's reason."""
        return state.early


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of several conditions holds."""

    of: Mapping[str, Until]

    def __post_init__(self) -> None:
        _some(self.of)

    def __call__(self, state: State) -> str | None:
        """Return the reason of the first that holds."""
        reasons = (condition(state) for condition in self.of.values())
        return next((reason for reason in reasons if reason is not None), None)


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of several conditions hold."""

    of: Mapping[str, Until]

    def __post_init__(self) -> None:
        _some(self.of)

    def __call__(self, state: State) -> str | None:
        """Return all reasons."""
        reasons = [condition(state) for condition in self.of.values()]
        known = [reason for reason in reasons if reason is not None]
        return ", ".join(filter(None, known)) if len(known) == len(reasons) else None


@dataclass(frozen=True, slots=True)
class Not:
    """A condition does not hold."""

    of: Until

    def __call__(self, state: State) -> str | None:
        """Return a reason when the inner condition has none."""
        return f"not {type(self.of).__name__.lower()}" if self.of(state) is None else None


def _some(conditions: Mapping[str, Until]) -> None:
    if not conditions:
        raise ConfigError("at least one condition is needed.", "of")
