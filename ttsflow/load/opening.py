"""How a run opens its load monitor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ttsflow.protocols import Engine
from ttsflow.sensors import LoadMonitor, LoadPart

__all__ = ["open_load"]


def open_load(part: LoadPart, engine: Engine, own: Callable[[], int]) -> LoadMonitor:
    """Return the monitor of a run on an open engine, see ``LoadPart``; whoever asks for it closes it.

    ``own`` returns how many requests of the run are on the engine right now, waiting or not, with those that
    were begun early and those of a judge on the same engine. Raises ``MissingExtra``, ``ConfigError``.
    """
    on: Any = getattr(part, "open_on", None)
    monitor: LoadMonitor = part.open() if on is None else on(engine, own)
    return monitor
