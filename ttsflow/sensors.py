"""What a run is measured by besides its own books: monitors of load, and energy meters."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["EnergyMeter", "LoadMonitor", "LoadPart", "MeterPart"]


@runtime_checkable
class LoadMonitor(Protocol):
    """Says how busy others keep what a run works on; own work must not show."""

    def read(self, now: float, problem: int) -> float:
        """Return the load of others, from 0 (none) to 1 (all of it).

        ``now`` are seconds of the engine's clock, which may be virtual; ``problem`` is the place of the
        question that asks among all of the run, from 0. What looks at this machine goes by its own clock. It
        may be asked as often as one likes.
        """
        ...

    def close(self) -> None:
        """Free all resources; may be called twice."""
        ...


@runtime_checkable
class LoadPart(Protocol):
    """Settings of a load monitor.

    One that looks at the engine has a method ``open_on(engine, own)`` besides, which is then called instead
    of ``open``, ``own`` a function that returns how many requests of this run are on the engine.
    """

    def check(self) -> None:
        """Refuse what this machine lacks, before anything opens. Raises ``MissingExtra``, ``ConfigError``."""
        ...

    def open(self) -> LoadMonitor:
        """Return the monitor at work; errors as in ``check``."""
        ...


@runtime_checkable
class EnergyMeter(Protocol):
    """Counts joules from the moment it was opened."""

    @property
    def source(self) -> str:
        """What it is, for records: short, such as "nvml"."""
        ...

    @property
    def window(self) -> float:
        """Seconds between two refreshes; readings closer together are summed up before they count."""
        ...

    def read(self, now: float) -> float:
        """Return all joules so far: at least 0, and never less than before.

        ``now`` is the engine's clock, which may be virtual. Raises ``MeterDead``.
        """
        ...

    def close(self) -> None:
        """Free all resources and end its threads; may be called twice."""
        ...


@runtime_checkable
class MeterPart(Protocol):
    """Settings of an energy meter."""

    def check(self) -> None:
        """Refuse a machine without it, at once. Raises ``MissingExtra``, ``ConfigError``."""
        ...

    def open(self) -> EnergyMeter | None:
        """Return the meter at work, None where nothing is measured; errors as in ``check``."""
        ...
