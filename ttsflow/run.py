"""One run from a resolved config to a results folder.

The folder holds ``config.yaml`` (resolved), ``results.jsonl`` (a result a line, written as each problem
ends), ``trace.jsonl`` (every event but single tokens) and ``summary.json``. It is valid at any moment:
whatever ends the run, its summary says how far it came.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ttsflow import interrupt
from ttsflow.assemble import assemble
from ttsflow.choosers import check_gold
from ttsflow.controllers.prices import LEARNT
from ttsflow.display import Display
from ttsflow.errors import ConfigError, TtsflowError
from ttsflow.session import Session, versions
from ttsflow.setup import Setup
from ttsflow.status import Status
from ttsflow.summary import Summary, summarize
from ttsflow.timeline import write_timeline
from ttsflow.trace import JsonTrace, NoTrace, finite, result_record
from ttsflow.types import Problem, Result

__all__ = ["run_config", "write_summary"]


def run_config(mapping: Mapping[str, Any], folder: Path, *, show: bool = False) -> Summary:
    """Run a resolved config and write its results folder; ``show`` draws a live display.

    Raises ``ConfigError`` before anything is loaded or written. An error on the way, and an engine
    that dies, give a summary with status failed; an interrupt leaves one with status partial and is
    raised on.
    """
    setup = assemble(mapping)
    problems = _problems(setup)
    check_gold(setup.strategy, setup.task, problems)
    if _holds_a_run(folder):
        raise ConfigError(
            f"the folder {folder} already holds a run, and nothing is overwritten; choose another one with "
            "hydra.run.dir, or hydra.sweep.dir for a sweep."
        )
    job = _Job(setup, mapping, folder, len(problems))
    job.begin()
    with ExitStack() as stack:
        trace = NoTrace() if not setup.trace else JsonTrace(folder / "trace.jsonl")
        if isinstance(trace, JsonTrace):
            stack.callback(trace.close)
        results = stack.enter_context((folder / "results.jsonl").open("a", encoding="utf-8"))
        display = stack.enter_context(Display(job.names, len(problems), show=show))
        session = Session(setup)
        stack.callback(lambda: write_timeline(folder, session.moments))
        try:
            with session:
                display.loaded()
                for result in session.run(problems, trace=trace, on_step=_watched(display.step)):
                    done = replace(result, fingerprint=job.fingerprint, versions=job.versions)
                    # However the run ends, joules that are known have a source.
                    job.engine["joules_source"] = session.joules_source
                    results.write(json.dumps(finite(result_record(done)), ensure_ascii=False) + "\n")
                    results.flush()
                    job.results.append(done)
            job.engine |= {
                "work": session.work,
                "exact": session.exact,
                "joules_source": session.joules_source,
            }
            _write_learnt(folder, session.learnt)
        except ConfigError:
            job.end("failed", session.wall_seconds, error=traceback.format_exc(limit=0))
            raise
        except Exception as error:
            if interrupt.received():
                job.end("partial", session.wall_seconds, error="interrupted")
                raise interrupt.Interrupted from error
            text = str(error) if isinstance(error, TtsflowError) else f"{type(error).__name__}: {error}"
            return job.end("failed", session.wall_seconds, error=text, details=traceback.format_exc())
        except BaseException as error:
            job.end("partial", session.wall_seconds, error=_ending(error))
            raise
        if session.error is not None:
            return job.end("failed", session.wall_seconds, error=session.error)
        failed = [result.reason for result in job.results if result.outcome == "failed"]
        if failed and len(failed) == len(job.results):
            return job.end("failed", session.wall_seconds, error=f"every problem failed: {failed[0]}")
        return job.end("complete", session.wall_seconds)


def _ending(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"ended by {type(error).__name__}"


def _holds_a_run(folder: Path) -> bool:
    names = ("config.yaml", "results.jsonl", "trace.jsonl", "summary.json")
    try:
        return any((folder / name).exists() for name in names)
    except OSError as error:
        raise _unusable(folder, error) from error


def _unusable(folder: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"the results folder {folder} cannot be written: {error.strerror}; choose another one with "
        "hydra.run.dir, or hydra.sweep.dir for a sweep."
    )


def _watched(show: Callable[[Status], None]) -> Callable[[Status], None]:
    """Return ``show`` with a look at whether the run was asked to end."""

    def step(status: Status) -> None:
        interrupt.check()
        show(status)

    return step


def _problems(setup: Setup) -> list[Problem]:
    """Return the problems of the run; an error in the data says where in the config to look."""
    try:
        return list(setup.task.problems())[: setup.limit]
    except ConfigError as error:
        raise (error if error.path.startswith("task") else error.below("task")) from error


def write_summary(folder: Path, summary: Summary) -> None:
    """Write ``summary.json`` in one move, so that a reader never sees half of one."""
    partial = folder / "summary.json.part"
    text = json.dumps(finite(summary.as_dict()), ensure_ascii=False, indent=2)
    partial.write_text(text + "\n", encoding="utf-8")
    os.replace(partial, folder / "summary.json")  # noqa: PTH105 - the atomic one


def _write_learnt(folder: Path, learnt: Sequence[Mapping[str, Any]]) -> None:
    """Write what controllers have learnt, for the setting ``start`` of a later run."""
    for number, state in enumerate(learnt, 1):
        name = LEARNT if number == 1 else f"{Path(LEARNT).stem}-{number}.json"
        (folder / name).write_text(json.dumps(finite(state)) + "\n", encoding="utf-8")


class _Job:
    """What is known of one run besides its parts: where it writes and what has come of it."""

    def __init__(self, setup: Setup, mapping: Mapping[str, Any], folder: Path, planned: int) -> None:
        self.setup = setup
        self.mapping = mapping
        self.folder = folder
        self.planned = planned
        self.names = setup.names
        self.fingerprint = setup.fingerprint
        self.versions = versions()
        self.results: list[Result] = []
        self.engine: dict[str, Any] = {}

    def begin(self) -> None:
        """Make the folder and write what is known before anything has run."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            plain = {**self.mapping, "strategy": dict(self.mapping["strategy"])}
            text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)
            (self.folder / "config.yaml").write_text(text, encoding="utf-8")
            self.end("partial", 0.0)
        except OSError as error:
            raise _unusable(self.folder, error) from error

    def end(
        self, status: Any, wall_seconds: float, *, error: str | None = None, details: str | None = None
    ) -> Summary:
        """Write and return the summary."""
        summary = summarize(
            self.results,
            status=status,
            names=self.names,
            seed=self.setup.seed,
            fingerprint=self.fingerprint,
            planned=self.planned,
            wall_seconds=wall_seconds,
            versions=self.versions,
            **self.engine,
            folder=str(self.folder),
            error=error,
            traceback=details,
        )
        write_summary(self.folder, summary)
        return summary
