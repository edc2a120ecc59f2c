"""The logger of runs that tell nobody."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ttsflow.logger import Logger

__all__ = ["NoLogger"]


@dataclass(frozen=True, slots=True)
class NoLogger:
    """Tells nobody: the results folder holds all there is."""

    def check(self) -> None:
        """Nothing is needed."""

    def open(self, folder: Path) -> Logger | None:
        """Return None: there is no logger."""
        del folder
        return None
