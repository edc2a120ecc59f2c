"""MLflow: one run of it for every run here."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttsflow.errors import MissingExtra
from ttsflow.logger import Logger
from ttsflow.loggers.figures import flat, running
from ttsflow.types import Result

__all__ = ["MLflow"]

_LONGEST = 500
"""Characters of a parameter that every store takes."""


@dataclass(frozen=True, slots=True)
class MLflow:
    """Settings of MLflow: the experiment, and where it is kept; null for a folder ``mlruns`` here."""

    experiment: str = "ttsflow"
    tracking_uri: str | None = None

    def check(self) -> None:
        """Raise ``MissingExtra`` without the package."""
        if importlib.util.find_spec("mlflow") is None:
            raise MissingExtra("logger=mlflow needs the package mlflow: pip install 'ttsflow[mlflow]'.")

    def open(self, folder: Path) -> Logger:
        """Return a logger for the run in ``folder``; its name there is that of the folder."""
        return _Logger(self, folder)


class _Logger:
    def __init__(self, part: MLflow, folder: Path) -> None:
        mlflow: Any = importlib.import_module("mlflow")
        uri = part.tracking_uri
        if uri is None:
            uri = (Path.cwd() / "mlruns").as_uri()
            # It asks for this since its new features are for databases only; none of them is used here.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        self._client = mlflow.MlflowClient(tracking_uri=uri)
        found = self._client.get_experiment_by_name(part.experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(part.experiment)
        self._run = self._client.create_run(experiment, run_name=folder.name).info.run_id
        self._folder = folder
        self._count = 0
        self._figures = running()

    def begin(self, config: Mapping[str, Any]) -> None:
        """Log every setting as a parameter."""
        for key, value in flat(config).items():
            self._client.log_param(self._run, key, str(value)[:_LONGEST])

    def result(self, result: Result) -> None:
        """Log how the run stands, by the number of problems that have ended."""
        self._count += 1
        for key, value in self._figures(result).items():
            self._client.log_metric(self._run, key, value, step=self._count)

    def end(self, summary: Mapping[str, Any]) -> None:
        """Log the summary's numbers and its file, and close the run."""
        for key, value in flat(summary).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._client.log_metric(self._run, key, value)
        for name in ("summary.json", "config.yaml"):
            if (self._folder / name).is_file():
                self._client.log_artifact(self._run, str(self._folder / name))
        ended = {"complete": "FINISHED", "partial": "KILLED"}.get(str(summary["status"]), "FAILED")
        self._client.set_terminated(self._run, ended)
