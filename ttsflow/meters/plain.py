"""The meter of runs that measure nothing, and how a record names a meter."""

from __future__ import annotations

from dataclasses import dataclass

from ttsflow.sensors import EnergyMeter

__all__ = ["UNMETERED", "NoMeter", "joules_source"]

UNMETERED = (
    "joules are counted by a meter, and this run has none. Choose one with meter=nvml, power, rapl or model "
    "(see `ttsflow list meter`)."
)


@dataclass(frozen=True, slots=True)
class NoMeter:
    """Measures nothing, and says so: joules are unknown, not 0."""

    def check(self) -> None:
        """Nothing is needed."""

    def open(self) -> EnergyMeter | None:
        """Return None: there is no meter."""
        return None


def joules_source(meter: EnergyMeter | None) -> str:
    """Return where joules come from, for records: "none", "model", or "nvml (window 0.1 s)"."""
    if meter is None:
        return "none"
    return f"{meter.source} (window {meter.window:g} s)" if meter.window else meter.source
