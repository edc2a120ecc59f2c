"""A load that is written down beforehand, for recorded samples and simulated engines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ttsflow.errors import ConfigError
from ttsflow.load.curve import Curve, read_curve

__all__ = ["TraceLoad", "TraceMonitor"]


@dataclass(frozen=True, slots=True)
class TraceLoad:
    """Loads written in the config or in a file, by question or by second of the engine's clock.

    ``levels`` hold for ``each`` questions (``per: problem``) or seconds (``per: second``); then they begin
    again with ``cycle``, or the last one stays. ``path`` is a CSV or JSONL file with rows of ``seconds`` and
    ``load`` instead, whose seconds are numbers of questions with ``per: problem``. ``lookup`` step holds a
    level until the next one, linear draws a line to it. Seconds count from the first reading.
    """

    levels: tuple[float, ...] = ()
    each: float = 1.0
    per: Literal["problem", "second"] = "second"
    cycle: bool = False
    path: str | None = None
    lookup: Literal["step", "linear"] = "step"

    def __post_init__(self) -> None:
        if bool(self.levels) == (self.path is not None):
            found = "both" if self.levels else "neither"
            raise ConfigError(f"give either levels or a path, got {found}.", "levels")
        for place, level in enumerate(self.levels):
            if not 0 <= level <= 1:
                raise ConfigError(f"a load lies between 0 and 1, got {level}.", f"levels.{place}")
        if not 0 < self.each <= 1e9:
            raise ConfigError(f"a level holds for more than 0 and up to 1e9, got {self.each}.", "each")

    def check(self) -> None:
        """Read the file. Raises ``DataError`` with file and line."""
        self._curve()

    def open(self) -> TraceMonitor:
        """Return the working monitor; errors as in ``check``."""
        return TraceMonitor(self._curve(), self.per)

    def _curve(self) -> Curve:
        linear = self.lookup == "linear"
        if self.path is not None:
            return read_curve(self.path, linear=linear, cycle=self.cycle)
        positions = tuple(self.each * place for place in range(len(self.levels)))
        if not self.cycle:
            return Curve(positions, self.levels, linear)
        end = self.each * len(self.levels)
        # On the way from the last level back to the first.
        return Curve((*positions, end), (*self.levels, self.levels[0]), linear, end)


class TraceMonitor:
    """A ``LoadMonitor`` that reads from a curve: a pure function of question or seconds since the first."""

    def __init__(self, curve: Curve, per: Literal["problem", "second"]) -> None:
        self._curve, self._per = curve, per
        self._start: float | None = None

    def read(self, now: float, problem: int) -> float:
        """Return the load that is written there."""
        if self._start is None:
            self._start = now
        return self._curve.at(problem if self._per == "problem" else max(0.0, now - self._start))

    def close(self) -> None:
        """Do nothing: nothing is held."""
