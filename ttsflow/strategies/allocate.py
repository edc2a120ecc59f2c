"""The stage that draws at once as many samples as a controller allocates."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from ttsflow.control import ControllerPart
from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Op, Request
from ttsflow.protocols import Reply
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.generate import MOST
from ttsflow.strategies.offered import offered
from ttsflow.strategies.rungs import check_rungs, rungs_to
from ttsflow.types import State

__all__ = ["Allocate"]


@dataclass(frozen=True, slots=True)
class Allocate:
    """Draws as many of ``rungs``, up to ``n``, as ``controller`` grants, all in one batch.

    The controller is asked from the largest to the smallest, and decides alone: no vote is looked at. Where
    it refuses even the smallest, the problem is deferred with the reason for that.
    """

    controller: ControllerPart
    n: int = 8
    rungs: tuple[int, ...] = (1, 3, 4, 6, 8)

    def __post_init__(self) -> None:
        check_rungs(self.rungs)
        if not 1 <= self.n <= MOST:
            raise ConfigError(f"between 1 and {MOST:,} samples are drawn, got {self.n:,}.", "n")

    @property
    def demand(self) -> int:
        """New trajectories of a problem that this stage alone may start."""
        return self.n

    def __call__(self, state: State) -> Steps:
        """Draw what is granted."""
        if state.stopped is not None:
            return state
        chosen = yield from self._granted()
        if isinstance(chosen, str):
            yield Note("ladder", {"reason": chosen, "samples": 0})
            return state.with_(ended=chosen) if state.pool else state.with_(stopped=chosen)
        got: Generated = yield Generate((Request(),) * chosen)
        return state.with_(
            pool=state.pool + got.candidates, spent=got.spent, stopped=got.stopped or state.stopped
        )

    def _granted(self) -> Generator[Op, Reply, int | str]:
        """Return how many samples are granted, which are then set aside, or why none are."""
        refused = ""
        for rung in reversed(rungs_to(self.rungs, self.n)):
            offer = yield from offered(self.controller, rung)
            if offer.refused is None:
                return rung
            refused = offer.refused
        return refused
