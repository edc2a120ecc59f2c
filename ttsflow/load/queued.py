"""How many requests of others wait on the engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol

from ttsflow.errors import ConfigError
from ttsflow.load.smooth import SMOOTH, Smooth, check_smooth
from ttsflow.protocols import Engine

__all__ = ["QueueLoad", "QueueMonitor"]


class _Busy(Protocol):
    """What an engine says of its requests, such as ``ttsflow.engines.vllm_live.Load``."""

    @property
    def running(self) -> int:
        """Sequences decoding."""
        ...

    @property
    def waiting(self) -> int:
        """Sequences queued."""
        ...


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """Requests of others that wait on the engine: u = waiting / (waiting + seats), smoothed over time.

    For engines that serve others too and have a method ``load()``, as ``vllm`` has. ``smooth`` is the time
    constant in seconds of the engine's clock.
    """

    smooth: float = SMOOTH

    def __post_init__(self) -> None:
        check_smooth(self.smooth)

    def check(self) -> None:
        """Accept every machine: it depends on the engine, which is not open yet."""

    def open(self) -> NoReturn:
        """Refuse to work without an engine. Raises ``ConfigError``."""
        raise ConfigError(
            "`queue` looks at an engine: use open_on(engine), or one of cpu, none, nvml, trace.", "use"
        )

    def open_on(self, engine: Engine, own: Callable[[], int] | None = None) -> QueueMonitor:
        """Return the monitor of an open engine.

        ``own`` says how many requests of this run are on the engine, waiting or not, with those that were
        begun early; without it all that wait count as others'. Raises ``ConfigError`` for an engine that does
        not say what it is busy with.
        """
        return QueueMonitor(_telling(engine), engine.capacity, self.smooth, own)


def _telling(engine: Any) -> Callable[[], _Busy]:
    """Return the method ``load`` of an engine or of one that it stands around."""
    inside = engine
    while inside is not None:
        load: Callable[[], _Busy] | None = getattr(inside, "load", None)
        if callable(load):
            return load
        inside = getattr(inside, "inner", None)
    raise ConfigError(
        f"`queue` needs an engine that says how many requests wait (a method `load()`); "
        f"{type(engine).__name__} has none. Known: vllm. Use load=cpu, nvml or trace with this one.",
        "use",
    )


class QueueMonitor:
    """A ``LoadMonitor`` of an engine's queue, on the engine's clock.

    Others' waiting requests are at most those that wait at all, and at most those that are not own:
    min(waiting, waiting + running - own).
    """

    def __init__(
        self,
        load: Callable[[], _Busy],
        seats: int,
        smooth: float,
        own: Callable[[], int] | None = None,
    ) -> None:
        self._load, self._seats, self._own = load, seats, own
        self._mean = Smooth(smooth)
        self._when: float | None = None

    def read(self, now: float, problem: int) -> float:
        """Return waiting / (waiting + seats), from 0 to 1."""
        del problem
        busy = self._load()
        waiting = busy.waiting
        if self._own is not None:
            waiting = min(waiting, busy.waiting + busy.running - self._own())
        waiting = max(0, waiting)
        passed = 0.0 if self._when is None else max(0.0, now - self._when)
        self._when = now
        self._mean.add(waiting / (waiting + max(1, self._seats)), passed)
        return self._mean.value

    def close(self) -> None:
        """Do nothing: the engine belongs to others."""
