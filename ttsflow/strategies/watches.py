"""Watches: decisions taken while candidates are being decoded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.ops import Decision, Trace
from ttsflow.protocols import Observer, Predictor, Watch
from ttsflow.strategies.aggregate import THOUGHT, length_of, voters
from ttsflow.types import State

__all__ = ["FirstFinished", "LastFinished", "ThinkingEnded"]


@dataclass(frozen=True, slots=True)
class FirstFinished:
    """First-finish search (arXiv 2505.18149): keeps the ``k`` shortest valid trajectories.

    With ``order`` tokens it is defined on tokens, not on arrival: with T the length of the k-th shortest
    valid trajectory, every other one is ended as soon as it has T tokens, so that the result does not
    depend on the number of seats and the tokens decoded in lock-step are sum min(L_i, T). A trajectory
    is valid when it ended by itself and its answer was parsed; those the pool holds already count. With
    ``order`` arrival all others end once ``k`` have arrived, for engines that report tokens late.

    With a ``marker`` such as ``</think>`` a trajectory has finished where its text first holds it: the
    thinking part decides, and the ``k`` that end thinking first write their answers, valid or not
    (short-m@k, arXiv 2505.17813). One without a marker has finished at its end, if it is valid. To keep
    the same ``k`` afterwards, select ``by: thinking``.

    When fewer than ``k`` of all launched are valid, up to ``refill`` more are launched, as many as are
    missing.
    """

    k: int = 1
    refill: int = 0
    order: Literal["tokens", "arrival"] = "tokens"
    marker: str | None = None

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"at least one must finish, got {self.k}.", "k")
        if self.refill < 0:
            raise ConfigError(f"a number of samples cannot be negative, got {self.refill}.", "refill")
        if self.marker == "":
            raise ConfigError("an empty marker is in every text; null means the end of the text.", "marker")
        if self.marker is not None and self.refill:
            raise ConfigError("what has ended thinking counts, valid or not: nothing is refilled.", "refill")

    def check(self, n: int) -> None:
        """Refuse to wait for more candidates than are launched."""
        if self.k > n:
            raise ConfigError(f"k={self.k} of n={n} can never finish; use k <= n.", "watch.k")

    def begin(self, size: int) -> Observer:
        """Return the observer of one operation that nothing came before."""
        return _First(self, size, ())

    def bind(self, state: State) -> Watch:
        """Return the watch for a pool that may hold valid trajectories already."""
        if self.marker is None:
            known = [len(candidate.tokens) for candidate in voters(state.pool)]
        else:
            known = [length for c in state.pool if (length := length_of(c)) is not None]
        return _FirstAfter(self, tuple(known)) if known else self


@dataclass(frozen=True, slots=True)
class _FirstAfter:
    watch: FirstFinished
    known: tuple[int, ...]

    def begin(self, size: int) -> Observer:
        return _First(self.watch, size, self.known)


class _First:
    """Observes one operation; ``done`` holds where every trace has finished, by its index."""

    def __init__(self, watch: FirstFinished, size: int, known: Sequence[int]) -> None:
        self.watch = watch
        self.most = size + watch.refill
        self.known = [(length, -1) for length in known]
        self.done: dict[int, int] = {}
        self.cut: int | None = sorted(known)[watch.k - 1] if len(known) >= watch.k else None
        self.chosen: frozenset[int] = frozenset()

    def __call__(self, traces: Sequence[Trace], changed: Sequence[int]) -> Decision | None:
        news, k = self._note(traces, changed), self.watch.k
        if news:
            self._rank()
        if self.cut is None:
            missing = k - len(self.known) - len(self.done)
            if news and len(traces) < self.most and all(trace.candidate for trace in traces):
                return Decision(launch=min(missing, self.most - len(traces)))
            return None
        cut, chosen = self.cut, self.chosen
        suspects = [i for i in (range(len(traces)) if news else changed) if traces[i].candidate is None]
        if self.watch.order == "tokens":
            suspects = [i for i in suspects if i in self.done or len(traces[i].tokens) >= cut]
        late = tuple(i for i in suspects if i not in chosen)
        if not (late or news):
            return None
        what = "finished" if self.watch.marker is None else "ended thinking"
        return Decision(
            abort=late, cut=self._needed(traces, chosen, cut), reason=f"first {k} {what} after {cut} tokens"
        )

    def _rank(self) -> None:
        """Find the ``k`` shortest that have finished, and the length of the last of them."""
        k = self.watch.k
        # Equal lengths are taken in sample order; what the pool held already came before all.
        ranked = sorted([*self.known, *((length, index) for index, length in self.done.items())])[:k]
        self.cut = ranked[-1][0] if len(ranked) == k else None
        self.chosen = frozenset(index for _, index in ranked)

    def _needed(self, traces: Sequence[Trace], chosen: Collection[int], cut: int) -> int | None:
        """Return the length beyond which no trace was needed, None while nobody knows."""
        if self.watch.order == "arrival":
            return None
        if self.watch.marker is None:
            return cut
        # The answers of those that ended thinking first were needed as well.
        kept = [traces[index] for index in chosen if index >= 0]
        if any(trace.candidate is None for trace in kept):
            return None
        return max([cut, *(len(trace.tokens) for trace in kept)])

    def leap(self, traces: Sequence[Trace]) -> int | None:
        """Return how far the longest running trace is from the cut."""
        if self.cut is None and self.watch.marker is None:
            return None
        if self.cut is None or self.watch.marker is not None or self.watch.order == "arrival":
            return 1
        longest = max((len(trace.tokens) for trace in traces if trace.candidate is None), default=0)
        return max(1, self.cut - longest)

    def _note(self, traces: Sequence[Trace], changed: Sequence[int]) -> bool:
        """Note what has finished; return whether anything has, or has ended without an answer."""
        news = False
        marker = self.watch.marker
        for index in changed:
            trace, candidate = traces[index], traces[index].candidate
            place = None if marker is None else trace.find(marker)
            if candidate is not None:
                news = True
                self.done.pop(index, None)
                if place is not None and candidate.finish in {"stop", "length"}:
                    self.done[index] = place
                    trace.candidate = candidate.with_(extra={**candidate.extra, THOUGHT: place})
                elif candidate.finished and candidate.answer:
                    self.done[index] = len(trace.tokens)
            elif place is not None and index not in self.done:
                news = True
                self.done[index] = place
        return news


@dataclass(frozen=True, slots=True)
class ThinkingEnded:
    """Takes it that whatever follows the thinking has about ``answer_tokens`` tokens.

    A trajectory whose text holds ``marker`` ends so many tokens after it, and one that still thinks will
    be at least so much longer than it is.
    """

    marker: str = "</think>"
    answer_tokens: int = 0

    def __post_init__(self) -> None:
        if not self.marker:
            raise ConfigError("an empty marker is in every text.", "marker")
        if self.answer_tokens < 0:
            raise ConfigError(f"must be at least 0, got {self.answer_tokens}.", "answer_tokens")

    def __call__(self, trace: Trace) -> tuple[int, int | None]:
        """Return the least and the most tokens it will have."""
        place = trace.find(self.marker)
        if place is None:
            return len(trace.tokens) + self.answer_tokens, None
        length = max(place + self.answer_tokens, len(trace.tokens))
        return length, length


@dataclass(frozen=True, slots=True)
class LastFinished:
    """Ends trajectories that cannot be among the ``k`` longest, as ``predictor`` foresees their length.

    For last-finish search: a trajectory is ended as soon as ``k`` others, running or valid, will be
    longer than it can become. What it would have written, its answer, would have had no vote. Should
    some of those ``k`` turn out without an answer, fewer than ``k`` vote.
    """

    k: int
    predictor: Predictor

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"at least one must be kept, got {self.k}.", "k")

    def check(self, n: int) -> None:
        """Refuse to keep more candidates than are launched."""
        if self.k > n:
            raise ConfigError(f"k={self.k} of n={n} can never finish; use k <= n.", "watch.k")

    def begin(self, size: int) -> Observer:
        """Return the observer of one operation."""
        del size

        def observe(traces: Sequence[Trace], changed: Sequence[int]) -> Decision | None:
            del changed
            least: dict[int, int] = {}
            most: dict[int, int] = {}
            for index, trace in enumerate(traces):
                candidate = trace.candidate
                if candidate is None:
                    least[index], bound = self.predictor(trace)
                    if bound is not None:
                        most[index] = bound
                elif candidate.finished and candidate.answer:
                    least[index] = len(trace.tokens)
            longest = sorted(least.values(), reverse=True)[: self.k]
            if len(longest) < self.k:
                return None
            short = tuple(index for index, bound in most.items() if bound < longest[-1])
            reason = f"{self.k} others will have at least {longest[-1]} tokens"
            return Decision(abort=short, reason=reason) if short else None

        return observe
