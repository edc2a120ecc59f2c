"""How busy the device of a run was, where the platform tells: GPUs by NVML, CPUs by the time they worked."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any, Protocol

from ttsflow.errors import ConfigError, MissingExtra
from ttsflow.meters.boards import nvml_started

__all__ = ["CPUMeter", "GPUMeter", "Meter", "gpu_meter"]

#: Seconds between two looks at a GPU; NVML tells the mean of up to the last second.
_EVERY = 0.5


class Meter(Protocol):
    """Measures from the moment it is made."""

    def stop(self) -> dict[str, float]:
        """End it and return what was measured, by name; nothing where the platform did not tell."""
        ...


class CPUMeter:
    """The share of this machine's cores that the process used: CPU seconds / (seconds x cores).

    Threads that wait by spinning count as busy, work of child processes does not count.
    """

    def __init__(self) -> None:
        self._cores = len(os.sched_getaffinity(0))
        self._wall, self._busy = time.perf_counter(), time.process_time()

    def busy(self) -> float:
        """Return the seconds for which all cores together would have worked: CPU seconds / cores."""
        return (time.process_time() - self._busy) / self._cores

    def stop(self) -> dict[str, float]:
        """Return ``cpu_utilisation``, from 0 to 1."""
        wall = time.perf_counter() - self._wall
        return {"cpu_utilisation": min(1.0, self.busy() / wall)} if wall > 0 else {}


class GPUMeter:
    """The mean share of time in which a kernel ran on the GPUs, as NVML tells it twice a second.

    It says nothing of how much of a GPU a kernel kept busy. ``nvml`` is the module ``pynvml``, initialised;
    ``handles`` are its devices.
    """

    def __init__(self, nvml: Any, handles: Sequence[Any], every: float = _EVERY) -> None:
        self._nvml = nvml
        self._handles = handles
        self._every = every
        self._sum, self._looks = 0.0, 0
        self._over = threading.Event()
        # Beside the run, so that a verifier that takes seconds is seen as well; a call lets go of the GIL.
        self._thread = threading.Thread(target=self._watch, name="ttsflow-gpu-meter", daemon=True)
        self._thread.start()

    def stop(self) -> dict[str, float]:
        """Return ``gpu_utilisation``, from 0 to 1."""
        self._over.set()
        self._thread.join()
        if not self._looks:
            self._look()
        self._nvml.nvmlShutdown()
        return {"gpu_utilisation": self._sum / self._looks} if self._looks else {}

    def _watch(self) -> None:
        while not self._over.wait(self._every) and self._look():
            pass

    def _look(self) -> bool:
        """Take one sample; return whether the GPUs tell."""
        try:
            rates = [self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu for handle in self._handles]
        except self._nvml.NVMLError:
            # A part of a GPU (MIG) does not say.
            return False
        self._sum += sum(rates) / len(rates) / 100
        self._looks += 1
        return True


def gpu_meter(devices: Sequence[str]) -> GPUMeter | None:
    """Return a meter of the GPUs with these UUIDs; None without nvidia-ml-py, or where NVML refuses."""
    try:
        nvml = nvml_started()
    except (MissingExtra, ConfigError):
        return None
    try:
        handles = [nvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in devices]
    except nvml.NVMLError:
        handles = []
    if handles:
        return GPUMeter(nvml, handles)
    nvml.nvmlShutdown()
    return None
