"""The share of the CPUs that others use."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from ttsflow.errors import ConfigError
from ttsflow.load.own import PROC, Family
from ttsflow.load.smooth import SMOOTH, Smooth, check_smooth

__all__ = ["EVERY", "CPULoad", "CPUMonitor", "Spent", "spent"]

#: Least seconds between two looks: the kernel counts in hundredths of a second.
EVERY = 0.05

_TICK = 1 / os.sysconf("SC_CLK_TCK")


class Spent(NamedTuple):
    """CPU seconds of the cores that this process may use: of all work there, and the idle ones with it."""

    busy: float
    total: float


def spent() -> Spent:
    """Return what the kernel has counted in ``/proc/stat``, see proc(5).

    Time that the machine's host took from it (steal) is work of others. Raises ``OSError`` and ``ValueError``
    where there is no such file.
    """
    wanted = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    busy = total = 0
    for line in (PROC / "stat").read_text("ascii").splitlines():
        name, *fields = line.split()
        if name in wanted:
            # user nice system idle iowait irq softirq steal; guests are in user already
            ticks = [int(field) for field in fields[:8]]
            total += sum(ticks)
            busy += sum(ticks) - ticks[3] - ticks[4]
    if not total:
        raise ValueError(f"{PROC / 'stat'} has none of the lines {', '.join(sorted(wanted))}")
    return Spent(busy * _TICK, total * _TICK)


@dataclass(frozen=True, slots=True)
class CPULoad:
    """The share of this machine's cores that other processes use, smoothed over time.

    (busy - own) / all, of the cores that this process may run on. Own is the work of this process and of all
    it has started. ``smooth`` is the time constant in seconds. What waits for a core is not seen, nor a quota
    that a container has.
    """

    smooth: float = SMOOTH

    def __post_init__(self) -> None:
        check_smooth(self.smooth)

    def check(self) -> None:
        """Refuse a machine that does not tell. Raises ``ConfigError``."""
        try:
            spent()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"the load of the CPUs cannot be read here: {error}; load=none does without.", "use"
            ) from error

    def open(self) -> CPUMonitor:
        """Return the working monitor, after looking for a tenth of a second; errors as in ``check``."""
        self.check()
        monitor = CPUMonitor(self.smooth)
        time.sleep(2 * EVERY)
        monitor.read(0.0, 0)
        return monitor


class CPUMonitor:
    """A ``LoadMonitor`` of the CPUs, on the wall clock whatever clock the engine has.

    Every value is the mean since the last look, so nothing is missed by who looks seldom. Single differences
    may be negative, since own time is counted more finely than that of all; only what comes out of smoothing
    is held within 0 and 1, or own work would leave a trace. ``clock``, ``all`` and ``own`` are for tests.
    """

    def __init__(
        self,
        smooth: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        all: Callable[[], Spent] = spent,
        own: Callable[[], float] | None = None,
    ) -> None:
        self._mean = Smooth(smooth)
        self._clock, self._all, self._own = clock, all, own or Family().seconds
        self._when = clock()
        self._last = self._all(), self._own()

    def read(self, now: float, problem: int) -> float:
        """Return the share that others use, from 0 to 1; what was last known where nobody tells now."""
        del now, problem
        when = self._clock()
        if not 0 <= when - self._when < EVERY:
            self._look(when)
        return self._mean.value

    def _look(self, when: float) -> None:
        try:
            seen = self._all(), self._own()
        except (OSError, ValueError):
            return
        (before, own_before), (now, own_now) = self._last, seen
        passed, self._when, self._last = when - self._when, when, seen
        busy, total, own = now.busy - before.busy, now.total - before.total, own_now - own_before
        # A counter or clock that went back (a core gone, a suspended machine) says nothing of this stretch.
        if passed > 0 and total > 0 and busy >= 0 and own >= 0:
            self._mean.add(min(1.0, max(-1.0, (busy - own) / total)), passed)

    def close(self) -> None:
        """Do nothing: nothing is held."""
