"""Runs one config many times: Hydra's sweeper and launcher, with an honest end.

The sweeper and the launcher are those of Hydra's own config, so that installed ones work as they do
everywhere (``hydra/launcher=joblib``). What is added here: the jobs are printed
before the first starts, each job composes its config itself, and a job that fails, even in that,
records why in its own folder and lets the others go on. The folder of a job is named after what it is,
so that a rerun finds what is done.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hydra._internal.callbacks import Callbacks
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, RunMode
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from ttsflow import interrupt, plugins
from ttsflow.composing.loading import Loader
from ttsflow.composing.session import session
from ttsflow.composing.translate import translated
from ttsflow.errors import ConfigError, TtsflowError
from ttsflow.listing import show_jobs
from ttsflow.runs.job import Ended, Job, ended_before
from ttsflow.runs.jobs import (
    JobPlan,
    begin_plan,
    check_folder,
    composed,
    job_name,
    numbered,
    planned,
    show_plan,
    write_plan,
)
from ttsflow.runs.locking import Lock, hold
from ttsflow.runs.progress import read_plan

__all__ = ["Ended", "Job", "sweep"]

#: The setting that lets ttsflow name the folders of jobs.
_AUTO = "auto"


class _Planned:
    """A launcher that prints the jobs first, leaves out what is done, and keeps what they came to."""

    def __init__(self, launcher: Launcher, config: DictConfig, loader: Loader, job: Job, lock: Lock) -> None:
        self.launcher = launcher
        self.config = config
        self.loader = loader
        self.job = job
        self.lock = lock
        self.folder = Path(os.path.abspath(str(config.hydra.sweep.dir)))  # noqa: PTH100 - as Hydra does
        self.ended: list[Ended] = []
        self._kept: dict[Path, int] = {}
        #: Of jobs whose folders have their names from them.
        self._configs: dict[Path, Mapping[str, Any]] = {}
        own = OmegaConf.to_container(config.hydra.sweep, resolve=False)
        self._named = isinstance(own, dict) and own["subdir"] == _AUTO

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Launch those of a batch that are not done; return what all of them came to."""
        if not job_overrides:
            raise ConfigError("the overrides expand to no job at all.")
        asked = [
            (number, overrides, self.folder / self._name(number, overrides))
            for number, overrides in enumerate(job_overrides, initial_job_idx)
        ]
        numbers = numbered(asked, read_plan(self.folder))
        plan = planned(numbers, named=self._named, configs=self._configs)
        show_plan(plan, Path(str(self.config.hydra.sweep.dir)))
        write_plan(self.folder, plan)
        self._tell(plan)
        pending = [job for job in plan if job.pending]
        found = {job.number: _as_it_stands(job) for job in plan if job.same is None and not job.pending}
        self.ended += found.values()
        self.job.numbers.update({str(job.folder): job.number for job in pending})
        if pending:
            found |= dict(zip((job.number for job in pending), self._launched(pending), strict=True))
        return [_returned(found[job.number if job.same is None else job.same], job.overrides) for job in plan]

    def _launched(self, jobs: Sequence[JobPlan]) -> list[Ended]:
        """Run jobs; return what they came to, in order."""
        words = [[*job.overrides, f"hydra.sweep.subdir={_quoted(self._below(job.folder))}"] for job in jobs]
        try:
            returns = self.launcher.launch(words, jobs[0].number)
            ended = [one.return_value for one in returns]
        except Exception as error:
            if interrupt.received():
                raise
            self.ended += [ended_before(job.number, job.overrides, job.folder) for job in jobs]
            if isinstance(error, TtsflowError):
                raise
            name = type(self.launcher).__name__
            raise TtsflowError(
                f"{name} gave up: {type(error).__name__}: {error}. What is done is kept; the same command "
                "goes on with the rest."
            ) from error
        self.ended += ended
        return ended

    def _tell(self, plan: Sequence[JobPlan]) -> None:
        """Say how many problems had ended before this process, so that its pace can be told."""
        for job in plan:
            self._kept.setdefault(job.folder, job.progress.done)
        kept = sum(self._kept.values())
        self.lock.tell(kept, kept, 0.0)

    def _below(self, folder: Path) -> str:
        return os.path.relpath(folder, self.folder)

    def _name(self, number: int, overrides: Sequence[str]) -> str:
        """Return the folder of a job below that of the sweep."""
        if self._named:
            mapping = composed(overrides, self.job.config_dir)
            name = job_name(overrides, mapping)
            self._configs[self.folder / name] = mapping
            return name
        config = self.loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.id = config.hydra.job.num = number
        try:
            return str(config.hydra.sweep.subdir)
        except OmegaConfBaseException as error:
            raise ConfigError(f"the folder of a job cannot be told: {error}", "hydra.sweep.subdir") from error


def _as_it_stands(job: JobPlan) -> Ended:
    ended = ended_before(job.number, job.overrides, job.folder)
    if job.progress.state == "running":
        return Ended(job.number, job.overrides, str(job.folder), "running", ended.row)
    return ended


def _returned(ended: Ended, overrides: Sequence[str]) -> JobReturn:
    """Return what a sweeper is told of a job, whoever ran it."""
    told = JobReturn(overrides=overrides)
    told.return_value, told.status = ended, JobStatus.COMPLETED
    return told


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _check_once_per_choice(sweeper: Any, loader: Loader) -> None:
    """Let the sweeper compose one job for each choice of files before the first starts, and not every job.

    What is wrong with a setting ends no sweep: its job says it, in its own folder.
    """
    check = sweeper.validate_batch_is_legal

    def files(job: Sequence[str]) -> tuple[str, ...]:
        groups = ((word, word.partition("=")[0].lstrip("+~").partition("@")[0]) for word in job)
        return tuple(word for word, group in groups if loader.repository.group_exists(group))

    sweeper.validate_batch_is_legal = lambda batch: check(list({files(job): job for job in batch}.values()))


def sweep(overrides: Sequence[str], config_dir: str | None, *, show: bool) -> list[Ended]:
    """Run all jobs that ``overrides`` expand to, print a table of them, and return what they came to.

    A folder that holds a sweep is gone on with: complete jobs are left as they are, others are finished.
    Raises ``ConfigError`` when the overrides cannot be read, and for a folder in use, before any job starts.
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
        folder = Path(str(config.hydra.sweep.dir))
        check_folder(folder)
        _check_once_per_choice(sweeper, loader)
        # Some sweepers are only a front for the one that launches.
        launching = sweeper if hasattr(sweeper, "launcher") else sweeper.sweeper
        arguments = OmegaConf.to_container(config.hydra.overrides.task, resolve=False)
        with ExitStack() as stack:
            try:
                lock = stack.enter_context(hold(folder, "a sweep"))
                begin_plan(folder)
            except OSError as error:
                raise ConfigError(
                    f"the folder {folder} cannot be written: {error.strerror}.", "hydra.sweep.dir"
                ) from error
            launcher = launching.launcher = _Planned(launching.launcher, config, loader, job, lock)
            cut = False
            try:
                with translated(registry, loader):
                    sweeper.sweep(arguments=arguments)
            except KeyboardInterrupt:
                cut = True
                raise
            finally:
                # An interrupt ends the batch before the launcher can tell what it had finished.
                _show(job.done, launcher.ended, folder, cut=cut or interrupt.received() is not None)
    return sorted(launcher.ended, key=lambda one: one.number)


def _show(done: Sequence[Ended], told: Sequence[Ended], folder: Path, *, cut: bool) -> None:
    alike = {(one.folder, frozenset(one.overrides)): one for one in (*told, *done)}
    ended = sorted(alike.values(), key=lambda one: one.number)
    if ended:
        print()  # noqa: T201
        show_jobs(
            [one.number for one in ended],
            [one.overrides for one in ended],
            [one.status for one in ended],
            [one.row for one in ended],
        )
        print(f"\nresults in {folder}")  # noqa: T201
    if cut or any(one.status != "complete" for one in ended):
        print(f"to go on: the same words, and hydra.sweep.dir={folder}")  # noqa: T201
