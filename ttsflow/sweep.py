"""Runs one config many times: Hydra's sweeper and launcher, with an honest end.

The sweeper and the launcher are those of Hydra's own config, so that installed ones work as they do
everywhere (``hydra/launcher=joblib``). What is added here: the jobs are printed
before the first starts, each job composes its config itself, and a job that fails, even in that,
records why in its own folder and lets the others go on.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
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

from ttsflow import interrupt, plugins
from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.listing import show_jobs, show_plan, shown
from ttsflow.loading import Loader, session
from ttsflow.run import run_config
from ttsflow.summary import Summary
from ttsflow.translate import translated

__all__ = ["Ended", "Job", "sweep"]


@dataclass(frozen=True, slots=True)
class Ended:
    """What one job came to. A sweeper that searches takes its accuracy as the value to maximise."""

    number: int
    overrides: tuple[str, ...]
    folder: str
    status: str
    row: dict[str, Any] = field(default_factory=dict, hash=False)

    def __float__(self) -> float:
        """Return the accuracy; nan when there is none."""
        accuracy = self.row.get("accuracy")
        return float("nan") if accuracy is None else float(accuracy)


@dataclass(frozen=True, slots=True)
class Job:
    """Runs one job; may be sent to another process. ``done`` is what this process has run."""

    config_dir: str | None
    show: bool
    done: list[Ended] = field(default_factory=list)

    def __call__(self, config: DictConfig) -> Ended:
        """Compose and run. The config Hydra has composed is left aside: it may lack what was refused."""
        del config
        hydra = HydraConfig.get()
        overrides, folder = tuple(hydra.overrides.task), Path(hydra.runtime.output_dir)
        status, error, row = "failed", None, {}
        try:
            summary = run_config(compose(overrides, self.config_dir), folder, show=self.show)
            status, error, row = summary.status, summary.error, _row(summary)
        except Exception as caught:
            if interrupt.received():
                raise interrupt.Interrupted from caught
            record_failure(folder, caught)
            error = str(caught)
        if status == "failed":
            print(f"job {hydra.job.num} failed: {error}", file=sys.stderr, flush=True)  # noqa: T201
        elif self.show:
            told = ", ".join(f"{key} {value}" for key, value in shown(row).items() if value is not None)
            print(f"job {hydra.job.num} done: {told}", flush=True)  # noqa: T201
        self.done.append(Ended(hydra.job.num, overrides, str(folder), status, row))
        return self.done[-1]


def _row(summary: Summary) -> dict[str, Any]:
    low, high = summary.accuracy_ci95 or (None, None)
    usage: Mapping[str, Any] = summary.usage
    return {
        "accuracy": summary.accuracy,
        "95 % interval": None if low is None or high is None else f"{low:.3f}-{high:.3f}",
        "decoded": usage["decoded_tokens"],
        "serial": usage["serial_tokens"],
        "seconds": round(usage["wall_seconds"], 2),
        "answered": f"{summary.coverage:.0%}",
    }


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
        if not job_overrides:
            raise ConfigError("the overrides expand to no job at all.")
        show_plan(job_overrides, initial_job_idx)
        returns = self.launcher.launch(job_overrides, initial_job_idx)
        self.ended += [job.return_value for job in returns]
        return returns


def _check_once_per_choice(sweeper: Any, loader: Loader) -> None:
    """Let the sweeper compose one job for each choice of files before the first starts, and not every job.

    What is wrong with a setting ends no sweep: its job says it, in its own folder.
    """
    check = sweeper.validate_batch_is_legal

    def files(job: Sequence[str]) -> tuple[str, ...]:
        groups = ((word, word.partition("=")[0].lstrip("+~").partition("@")[0]) for word in job)
        return tuple(word for word, group in groups if loader.repository.group_exists(group))

    sweeper.validate_batch_is_legal = lambda batch: check(list({files(job): job for job in batch}.values()))


def _check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything, before a job starts."""
    try:
        used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise ConfigError(
            f"the folder {folder} cannot be used: {error.strerror}.", "hydra.sweep.dir"
        ) from error
    if used:
        raise ConfigError(
            f"{folder} is in use, and nothing is overwritten; choose another folder.", "hydra.sweep.dir"
        )


def sweep(overrides: Sequence[str], config_dir: str | None, *, show: bool) -> list[Ended]:
    """Run all jobs that ``overrides`` expand to, print a table of them, and return what they came to.

    Raises ``ConfigError`` when the overrides cannot be read, before any job starts.
    """
    registry = plugins.load()
    job = Job(config_dir, show)
    with session(registry, config_dir) as loader:
        with translated(registry, loader):
            config = loader.load_configuration("config", list(overrides), RunMode.MULTIRUN)
            context = HydraContext(config_loader=loader, callbacks=Callbacks(config))
            sweeper: Any = Plugins.instance().instantiate_sweeper(
                config=config, hydra_context=context, task_function=job
            )
        _check_folder(Path(str(config.hydra.sweep.dir)))
        _check_once_per_choice(sweeper, loader)
        launcher = sweeper.launcher = _Announced(sweeper.launcher)
        arguments = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
        try:
            with translated(registry, loader):
                sweeper.sweep(arguments=arguments)
        finally:
            # An interrupt ends the batch before the launcher can tell what it had finished.
            ended = sorted({*job.done, *launcher.ended}, key=lambda one: one.number)
            if ended:
                print()  # noqa: T201
                show_jobs(
                    [one.number for one in ended],
                    [one.overrides for one in ended],
                    [one.status for one in ended],
                    [one.row for one in ended],
                )
                print(f"\nresults in {config.hydra.sweep.dir}")  # noqa: T201
    return ended
