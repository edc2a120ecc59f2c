"""The energy counter of NVIDIA GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.meters.boards import Boards
from ttsflow.meters.counter import Counter
from ttsflow.sensors import EnergyMeter

__all__ = ["NVML", "check_devices"]

_CALL = "nvmlDeviceGetTotalEnergyConsumption"
_INSTEAD = "Only Volta and later count energy; meter=power sums up their power instead."


def check_devices(devices: tuple[int, ...]) -> None:
    """Refuse indices that no GPU has, and one that is named twice. Raises ``ConfigError``."""
    for index in devices:
        if index < 0:
            raise ConfigError(f"GPUs are numbered from 0, got {index}; leave it empty for all.", "devices")
    if len(set(devices)) < len(devices):
        raise ConfigError(f"a GPU counts once, got {list(devices)}.", "devices")


@dataclass(frozen=True, slots=True)
class NVML:
    """Measures GPUs by NVML's total-energy counter: whole boards, whoever works on them.

    The counter is in mJ and moves every 20 to 100 ms, so that readings less than 0.1 s apart say little.
    ``devices`` are indices as nvidia-smi has them, none for all GPUs. Host CPUs and memory are not in it.
    Raises ``MissingExtra`` and ``ConfigError`` where there is none.
    """

    devices: tuple[int, ...] = ()

    wall: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_devices(self.devices)

    def check(self) -> None:
        """Refuse a machine without such a counter."""
        boards = Boards(self.devices)
        boards.first(_CALL, _INSTEAD)
        boards.close()

    def open(self) -> EnergyMeter:
        """Return the meter at work."""
        return _Counted(Boards(self.devices))


class _Counted:
    """One counter a board."""

    source: ClassVar[str] = "nvml"
    window: ClassVar[float] = 0.1

    def __init__(self, boards: Boards) -> None:
        self._boards = boards
        self._counters: list[Counter] = []
        for value in boards.first(_CALL, _INSTEAD):
            counter = Counter(1e-3)
            counter.take(value)
            self._counters.append(counter)
        self._closed = False

    def read(self, now: float) -> float:
        """Return the joules since it was opened."""
        del now
        if not self._closed:
            for counter, value in zip(self._counters, self._boards.ask(_CALL), strict=True):
                counter.take(value)
        return sum(counter.joules for counter in self._counters)

    def close(self) -> None:
        """Let go of NVML."""
        self._closed = True
        self._boards.close()
