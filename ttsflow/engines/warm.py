"""Engines kept warm: loading takes seconds to minutes, the jobs of a sweep share them."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ttsflow.protocols import Engine, EnginePart

__all__ = ["acquire", "acquire_all", "close_all"]


class _Part(Protocol):
    """Settings of what can be held: an engine, or the model of a verifier."""

    def open(self) -> Any:
        """Load and return it."""
        ...


class _Held(NamedTuple):
    part: _Part
    engine: Any


_held: list[_Held] = []


def acquire(part: EnginePart) -> Engine:
    """Return a clean engine with the settings ``part``: the one that is open, or a new one.

    An engine is reset before it is handed out again, so that the order of jobs cannot change a
    result. An engine that died, was closed, or cannot be reset is never handed out; it is replaced.
    Raises what ``part.open`` raises.
    """
    engine: Engine = acquire_all([part])[0]
    return engine


def acquire_all(parts: Sequence[_Part]) -> list[Any]:
    """Return clean engines for all settings that one run needs; equal settings are one engine.

    What is open stays open while nothing else has to be loaded. When something has to be, all that is not
    asked for is in its way, and everything is closed first: vLLM on CPU cleans up for the whole process,
    so that one engine cannot be closed alone. The same goes for an engine that no longer works.
    """
    wanted: list[_Part] = []
    for part in parts:
        if part not in wanted:
            wanted.append(part)
    held = [item for item in _held if item.part in wanted]
    missing = len(held) < len(wanted)
    if (missing and len(held) < len(_held)) or not all(_usable(item.engine) for item in held):
        close_all()
    for part in wanted:
        if _find(part) is None:
            try:
                _held.append(_Held(part, part.open()))
            except BaseException:
                # What was loaded for the same run is of no use without this.
                close_all()
                raise
    return [_find(part) for part in parts]


def close_all() -> None:
    """Close whatever is open, together; runs at exit as well."""
    failed: BaseException | None = None
    while _held:
        try:
            _held.pop().engine.close()
        except Exception as error:  # noqa: BLE001 - the others have to be closed all the same
            failed = failed or error
    if failed is not None:
        raise failed


def _find(part: _Part) -> Any:
    return next((item.engine for item in _held if item.part == part), None)


def _usable(engine: Any) -> bool:
    """Reset an engine and say whether it still works."""
    if getattr(engine, "dead", False) or getattr(engine, "closed", False):
        return False
    try:
        engine.reset()
    except Exception:  # noqa: BLE001 - whatever is wrong with it, a new one is the remedy
        return False
    return True


atexit.register(close_all)
