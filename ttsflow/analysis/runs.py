"""Runs as their folders tell of them: one reader for all that looks back at several."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from ttsflow.errors import DataError
from ttsflow.fields import COUNT, FLAG, LABEL, NOT_NEGATIVE, TEXT, Wrong, get
from ttsflow.runs.kept import OUTCOMES, read_each
from ttsflow.runs.progress import PLAN, holds_a_run

__all__ = [
    "Row",
    "Run",
    "Skipped",
    "check_one",
    "find_runs",
    "one_run",
    "read_mapping",
    "read_run",
    "read_runs",
]

_STATUSES = ("complete", "partial", "failed")
#: Characters that are kept of a trajectory, and of everything else that a model or a task has written.
_MOST_TEXT, _MOST_WORDS = 4000, 400
#: Entries of a folder that are told when none of them is a run.
_TOLD = 8


@dataclass(frozen=True, slots=True)
class Row:
    """One problem of a run, as a line of ``results.jsonl`` tells of it; texts are cut.

    ``decoded`` and ``serial`` are tokens; ``seconds`` are from the problem's start to its end; ``joules`` is
    None where no meter ran.
    """

    id: str
    outcome: str
    correct: bool | None
    decoded: int
    serial: int
    seconds: float
    joules: float | None
    candidates: int
    truncated: int
    answer: str | None
    gold: str | None
    stopped: str | None
    reason: str | None
    text: str | None


class Skipped(NamedTuple):
    """A line that is no result, and why."""

    file: Path
    line: int
    why: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.why}"


@dataclass(frozen=True, slots=True)
class Run:
    """One run. ``rows`` are its results by problem; ``config`` and ``summary`` are empty where they are lost.

    ``error`` says why the run failed or how far it came, and what could not be read.
    """

    folder: Path
    status: str
    config: Mapping[str, Any]
    summary: Mapping[str, Any]
    rows: Mapping[str, Row]
    skipped: tuple[Skipped, ...] = ()
    error: str | None = None
    traceback: str | None = None

    @property
    def strategy(self) -> str:
        """The name of the strategy that was chosen."""
        return self._name("strategy")

    @property
    def task(self) -> str:
        """The name of the task that was chosen."""
        return self._name("task")

    @property
    def engine(self) -> str:
        """The name of the engine that was chosen."""
        return self._name("engine")

    def _name(self, group: str) -> str:
        choices = self.config.get("choices")
        chosen = choices.get(group) if isinstance(choices, Mapping) else None
        return str(self.summary.get(group) or chosen or "unknown")


def find_runs(folders: Iterable[Path]) -> list[Path]:
    """Return the folders of all runs in ``folders`` and below, each once; numbers in names in their order.

    Raises ``DataError`` for what is no folder, and for a folder without any run.
    """
    found: dict[Path, Path] = {}
    for asked in folders:
        if not asked.is_dir():
            raise DataError(f"there is no folder {str(asked)!r}; name the folder of a run or a sweep.")
        runs = sorted(_below(asked), key=_numbers_in_order)
        if not runs:
            raise DataError(
                f"{asked} holds no run: no folder in it has results.jsonl or summary.json. {_holds(asked)}"
            )
        for run in runs:
            found.setdefault(run.resolve(), run)
    return list(found.values())


def read_runs(folders: Iterable[Path]) -> list[Run]:
    """Return all runs in ``folders`` and below; errors as ``find_runs``."""
    return [read_run(folder) for folder in find_runs(folders)]


def one_run(folder: Path) -> Run:
    """Return the run in ``folder`` or below it. Raises ``DataError`` when there is none or several."""
    found = find_runs([folder])
    if len(found) > 1:
        raise _several(folder, found)
    return read_run(found[0])


def check_one(folder: Path) -> None:
    """Raise ``DataError``, which names some of them, for a folder that is no run and has runs below it."""
    if not folder.is_dir() or holds_a_run(folder):
        return
    runs = sorted(_below(folder), key=_numbers_in_order)
    if runs:
        raise _several(folder, runs)


def _several(folder: Path, runs: Sequence[Path]) -> DataError:
    known = ", ".join(map(str, runs[:_TOLD])) + (", ..." if len(runs) > _TOLD else "")
    what = "is a sweep and holds" if (folder / PLAN).is_file() else "holds"
    count = f"{len(runs)} runs" if len(runs) > 1 else "one run"
    return DataError(f"{folder} {what} {count}; name one of them: {known}")


def read_run(folder: Path) -> Run:
    """Return the run in ``folder``; what cannot be read of it is said in it and raises nothing."""
    troubles: list[str] = []
    parts: dict[str, Mapping[str, Any]] = {"summary.json": {}, "config.yaml": {}}
    for name in parts:
        try:
            parts[name] = read_mapping(folder / name)
        except DataError as error:
            troubles.append(error.message)
    summary, config = parts["summary.json"], parts["config.yaml"]
    rows: Mapping[str, Row] = {}
    skipped: list[Skipped] = []
    results = folder / "results.jsonl"
    try:
        rows, left = read_each(results, _row)
        skipped = [Skipped(results, one.line, one.why) for one in left]
    except DataError as error:
        troubles.append(error.message)
    status = str(summary.get("status"))
    if status not in _STATUSES:
        status = "partial" if rows else "failed"
    told = [] if summary.get("error") is None else [str(summary["error"])]
    if status == "failed":
        # What a run that says why it failed has not written is no trouble of its own.
        told = told or ["no reason was recorded", *troubles]
    else:
        planned = f"{len(rows)} of {summary.get('planned', '?')} problems have a result"
        told += [planned, *troubles] if status == "partial" else troubles
    return Run(
        folder=folder,
        status=status,
        config=config,
        summary=summary,
        rows=rows,
        skipped=tuple(skipped),
        error="; ".join(told) or None,
        traceback=_told(summary.get("traceback")),
    )


def read_mapping(path: Path) -> dict[str, Any]:
    """Return what a file of JSON or YAML says. Raises ``DataError`` unless that is a mapping."""
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text) if path.suffix == ".json" else yaml.load(text, _LOADER)  # noqa: S506 - a safe one
    except FileNotFoundError as error:
        raise DataError(f"{path.parent} holds no {path.name}; name the folder that a run wrote.") from error
    except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
        raise DataError(f"{path} cannot be read: {type(error).__name__}: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{path} is no mapping; is it of a run?")
    return found


#: The fast one where PyYAML has it: ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _told(value: Any) -> str | None:
    return None if value is None else str(value)


def _below(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs in ``folder`` and below it. Raises ``DataError`` for one that is closed."""

    def closed(error: OSError) -> None:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}") from error

    for here, inner, files in os.walk(folder, onerror=closed):
        inner[:] = [name for name in inner if not name.startswith(".")]
        if "results.jsonl" in files or ("summary.json" in files and _of_a_run(Path(here, "summary.json"))):
            yield Path(here)


def _of_a_run(file: Path) -> bool:
    """Whether a summary is that of a run; one that cannot be read may be."""
    try:
        return "status" in read_mapping(file)
    except DataError:
        return True


def _numbers_in_order(path: Path) -> list[tuple[str, int]]:
    return [(word, int(number or 0)) for word, number in re.findall(r"(\D*)(\d{0,18})", str(path))]


def _holds(folder: Path) -> str:
    names = sorted(entry.name for entry in folder.iterdir())
    if not names:
        return "It is empty."
    return f"It holds {', '.join(names[:_TOLD])}{', ...' if len(names) > _TOLD else ''}."


def _row(record: Mapping[str, Any]) -> Row:
    """Return a line of ``results.jsonl``. Raises ``Wrong``."""
    name, outcome = get(record, "id", LABEL, None), get(record, "outcome", TEXT, None)
    if name is None or outcome not in OUTCOMES:
        raise Wrong("has no `id`" if name is None else f"`outcome` must be one of {', '.join(OUTCOMES)}")
    usage = record.get("usage")
    if not isinstance(usage, Mapping):
        raise Wrong("`usage` must be a mapping")
    return Row(
        id=name,
        outcome=outcome,
        correct=get(record, "correct", FLAG, None),
        decoded=get(usage, "decoded", COUNT, 0),
        serial=get(usage, "serial", COUNT, 0),
        seconds=get(usage, "seconds", NOT_NEGATIVE, 0.0),
        joules=get(usage, "joules", NOT_NEGATIVE, None),
        candidates=get(record, "candidates", COUNT, 0),
        truncated=get(record, "truncated", COUNT, 0),
        answer=_cut(get(record, "answer", LABEL, None)),
        gold=_cut(get(record, "gold", LABEL, None)),
        stopped=_cut(get(record, "stopped", TEXT, None)),
        reason=_cut(get(record, "reason", TEXT, None)),
        text=_cut(get(record, "text", TEXT, None), _MOST_TEXT),
    )


def _cut(text: str | None, most: int = _MOST_WORDS) -> str | None:
    return text if text is None or len(text) <= most else f"{text[: most - 1]}\u2026"
