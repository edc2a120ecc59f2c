"""How far a run has come, read from its folder alone."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ttsflow.errors import DataError
from ttsflow.runs.kept import read_results
from ttsflow.runs.locking import Holder, holder

__all__ = [
    "FILES",
    "PLAN",
    "Progress",
    "State",
    "holds_a_run",
    "is_torn",
    "progress",
    "read_plan",
    "read_summary",
    "time_left",
]

State = Literal["new", "running", "complete", "partial", "failed"]

#: The file that makes a folder that of a sweep: its jobs.
PLAN = "sweep.json"

#: What a run writes; a folder that holds one of them holds a run.
FILES = ("config.yaml", "results.jsonl", "trace.jsonl", "summary.json")


@dataclass(frozen=True, slots=True)
class Progress:
    """One run. ``done`` of ``planned`` problems have a result, 0 where nobody knows how many there are.

    ``graded`` of them have a gold answer, ``correct`` are right. ``broken`` are the lines of the results that
    cannot be read; ``seconds`` is the time of the run so far, on its engine's clock, which may be virtual.
    ``left`` is an estimate of what the rest takes by the clock on the wall, None where nobody is at work.
    """

    state: State
    done: int = 0
    planned: int = 0
    correct: int = 0
    graded: int = 0
    tokens: int = 0
    seconds: float = 0.0
    left: float | None = None
    broken: tuple[int, ...] = ()
    holder: Holder | None = None
    error: str | None = None

    def __str__(self) -> str:
        if self.state in {"partial", "running"} or self.broken:
            known = f"{self.done} of {self.planned}" if self.planned else f"{self.done}"
            told = f"{self.state} ({known})"
        else:
            told = self.state
        if self.broken:
            numbers = ", ".join(map(str, self.broken[:5])) + (", ..." if len(self.broken) > 5 else "")
            told += (
                f", {len(self.broken)} broken lines: {numbers}"
                if self.broken[1:]
                else f", line {numbers} broken"
            )
        return told


def holds_a_run(folder: Path) -> bool:
    """Whether a folder holds anything that a run writes. Raises ``OSError``."""
    return any((folder / name).exists() for name in FILES)


def read_summary(folder: Path) -> dict[str, Any]:
    """Return what the summary of a folder says; nothing where there is none."""
    try:
        said = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def read_plan(folder: Path) -> list[tuple[int, tuple[str, ...], Path]]:
    """Return number, words and folder of the jobs of a sweep. Raises ``DataError``.

    Its cause is an ``OSError`` where the file cannot be read, and may be whole.
    """
    file = folder / PLAN
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return [_job(job, folder) for job in said["jobs"]]
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            f"{file} is no plan of a sweep: {error}. The folders of its jobs are whole without it: the "
            f"command of the sweep with hydra.sweep.dir={folder} keeps it as {file.name}.broken, and goes on."
        ) from error


def _job(said: Mapping[str, Any], folder: Path) -> tuple[int, tuple[str, ...], Path]:
    """Return a job of a plan. Raises ``KeyError``, ``TypeError`` and ``ValueError``."""
    words = tuple(said["overrides"])
    if not all(isinstance(word, str) for word in words):
        msg = "a job has words that are no text"
        raise TypeError(msg)
    return int(said["number"]), words, folder / said["folder"]


def progress(folder: Path) -> Progress:
    """Return how far the run in a folder is. Raises ``DataError`` for results that may not be read."""
    now = holder(folder)
    try:
        if not holds_a_run(folder):
            return Progress("running" if now else "new", holder=now)
    except OSError:
        return Progress("new")
    summary = read_summary(folder)
    path = folder / "results.jsonl"
    results, broken = read_results(path)
    found = {name: record for name, (_, record) in results.items()}
    # The last line of a run that was killed may be half; it is no loss, its problem is run again.
    if broken and is_torn(path):
        broken.pop()
    done, planned = len(found), _count(summary.get("planned"))
    state = _state(summary, done, planned)
    grades = [record.get("correct") for record in found.values()]
    usage = summary.get("usage")
    seconds = _number(usage.get("wall_seconds")) if isinstance(usage, Mapping) else 0.0
    if now is not None:
        state, seconds = "running", max(seconds, now.seconds)
    error = summary.get("error")
    return Progress(
        state,
        done,
        planned,
        correct=sum(grade is True for grade in grades),
        graded=sum(grade is not None for grade in grades),
        tokens=sum(map(_decoded, found.values())),
        seconds=seconds,
        left=time_left(now, done, planned - done) if planned and state != "complete" else None,
        broken=tuple(broken),
        holder=now,
        error=str(error).splitlines()[0] if error else None,
    )


def time_left(now: Holder | None, done: float, rest: float) -> float | None:
    """Return the seconds that ``rest`` problems take at the pace of the process at work since it began.

    They go by the clock on the wall. None when nobody is at work, or nothing has ended yet.
    """
    if now is None or done <= now.kept:
        return None
    return max(0.0, time.time() - now.since) / (done - now.kept) * max(0.0, rest)


def _state(summary: Mapping[str, Any], done: int, planned: int) -> State:
    """Return what became of a run that nobody works on; one that lost a line is complete no more."""
    if summary.get("status") == "complete":
        return "complete" if done >= planned else "partial"
    return "failed" if summary.get("status") == "failed" else "partial"


def is_torn(path: Path) -> bool:
    """Whether the last line of a file has no end and is no record: half of one that was being written."""
    last = path.read_bytes().rpartition(b"\n")[2]
    try:
        return bool(last) and not isinstance(json.loads(last), dict)
    except ValueError:
        return True


def _decoded(record: Mapping[str, Any]) -> int:
    usage = record.get("usage")
    return _count(usage.get("decoded")) if isinstance(usage, Mapping) else 0


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
