"""Watches: decisions taken while candidates are being decoded."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.ops import Decision, Trace
from ttsflow.protocols import Observer

__all__ = ["FirstFinished"]


@dataclass(frozen=True, slots=True)
class FirstFinished:
    """First-finish search (arXiv 2505.18149): keeps the ``k`` shortest valid trajectories.

    Defined on tokens, not on arrival: with T the length of the k-th shortest valid trajectory, every
    other one is ended as soon as it has T tokens, so that the result does not depend on the number of
    seats and the tokens decoded in lock-step are sum min(L_i, T). A trajectory is valid when it ended
    by itself and its answer was parsed. When fewer than ``k`` of all launched are valid, up to
    ``refill`` more are launched, as many as are missing.
    """

    k: int = 1
    refill: int = 0

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ConfigError(f"at least one must finish, got {self.k}.", "k")
        if self.refill < 0:
            raise ConfigError(f"a number of samples cannot be negative, got {self.refill}.", "refill")

    def check(self, n: int) -> None:
        """Refuse to wait for more candidates than are launched."""
        if self.k > n:
            raise ConfigError(f"k={self.k} of n={n} can never finish; use k <= n.", "watch.k")

    def begin(self, size: int) -> Observer:
        """Return the observer of one operation."""
        most = size + self.refill
        lengths: list[int] = []

        def observe(traces: Sequence[Trace], changed: Sequence[int]) -> Decision | None:
            ended = False
            for index in changed:
                candidate = traces[index].candidate
                if candidate is not None:
                    ended = True
                    if candidate.finished and candidate.answer:
                        insort(lengths, len(traces[index].tokens))
            if len(lengths) < self.k:
                if ended and len(traces) < most and all(trace.candidate for trace in traces):
                    return Decision(launch=min(self.k - len(lengths), most - len(traces)))
                return None
            cut = lengths[self.k - 1]
            suspects = range(len(traces)) if ended else changed
            late = tuple(i for i in suspects if traces[i].candidate is None and len(traces[i].tokens) >= cut)
            if not (late or ended):
                return None
            return Decision(abort=late, cut=cut, reason=f"first {self.k} finished after {cut} tokens")

        return observe
