"""What will follow, derived from the stages around: a loop's next requests, and who is scored next."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttsflow.ops import Generate, Op, Request
from ttsflow.protocols import Reply, Stage
from ttsflow.strategies.reduce import Reduce, reduce_scores
from ttsflow.types import Candidate, State

__all__ = ["Foresight", "foresee", "foreseen", "opening", "prunes_first", "scores_next"]


@dataclass(frozen=True, slots=True)
class Foresight:
    """The outlook of a loop that extends candidates by steps and keeps the best ``slots`` of them.

    ``step`` is the stage that extends them and ``copies`` the children each survivor gets; ``left`` rounds
    follow, the last of which completes the candidates where the loop does so (``completes``). ``reduce``
    makes one score of step scores. With a ``size`` so many candidates in a row go on in a loop of their own.
    """

    step: Any
    slots: int
    copies: int
    left: int
    completes: bool = True
    reduce: Reduce = "last"
    size: int | None = None

    @property
    def then(self) -> Foresight | None:
        """The outlook of the next round, None when no round follows that one."""
        return replace(self, left=self.left - 1, size=None) if self.left > 1 else None

    def children(self, candidate: Candidate) -> tuple[Request, ...]:
        """Return the requests of the next round for a candidate that survives this one."""
        if not candidate.active:
            return ()
        request: Request = self.step.request(candidate, last=self.completes and self.left == 1)
        return (request,) * self.copies

    def rate(self, scores: Sequence[float | None]) -> float | None:
        """Return the score of step scores; None where the search would refuse them."""
        try:
            return reduce_scores(scores, self.reduce)
        except ValueError:
            return None


def foresee(stages: Mapping[str, Stage], *, left: int, completes: bool) -> Foresight | None:
    """Return the outlook of a loop with this body; ``left`` rounds follow the present one.

    It exists when one stage makes steps, one prunes by scores alone, and all others say that they take
    no candidate out of the pool (``keeps_candidates``).
    """
    makes = [stage for stage in stages.values() if hasattr(stage, "request")]
    prunes = [stage for stage in stages.values() if hasattr(stage, "survivors")]
    others = [stage for stage in stages.values() if stage not in makes and stage not in prunes]
    if left < 1 or len(makes) != 1 or len(prunes) != 1:
        return None
    if not all(getattr(stage, "keeps_candidates", False) for stage in others):
        return None
    (make,), survivors = makes, getattr(prunes[0], "survivors", None)
    if survivors is None or getattr(make, "unit", "whole") == "whole" or getattr(make, "watch", None):
        return None
    how: Reduce = next((stage.reduce for stage in others if hasattr(stage, "reduce")), "last")
    slots, copies = survivors
    return Foresight(make, slots, copies, left, completes, how)


def opening(stages: Iterable[Stage]) -> Foresight | None:
    """Return the outlook of first candidates that go into these stages, None where they open no search.

    The stage that does says so with a method ``opening()``; what comes before it takes no candidate out of
    the pool and asks for none.
    """
    for stage in stages:
        opens: Callable[[], Foresight | None] | None = getattr(stage, "opening", None)
        if opens is not None:
            return opens()
        if not getattr(stage, "keeps_candidates", False) or hasattr(stage, "unit"):
            return None
    return None


def prunes_first(stages: Iterable[Stage]) -> bool:
    """Return whether a loop with this body prunes the pool it is given before it extends it."""
    for stage in stages:
        if hasattr(stage, "survivors"):
            return True
        if hasattr(stage, "unit"):
            return False
    return False


def scores_next(stages: Iterable[Stage]) -> bool | None:
    """Return whether these stages begin by having the whole pool scored; None: they ask for nothing.

    Stages that only look at their funds come in between; any other may take candidates out, or ask for more.
    """
    for stage in stages:
        inner: Mapping[str, Stage] | None = getattr(stage, "stages", None)
        if getattr(stage, "scores_pool", False):
            return True
        found = None
        if inner:
            found = scores_next(inner.values())
        elif not getattr(stage, "keeps_candidates", False):
            found = False
        if found is not None:
            return found
    return None


def foreseen(
    steps: Generator[Op, Reply, State], *, outlook: Foresight | None, scored: bool
) -> Generator[Op, Reply, State]:
    """Run a stage and tell with every generate operation of it what follows, unless a stage within has."""
    reply: Reply = None
    while True:
        try:
            op = steps.send(reply)
        except StopIteration as end:
            state: State = end.value
            return state
        if isinstance(op, Generate) and op.watch is None:
            op = replace(op, outlook=op.outlook or outlook, scored=op.scored or scored)
        reply = yield op
