"""A stage: it takes a state and returns one."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from ttsflow.errors import ConfigError
from ttsflow.types import State

__all__ = ["DropOutliers"]


@dataclass(frozen=True, slots=True)
class DropOutliers:
    """Drops finished candidates of more than ``factor`` times the median length of all finished ones.

    Candidates that have not finished by themselves stay: they have no vote anyway.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise ConfigError(f"must be at least 1, or half of all would go; got {self.factor}.", "factor")

    def __call__(self, state: State) -> State:
        """Return the state with a smaller pool."""
        lengths = [len(candidate.tokens) for candidate in state.pool if candidate.finished]
        if not lengths:
            return state
        most = self.factor * median(lengths)
        return state.with_(pool=tuple(c for c in state.pool if not c.finished or len(c.tokens) <= most))
