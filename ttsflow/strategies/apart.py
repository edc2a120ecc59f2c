"""The stage that lets others begin anew, beside what the pool holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.protocols import Stage
from ttsflow.strategies.flow import Sequence, Steps, run_stage
from ttsflow.types import State

__all__ = ["Apart"]


@dataclass(frozen=True, slots=True)
class Apart:
    """Runs its stages on an empty pool, and puts what they leave behind what was there.

    So a search can follow on whole samples: by itself it would go on from these, and none of them can. With
    ``keep`` false what was there goes, once there is something new. An answer that was chosen before stands
    unless the stages choose one.
    """

    stages: Mapping[str, Stage]
    keep: bool = True

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("apart needs at least one stage.", "stages")

    def __call__(self, state: State) -> Steps:
        """Run the stages and join the pools."""
        before = state.pool
        state = yield from run_stage(Sequence(self.stages), state.with_(pool=()))
        kept = before if self.keep or not state.pool else ()
        return state.with_(pool=kept + state.pool)
