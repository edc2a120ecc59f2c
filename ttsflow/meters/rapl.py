"""The energy counters of CPUs: Intel's RAPL, which AMD has as well, by the powercap files of Linux."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, NamedTuple

from ttsflow.errors import ConfigError, MeterDead
from ttsflow.meters.counter import Counter
from ttsflow.sensors import EnergyMeter

__all__ = ["RAPL"]

#: A package is a zone of the first level: `intel-rapl:0:0` is a part of one, and `intel-rapl-mmio:0` the
#: same package by another door.
_ZONE = re.compile(r"intel-rapl:\d+")


@dataclass(frozen=True, slots=True)
class RAPL:
    """Measures CPUs by RAPL: all packages of the machine with what is on them, not DIMMs and not GPUs.

    The counters are in microjoules, move about every millisecond (Intel's manual for developers, volume 3B,
    on RAPL) and wrap: at 100 W a counter of 262 kJ is full in 44 minutes, so it is to be read at least twice
    in that time. Since Linux 5.10 only root may read them. ``path`` is where the kernel has them. Raises
    ``ConfigError`` where there are none, or none that may be read.
    """

    path: str = "/sys/class/powercap"

    wall: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse a machine whose counters are absent or closed."""
        self.open().close()

    def open(self) -> EnergyMeter:
        """Return the meter at work."""
        return _Packages([_zone(folder) for folder in self._folders()])

    def _folders(self) -> list[Path]:
        root = Path(self.path)
        try:
            found = sorted(folder for folder in root.iterdir() if _ZONE.fullmatch(folder.name))
        except (OSError, ValueError):
            found = []
        packages = [folder for folder in found if _text(folder / "name").startswith("package")]
        if not packages:
            raise ConfigError(
                f"there is no package of RAPL below {self.path} (a folder intel-rapl:0 whose file `name` "
                "says package-0): this machine or container has none, or the module intel_rapl_msr is not "
                "loaded. meter=model estimates, meter=nvml measures NVIDIA GPUs, meter=none nothing.",
                "path",
            )
        return packages


class _Zone(NamedTuple):
    """The file of one counter and its wrapping count."""

    file: Path
    counter: Counter


def _zone(folder: Path) -> _Zone:
    span = _number(folder / "max_energy_range_uj")
    zone = _Zone(folder / "energy_uj", Counter(1e-6, span))
    zone.counter.take(_number(zone.file))
    return zone


def _text(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except PermissionError as error:
        raise ConfigError(
            f"{file} may be read by root only: energy tells a neighbour too much (CVE-2020-8694). "
            f"Run as root, or allow it until the next start with: sudo chmod a+r {file.parent}/energy_uj. "
            "Else meter=model estimates, and meter=none measures nothing.",
            "path",
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", "path") from error


def _number(file: Path) -> float:
    text = _text(file)
    if not text.isdecimal():
        raise ConfigError(f"{file} should hold microjoules, found {text[:40]!r}.", "path")
    return float(text)


class _Packages:
    """One counter a package."""

    source: ClassVar[str] = "rapl"
    window: ClassVar[float] = 0.01

    def __init__(self, zones: list[_Zone]) -> None:
        self._zones = zones
        self._closed = False

    def read(self, now: float) -> float:
        """Return the joules since it was opened."""
        del now
        for zone in () if self._closed else self._zones:
            try:
                zone.counter.take(_number(zone.file))
            except ConfigError as error:
                raise MeterDead(error.message) from error
        return sum(zone.counter.joules for zone in self._zones)

    def close(self) -> None:
        """Count no further."""
        self._closed = True
