"""The cost models every run has: tokens, seconds, requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.types import Usage

__all__ = ["Requests", "Seconds", "Tokens"]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Weighted tokens: decoded ones in full, prompt and verifier tokens by their share of that price."""

    prompt: float = 0.0
    verifier: float = 0.0

    unit: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        for name in ("prompt", "verifier"):
            if not 0 <= getattr(self, name) <= 1e9:
                raise ConfigError(f"a price lies between 0 and 1e9, got {getattr(self, name)}.", name)

    def __call__(self, usage: Usage) -> float:
        """Return the tokens of ``usage``; cached prompt tokens are free."""
        fresh = usage.prompt - usage.cached
        return usage.decoded + self.prompt * fresh + self.verifier * usage.verifier


@dataclass(frozen=True, slots=True)
class Seconds:
    """Time from a problem's first request to its answer; problems in flight together share the clock."""

    unit: ClassVar[str] = "seconds"

    def __call__(self, usage: Usage) -> float:
        """Return the seconds of ``usage``."""
        return usage.seconds


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests sent to the engine."""

    unit: ClassVar[str] = "requests"

    def __call__(self, usage: Usage) -> float:
        """Return the requests of ``usage``."""
        return float(usage.requests)
