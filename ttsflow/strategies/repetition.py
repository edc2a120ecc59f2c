"""The watch that ends trajectories which say the same again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.ops import Decision, Trace
from ttsflow.protocols import Observer

__all__ = ["Repetition", "loop_at_end"]

#: Looks at one trace while it grows by as many tokens as a look reads.
_LOOKS = 16


@dataclass(frozen=True, slots=True)
class Repetition:
    """Ends trajectories in a loop: the same tokens again and again at their end.

    A loop is an n-gram of ``shortest`` to ``longest`` tokens that came at least ``times`` times in a row, up
    to the last token, with at least ``least`` tokens in all. Such a trajectory rarely leaves it before the
    limit on its tokens. Only what one request decodes is looked at, so a loop over several steps of a search
    is not seen.

    A look reads the last max(``times`` x ``longest``, ``least``) tokens once; there are 16 looks while a
    trajectory grows by as many, at fixed lengths, so that a token costs the same however long it has run and
    in whatever portions news come. A loop is seen at the first look at which it is long enough.
    """

    shortest: int = 1
    longest: int = 256
    times: int = 4
    least: int = 128

    def __post_init__(self) -> None:
        if self.shortest < 1:
            raise ConfigError(f"what is repeated has at least one token, got {self.shortest}.", "shortest")
        if not self.shortest <= self.longest <= 100_000:
            raise ConfigError(
                f"must lie between shortest={self.shortest} and 100000, got {self.longest}.", "longest"
            )
        if not 2 <= self.times <= 100_000:
            raise ConfigError(
                f"what came fewer than 2 times is not repeated, and 100000 is enough; got {self.times}.",
                "times",
            )
        if not 1 <= self.least <= 100_000_000:
            raise ConfigError(f"must lie between 1 and 100000000, got {self.least}.", "least")

    @property
    def reach(self) -> int:
        """The last tokens that a look reads: enough to know any loop by."""
        return max(self.times * self.longest, self.least)

    @property
    def stride(self) -> int:
        """Tokens between two looks at one trace."""
        return max(1, self.reach // _LOOKS)

    def begin(self, size: int) -> Observer:
        """Return the observer of one operation."""
        del size
        return _Looking(self)


class _Looking:
    """Observes one operation; ``next`` holds the length at which each trace is looked at again."""

    def __init__(self, watch: Repetition) -> None:
        self.watch = watch
        self.next: dict[int, int] = {}

    def __call__(self, traces: Sequence[Trace], changed: Sequence[int]) -> Decision | None:
        loops: dict[int, str] = {}
        watch, stride = self.watch, self.watch.stride
        for index in changed:
            trace = traces[index]
            length = len(trace.tokens)
            if trace.candidate is not None or length < self.next.get(index, stride):
                continue
            self.next[index] = (length // stride + 1) * stride
            period = loop_at_end(trace.tokens[-watch.reach :], watch)
            if period is not None:
                loops[index] = "the same token" if period == 1 else f"the same {period} tokens"
        if not loops:
            return None
        what = " or ".join(sorted(set(loops.values())))
        return Decision(abort=tuple(loops), reason=f"a loop: {what} again and again")

    def leap(self, traces: Sequence[Trace]) -> int | None:
        """Return the tokens until the next look; None when nothing runs."""
        stride = self.watch.stride
        left = [
            self.next.get(index, stride) - len(trace.tokens)
            for index, trace in enumerate(traces)
            if trace.candidate is None
        ]
        return max(1, min(left)) if left else None


def loop_at_end(tokens: Sequence[int], watch: Repetition) -> int | None:
    """Return the period of the loop that ``tokens`` end in, None when they end in none.

    The prefix function (Knuth, Morris and Pratt 1977) of the tokens read backwards gives the least period of
    every suffix, in linear time. A suffix of twice a period or more has only multiples of its least one (Fine
    and Wilf 1965), so that the smallest multiple of that from ``shortest`` on decides.
    """
    back = tokens[::-1]
    border = [0] * len(back)
    match = 0
    for place, token in enumerate(back):
        if place:
            while match and token != back[match]:
                match = border[match - 1]
            match += token == back[match]
            border[place] = match
        length = place + 1
        period = length - match
        if length >= watch.least and period <= watch.longest:
            unit = -(-watch.shortest // period) * period
            if unit <= watch.longest and length >= watch.times * unit:
                return period
    return None
