"""The stage that turns a pool into one answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.ops import Note
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.idle import refuse_idle
from ttsflow.types import Candidate, State

__all__ = ["THOUGHT", "Aggregate", "checked_weight", "length_of", "voters"]

#: The key in a candidate's ``extra`` for the number of tokens after which a watch saw its thinking end.
THOUGHT = "thought"


MOST_POWER = 20
"""Above it the first of a few samples decides alone, and the weights of many overflow."""


def voters(pool: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that have a vote, in sample order: ended by themselves, answer parsed.

    One cut by a limit, aborted or failed never votes; its tokens count all the same.
    """
    found = {candidate.path: candidate for candidate in pool if candidate.finished and candidate.answer}
    return [found[path] for path in sorted(found)]


def length_of(candidate: Candidate) -> int | None:
    """Return after how many tokens a candidate has finished, None for one that has not.

    Where a watch saw its thinking end, that is where, whatever came after; else at its own end, if it
    has an answer.
    """
    thought: int | None = candidate.extra.get(THOUGHT)
    if thought is None and candidate.finished and candidate.answer:
        return len(candidate.tokens)
    return thought


def checked_weight(score: float) -> float:
    """Return a score that may be added up as a vote. Raises ``ValueError`` for a negative one."""
    if score < 0:
        msg = f"a vote cannot weigh {score:.4g}: set `transform: sigmoid` or `softmax` on `aggregate`."
        raise ValueError(msg)
    return score


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Chooses the answer.

    ``how``: majority counts votes; weighted adds up scores per answer; best takes the candidate of
    the highest score; first takes the first one with an answer. A candidate without a score is left
    out of weighted and best. Scores that may be negative need a ``transform`` before they can be added
    up: sigmoid; softmax over the question's voters, of scores divided by ``temperature`` (CISC, arXiv
    2502.06233); or borda, (N - rank + 1)^``power`` of the N voters ranked by score from 1 on, equal ones
    in sample order (arXiv 2502.18581).

    ``ties`` decides between answers of equal weight: first in sample order, the one with the shortest
    trajectory (or thinking, where a watch saw it end), or the one with the highest score. With ``least``
    the leader needs that share of all weight, otherwise the question stays without an answer.
    """

    how: Literal["majority", "weighted", "best", "first"] = "majority"
    ties: Literal["first", "shortest", "score"] = "first"
    least: float = 0.0
    transform: Literal["none", "sigmoid", "softmax", "borda"] = "none"
    temperature: float = 1.0
    power: float = 0.5
    top: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1:
            raise ConfigError(f"a share lies between 0 and 1, got {self.least}.", "least")
        if self.how in {"best", "first"} and self.least:
            raise ConfigError(f"`how: {self.how}` counts no votes, so no share can be asked for.", "least")
        if self.how != "weighted" and self.transform != "none":
            raise ConfigError("only `how: weighted` adds scores up.", "transform")
        if self.top is not None and self.top < 1:
            raise ConfigError(f"at least one candidate must take part, got {self.top}.", "top")
        if not 0 < self.temperature < math.inf:
            raise ConfigError(f"must be above 0, got {self.temperature}.", "temperature")
        if not 0 <= self.power <= MOST_POWER:
            raise ConfigError(f"must lie between 0 and {MOST_POWER}, got {self.power}.", "power")
        for name, transform in (("temperature", "softmax"), ("power", "borda")):
            refuse_idle(self, self.transform == transform, name, f"`transform: {transform}`")

    @property
    def needs(self) -> frozenset[str]:
        """Scores, where they decide."""
        uses_scores = self.how in {"weighted", "best"} or self.ties == "score" or self.top is not None
        return frozenset({"scores"}) if uses_scores else frozenset()

    def __call__(self, state: State) -> Steps:
        """Vote, and tell the trace the weight of every answer."""
        pool = answered = voters(state.pool)
        if self.how in {"weighted", "best"}:
            pool = [candidate for candidate in answered if candidate.score is not None]
        if self.top is not None:
            ranked = sorted(pool, key=lambda candidate: (-_score(candidate), candidate.path))
            pool = sorted(ranked[: self.top], key=lambda candidate: candidate.path)
            if ranked[self.top :]:
                yield Note("left_out", {"top": self.top, "paths": [c.path for c in ranked[self.top :]]})
        if not pool:
            why = self._unscored(answered) if answered else None
            yield Note("aggregate", {"how": self.how, "weights": {}} | ({"reason": why} if why else {}))
            return state.with_(answer=None, chosen=None, unanswered=why)
        if self.how in {"first", "best"}:
            chosen = pool[0] if self.how == "first" else max(pool, key=_score)
            yield Note("aggregate", {"how": self.how, "chosen": chosen.path, "score": chosen.score})
            return state.with_(answer=chosen.answer, chosen=chosen)
        shares: dict[str, list[float]] = {}
        for candidate, weight in zip(pool, self._weights(pool), strict=True):
            shares.setdefault(candidate.answer.key if candidate.answer else "", []).append(weight)
        weights = {key: math.fsum(values) for key, values in shares.items()}
        top = max(weights.values())
        # Sums that differ in the last bits alone, such as .1 + .2 and .3, are a tie as well.
        tied = {key for key, weight in weights.items() if math.isclose(weight, top, rel_tol=1e-12)}
        chosen = self._break([c for c in pool if c.answer and c.answer.key in tied])
        told = {"how": self.how, "weights": weights, "tied": len(tied) > 1, "chosen": chosen.path}
        yield Note("aggregate", told)
        total = math.fsum(weights.values())
        share = top / total if total else 0.0
        if share < self.least:
            reason = f"leading answer has {share:.0%} of the votes, {self.least:.0%} are needed"
            return state.with_(answer=None, chosen=None, ended=state.ended or reason, unanswered=reason)
        return state.with_(answer=chosen.answer, chosen=chosen)

    def _unscored(self, answered: Sequence[Candidate]) -> str:
        """Return why candidates that have answers have no vote."""
        why = "every score they were given is missing"
        if not any(candidate.scores for candidate in answered):
            why = "the verifier gave none, or was not asked before"
        count = len(answered)
        return f"`how: {self.how}` goes by scores, and none of {count} samples with an answer has one: {why}"

    def _weights(self, pool: Sequence[Candidate]) -> list[float]:
        if self.how == "majority":
            return [1.0] * len(pool)
        scores = [_score(candidate) for candidate in pool]
        if self.transform == "sigmoid":
            return [1 / (1 + math.exp(-s)) if s >= 0 else math.exp(s) / (1 + math.exp(s)) for s in scores]
        if self.transform == "softmax":
            highest = max(scores)
            exps = [math.exp((score - highest) / self.temperature) for score in scores]
            total = math.fsum(exps)
            return [e / total for e in exps]
        if self.transform == "borda":
            places = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
            ranks = {place: rank for rank, place in enumerate(places)}
            return [(len(scores) - ranks[place]) ** self.power for place in range(len(scores))]
        return [checked_weight(score) for score in scores]

    def _break(self, tied: Sequence[Candidate]) -> Candidate:
        if self.ties == "shortest":
            return min(tied, key=lambda candidate: length_of(candidate) or 0)
        if self.ties == "score":
            return max(tied, key=_score)
        return tied[0]


def _score(candidate: Candidate) -> float:
    return -math.inf if candidate.score is None else candidate.score
