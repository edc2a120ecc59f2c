"""One request on a seat of a pool: what is known of its sample, and how much of it has been shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ttsflow.engines.samples import Sample
from ttsflow.ops import EngineRequest, Progress
from ttsflow.types import Tokens

__all__ = ["Run"]


class _Tokens:
    """Tokens with what an engine says about them, and their end once that is known."""

    __slots__ = ("certainties", "end", "logprobs", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[Mapping[int, float]] = []
        self.certainties: list[float] = []
        self.end: Progress | None = None

    def take(self, item: Progress) -> None:
        """Take in news of the engine."""
        self.tokens += item.tokens
        self.logprobs += item.logprobs
        self.certainties += item.certainties
        if item.finish is not None:
            self.end = item


class Run:
    """A request of at most ``limit`` tokens, and what was ``found`` of it.

    ``live`` is its name on the engine while it is decoded. Of its tokens the first ``shown`` count as grown,
    and the first ``told`` have been reported. Where a beginning that was found is not enough, ``fresh`` is
    what has been decoded from the start since then.
    """

    __slots__ = (
        "_certain",
        "_decoded",
        "_known",
        "_parted",
        "_top",
        "found",
        "fresh",
        "limit",
        "live",
        "request",
        "shown",
        "told",
    )

    def __init__(
        self, request: EngineRequest, limit: int, found: Sample | None, *, top: int, certain: bool
    ) -> None:
        self.request = request
        self.limit = limit
        self.live: str | None = None
        self.shown = self.told = 0
        self.fresh: _Tokens | None = None
        self._known = _Tokens()
        self._top, self._certain = top, certain
        self._decoded = 0
        self._parted = False
        self.found = 0
        if found is not None:
            self.found = min(limit, len(found.tokens))
            self._known.take(_played(request.id, found, limit))

    # --- where it is --------------------------------------------------------------------------------

    @property
    def exhausted(self) -> bool:
        """Whether all that was found is shown, it is not the end, and nothing is decoded yet."""
        return self.live is None and self._known.end is None and self.shown == len(self._known.tokens)

    @property
    def behind(self) -> bool:
        """Whether what is decoded has not come to where the played beginning ended."""
        return self.fresh is not None

    @property
    def dry(self) -> bool:
        """Whether nothing is left to show before the engine decodes more."""
        return self._known.end is None and self.shown == len(self._known.tokens)

    @property
    def ahead(self) -> int:
        """Tokens up to what happens next without the engine: its end, or that it is dry; at least 1."""
        return max(1, len(self._known.tokens) - self.shown)

    @property
    def unshown(self) -> int:
        """Tokens that were decoded and never reported."""
        return self._decoded - max(0, self.told - self.found)

    def grow(self, by: int | None) -> Progress | None:
        """Show ``by`` more tokens, None: all there are; return the news, if somebody wants it now."""
        known = self._known
        there = len(known.tokens)
        self.shown = there if by is None else min(there, self.shown + by)
        ended = known.end is not None and self.shown == there
        if not ended and not (self.request.stream and self.shown > self.told):
            return None
        told, self.told = self.told, self.shown
        end = known.end if ended and known.end is not None else Progress("")
        return Progress(
            self.request.id,
            tuple(known.tokens[told : self.shown]),
            end.finish,
            end.stop,
            tuple(known.logprobs[told : self.shown]),
            end.cached,
            end.reason,
            tuple(known.certainties[told : self.shown]),
            played=max(0, min(self.shown, self.found) - told),
        )

    # --- what is decoded ----------------------------------------------------------------------------

    def asked(self, name: str) -> EngineRequest:
        """Return the request as the engine gets it: every token is wanted, to be kept."""
        return replace(self.request, id=name, stream=True)

    def again(self) -> str:
        """Begin to decode from the start; return the name to do it under."""
        self.fresh = _Tokens()
        return self.request.id

    def beyond(self, name: str) -> EngineRequest:
        """Return the request for what follows the played beginning, which the engine did not decode again."""
        self.fresh, self._parted = None, True
        shown: Tokens = tuple(self._known.tokens)
        return replace(
            self.request,
            id=name,
            prompt=self.request.prompt + shown,
            max_tokens=self.limit - len(shown),
            stream=True,
        )

    def hear(self, item: Progress) -> None:
        """Take in what the engine has decoded."""
        self._decoded += len(item.tokens)
        (self._known if self.fresh is None else self.fresh).take(item)
        fresh = self.fresh
        if fresh is None:
            return
        if fresh.end is not None and fresh.end.finish == "failed":
            self._known.end, self.fresh = fresh.end, None
        elif (fresh.end is not None or len(fresh.tokens) > self.found) and self._agrees(fresh):
            self._known, self.fresh = fresh, None

    def parted(self) -> bool:
        """Whether what is decoded again is something else than what was played."""
        return self.fresh is not None and not self._agrees(self.fresh)

    def _agrees(self, fresh: _Tokens) -> bool:
        there = len(fresh.tokens) if fresh.end is None else self.found
        return fresh.tokens[: self.found] == self._known.tokens[:there]

    def sample(self) -> Sample | None:
        """Return what was decoded, None where that is nothing to keep."""
        made = self._known if self.fresh is None else self.fresh
        finish = None if made.end is None else made.end.finish
        whole = finish == "stop"
        if self._parted or finish == "failed" or not (whole or made.tokens):
            return None
        return Sample(
            tuple(made.tokens),
            whole,
            made.end.stop if made.end is not None else None,
            self._top,
            self._certain,
            tuple(made.logprobs),
            tuple(made.certainties),
        )


def _played(name: str, found: Sample, limit: int) -> Progress:
    """Return what was found as news: all of it, and the end where it is one of this request."""
    cut = slice(0, limit)
    whole = found.whole and len(found.tokens) <= limit
    ends = whole or len(found.tokens) >= limit
    return Progress(
        name,
        found.tokens[cut],
        ("stop" if whole else "length") if ends else None,
        found.stop if whole else None,
        found.logprobs[cut],
        certainties=found.certainties[cut],
    )
