"""What a loop will ask for next, derived from its own body."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttsflow.ops import Generate, Op, Request
from ttsflow.protocols import Fate, Reply, Stage
from ttsflow.types import Candidate, State

__all__ = ["Foresight", "foresee", "foreseen"]


@dataclass(frozen=True, slots=True)
class Foresight:
    """The outlook of a loop that extends candidates by steps and keeps the best ``slots`` of them.

    ``step`` is the stage that extends them, ``last`` whether it completes them in the next round, and
    ``copies`` the children each survivor gets.
    """

    step: Any
    last: bool
    slots: int
    copies: int

    def children(self, candidate: Candidate) -> tuple[Request, ...]:
        """Return the requests of the next round for a candidate that survives this one."""
        if not candidate.active:
            return ()
        request: Request = self.step.request(candidate, last=self.last)
        return (request,) * self.copies

    def fate(self, score: float, known: Sequence[float], pending: int) -> Fate:
        """Return whether a candidate with ``score`` is sure to survive, sure not to, or neither."""
        if sum(other > score for other in known) >= self.slots:
            return "beaten"
        no_worse = sum(other >= score for other in known)
        return "certain" if no_worse + pending < self.slots else "possible"


def foresee(stages: Mapping[str, Stage], *, last: bool) -> Foresight | None:
    """Return the outlook of a loop with this body; ``last`` says whether its next round is the last.

    It exists when one stage makes steps, one prunes by scores alone, and all others say that they take
    no candidate out of the pool (``keeps_candidates``).
    """
    makes = [stage for stage in stages.values() if hasattr(stage, "request")]
    prunes = [stage for stage in stages.values() if hasattr(stage, "survivors")]
    others = [stage for stage in stages.values() if stage not in makes and stage not in prunes]
    if len(makes) != 1 or len(prunes) != 1:
        return None
    if not all(getattr(stage, "keeps_candidates", False) for stage in others):
        return None
    (make,), survivors = makes, getattr(prunes[0], "survivors", None)
    if survivors is None or getattr(make, "unit", "whole") == "whole" or getattr(make, "watch", None):
        return None
    return Foresight(make, last, *survivors)


def foreseen(steps: Generator[Op, Reply, State], outlook: Foresight) -> Generator[Op, Reply, State]:
    """Run a stage and tell the outlook with every generate operation of it."""
    reply: Reply = None
    while True:
        try:
            op = steps.send(reply)
        except StopIteration as end:
            state: State = end.value
            return state
        reply = yield replace(op, outlook=outlook) if isinstance(op, Generate) else op
