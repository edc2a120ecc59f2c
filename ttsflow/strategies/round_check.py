"""The stage at which a search buys its next round, or ends with what is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ttsflow.control import ControllerPart
from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Quote, Request
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.generate import MOST
from ttsflow.strategies.offered import offered
from ttsflow.types import Candidate, State

__all__ = ["RoundCheck"]


@dataclass(frozen=True, slots=True)
class RoundCheck:
    """Buys a round of a search from a controller; stands first in the loop, before `generate`.

    A round costs a step for every active candidate of the pool, ``n`` of them where there is none yet. It is
    bought when ``controller`` grants it and when it is worth it: the best active candidate scores at least
    ``worth`` above the mean of all, or there are fewer than two with a score. Where the verifier hardly
    tells them apart, a choice among their children is left to chance.

    Otherwise the search ends. Its best active candidate is completed, unless one that has finished with an
    answer scores as high; the others that could go on are dropped. A search whose first round is refused is
    one whole sample, and deferred if that is refused too.
    """

    controller: ControllerPart
    n: int = 1
    worth: float = 0.0

    needs: ClassVar[frozenset[str]] = frozenset({"steps"})

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MOST:
            raise ConfigError(f"between 1 and {MOST:,} steps are begun, got {self.n:,}.", "n")
        if not 0 <= self.worth < float("inf"):
            raise ConfigError(f"a difference of scores is at least 0, got {self.worth}.", "worth")

    def __call__(self, state: State) -> Steps:
        """Ask for the price of the round, and go on or end the search."""
        active = [candidate for candidate in state.pool if candidate.active]
        if state.pool and not active:
            return state
        reason = self._alike(active)
        if reason is None:
            reason = (yield from offered(self.controller, len(active) or self.n)).refused
        if reason is None:
            return state
        return (yield from self._end(state, active, reason))

    def _alike(self, active: Sequence[Candidate]) -> str | None:
        """Return that the scores of what goes on hardly differ, if they do."""
        scores = [c.score for c in {c.path: c for c in active}.values() if c.score is not None]
        if not self.worth or len(scores) < 2:
            return None
        ahead = max(scores) - sum(scores) / len(scores)
        if ahead >= self.worth:
            return None
        return f"not worth it: the best of {len(scores)} candidates is {max(0.0, ahead):.3g} above their mean"

    def _end(self, state: State, active: Sequence[Candidate], reason: str) -> Steps:
        """Complete the best candidate, or draw one where there is none, and end the loop."""
        ended = tuple(c for c in state.pool if not c.active)
        best = max(active, key=_rank, default=None)
        done = max((c for c in ended if c.finished and c.answer), key=_rank, default=None)
        needed = done is None or (best is not None and _rank(best) > _rank(done))
        refused = (yield from offered(self.controller, 1)).refused if needed else None
        if refused is None and needed:
            got: Generated = yield Generate((Request(best),))
            ended += got.candidates
            state = state.with_(spent=got.spent, stopped=got.stopped or state.stopped)
        elif needed and done is None and best is not None:
            # What is open tells more than nothing.
            ended += (best,)
        # Nothing stays set aside for what is not drawn.
        yield Quote()
        completed = best.path if best is not None and needed and refused is None else None
        yield Note("round_check", {"reason": reason, "active": len(active), "completed": completed})
        return state.with_(pool=ended, stopped=state.stopped or (reason if ended else refused or reason))


def _rank(candidate: Candidate) -> float:
    return float("-inf") if candidate.score is None else candidate.score
