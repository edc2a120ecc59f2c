"""One run from a resolved config to a results folder.

The folder holds ``config.yaml`` (resolved), ``results.jsonl`` (a result a line, written as each problem
ends), ``trace.jsonl`` (every event but single tokens) and ``summary.json``. It is valid at any moment:
whatever ends the run, its summary says how far it came.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ttsflow import interrupt
from ttsflow.choosers import check_gold
from ttsflow.composing.assemble import assemble
from ttsflow.controllers.prices import LEARNT
from ttsflow.display import Display
from ttsflow.errors import ConfigError, TtsflowError
from ttsflow.runs.earlier import data_id, take_up
from ttsflow.runs.lines import LineFile
from ttsflow.runs.locking import Lock, hold
from ttsflow.runs.progress import PLAN, holds_a_run, read_plan
from ttsflow.runs.runfolder import FULL, RunFolder
from ttsflow.runs.timeline import write_timeline
from ttsflow.session import Session
from ttsflow.setup import Setup
from ttsflow.status import Status
from ttsflow.summary import Summary
from ttsflow.trace import JsonTrace, NoTrace, finite, result_record
from ttsflow.types import Problem

__all__ = ["run_config"]


def run_config(
    mapping: Mapping[str, Any], folder: Path, *, show: bool = False, resume: bool = False
) -> Summary:
    """Run a resolved config and write its results folder; ``show`` draws a live display.

    With ``resume`` a folder that holds the same run is taken up: results of problems that ended without
    failing are kept, the others are run, and seconds are those of all parts together. One that is complete is
    left as it is. Raises ``ConfigError`` before anything is loaded or written, for a sweep's folder too,
    and ``Locked`` for one that another process works on. An error on the way, a full disk, and an engine that
    dies, give a summary with status failed; an interrupt leaves one with status partial and is raised on.
    """
    setup = assemble(mapping)
    problems = _problems(setup)
    check_gold(setup.strategy, setup.task, problems)
    with ExitStack() as stack:
        try:
            if (folder / PLAN).exists():
                raise ConfigError(
                    f"{folder} holds a sweep (jobs: {len(read_plan(folder))}), and a single run is not mixed "
                    "with it; choose another folder with hydra.run.dir. The sweep goes on with -m and "
                    "hydra.sweep.dir."
                )
            lock = stack.enter_context(hold(folder, "a run"))
            if not resume and holds_a_run(folder):
                raise ConfigError(
                    f"the folder {folder} already holds a run, and nothing is overwritten; choose another "
                    "one with hydra.run.dir, or hydra.sweep.dir for a sweep. With --resume the same run goes "
                    "on."
                )
            earlier = take_up(folder, setup, mapping, problems)
            if earlier.summary is not None:
                return earlier.summary
            seconds = max(earlier.seconds, lock.before.seconds if lock.before is not None else 0.0)
            job = RunFolder(
                setup,
                mapping,
                folder,
                len(problems),
                data=data_id(problems),
                kept=earlier.results,
                before=seconds,
            )
            job.begin()
        except OSError as error:
            raise _unusable(folder, error) from error
        for note in earlier.notes:
            print(f"note: {note}", file=sys.stderr)  # noqa: T201 - also of a run that shows nothing
        return _run(job, problems, lock, stack, show=show)


def _run(job: RunFolder, problems: Sequence[Problem], lock: Lock, stack: ExitStack, *, show: bool) -> Summary:
    """Run what has no result yet; the folder is held."""
    setup, folder = job.setup, job.folder
    kept = frozenset(result.id for result in job.results)
    # From here on a reader can tell what this process has made.
    lock.tell(len(kept), len(kept), job.before)
    job.tell()
    if problems and len(kept) == len(problems):
        return job.end("complete")
    trace = NoTrace() if not setup.trace else JsonTrace(folder / "trace.jsonl")
    if isinstance(trace, JsonTrace):
        stack.callback(trace.close)
    results = stack.enter_context(closing(LineFile(folder / "results.jsonl")))
    display = stack.enter_context(Display(job.names, len(problems) - len(kept), show=show))
    session = Session(setup)
    stack.callback(lambda: write_timeline(folder, session.moments))
    try:
        with session:
            display.loaded()
            for result in session.run(problems, trace=trace, on_step=_watched(display.step), done=kept):
                done = replace(result, fingerprint=job.fingerprint, versions=job.versions)
                # However the run ends, joules that are known have a source.
                job.engine["joules_source"] = session.joules_source
                results.write(json.dumps(finite(result_record(done)), ensure_ascii=False))
                results.flush()
                job.add(done)
                lock.tell(len(job.results), len(kept), job.before + session.wall_seconds)
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
        return job.end("failed", session.wall_seconds, error=_why(error), details=traceback.format_exc())
    except BaseException as error:
        job.end("partial", session.wall_seconds, error=_ending(error))
        raise
    if session.error is not None:
        return job.end("failed", session.wall_seconds, error=session.error)
    failed = [result.reason for result in job.results if result.outcome == "failed"]
    if failed and len(failed) == len(job.results):
        return job.end("failed", session.wall_seconds, error=f"every problem failed: {failed[0]}")
    return job.end("complete", session.wall_seconds)


def _why(error: Exception) -> str:
    """Return what is told of an error on the way."""
    if isinstance(error, OSError) and error.errno in FULL:
        return (
            f"{error.filename or 'the results folder'} cannot be written any further: {error.strerror}; what "
            "was written before is whole. With room made, the same words and --resume go on from there."
        )
    return str(error) if isinstance(error, TtsflowError) else f"{type(error).__name__}: {error}"


def _ending(error: BaseException) -> str:
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"ended by {type(error).__name__}"


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


def _write_learnt(folder: Path, learnt: Sequence[Mapping[str, Any]]) -> None:
    """Write what controllers have learnt, for the setting ``start`` of a later run."""
    for number, state in enumerate(learnt, 1):
        name = LEARNT if number == 1 else f"{Path(LEARNT).stem}-{number}.json"
        (folder / name).write_text(json.dumps(finite(state)) + "\n", encoding="utf-8")
