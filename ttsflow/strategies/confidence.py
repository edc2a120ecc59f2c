"""The model's own confidence as a score, and the watch that ends what it is unsure of."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from ttsflow.confidence import Measure, group_means, token_confidence, trace_confidence
from ttsflow.errors import ConfigError
from ttsflow.ops import Decision, Trace
from ttsflow.protocols import Observer, Watch
from ttsflow.strategies.aggregate import voters
from ttsflow.types import Candidate, State

__all__ = ["Confidence", "LowConfidence"]


@dataclass(frozen=True, slots=True)
class Confidence:
    """Scores every candidate by how sure the model was of its tokens; no verifier is needed.

    ``measure``: mean over all tokens, lowest_group (the weakest window of ``group`` tokens),
    bottom_groups (the weakest tenth of the windows), tail (the last ``group`` tokens): of the
    confidences of arXiv 2508.15260, from ``top`` log-probabilities per token. self_certainty is the
    mean over tokens of KL(uniform || p) in nats (arXiv 2502.18581), over the whole vocabulary. A
    candidate without tokens has no score.

    With ``keep`` those below the (1 - ``keep``) quantile of the pool's scores lose their vote, but stay.
    """

    measure: Measure = "mean"
    group: int = 2048
    top: int = 20
    keep: float | None = None

    gives: ClassVar[frozenset[str]] = frozenset({"scores"})

    def __post_init__(self) -> None:
        if self.group < 1:
            raise ConfigError(f"a window has at least one token, got {self.group}.", "group")
        if self.top < 1:
            raise ConfigError(f"at least one log-probability is needed, got {self.top}.", "top")
        if self.keep is not None and not 0 < self.keep <= 1:
            raise ConfigError(f"a share lies above 0 and up to 1, got {self.keep}.", "keep")

    @property
    def logprobs(self) -> int:
        """Log-probabilities per token that the engine must give."""
        return 0 if self.certainty else self.top

    @property
    def certainty(self) -> bool:
        """Whether the engine must measure every token's distance from the uniform distribution."""
        return self.measure == "self_certainty"

    def __call__(self, state: State) -> State:
        """Score the candidates that have no score yet."""
        pool = tuple(c if c.scores or c.finish == "failed" else self._scored(c) for c in state.pool)
        if self.keep is not None:
            least = _threshold([c.score for c in pool if c.score is not None], self.keep)
            pool = tuple(_without_vote(c) if _below(c, least) else c for c in pool)
        return state.with_(pool=pool)

    def value(self, candidate: Candidate) -> float | None:
        """Return the confidence of one candidate, None when its engine said nothing of its tokens."""
        if self.certainty:
            return trace_confidence(candidate.certainties, self.measure, self.group)
        tokens = [token_confidence(entry, self.top) for entry in candidate.logprobs]
        return trace_confidence(tokens, self.measure, self.group)

    def _scored(self, candidate: Candidate) -> Candidate:
        value = self.value(candidate)
        return candidate if value is None else candidate.with_(scores=(value,), score=value)


def _below(candidate: Candidate, least: float) -> bool:
    return candidate.answer is not None and candidate.score is not None and candidate.score < least


def _without_vote(candidate: Candidate) -> Candidate:
    return candidate.with_(answer=None, reason="not confident enough to vote")


@dataclass(frozen=True, slots=True)
class LowConfidence:
    """DeepConf online (arXiv 2508.15260, section 3.3): ends trajectories the model is unsure of.

    The candidates the pool holds already are the warm-up. With s the (1 - ``keep``) quantile of their
    lowest group confidences, a new trajectory is ended as soon as a full window of ``group`` tokens has
    a mean below s. All are ended once the leading answer has ``consensus`` of the votes of warm-up and
    new ones, each weighing its lowest group confidence. That depends on who arrives first; with 1 nothing
    is ended for it.
    """

    keep: float = 0.1
    consensus: float = 0.95
    group: int = 2048
    top: int = 20

    def __post_init__(self) -> None:
        if not 0 < self.keep <= 1:
            raise ConfigError(f"a share lies above 0 and up to 1, got {self.keep}.", "keep")
        if not 0 < self.consensus <= 1:
            raise ConfigError(f"a share lies above 0 and up to 1, got {self.consensus}.", "consensus")
        self._measure()

    @property
    def logprobs(self) -> int:
        """Log-probabilities per token that the engine must give."""
        return self.top

    def begin(self, size: int) -> Observer:
        """Return the observer of an operation without a warm-up: nothing is unsure by comparison."""
        del size
        return _Unsure(self, -math.inf, {})

    def bind(self, state: State) -> Watch:
        """Return the watch with the threshold and the votes of the warm-up."""
        measure = self._measure()
        known = [value for c in state.pool if (value := measure.value(c)) is not None]
        votes: dict[str, float] = defaultdict(float)
        for candidate in voters(state.pool):
            if candidate.answer:
                votes[candidate.answer.key] += measure.value(candidate) or 0.0
        return _AfterWarmUp(self, _threshold(known, self.keep), votes)

    def _measure(self) -> Confidence:
        return Confidence("lowest_group", self.group, self.top)


def quantile(values: Sequence[float], share: float | Fraction) -> float:
    """Return the value that ``share`` of ``values`` lie below, interpolated; minus infinity of none."""
    if not values:
        return -math.inf
    ranked = sorted(values)
    place = Fraction(share) * (len(ranked) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ranked) - 1)
    return ranked[low] + (ranked[high] - ranked[low]) * float(place - low)


def _threshold(values: Sequence[float], keep: float) -> float:
    """Return what the share ``keep`` of ``values`` reach; of the decimal that was written."""
    return quantile(values, 1 - Fraction(str(keep)))


@dataclass(frozen=True, slots=True)
class _AfterWarmUp:
    watch: LowConfidence
    least: float
    votes: dict[str, float]

    def begin(self, size: int) -> Observer:
        del size
        return _Unsure(self.watch, self.least, self.votes)


class _Unsure:
    """Observes one operation; keeps the confidences of every trace's tokens."""

    def __init__(self, watch: LowConfidence, least: float, votes: dict[str, float]) -> None:
        self.watch = watch
        self.least = least
        self.votes: dict[str, float] = defaultdict(float, votes)
        self.tokens: dict[int, list[float]] = defaultdict(list)

    def __call__(self, traces: Sequence[Trace], changed: Sequence[int]) -> Decision | None:
        unsure = []
        for index in changed:
            trace, tokens = traces[index], self.tokens[index]
            seen = len(tokens)
            tokens.extend(token_confidence(entry, self.watch.top) for entry in trace.logprobs[seen:])
            candidate = trace.candidate
            if candidate is None:
                if self._below(tokens, seen):
                    unsure.append(index)
            elif candidate.finished and candidate.answer and tokens:
                weakest = trace_confidence(tokens, "lowest_group", self.watch.group) or 0.0
                self.votes[candidate.answer.key] += weakest
        total = math.fsum(self.votes.values())
        share = max(self.votes.values(), default=0.0) / total if total > 0 else 0.0
        if self.watch.consensus < 1 and share >= self.watch.consensus:
            return Decision(done=True, reason=f"one answer has {share:.0%} of the votes by confidence")
        if unsure:
            return Decision(abort=tuple(unsure), reason=f"confidence below {self.least:.4g}")
        return None

    def _below(self, tokens: Sequence[float], seen: int) -> bool:
        """Return whether a full window that ends in the new tokens has too low a mean."""
        group = self.watch.group
        window = tokens[max(0, seen + 1 - group) :]
        return len(window) >= group and min(group_means(window, group)) < self.least
