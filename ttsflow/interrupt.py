"""Ending a run politely: a signal that is remembered, so that it cannot get lost.

Python drops an exception that a signal handler raises while an object is being finalised; the flag set
here is looked at after every engine step as well.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Interrupted", "check", "handled", "received"]


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM: the run ends with what is finished written to disk."""


_received: list[int] = []


def received() -> int | None:
    """Return the number of the first signal that came, None when none did."""
    return _received[0] if _received else None


def check() -> None:
    """Raise ``Interrupted`` when a signal has come."""
    if _received:
        raise Interrupted


@contextmanager
def handled() -> Iterator[None]:
    """Take SIGINT and SIGTERM: the first interrupts, further ones do not disturb the clean end."""

    def take(number: int, frame: object) -> None:
        del frame
        _received.append(number)
        if len(_received) == 1:
            raise Interrupted

    _received.clear()
    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, take) for number in numbers]
    except ValueError:  # only the main thread may set handlers
        yield
        return
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
