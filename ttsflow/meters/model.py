"""No meter but arithmetic: time x power."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar, Literal

from ttsflow.engines.utilisation import CPUMeter
from ttsflow.errors import ConfigError
from ttsflow.sensors import EnergyMeter

__all__ = ["PowerModel"]

#: Seconds by which an engine's clock may differ from this machine's and still be the same one.
_SAME = 1.0


@dataclass(frozen=True, slots=True)
class PowerModel:
    """Estimates joules as seconds x watts, from an idle and a busy machine's.

    With ``load: process`` power is idle + (busy - idle) x the share of this machine's cores that the process
    used, for models on CPU. With ``load: full`` every second is busy, for a device this process only waits
    for; so it is whenever the engine's clock is not this machine's (``time.perf_counter``): of a simulated
    device nothing else is known, and the same run has the same joules. No number is measured, nor does any
    come with ttsflow: take them from a wattmeter or a data sheet.
    """

    busy_watts: float
    idle_watts: float = 0.0
    load: Literal["process", "full"] = "process"

    advice: ClassVar[dict[str, str]] = {
        "busy_watts": "Set what the machine takes at full load, as a wattmeter or its data sheet says."
    }

    def __post_init__(self) -> None:
        if not 0 < self.busy_watts <= 1e6:
            raise ConfigError(
                f"watts lie above 0 and up to 1e6, got {self.busy_watts}. {self.advice['busy_watts']}",
                "busy_watts",
            )
        if not 0 <= self.idle_watts <= self.busy_watts:
            raise ConfigError(
                f"an idle machine takes between 0 and busy_watts={self.busy_watts}, got {self.idle_watts}.",
                "idle_watts",
            )

    def check(self) -> None:
        """Nothing is needed."""

    def open(self) -> EnergyMeter:
        """Return the meter at work."""
        return _Modelled(self)


class _Modelled:
    """Seconds so far, of the clock it is read by; the first reading tells which clock that is.

    It counts from the first reading on: before that it knows of no time.
    """

    source: ClassVar[str] = "model"
    window: ClassVar[float] = 0.0

    def __init__(self, part: PowerModel) -> None:
        self._part = part
        self._cpus: CPUMeter | None = None
        self._last: float | None = None
        self._seconds = 0.0
        self._joules = 0.0
        self._closed = False

    def read(self, now: float) -> float:
        """Return the joules up to ``now``; a clock that goes back adds nothing."""
        if self._closed or not math.isfinite(now):
            return self._joules
        if self._last is None:
            real = abs(now - time.perf_counter()) < _SAME
            self._cpus = CPUMeter() if real and self._part.load == "process" else None
        else:
            self._seconds += max(0.0, now - self._last)
        self._last = now
        busy = self._seconds if self._cpus is None else min(self._seconds, self._cpus.busy())
        part = self._part
        self._joules = part.idle_watts * self._seconds + (part.busy_watts - part.idle_watts) * busy
        return self._joules

    def close(self) -> None:
        """Count no further."""
        self._closed = True
