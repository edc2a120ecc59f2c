"""Weights & Biases: one run of it for every run here."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ttsflow.errors import MissingExtra
from ttsflow.logger import Logger
from ttsflow.loggers.figures import flat, running
from ttsflow.types import Result

__all__ = ["WandB"]


@dataclass(frozen=True, slots=True)
class WandB:
    """Settings of Weights & Biases: the project, who owns it, and whether anything leaves this machine."""

    project: str = "ttsflow"
    entity: str | None = None
    mode: Literal["offline", "online"] = "offline"

    def check(self) -> None:
        """Raise ``MissingExtra`` without the package."""
        if importlib.util.find_spec("wandb") is None:
            raise MissingExtra("logger=wandb needs the package wandb: pip install 'ttsflow[wandb]'.")

    def open(self, folder: Path) -> Logger:
        """Return a logger for the run in ``folder``, which keeps what is not uploaded yet."""
        return _Logger(self, folder)


class _Logger:
    def __init__(self, part: WandB, folder: Path) -> None:
        wandb: Any = importlib.import_module("wandb")
        self._run = wandb.init(
            project=part.project,
            entity=part.entity,
            mode=part.mode,
            name=folder.name,
            dir=str(folder),
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )
        self._figures = running()

    def begin(self, config: Mapping[str, Any]) -> None:
        """Log the settings."""
        self._run.config.update(dict(config))

    def result(self, result: Result) -> None:
        """Log how the run stands, by the number of problems that have ended."""
        self._run.log(self._figures(result))

    def end(self, summary: Mapping[str, Any]) -> None:
        """Log the summary and close the run."""
        for key, value in flat(summary).items():
            if isinstance(value, int | float | str):
                self._run.summary[key] = value
        self._run.finish(exit_code=0 if summary["status"] == "complete" else 1)
