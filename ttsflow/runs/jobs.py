"""The jobs of a sweep: where each has its folder, how far it is, and which are left to do."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ttsflow.config import VARIABLES, compose
from ttsflow.errors import ConfigError, DataError, TtsflowError
from ttsflow.fingerprint import fingerprint
from ttsflow.runs.changed import Data
from ttsflow.runs.lines import replace_text
from ttsflow.runs.locking import LOCK
from ttsflow.runs.progress import FILES, PLAN, Progress, progress, read_plan

__all__ = [
    "JobPlan",
    "begin_plan",
    "check_folder",
    "composed",
    "job_name",
    "numbered",
    "planned",
    "show_plan",
    "write_plan",
]

_HASH = 10
"""Hexadecimal digits: two of a million jobs share a name with a chance below one in two."""

#: Keys of a config that can be changed between two runs of one job.
_ASIDE = frozenset({"logger"})
#: Keys of its engine of which the same is true.
_ASIDE_OF_ENGINE = frozenset({"pool"})


@dataclass(frozen=True, slots=True)
class JobPlan:
    """A job: its number, its words, its folder, and how far it is; ``same`` is a job before that is equal.

    ``named``: the folder has its name from the job's content, so that it can hold no other one. ``changed``:
    it is complete, on other questions or gold answers than the task has now.
    """

    number: int
    overrides: tuple[str, ...]
    folder: Path
    progress: Progress
    same: int | None = None
    named: bool = True
    changed: bool = False

    @property
    def pending(self) -> bool:
        """Whether it has to be run, or at least to be looked into."""
        if self.same is not None or self.progress.state == "running":
            return False
        return self.progress.state != "complete" or self.changed or not self.named

    @property
    def state(self) -> str:
        """What the plan says of it."""
        told = str(self.progress) if self.same is None else f"same as {self.same}"
        return f"{told}, on other data" if self.changed else told


def composed(overrides: Sequence[str], config_dir: str | None) -> Mapping[str, Any]:
    """Return the config of a job; empty when it cannot be composed."""
    try:
        return compose(overrides, config_dir)
    except TtsflowError:
        return {}


def job_name(overrides: Sequence[str], mapping: Mapping[str, Any]) -> str:
    """Return the folder of a job: its strategy and n, and a hash of its whole config ``mapping``.

    The order of the words does not count, nor who is told of the run, nor a pool of samples. A job
    that cannot be composed is named after its words.
    """
    if not mapping:
        return f"job-{_hash(sorted(overrides))}"
    n = mapping[VARIABLES].get("n")
    words = [mapping["choices"].get("strategy", "job"), *([f"n{n}"] if n is not None else [])]
    name = re.sub(r"[^\w.-]+", "_", "-".join(words))[:60].lstrip(".-")
    choices = {key: value for key, value in mapping["choices"].items() if key not in _ASIDE}
    rest = {key: value for key, value in mapping.items() if key not in _ASIDE}
    if isinstance(engine := rest.get("engine"), dict):
        rest["engine"] = {key: value for key, value in engine.items() if key not in _ASIDE_OF_ENGINE}
    return f"{name}-{_hash(rest | {'choices': choices})}"


def _hash(value: Any) -> str:
    return fingerprint(value if isinstance(value, dict) else {"words": value})[:_HASH]


def planned(
    jobs: Iterable[tuple[int, Sequence[str], Path]],
    *,
    named: bool,
    configs: Mapping[Path, Mapping[str, Any]] = MappingProxyType({}),
) -> list[JobPlan]:
    """Return the plan of jobs, each given by number, words and folder.

    Of those that are complete and have one of the ``configs``, which are by folder, the data is read again.
    """
    plan: list[JobPlan] = []
    data = Data()
    first: dict[Path, int] = {}
    for number, overrides, folder in jobs:
        same = first.setdefault(folder, number)
        before = None if same == number or not named else same
        far, config = _progress(folder), configs.get(folder, {})
        asked = before is None and far.state == "complete" and bool(config)
        changed = asked and data.changed(folder, config)
        plan.append(JobPlan(number, tuple(overrides), folder, far, before, named, changed))
    return plan


def numbered(
    jobs: Iterable[tuple[int, Sequence[str], Path]],
    before: Sequence[tuple[int, tuple[str, ...], Path]],
) -> list[tuple[int, Sequence[str], Path]]:
    """Return jobs with a number that no other job of the plan ``before`` has.

    One that stands in that plan keeps its number, a new one takes its own where that is free, else the next.
    """
    old = {frozenset(words): number for number, words, _ in before}
    old_folders = {folder: number for number, _, folder in before}
    taken = {*old.values(), *old_folders.values()}
    given: set[int] = set()
    found = []
    for number, words, folder in jobs:
        own = old_folders.get(folder, old.get(frozenset(words)))
        if own is None or own in given:
            own = number if number not in taken else max(taken) + 1
        taken.add(own)
        given.add(own)
        found.append((own, words, folder))
    return found


def _progress(folder: Path) -> Progress:
    try:
        return progress(folder)
    except DataError as error:
        return Progress("failed", error=str(error))


def show_plan(plan: Sequence[JobPlan], folder: Path) -> None:
    """Print the jobs that are about to start, what is left of each, and the folder of the sweep."""
    counts = Counter("same" if job.same is not None else job.progress.state for job in plan)
    states = ("new", "partial", "failed", "complete", "running", "same")
    told = ", ".join(f"{counts[state]} {state}" for state in states if counts[state])
    print(f"{len(plan)} job{'s' if len(plan) != 1 else ''}: {told}")  # noqa: T201 - what the command is for
    width = max(len(job.state) for job in plan)
    other = sum(job.changed for job in plan)
    for job in plan:
        print(f"  {job.number}  {job.state:{width}}  {' '.join(job.overrides)}")  # noqa: T201
    if other:
        print(  # noqa: T201
            f"{other} on other data: the questions or gold answers of the task have changed since. What is "
            "there stays as it is; bring back the data, or begin another folder with hydra.sweep.dir."
        )
    print(f"in {folder}", flush=True)  # noqa: T201 - who cuts it short has to know where to go on


def check_folder(folder: Path) -> None:
    """Refuse a folder that holds anything but a sweep, before a job starts."""
    try:
        names = {item.name for item in folder.iterdir()} if folder.is_dir() else set()
        used = (folder.exists() and not folder.is_dir()) or bool(names - {LOCK, f"{PLAN}.part"})
    except OSError as error:
        raise ConfigError(
            f"the folder {folder} cannot be used: {error.strerror}.", "hydra.sweep.dir"
        ) from error
    if PLAN not in names and any(name in names for name in FILES):
        raise ConfigError(
            f"{folder} holds a single run, and a sweep is not mixed with it; choose another folder. A run "
            "goes on with hydra.run.dir and --resume, without -m.",
            "hydra.sweep.dir",
        )
    if used and PLAN not in names:
        held = sorted(names)
        there = f"{', '.join(held[:4])}{', ...' if held[4:] else ''}" if held else "a file"
        raise ConfigError(
            f"{folder} holds something else ({there}), and nothing is overwritten; choose another folder. "
            "One that holds a sweep would be gone on with.",
            "hydra.sweep.dir",
        )


def begin_plan(folder: Path) -> None:
    """Make a folder that of a sweep. Raises ``OSError``, ``DataError``.

    A plan that is damaged is kept beside the new one. Jobs are found by their folders, so that nothing is
    run twice; of jobs that nobody asks for again the numbers and words are lost, and nothing else.
    """
    file = folder / PLAN
    try:
        if file.exists():
            read_plan(folder)
    except DataError as error:
        if isinstance(error.__cause__, OSError):
            raise
        kept = next(path for n in count() if not (path := folder / f"{PLAN}.broken{n or ''}").exists())
        shutil.copyfile(file, kept)
        replace_text(file, _plan({}, folder))
        print(  # noqa: T201 - also of a sweep that shows nothing
            f"note: {file} was damaged, and is begun anew; what it was is in {kept.name}. Jobs are found by "
            "their folders, and what is done stays done. Jobs of other commands stand in `ttsflow report`, "
            "and in `ttsflow status` once they are asked for again.",
            file=sys.stderr,
        )
    write_plan(folder, [])


def write_plan(folder: Path, plan: Sequence[JobPlan]) -> None:
    """Write down the jobs of a sweep, those of earlier plans included. Raises ``OSError``, ``DataError``."""
    before = read_plan(folder) if (folder / PLAN).exists() else []
    # One that could not be composed at first has another folder since it can.
    words = {frozenset(job.overrides) for job in plan}
    jobs = {path: (number, told) for number, told, path in before if frozenset(told) not in words}
    jobs |= {job.folder: (job.number, job.overrides) for job in plan if job.same is None}
    replace_text(folder / PLAN, _plan(jobs, folder))


def _plan(jobs: Mapping[Path, tuple[int, tuple[str, ...]]], folder: Path) -> str:
    told = [
        {"number": number, "folder": os.path.relpath(path, folder), "overrides": [*overrides]}
        for path, (number, overrides) in jobs.items()
    ]
    return json.dumps({"version": 1, "jobs": told}, ensure_ascii=False, indent=1) + "\n"
