"""The stage where a strategy looks at its funds."""

from __future__ import annotations

from dataclasses import dataclass

from ttsflow.errors import ConfigError
from ttsflow.ops import Quotation, Quote
from ttsflow.protocols import Stage
from ttsflow.strategies.flow import Steps, run_stage
from ttsflow.types import State

__all__ = ["BudgetCheck"]


@dataclass(frozen=True, slots=True)
class BudgetCheck:
    """Stops, or takes a cheaper branch, when funds run low. Without a budget it does nothing.

    Funds are low when less than the share ``reserve`` of any limit is left, or less than ``samples``
    more samples are expected to cost. Then ``otherwise`` runs if it is set, and the problem's loop
    ends with a reason if it is not. The driver ends running requests at the limit itself; this is the
    decision before that.
    """

    reserve: float = 0.0
    samples: int = 0
    otherwise: Stage | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.reserve < 1:
            raise ConfigError(f"a share lies between 0 and 1, got {self.reserve}.", "reserve")
        if self.samples < 0:
            raise ConfigError(f"a number of samples cannot be negative, got {self.samples}.", "samples")

    @property
    def keeps_candidates(self) -> bool:
        """Whether the candidates after it are those before it."""
        return self.otherwise is None

    def __call__(self, state: State) -> Steps:
        """Ask for a quotation and decide."""
        asked = Quote(self.samples, self.reserve)
        quotation: Quotation = yield asked
        reason = quotation.short(asked)
        if reason is None:
            return state
        if self.otherwise is not None:
            return (yield from run_stage(self.otherwise, state))
        return state.with_(stopped=reason)
