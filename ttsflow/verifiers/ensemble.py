"""Several verifiers as one: every candidate is scored by all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from ttsflow.errors import ConfigError
from ttsflow.ops import Verdict
from ttsflow.protocols import Capabilities, Verifier, VerifierPart
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.served import Openable, Served, served

__all__ = ["Ensemble"]


@dataclass(frozen=True, slots=True)
class Ensemble:
    """Scores with all verifiers of ``of``; ``how`` makes one score of theirs: mean, min, or prod.

    Where they give as many scores, each step has one of its own; where they do not, as when one scores whole
    candidates, the last score of each counts. What one of them leaves without a score has none, and what one
    of them fails on has failed. ``weights`` of a mean are by name, 1 where none is given. A verifier that
    asks the engine of the run, an oracle, and one in simulated time have to stand alone.
    """

    of: Mapping[str, VerifierPart]
    how: Literal["mean", "min", "prod"] = "mean"
    weights: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.of:
            raise ConfigError("at least one verifier is needed.", "of")
        for name, part in self.of.items():
            if hasattr(part, "open_for") or hasattr(part, "open_beside"):
                raise ConfigError(
                    "this verifier has to know the task or the engine, and stands alone.", f"of.{name}"
                )
            if served(part) is not None and not _engines(part):
                raise ConfigError("it would ask the engine of the run; give it an `engine`.", f"of.{name}")
        if self.weights and self.how != "mean":
            raise ConfigError("only `how: mean` weighs.", "weights")
        for name, weight in self.weights.items():
            if name not in self.of:
                raise ConfigError(
                    f"no verifier has this name; there are {', '.join(self.of)}.", f"weights.{name}"
                )
            if not 0 < weight < math.inf:
                raise ConfigError(f"must be above 0, got {weight}.", f"weights.{name}")

    @property
    def logprobs(self) -> int:
        """Top log-probabilities per token that one of them reads."""
        return max(getattr(part, "logprobs", 0) for part in self.of.values())

    @property
    def certainty(self) -> bool:
        """Whether one of them reads the certainty of tokens."""
        return any(getattr(part, "certainty", False) for part in self.of.values())

    @property
    def serves(self) -> bool:
        """Whether one of them has a model of its own."""
        return any(served(part) is not None for part in self.of.values())

    @property
    def engines(self) -> tuple[Openable, ...]:
        """What has to be loaded, for all of them."""
        return tuple(engine for part in self.of.values() for engine in _engines(part))

    def check_engine(self, capabilities: Capabilities) -> None:
        """Raise ``ConfigError`` unless an engine that can do this is enough for those that may ask it."""
        for part in self.of.values():
            inner = served(part)
            if inner is not None:
                inner.check_engine(capabilities)

    def open(self) -> Verifier:
        """Return the working verifier, where none of them has a model."""
        return _Ensemble(self, {name: part.open() for name, part in self.of.items()})

    def open_on(self, engines: Sequence[Any], separator: str) -> Verifier:
        """Return the working verifier on the engines that were loaded for all of them."""
        left, opened = list(engines), {}
        for name, part in self.of.items():
            inner, count = served(part), len(_engines(part))
            opened[name] = part.open() if inner is None else inner.open_on(left[:count], separator)
            left = left[count:]
        return _Ensemble(self, opened)

    def blend(self, scores: Mapping[str, Sequence[float | None]]) -> tuple[float | None, ...]:
        """Return the scores of a candidate from those of every verifier."""
        lengths = {len(own) for own in scores.values()}
        if len(lengths) > 1:
            scores = {name: own[-1:] for name, own in scores.items()}
        if 0 in lengths:
            return ()
        return tuple(
            self._one(dict(zip(scores, step, strict=True))) for step in zip(*scores.values(), strict=True)
        )

    def _one(self, scores: Mapping[str, float | None]) -> float | None:
        known = {name: score for name, score in scores.items() if score is not None}
        if len(known) < len(scores):
            return None
        if self.how == "mean":
            weights = {name: self.weights.get(name, 1.0) for name in known}
            return math.fsum(known[name] * weights[name] for name in known) / math.fsum(weights.values())
        return min(known.values()) if self.how == "min" else math.prod(known.values())


def _engines(part: VerifierPart) -> tuple[Openable, ...]:
    inner: Served | None = served(part)
    return () if inner is None else tuple(inner.engines)


class _Ensemble:
    """Asks all, and answers once all have."""

    def __init__(self, part: Ensemble, inner: Mapping[str, Verifier]) -> None:
        self._part = part
        self._inner = inner
        self._said: dict[str, dict[str, Verdict]] = {}
        #: It works while the engine does only if all of them do.
        self.aside = all(getattr(one, "aside", False) for one in inner.values())
        deadlines = [getattr(one, "deadline", None) for one in inner.values()]
        self.deadline = min((one for one in deadlines if one is not None), default=None)

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate with all of them."""
        self._said[id] = {}
        for name, verifier in self._inner.items():
            try:
                verifier.submit(id, problem, candidate)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001 - one that breaks fails this candidate
                self._said[id][name] = Verdict(id, (), reason=f"{type(error).__name__}: {error}")

    def step(self) -> list[Verdict]:
        """Advance all of them, and return what all have decided."""
        for name, verifier in self._inner.items():
            for verdict in verifier.step():
                if verdict.id in self._said:
                    self._said[verdict.id][name] = verdict
        done = [id_ for id_, said in self._said.items() if len(said) == len(self._inner)]
        return [self._verdict(id_, self._said.pop(id_)) for id_ in done]

    def _verdict(self, id_: str, said: Mapping[str, Verdict]) -> Verdict:
        tokens = sum(verdict.tokens for verdict in said.values())
        failed = [f"{name}: {said[name].reason}" for name in self._inner if said[name].reason]
        if failed:
            return Verdict(id_, (), tokens, failed[0])
        scores = {name: said[name].scores for name in self._inner}
        return Verdict(id_, self._part.blend(scores), tokens)

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget candidates, with all of them."""
        for name in ids:
            self._said.pop(name, None)
        for verifier in self._inner.values():
            verifier.cancel(ids)

    def counters(self) -> dict[str, float]:
        """Return what those that count have counted, added up."""
        sums: dict[str, float] = {}
        for verifier in self._inner.values():
            with suppress(AttributeError):
                for key, value in verifier.counters().items():  # type: ignore[attr-defined] # not all have it
                    sums[key] = sums.get(key, 0.0) + value
        return sums

    def close(self) -> None:
        """Close all of them."""
        for verifier in self._inner.values():
            verifier.close()
