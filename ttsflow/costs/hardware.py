"""What a machine can do at best, and which part of that programs reach."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, fields

from ttsflow.errors import ConfigError

__all__ = ["Efficiency", "Hardware"]

#: What no number of a machine is below or above: all that follows from them stays finite.
_LEAST, _MOST = 1e-6, 1e9


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Named factors between a machine's peak and what an engine reaches on it.

    ``compute`` is the share of peak FLOP/s in matrix products, ``bandwidth`` the share of peak bytes/s when
    weights are read, ``attention`` that when the KV cache is read. ``launch`` are seconds of every iteration
    that no size explains, ``sequence`` those of every sequence in it (scheduling, sampling).
    """

    compute: float = 1.0
    bandwidth: float = 1.0
    attention: float = 1.0
    launch: float = 0.0
    sequence: float = 0.0

    def __post_init__(self) -> None:
        for name in ("compute", "bandwidth", "attention"):
            if not _LEAST <= getattr(self, name) <= 1:
                raise ConfigError(
                    f"a share lies above 0 (at least {_LEAST:g}) and up to 1, got {getattr(self, name)}.",
                    name,
                )
        for name in ("launch", "sequence"):
            if not 0 <= getattr(self, name) <= _MOST:
                raise ConfigError(f"seconds lie between 0 and {_MOST:g}, got {getattr(self, name)}.", name)


@dataclass(frozen=True, slots=True)
class Hardware:
    """One device by its data sheet.

    ``tflops`` are 10^12 operations per second of dense matrix products in 16 bit, sums in 32; ``bandwidth``
    10^9 bytes per second of its memory, ``memory_gib`` its size, ``link`` 10^9 bytes per second to and from
    the host. With ``probe`` the first two are measured on this machine when an engine is opened.
    """

    memory_gib: float
    tflops: float | None = None
    bandwidth: float | None = None
    link: float = 32.0
    probe: bool = False
    efficiency: Efficiency = field(default_factory=Efficiency)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if number and not _LEAST <= value <= _MOST:
                raise ConfigError(
                    f"must be above 0, between {_LEAST:g} and {_MOST:g}, got {value}.", item.name
                )
        for name in ("tflops", "bandwidth"):
            if (getattr(self, name) is None) != self.probe:
                word = "is measured with `probe: true`; leave it null" if self.probe else "is missing"
                raise ConfigError(f"{word}; a number, or `probe: true` to measure it.", name)

    def measured(self) -> Hardware:
        """Return it with what a probe of this machine found in place of what is missing, and say what."""
        if not self.probe:
            return self
        from ttsflow.costs.probe import probed  # noqa: PLC0415 - measuring takes a moment and needs numpy

        tflops, bandwidth = (float(f"{number:.3g}") for number in probed())
        warnings.warn(
            f"this machine was measured: hardware.tflops={tflops:g} hardware.bandwidth={bandwidth:g}. "
            "Whatever else runs on it makes both less; for the same seconds again, give them with "
            "hardware.probe=false",
            stacklevel=2,
        )
        return Hardware(self.memory_gib, tflops, bandwidth, self.link, efficiency=self.efficiency)
