"""The share of time in which others' kernels run on NVIDIA GPUs."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ttsflow.errors import ConfigError, MissingExtra
from ttsflow.load.cpu import EVERY
from ttsflow.load.own import PROC, Family
from ttsflow.load.smooth import SMOOTH, Smooth, check_smooth

__all__ = ["NVMLLoad", "NVMLMonitor"]

#: The PID namespace that a machine starts with: PROC_PID_INIT_INO of linux/proc_ns.h.
_FIRST = "pid:[4026531836]"

#: Seconds that NVML is asked about; it takes a sample of every process several times a second at best.
_BACK = 1.0


@dataclass(frozen=True, slots=True)
class NVMLLoad:
    """The share of time in which other processes keep the GPUs busy, as NVML tells it, smoothed over time.

    ``devices`` are numbers in NVML's order or UUIDs; the mean of all counts. Own are this process and all it
    has started. Where they cannot be told from others (parts of a GPU, some drivers, containers, whose
    processes NVML numbers as their host does), ``otherwise`` refuse ends it, and board takes the whole board,
    own work included. ``smooth`` is the time constant in seconds.
    """

    devices: tuple[int | str, ...] = (0,)
    otherwise: Literal["refuse", "board"] = "refuse"
    smooth: float = SMOOTH

    def __post_init__(self) -> None:
        check_smooth(self.smooth)
        if not self.devices:
            raise ConfigError("at least one device is needed, such as 0.", "devices")

    def check(self) -> None:
        """Refuse a machine that does not tell. Raises ``MissingExtra``, ``ConfigError``."""
        self.open().close()

    def open(self) -> NVMLMonitor:
        """Return the working monitor; errors as in ``check``."""
        try:
            nvml: Any = importlib.import_module("pynvml")
        except ImportError as error:
            raise MissingExtra(
                "the load of a GPU needs nvidia-ml-py: pip install 'nvidia-ml-py>=12', or 'ttsflow[cuda]'."
            ) from error
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            raise ConfigError(
                f"NVML does not work here: {error}; without an NVIDIA GPU use load=cpu.", "use"
            ) from error
        try:
            handles = [self._handle(nvml, place) for place in range(len(self.devices))]
            return NVMLMonitor(nvml, handles, self.smooth, apart=self._apart(nvml, handles))
        except BaseException:
            nvml.nvmlShutdown()
            raise

    def _handle(self, nvml: Any, place: int) -> Any:
        device = self.devices[place]
        find = nvml.nvmlDeviceGetHandleByUUID if isinstance(device, str) else nvml.nvmlDeviceGetHandleByIndex
        try:
            return find(device)
        except nvml.NVMLError as error:
            count = nvml.nvmlDeviceGetCount()
            raise ConfigError(
                f"there is no GPU {device!r} ({error}); NVML knows {count}, numbered from 0.",
                f"devices.{place}",
            ) from error

    def _apart(self, nvml: Any, handles: Sequence[Any]) -> bool:
        """Return whether own work can be told from others' on every device; refuse what must not be mixed."""
        cause = (
            "" if _numbered_as_nvml_does() else "processes have other numbers in this container; --pid=host"
        )
        try:
            for handle in handles:
                _samples(nvml, handle, time.time() - _BACK)
        except nvml.NVMLError as error:
            cause = str(error)
        if cause and self.otherwise == "refuse":
            raise ConfigError(
                f"NVML does not tell whose work the GPU does ({cause}). With `board` the whole board counts, "
                "this run's own work included.",
                "otherwise",
            )
        return not cause


class NVMLMonitor:
    """A ``LoadMonitor`` of GPUs, on the wall clock. ``nvml`` is the module ``pynvml``, initialised.

    A process counts with its last sample of the past second, and one without a sample as idle. Without
    ``apart`` the utilisation of the whole boards counts. ``clock``, in seconds since 1970 as NVML counts
    them, and ``own`` are for tests.
    """

    def __init__(
        self,
        nvml: Any,
        handles: Sequence[Any],
        smooth: float,
        *,
        apart: bool = True,
        clock: Callable[[], float] = time.time,
        own: Callable[[], frozenset[int]] | None = None,
    ) -> None:
        self._nvml: Any = nvml
        self._handles, self._apart = handles, apart
        self._clock, self._own = clock, own or Family().members
        self._mean = Smooth(smooth)
        self._when: float | None = None

    def read(self, now: float, problem: int) -> float:
        """Return the share of time that others take, from 0 to 1; what was last known when NVML fails."""
        del now, problem
        when = self._clock()
        passed = 0.0 if self._when is None else when - self._when
        if self._nvml is None or (self._when is not None and 0 <= passed < EVERY):
            return self._mean.value
        self._when = when
        try:
            shares = [self._share(handle, when) for handle in self._handles]
        except self._nvml.NVMLError:
            return self._mean.value
        self._mean.add(sum(shares) / len(shares), max(0.0, passed))
        return self._mean.value

    def _share(self, handle: Any, when: float) -> float:
        if not self._apart:
            return min(1.0, float(self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100)
        latest: dict[int, Any] = {}
        for sample in _samples(self._nvml, handle, when - _BACK):
            if sample.pid not in latest or sample.timeStamp >= latest[sample.pid].timeStamp:
                latest[sample.pid] = sample
        own = self._own()
        return min(1.0, sum(float(sample.smUtil) for pid, sample in latest.items() if pid not in own) / 100)

    def close(self) -> None:
        """Let go of NVML; may be called twice."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            nvml.nvmlShutdown()


def _numbered_as_nvml_does() -> bool:
    """Return whether this process has the number that the driver knows it by: not in a PID namespace."""
    try:
        return (PROC / "self/ns/pid").readlink().name == _FIRST
    except OSError:
        return True  # a kernel without namespaces


def _samples(nvml: Any, handle: Any, since: float) -> list[Any]:
    """Return NVML's samples of processes, none when nothing has run."""
    try:
        return list(nvml.nvmlDeviceGetProcessUtilization(handle, int(since * 1e6)))
    except nvml.NVMLError as error:
        if getattr(error, "value", None) == nvml.NVML_ERROR_NOT_FOUND:
            return []
        raise
