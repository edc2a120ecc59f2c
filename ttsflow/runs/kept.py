"""Results that a run has written, read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from math import inf, isfinite
from pathlib import Path
from typing import Any, get_args

from ttsflow.runs.lines import numbered_lines
from ttsflow.types import EngineTokens, Outcome, Result, Usage

__all__ = ["Found", "read_results"]

Found = tuple[Result, Mapping[str, Any]]
"""A result, and the record it was read from."""

_OUTCOMES = frozenset(get_args(Outcome))
#: Fields of a result that hold a text; those below may lack one.
_TEXTS = ("id", "answer", "stopped", "gold", "reason", "text", "fingerprint")
_GIVEN = frozenset({"id", "fingerprint"})
_SPENT = tuple(item.name for item in fields(Usage) if item.name != "engines")
_COUNTS = ("candidates", "truncated", "path_tokens")


def read_results(path: Path) -> tuple[dict[str, Found], list[int]]:
    """Return results and records by problem, and the numbers of lines that are no whole result.

    Of two for one problem the first counts. Nothing where there is no file. Raises ``DataError`` when it
    cannot be read.
    """
    found: dict[str, Found] = {}
    broken: list[int] = []
    for number, record in numbered_lines(path) if path.exists() else ():
        try:
            made = _result(record or {})
        except (AttributeError, KeyError, TypeError, ValueError):
            broken.append(number)
        else:
            found.setdefault(made.id, (made, record or {}))
    return found, broken


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
        and made.outcome in _OUTCOMES
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
