"""Results that a run has written, read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, get_args

from ttsflow.fields import Wrong
from ttsflow.runs.lines import numbered_lines
from ttsflow.types import EngineTokens, Outcome, Result, Usage

__all__ = ["OUTCOMES", "Found", "NoResult", "read_each", "read_results"]

OUTCOMES: tuple[str, ...] = get_args(Outcome)
#: Fields of a result that hold a text; those below may lack one.
_TEXTS = ("id", "answer", "stopped", "gold", "reason", "text", "fingerprint")
_GIVEN = frozenset({"id", "fingerprint"})
_SPENT = tuple(item.name for item in fields(Usage) if item.name != "engines")
_COUNTS = ("candidates", "truncated", "path_tokens")


class Found(NamedTuple):
    """A result, and the record it was read from."""

    result: Result
    record: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The problem."""
        return self.result.id


class NoResult(NamedTuple):
    """A line that does not count, and why; ``again`` where it has a result of a problem that has one."""

    line: int
    why: str
    again: bool = False


class _OfAProblem(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_OfAProblem)


def read_each(path: Path, read: Callable[[Mapping[str, Any]], T]) -> tuple[dict[str, T], list[NoResult]]:
    """Return what ``read`` makes of the lines of a file of results, by problem, and those that do not count.

    ``read`` raises ``Wrong`` for what is no result. Of two for one problem the first counts. Raises
    ``DataError`` when the file cannot be read.
    """
    found: dict[str, T] = {}
    left: list[NoResult] = []
    for number, record in numbered_lines(path):
        if record is None:
            left.append(NoResult(number, "is no record of JSON"))
            continue
        try:
            made = read(record)
        except (Wrong, RecursionError) as error:
            left.append(NoResult(number, str(error)))
            continue
        if made.id in found:
            left.append(NoResult(number, f"a second result of {made.id!r}", again=True))
        else:
            found[made.id] = made
    return found, left


def read_results(path: Path) -> tuple[dict[str, Found], list[int]]:
    """Return whole results by problem, and the numbers of lines that are none; see ``read_each``.

    Nothing where there is no file.
    """
    found, left = read_each(path, _found) if path.exists() else ({}, [])
    return found, [one.line for one in left if not one.again]


def _found(record: Mapping[str, Any]) -> Found:
    try:
        return Found(_result(record), record)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Wrong("is no whole result") from error


def _result(record: Mapping[str, Any]) -> Result:
    """Return a result; raises the errors of mappings, and ``ValueError`` for what no run writes."""
    spent = record["usage"]
    # Runs from before there were several engines do not say.
    engines = {
        name: EngineTokens(name, **{key: one[key] for key in EngineTokens._fields[1:]})
        for name, one in spent.get("engines", {}).items()
    }
    usage = Usage(
        **{name: spent[name] for name in _SPENT}, engines=tuple(engines[n] for n in sorted(engines))
    )
    cost = {unit: inf if value is None else value for unit, value in record["cost"].items()}
    rest = {item.name: record[item.name] for item in fields(Result) if item.name not in {"usage", "cost"}}
    made = Result(usage=usage, cost=cost, **rest)
    numbers = [value for name, value in _items(usage) if not (name == "joules" and value is None)]
    numbers += [count for one in usage.engines for count in one[1:]]
    numbers += [getattr(made, name) for name in _COUNTS]
    texts = [value for name in _TEXTS if (value := getattr(made, name)) is not None or name in _GIVEN]
    sound = (
        all(map(_counts, numbers))
        and all(isinstance(value, int | float) for value in cost.values())
        and all(isinstance(text, str) for text in texts)
        and (made.correct is None or isinstance(made.correct, bool))
        and made.outcome in OUTCOMES
        and isinstance(made.versions, Mapping)
    )
    if not sound:
        msg = "no run writes such a result"
        raise ValueError(msg)
    return made


def _items(usage: Usage) -> list[tuple[str, Any]]:
    return [(name, getattr(usage, name)) for name in _SPENT]


def _counts(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0
