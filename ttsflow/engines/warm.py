"""One engine, kept warm: loading takes seconds to minutes, the jobs of a sweep share it."""

from __future__ import annotations

import atexit
from typing import NamedTuple

from ttsflow.protocols import Engine, EnginePart

__all__ = ["acquire", "close_all"]


class _Held(NamedTuple):
    part: EnginePart
    engine: Engine


_held: list[_Held] = []


def acquire(part: EnginePart) -> Engine:
    """Return a clean engine with the settings ``part``: the one that is open, or a new one.

    An engine is reset before it is handed out again, so that the order of jobs cannot change a
    result. At most one is open: asking for other settings closes it first. An engine that died, was
    closed, or cannot be reset is never handed out; it is replaced. Raises what ``part.open`` raises.
    """
    for held in _held:
        if held.part == part and _usable(held.engine):
            return held.engine
    close_all()
    engine = part.open()
    _held.append(_Held(part, engine))
    return engine


def close_all() -> None:
    """Close whatever is open; runs at exit as well."""
    while _held:
        _held.pop().engine.close()


def _usable(engine: Engine) -> bool:
    """Reset an engine and say whether it still works."""
    if getattr(engine, "dead", False) or getattr(engine, "closed", False):
        return False
    try:
        engine.reset()
    except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is the remedy
        return False
    return True


atexit.register(close_all)
