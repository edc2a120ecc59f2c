"""A cost model: a pure function of what was used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.types import Usage

__all__ = ["Carbon"]

_JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Carbon:
    """Grams of CO2 of the energy that was metered, at ``grams`` for a kilowatt-hour of the local grid."""

    grams: float

    unit: ClassVar[str] = "g CO2"
    #: A run without a meter is refused.
    needs: ClassVar[frozenset[str]] = frozenset({"joules"})
    advice: ClassVar[dict[str, str]] = {"grams": "Grid operators publish it; 20 to 800 are usual."}

    def __post_init__(self) -> None:
        if not self.grams >= 0:
            raise ConfigError(f"must be at least 0, got {self.grams}.", "grams")

    def __call__(self, usage: Usage) -> float:
        """Return the grams of ``usage``."""
        return (usage.joules or 0.0) / _JOULES_PER_KWH * self.grams
