"""What a run costs in joules and in money."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.types import Usage

__all__ = ["Joules", "Money"]

_NOTHING = Usage()


@dataclass(frozen=True, slots=True)
class Joules:
    """Energy by the meter of the run. What was used without a meter has no price and is refused.

    A usage without joules costs 0 only when nothing at all was used; any other means that no meter ran, which
    is a ``ConfigError`` and never a silent 0. Additive.
    """

    unit: ClassVar[str] = "joules"
    #: A run whose cost models need this has a meter.
    needs: ClassVar[frozenset[str]] = frozenset({"joules"})

    def __call__(self, usage: Usage) -> float:
        """Return the joules of ``usage``. Raises ``ConfigError`` where it was not metered."""
        if usage.joules is not None:
            return usage.joules
        if usage != _NOTHING:
            raise ConfigError(
                "the cost model `joules` needs a meter, and none ran: choose meter=nvml (NVIDIA GPUs), "
                "meter=power (GPUs without an energy counter), meter=rapl (CPUs, as root) or meter=model "
                "(an estimate).",
                "meter",
            )
        return 0.0


@dataclass(frozen=True, slots=True)
class Money:
    """Money by a price list: so much for a million tokens of each sort, and for an hour.

    ``prompt`` is for prompt tokens that were not cached, ``cached`` for those that were, ``output`` for all
    that were decoded, also for candidates that were thrown away; a verifier's tokens are not in it. ``hour``
    is for the machine, over a problem's time: problems that share it each pay in full, so that only the run's
    wall time prices it (``budget.run``), or concurrency=1. There are no prices but yours: at least one is to
    be set. ``currency`` is a label. Additive.
    """

    prompt: float = 0.0
    cached: float = 0.0
    output: float = 0.0
    hour: float = 0.0
    currency: str = "USD"

    #: A token of another model costs something else.
    of_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        prices = [item.name for item in fields(self) if item.name != "currency"]
        for name in prices:
            if not 0 <= getattr(self, name) <= 1e9:
                raise ConfigError(f"a price lies between 0 and 1e9, got {getattr(self, name)}.", name)
        if not any(getattr(self, name) for name in prices):
            raise ConfigError(
                f"every price is 0; set one of {', '.join(prices)} from your provider's list "
                "(per million tokens, and per hour).",
            )
        if not self.currency.strip():
            raise ConfigError("a label is wanted, such as USD.", "currency")

    @property
    def unit(self) -> str:
        """The currency."""
        return self.currency

    def __call__(self, usage: Usage) -> float:
        """Return what ``usage`` costs."""
        fresh = usage.prompt - usage.cached
        tokens = self.prompt * fresh + self.cached * usage.cached + self.output * usage.decoded
        return tokens / 1e6 + self.hour * usage.seconds / 3600
