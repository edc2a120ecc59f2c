"""What a run may spend, and when it stops spending before that."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ttsflow.errors import ConfigError, suggest
from ttsflow.meters.plain import UNMETERED
from ttsflow.protocols import CostModel
from ttsflow.types import Outcome

__all__ = ["TRIPPED", "Breaker", "Budget", "Fuse"]


#: How the reason of a breaker begins.
TRIPPED = "breaker: "

_SAID = {"failed": "failed", "truncated": "were truncated"}


@dataclass(frozen=True, slots=True)
class Breaker:
    """Ends a run that goes wrong: once at least the share ``share`` of the ``last`` problems ended badly.

    ``counts`` says which outcomes are bad. With a share of 1 it is so many in a row. Problems are counted in
    the order in which they end, those that were deferred not at all.
    """

    last: int = 5
    share: float = 1.0
    counts: tuple[Literal["failed", "truncated"], ...] = ("failed",)

    def __post_init__(self) -> None:
        if self.last < 1:
            raise ConfigError(f"at least one problem is counted, got {self.last}.", "last")
        if not 0 < self.share <= 1:
            raise ConfigError(f"a share lies above 0 and up to 1, got {self.share}.", "share")
        if not self.counts:
            raise ConfigError("one outcome at least is bad: failed, truncated, or both.", "counts")
        if len({*self.counts}) < len(self.counts):
            raise ConfigError(f"every outcome is named once, got {[*self.counts]}.", "counts")


class Fuse:
    """A breaker at work."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._bad: deque[bool] = deque(maxlen=breaker.last)

    def ended(self, outcome: Outcome) -> str | None:
        """Count a problem that has ended; return why the run has to end with it, None to go on."""
        if outcome == "deferred":
            return None
        breaker = self._breaker
        self._bad.append(outcome in breaker.counts)
        bad = sum(self._bad)
        # A share of 0.3 of 10 is 3, whatever the last bits of the product say.
        if len(self._bad) < breaker.last or bad < breaker.share * breaker.last - 1e-9:
            return None
        kinds = " or ".join(_SAID[outcome] for outcome in breaker.counts)
        return f"{TRIPPED}{bad} of the last {breaker.last} problems {kinds}"


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits by unit, each unit being the name of a cost model: per ``problem``, and per ``run``.

    When less than the share ``reserve`` of any limit of the run would be left, new problems get what
    ``fallback`` says, which is one sample. ``breaker`` ends a run in which problems go wrong.
    """

    problem: Mapping[str, float] = field(default_factory=dict)
    run: Mapping[str, float] = field(default_factory=dict)
    reserve: float | None = None
    fallback: Literal["single"] | None = None
    breaker: Breaker | None = None

    def __post_init__(self) -> None:
        for scope in ("problem", "run"):
            for unit, limit in getattr(self, scope).items():
                if isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
                    raise ConfigError(f"a budget is a number above 0, got {limit!r}.", f"{scope}.{unit}")
        if self.reserve is not None and not 0 < self.reserve < 1:
            raise ConfigError(f"a share of a limit lies between 0 and 1, got {self.reserve}.", "reserve")
        if (self.reserve is None) != (self.fallback is None):
            given, other = ("reserve", "fallback") if self.fallback is None else ("fallback", "reserve")
            wanted = {"reserve": "budget.reserve=0.1", "fallback": "budget.fallback=single"}[other]
            raise ConfigError(f"it does nothing without `{other}`; set {wanted} as well.", given)
        if self.reserve is not None and not self.run:
            raise ConfigError(
                "a reserve is a share of the run's funds, and this one has none; set budget.run in any unit, "
                "such as budget.run.tokens=200000.",
                "reserve",
            )

    def check(self, costs: Mapping[str, CostModel]) -> None:
        """Refuse a unit that no cost model of this run measures."""
        for scope in ("problem", "run"):
            for unit in getattr(self, scope):
                if unit not in costs:
                    told = f"no cost model of this run measures '{unit}'. "
                    told += UNMETERED if unit == "joules" else suggest(unit, costs)
                    raise ConfigError(told, f"budget.{scope}.{unit}")

    def described(self) -> dict[str, Any]:
        """Return its settings as plain data, those that are not there left out."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def __bool__(self) -> bool:
        return bool(self.problem or self.run or self.breaker)
