"""What happened, as JSON lines: one event a line, none per token."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from ttsflow.runs.lines import LineFile
from ttsflow.types import Candidate, Result, Usage

__all__ = ["JsonTrace", "NoTrace", "Recorder", "candidate_event", "engines_record", "finite", "result_record"]


class Recorder(Protocol):
    """Where the driver writes events."""

    enabled: bool

    def event(self, kind: str, problem: str, data: Mapping[str, Any]) -> None:
        """Write one event of one problem."""
        ...

    def flush(self) -> None:
        """Hand everything written to the operating system."""
        ...


class NoTrace:
    """Writes nothing."""

    enabled = False

    def event(self, kind: str, problem: str, data: Mapping[str, Any]) -> None:
        """Drop the event."""

    def flush(self) -> None:
        """Do nothing."""


class JsonTrace:
    """Appends events to ``trace.jsonl``; flushed whenever a problem ends."""

    enabled = True

    def __init__(self, path: Path) -> None:
        self._file = LineFile(path)
        # A number that JSON does not know would make the whole line unreadable.
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode

    def event(self, kind: str, problem: str, data: Mapping[str, Any]) -> None:
        """Write one event of one problem. Raises ``ValueError`` for a number that is not finite."""
        head = {"event": kind, "problem": problem}
        self._file.write(self._encode(head | dict(data) | head))

    def flush(self) -> None:
        """Hand everything written to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def candidate_event(candidate: Candidate, *, logprobs: bool = False) -> dict[str, Any]:
    """Return what the trace says of a candidate whose request has ended.

    With ``logprobs`` that includes those of its new tokens, the highest first, to four decimals.
    """
    record: dict[str, Any] = {
        "path": candidate.path,
        "finish": candidate.finish,
        "tokens": len(candidate.tokens),
        "tokens_new": candidate.tokens_new,
        "seed": candidate.seed,
        "text": candidate.text,
    }
    if candidate.engine:
        record["engine"] = candidate.engine
    if candidate.answer:
        record["answer"] = candidate.answer.key
    if candidate.reason:
        record["reason"] = candidate.reason
    if logprobs and candidate.tokens_new:
        new = candidate.logprobs[-candidate.tokens_new :]
        record["logprobs"] = [[round(value, 4) for value in entry.values()] for entry in new]
        if candidate.certainties:
            record["certainties"] = [round(c, 4) for c in candidate.certainties[-candidate.tokens_new :]]
    return record


def result_record(result: Result) -> dict[str, Any]:
    """Return a result as a plain mapping, as one line of ``results.jsonl`` holds it."""
    record = asdict(result)
    record["usage"] |= {"decoded": result.usage.decoded, "engines": engines_record(result.usage)}
    return record


def engines_record(usage: Usage) -> dict[str, dict[str, int]]:
    """Return what each further engine had a part in, by name."""
    return {
        one.engine: {name: getattr(one, name) for name in (*one._fields[1:], "decoded")}
        for one in usage.engines
    }


def finite(value: Any) -> Any:
    """Return ``value`` with numbers that JSON does not know, such as a cost of infinity, as None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list | tuple) else value
