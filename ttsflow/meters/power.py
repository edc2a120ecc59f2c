"""The power of NVIDIA GPUs, summed up over time."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError, MeterDead
from ttsflow.meters.boards import Boards
from ttsflow.meters.nvml import check_devices
from ttsflow.sensors import EnergyMeter

__all__ = ["Power"]

_CALL = "nvmlDeviceGetPowerUsage"
_INSTEAD = "meter=model estimates, meter=none measures nothing."


@dataclass(frozen=True, slots=True)
class Power:
    """Sums up the power of GPUs, asked again and again beside the run.

    For boards without an energy counter, or to leave out what they take when nothing runs: ``idle_watts`` of
    all of them together are taken off, and what is below counts as 0. A thread looks every ``every`` seconds;
    joules are the area under the trapezoids. NVML's power is a mean over the last second on most boards since
    Ampere (its manual, nvmlDeviceGetPowerUsage), hence a window of 1 s. ``devices`` as of ``nvml``. Raises
    ``MissingExtra`` and ``ConfigError`` where there is none.
    """

    devices: tuple[int, ...] = ()
    every: float = 0.05
    idle_watts: float = 0.0

    wall: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_devices(self.devices)
        if not 0.001 <= self.every <= 10:
            raise ConfigError(f"seconds between 0.001 and 10 are wanted, got {self.every}.", "every")
        if not 0 <= self.idle_watts <= 1e6:
            raise ConfigError(f"watts lie between 0 and 1e6, got {self.idle_watts}.", "idle_watts")

    def check(self) -> None:
        """Refuse a machine without GPUs that tell their power."""
        boards = Boards(self.devices)
        boards.first(_CALL, _INSTEAD)
        boards.close()

    def open(self) -> EnergyMeter:
        """Return the meter at work: a thread looks at the boards until it is closed."""
        boards = Boards(self.devices)
        boards.first(_CALL, _INSTEAD)
        return _Integral(boards, self.every, self.idle_watts)


class _Integral:
    """The area under the power so far; looked at by a thread of its own and by whoever reads it."""

    window: ClassVar[float] = 1.0

    def __init__(self, boards: Boards, every: float, idle_watts: float) -> None:
        self.source = f"power less {idle_watts:g} W idle" if idle_watts else "power"
        self._boards, self._every, self._idle = boards, every, idle_watts
        self._joules = 0.0
        self._last: tuple[float, float] | None = None
        self._dead: MeterDead | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._look()
        # A call of NVML lets go of the GIL.
        self._thread = threading.Thread(target=self._watch, name="ttsflow-power-meter", daemon=True)
        self._thread.start()

    def read(self, now: float) -> float:
        """Return the joules since it was opened, up to this moment of the machine's own clock."""
        del now
        if not self._over.is_set():
            self._look()
        if self._dead is not None:
            raise self._dead
        return self._joules

    def close(self) -> None:
        """End the thread and let go of NVML."""
        self._over.set()
        self._thread.join()
        self._boards.close()

    def _watch(self) -> None:
        while not self._over.wait(self._every) and self._dead is None:
            self._look()

    def _look(self) -> None:
        """Add what was taken since the last look."""
        with self._lock:
            try:
                watts = sum(self._boards.ask(_CALL)) * 1e-3
            except MeterDead as error:
                self._dead = error
                return
            now = time.perf_counter()
            if not math.isfinite(watts):
                return  # the next look bridges the gap
            above = max(0.0, watts - self._idle)
            if self._last is not None:
                then, before = self._last
                self._joules += max(0.0, now - then) * (before + above) / 2
            self._last = now, above
