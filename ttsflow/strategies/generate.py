"""The stage that asks for tokens."""

from __future__ import annotations

from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Request, Unit
from ttsflow.protocols import Until, Watch
from ttsflow.strategies.flow import Steps, holds
from ttsflow.types import Candidate, State

__all__ = ["MOST", "GenerateStage"]

#: Most requests of one operation; more is a slip of the keyboard, and would fill the memory.
MOST = 100_000


@dataclass(frozen=True, slots=True)
class GenerateStage:
    """Samples candidates.

    With ``unit: whole`` it adds ``n`` new trajectories to the pool, no more than fit under ``total``.
    With ``unit: step`` it starts ``n`` candidates when the pool is empty, and otherwise extends every
    active entry of the pool by one step; an entry that stands in the pool several times gets as many
    different children. A step ends after ``separator`` (default: the task's), or after
    ``step_tokens`` tokens (default: ``sampling.max_step_tokens``). ``unit: tokens`` is the same without a
    separator. ``watch`` may end requests early; one that depends on the candidates so far has a method
    ``bind(state)``, which returns the watch to use. Nothing is asked for when ``unless`` holds already.
    ``multiple_of`` refuses an ``n`` that later stages could not split evenly, ``least`` one that is
    smaller than what they keep.

    ``engine`` names the one of the run's further engines that decodes. With null it is the engine of the run,
    and a candidate that goes on stays with the one that it is of.
    """

    n: int = 1
    unit: Unit = "whole"
    total: int | None = None
    separator: str | None = None
    step_tokens: int | None = None
    watch: Watch | None = None
    unless: Until | None = None
    multiple_of: int = 1
    least: int = 1
    engine: str | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"at least one sample is needed, got {self.n}.", "n")
        if self.n > MOST:
            raise ConfigError(f"at most {MOST:,} samples are drawn at once, got {self.n:,}.", "n")
        if self.n < self.least:
            raise ConfigError(f"n={self.n} is less than the {self.least} that are kept of it.", "n")
        if self.multiple_of < 1:
            raise ConfigError(f"must be at least 1, got {self.multiple_of}.", "multiple_of")
        if self.n % self.multiple_of:
            low = max(1, self.n // self.multiple_of) * self.multiple_of
            raise ConfigError(
                f"n={self.n} is no multiple of {self.multiple_of}; use {low} or {low + self.multiple_of}.",
                "n",
            )
        if self.total is not None and self.total < 1:
            raise ConfigError(f"at least one sample is needed, got {self.total}.", "total")
        if self.total is not None and self.total > MOST:
            raise ConfigError(f"at most {MOST:,} samples are drawn, got {self.total:,}.", "total")
        if self.engine == "":
            raise ConfigError("a name is wanted; null means the engine of the run.", "engine")
        self._check_unit()
        check = getattr(self.watch, "check", None)
        if check is not None:
            check(self.n)

    def _check_unit(self) -> None:
        if self.step_tokens is not None and self.step_tokens < 1:
            raise ConfigError(f"a step has at least one token, got {self.step_tokens}.", "step_tokens")
        if self.separator == "":
            raise ConfigError("an empty separator would end no step; null means the task's own.", "separator")
        if self.unit == "tokens" and self.separator is not None:
            raise ConfigError("a step of `unit: tokens` ends by its length alone.", "separator")
        if self.unit == "whole" and (self.separator is not None or self.step_tokens is not None):
            field = "separator" if self.separator is not None else "step_tokens"
            raise ConfigError("only steps have a border; set `unit: step`, or leave it out.", field)
        if self.unit != "whole" and self.total is not None:
            raise ConfigError("only whole trajectories are added up to a total.", "total")

    @property
    def demand(self) -> int | None:
        """New trajectories of a problem that this stage alone may start."""
        return self.n if self.total is None else self.total

    @property
    def needs(self) -> frozenset[str]:
        """Steps continue what came before them."""
        return frozenset() if self.unit == "whole" else frozenset({"continuation"})

    def __call__(self, state: State) -> Steps:
        """Ask for the candidates and put them into the pool."""
        count = self.n if self.total is None else min(self.n, self.total - len(state.pool))
        if count < 1:
            return state
        reason = None if self.unless is None else holds(self.unless, state)
        if reason is not None:
            return state.with_(ended=state.ended or reason or None)
        if self.unit != "whole" and state.pool:
            return (yield from self._extend(state))
        got: Generated = yield Generate((self.request(None, last=state.last),) * count, self._watch(state))
        return state.with_(
            pool=state.pool + got.candidates, spent=got.spent, stopped=got.stopped or state.stopped
        )

    def request(self, parent: Candidate | None, *, last: bool) -> Request:
        """Return the request for a child of ``parent``; in the last round it completes the trajectory."""
        if self.unit == "whole" or last:
            return Request(parent, engine=self.engine)
        return Request(parent, self.unit, self.separator, self.step_tokens, engine=self.engine)

    def _watch(self, state: State) -> Watch | None:
        bind = getattr(self.watch, "bind", None)
        return self.watch if bind is None else bind(state)

    def _extend(self, state: State) -> Steps:
        parents = [candidate for candidate in state.pool if candidate.active]
        if not parents:
            return state
        requests = tuple(self.request(parent, last=state.last) for parent in parents)
        got: Generated = yield Generate(requests, self._watch(state))
        children = iter(got.candidates)
        # A refused request has no child: its parent stays, so that the best partial is not lost.
        pool = tuple(next(children, c) if c.active else c for c in state.pool)
        return state.with_(pool=(*pool, *children), spent=got.spent, stopped=got.stopped or state.stopped)
