"""Who is told of a run while it goes on, besides its folder: trackers of experiments and the like."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ttsflow.types import Result

__all__ = ["Logger", "LoggerPart", "Telling"]


@runtime_checkable
class Logger(Protocol):
    """Is told of one run. What goes wrong in it is told once and ends no run."""

    def begin(self, config: Mapping[str, Any]) -> None:
        """Take the resolved config, before the first result."""
        ...

    def result(self, result: Result) -> None:
        """Take the result of a problem as it ends; of a run that is continued, first those from before."""
        ...

    def end(self, summary: Mapping[str, Any]) -> None:
        """Take what ``summary.json`` says, once: however the run ends, unless its process is killed."""
        ...


@runtime_checkable
class LoggerPart(Protocol):
    """Settings of a logger."""

    def check(self) -> None:
        """Refuse what is not installed, before anything opens. Raises ``MissingExtra``, ``ConfigError``."""
        ...

    def open(self, folder: Path) -> Logger | None:
        """Return a logger for the run that writes to ``folder``; None where nobody is told."""
        ...


class Telling:
    """Tells a logger, until it fails: then it warns once, and tells it no more."""

    def __init__(self, part: LoggerPart, folder: Path) -> None:
        self._logger: Logger | None = None
        self._name = type(part).__name__
        self._logger = self._done(lambda: part.open(folder))

    def begin(self, config: Mapping[str, Any]) -> None:
        """Tell of the config."""
        if (logger := self._logger) is not None:
            self._done(lambda: logger.begin(config))

    def result(self, result: Result) -> None:
        """Tell of a result."""
        if (logger := self._logger) is not None:
            self._done(lambda: logger.result(result))

    def end(self, summary: Mapping[str, Any]) -> None:
        """Tell of the end."""
        if (logger := self._logger) is not None:
            self._done(lambda: logger.end(summary))
            self._logger = None

    def _done(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the run is not
            self._logger = None
            warnings.warn(
                f"the logger {self._name} failed and is told no more; the run goes on: "
                f"{type(error).__name__}: {error}",
                stacklevel=4,
            )
            return None
