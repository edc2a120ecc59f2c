"""Two GPUs that are not there, for tests of what reads NVML."""

# ruff: noqa: N802, D102 - the names are those of `pynvml`, and its own pages say what they do

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["Boards"]


class Boards:
    """Stands for the module ``pynvml``, with GPU 0 ("GPU-a") and GPU 1 ("GPU-b").

    ``energy`` in mJ and ``power`` in mW are per GPU, ``busy`` in percent, and ``samples`` those of its
    processes. ``broken`` holds the calls that fail: init, count, handle, energy, power, rates, processes.
    ``open`` counts who has started the driver and not let go, ``looks`` how often it was asked how busy a
    GPU is.
    """

    NVML_ERROR_NOT_FOUND = 6

    class NVMLError(Exception):
        """What the driver raises; ``value`` is the number of the error."""

        def __init__(self, value: int, told: str = "") -> None:
            super().__init__(told or f"error {value}")
            self.value = value

    def __init__(self, *broken: str) -> None:
        self.broken = set(broken)
        self.energy = [1_000_000, 5_000_000]
        self.power = [100_000, 50_000]
        self.busy = [80, 20]
        self.samples: dict[int, list[Any]] = {0: [], 1: []}
        self.count = 2
        self.open = self.looks = 0

    def _call(self, name: str) -> None:
        if name in self.broken:
            raise self.NVMLError(3, f"{name} is out of order")

    def nvmlInit(self) -> None:
        self._call("init")
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._call("count")
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._call("handle")
        if index not in self.samples:
            raise self.NVMLError(2)
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        self._call("handle")
        return {"GPU-a": 0, "GPU-b": 1}[uuid]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        self._call("energy")
        return self.energy[handle]

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        self._call("power")
        self.looks += 1
        return self.power[handle]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        self._call("rates")
        self.looks += 1
        return SimpleNamespace(gpu=self.busy[handle], memory=1)

    def nvmlDeviceGetProcessUtilization(self, handle: int, since: int) -> list[Any]:
        self._call("processes")
        self.looks += 1
        found = [sample for sample in self.samples[handle] if sample.timeStamp > since]
        if not found:
            raise self.NVMLError(self.NVML_ERROR_NOT_FOUND)
        return found
