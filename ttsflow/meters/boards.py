"""GPUs by NVML, for whoever asks one: how busy they are, and what they take."""

from __future__ import annotations

import importlib
from typing import Any

from ttsflow.errors import ConfigError, MeterDead, MissingExtra

__all__ = ["Boards", "nvml_started"]


def nvml_started() -> Any:
    """Return the module ``pynvml``, initialised; whoever has it calls ``nvmlShutdown`` once.

    Raises ``MissingExtra`` without nvidia-ml-py, ``ConfigError`` where there is no driver that answers.
    """
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError as error:
        raise MissingExtra(
            "NVIDIA GPUs are asked through NVML, which needs the package nvidia-ml-py: "
            "pip install nvidia-ml-py (ttsflow[cuda] brings it along)."
        ) from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        raise ConfigError(
            f"NVML does not start on this machine: {error}. It needs an NVIDIA GPU and its driver; "
            "meter=rapl measures CPUs, meter=model estimates, meter=none measures nothing."
        ) from error
    return nvml


class Boards:
    """Some GPUs of this machine, by NVML's own indices, which CUDA_VISIBLE_DEVICES does not change.

    No index means all of them. Raises ``MissingExtra`` and ``ConfigError`` as ``nvml_started``, and the
    latter for a GPU that is not there. To be closed; that may happen twice.
    """

    def __init__(self, devices: tuple[int, ...]) -> None:
        self._nvml: Any = nvml_started()
        try:
            count = self._nvml.nvmlDeviceGetCount()
            self._check(devices, count)
            self._handles = [
                self._nvml.nvmlDeviceGetHandleByIndex(index) for index in devices or range(count)
            ]
        except self._nvml.NVMLError as error:
            self.close()
            raise ConfigError(f"NVML names no GPU: {error}.", "devices") from error
        except ConfigError:
            self.close()
            raise

    @staticmethod
    def _check(devices: tuple[int, ...], count: int) -> None:
        known = ", ".join(map(str, range(count)))
        if not count:
            raise ConfigError("NVML knows no GPU on this machine.", "devices")
        for index in devices:
            if index >= count:
                raise ConfigError(
                    f"there is no GPU {index}; this machine has {known}, as nvidia-smi numbers them.",
                    "devices",
                )

    def ask(self, call: str) -> list[float]:
        """Return what every GPU answers to an NVML call of this name. Raises ``MeterDead``."""
        try:
            return [getattr(self._nvml, call)(handle) for handle in self._handles]
        except self._nvml.NVMLError as error:
            raise MeterDead(f"NVML no longer answers {call}: {error}.") from error

    def first(self, call: str, instead: str) -> list[float]:
        """Ask for the first time: GPUs that do not know the call are a ``ConfigError``; the boards close."""
        try:
            return self.ask(call)
        except MeterDead as error:
            self.close()
            raise ConfigError(f"a GPU of this machine does not tell {call} ({error}) {instead}") from error

    def close(self) -> None:
        """Let go of NVML."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            nvml.nvmlShutdown()
