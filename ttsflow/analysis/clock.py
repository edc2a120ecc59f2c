"""Which clock the seconds of a run are of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from ttsflow import plugins
from ttsflow.analysis.runs import Run
from ttsflow.errors import TtsflowError

__all__ = ["clock_note", "virtual_clock"]


def virtual_clock(run: Run) -> bool:
    """Return whether the seconds of a run are virtual; not so of an engine that is not installed."""
    engine = run.config.get("engine")
    return _virtual(str(engine.get("use") or run.engine) if isinstance(engine, Mapping) else run.engine)


@cache
def _virtual(engine: str) -> bool:
    try:
        return bool(getattr(plugins.load().get("engine", engine), "virtual", False))
    except TtsflowError:
        return False


def clock_note(virtual: Iterable[bool]) -> str:
    """Return what to write behind "seconds" for runs of which ``virtual`` says whose are virtual."""
    kinds = set(virtual)
    if True not in kinds:
        return ""
    return " (partly of a virtual clock)" if False in kinds else " (virtual clock)"
