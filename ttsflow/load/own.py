"""What this process and all that it has started take of the CPUs, so that it is not taken for others' work.

Processes that make a load on purpose are started by this one as well, but are strangers: see ``Injector``.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["PROC", "Family", "add_stranger", "cpu_seconds", "remove_stranger"]

PROC = Path("/proc")

#: Ids of children that count as others.
_strangers: set[int] = set()
#: CPU seconds of strangers that have ended: the kernel adds them to those of this process's children.
_ended = 0.0

_TICK = 1 / os.sysconf("SC_CLK_TCK")


def add_stranger(pid: int) -> None:
    """Count a child of this process, and all below it, as others."""
    _strangers.add(pid)


def remove_stranger(pid: int) -> None:
    """Call it when a stranger has ended, before it is waited for: its time is still to be seen then."""
    global _ended  # noqa: PLW0603 - of the process, like the times of its children
    if pid in _strangers:
        _ended += cpu_seconds(pid)
        _strangers.discard(pid)


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and its ended children, 0 when it is gone."""
    stat = _stat(pid)
    return _TICK * sum(int(ticks) for ticks in stat[11:15]) if stat else 0.0


def _stat(pid: int | str) -> list[bytes]:
    """Return the fields of ``/proc/PID/stat`` behind the name (see proc(5)), none when it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []


class Family:
    """This process and all that come from it, strangers left out.

    Who that is costs a look at every process of the machine. It is taken anew every half second at most, and
    so seldom that it takes 2 % of the time: what a new child does until then counts when it is found. A
    child that has left its parent, as daemons do, is lost, and so is one that lost it.
    """

    def __init__(self) -> None:
        self._members: frozenset[int] = frozenset()
        self._again = 0.0

    def members(self) -> frozenset[int]:
        """Return the ids of all, this process among them."""
        now = time.monotonic()
        if now >= self._again or not self._members:
            self._members = frozenset({os.getpid(), *_below(os.getpid())})
            took = time.monotonic() - now
            self._again = now + took + max(0.5, 50 * took)
        return self._members - _strangers

    def seconds(self) -> float:
        """Return the CPU seconds of all by now. It may fall when one is lost."""
        own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        others = self.members() - {os.getpid()}
        used = sum(use.ru_utime + use.ru_stime for use in own) + sum(map(cpu_seconds, others))
        return used - _ended


def _below(root: int) -> Iterator[int]:
    """Yield the ids of all processes that come from one, strangers and what is below them left out."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(PROC):  # noqa: PTH208 - a path per process takes five times as long
        if name.isdigit() and (stat := _stat(name)):
            children.setdefault(int(stat[1]), []).append(int(name))
    left = [root]
    while left:
        for child in children.get(left.pop(), ()):
            if child not in _strangers:
                left.append(child)
                yield child
