"""Runs one config many times: Hydra's sweeper and launcher, with an honest end.

The sweeper and the launcher are those of Hydra's own config, so that installed ones work as they do
everywhere (``hydra/launcher=joblib``, ``hydra/sweeper=optuna``). What is added here: the jobs are printed
before the first starts, each job composes its config itself, and a job that fails, even in that,
records why in its own folder and lets the others go on.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf

from ttsflow import plugins
from ttsflow.config import compose
from ttsflow.listing import show_jobs, show_plan
from ttsflow.loading import session
from ttsflow.translate import translated

__all__ = ["Ended", "Job", "sweep"]


@dataclass(frozen=True, slots=True)
class Ended:
    """What one job came to. A sweeper that searches takes its accuracy as the value to maximise."""

    number: int
    overrides: tuple[str, ...]
    folder: str
    status: str
    row: dict[str, Any] = field(default_factory=dict)

    def __float__(self) -> float:
        """Return the accuracy; nan when there is none."""
        accuracy = self.row.get("accuracy")
        return float("nan") if accuracy is None else float(accuracy)


@dataclass(frozen=True, slots=True)
class Job:
    """Runs one job; may be sent to another process."""

    config_dir: str | None
    show: bool

    def __call__(self, config: DictConfig) -> Ended:
        """Compose and run. The config Hydra has composed is left aside: it may lack what was refused."""
        del config
        hydra = HydraConfig.get()
        overrides = tuple(hydra.overrides.task)
        folder = Path(hydra.runtime.output_dir)
        try:
            from ttsflow.run import run_config  # noqa: PLC0415 - brings the driver along

            summary = run_config(compose(overrides, self.config_dir), folder, show=self.show)
        except Exception as error:  # noqa: BLE001 - whatever it was, the other jobs go on
            record_failure(folder, error)
            print(f"job {hydra.job.num} failed: {error}", file=sys.stderr, flush=True)  # noqa: T201
            return Ended(hydra.job.num, overrides, str(folder), "failed")
        return Ended(hydra.job.num, overrides, str(folder), summary.status, dict(summary.table_row()))


def record_failure(folder: Path, error: Exception) -> None:
    """Write a summary that says why a job failed, unless the run has written one itself."""
    file = folder / "summary.json"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        trace = "".join(traceback.format_exception(error))
        record = {"status": "failed", "error": f"{type(error).__name__}: {error}", "traceback": trace}
        file.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


class _Announced:
    """A launcher that prints the jobs before they start and keeps what they came to."""

    def __init__(self, launcher: Launcher) -> None:
        self.launcher = launcher
        self.ended: list[Ended] = []

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Launch a batch of jobs."""
        show_plan(job_overrides, initial_job_idx)
        returns = self.launcher.launch(job_overrides, initial_job_idx)
        self.ended += [job.return_value for job in returns]
        return returns


def sweep(overrides: Sequence[str], config_dir: str | None, *, show: bool) -> list[Ended]:
    """Run all jobs that ``overrides`` expand to, print a table of them, and return what they came to.

    Raises ``ConfigError`` when the overrides cannot be read, before any job starts.
    """
    registry = plugins.load()
    with session(registry, config_dir) as loader:
        with translated(registry):
            config = loader.load_configuration("config", list(overrides), RunMode.MULTIRUN)
            context = HydraContext(config_loader=loader, callbacks=Callbacks(config))
            sweeper: Any = Plugins.instance().instantiate_sweeper(
                config=config, hydra_context=context, task_function=Job(config_dir, show)
            )
        launcher = sweeper.launcher = _Announced(sweeper.launcher)
        arguments = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
        try:
            with translated(registry):
                sweeper.sweep(arguments=arguments)
        finally:
            if launcher.ended:
                _show(launcher.ended, str(config.hydra.sweep.dir))
    return launcher.ended


def _show(ended: Sequence[Ended], folder: str) -> None:
    print()  # noqa: T201
    show_jobs(
        [job.number for job in ended],
        [job.overrides for job in ended],
        [job.status for job in ended],
        [job.row for job in ended],
    )
    print(f"\nresults in {folder}")  # noqa: T201
