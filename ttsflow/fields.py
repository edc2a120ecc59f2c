"""Fields of a JSON record, each refused with what it should be and what it is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = [
    "COUNT",
    "FLAG",
    "LABEL",
    "LEAST_LOGPROB",
    "LOGPROBS",
    "MOST_SCORE",
    "MOST_TOKENS",
    "NOT_NEGATIVE",
    "SCORE",
    "TEXT",
    "Form",
    "Wrong",
    "each",
    "get",
    "shown",
]

#: The longest prompt and the longest sample that are read, in tokens: memory is taken for each of them.
MOST_TOKENS = 100_000_000
#: Scores are within plus and minus this, so that sums and squares of them stay finite.
MOST_SCORE = 1e100
#: Log-probabilities, in nats, are from this to 0.
LEAST_LOGPROB = -1e6
#: How far rounding may carry a log-probability above 0, and a certainty below.
_ROUNDING = 1e-6

T = TypeVar("T")
D = TypeVar("D")


class Wrong(Exception):
    """What is wrong with a record; whoever reads the file adds the place."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """What a field may hold: ``read`` returns the value, None when it is not ``what``."""

    what: str
    read: Callable[[Any], T | None]


def get(data: Mapping[str, Any], name: str, form: Form[T], default: D) -> T | D:
    """Return a field that may be absent or null. Raises ``Wrong``."""
    value = data.get(name)
    if value is None:
        return default
    found = form.read(value)
    if found is None:
        raise Wrong(f"`{name}` must be {form.what}, found {shown(value)}")
    return found


def each(data: Mapping[str, Any], name: str, form: Form[T]) -> tuple[T, ...]:
    """Return the entries of a field that is a list, and may be absent or null. Raises ``Wrong``."""
    values = data.get(name)
    if values is None:
        return ()
    if not isinstance(values, list):
        raise Wrong(f"`{name}` must be a list, found {shown(values)}")
    entries = []
    for place, value in enumerate(values):
        entry = form.read(value)
        if entry is None:
            raise Wrong(f"entry {place} of `{name}` must be {form.what}, found {shown(value)}")
        entries.append(entry)
    return tuple(entries)


def shown(value: Any) -> str:
    """Return the beginning of a value as it stands in the file."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
        return None
    return number if math.isfinite(number) else None


def _between(low: float, high: float) -> Callable[[Any], float | None]:
    def read(value: Any) -> float | None:
        number = _number(value)
        return number if number is not None and low <= number <= high else None

    return read


def _logprobs(value: Any) -> tuple[float, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    read = _between(LEAST_LOGPROB, _ROUNDING)
    found = [read(entry) for entry in value]
    known = tuple(entry for entry in found if entry is not None)
    return known if len(known) == len(found) else None


def _label(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if _number(value) is None:
        return None
    return str(int(value)) if float(value).is_integer() else str(value)


def _count(value: Any) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value <= MOST_TOKENS else None


TEXT: Form[str] = Form("text", lambda value: value if isinstance(value, str) else None)
LABEL: Form[str] = Form("text or a finite number", _label)
FLAG: Form[bool] = Form("true or false", lambda value: value if isinstance(value, bool) else None)
SCORE: Form[float] = Form(
    f"a finite number from {-MOST_SCORE:g} to {MOST_SCORE:g}", _between(-MOST_SCORE, MOST_SCORE)
)
NOT_NEGATIVE: Form[float] = Form(
    f"a finite number from 0 to {MOST_SCORE:g}", _between(-_ROUNDING, MOST_SCORE)
)
LOGPROBS: Form[tuple[float, ...]] = Form(
    f"a list of finite numbers from {LEAST_LOGPROB:,.0f} to 0", _logprobs
)
COUNT: Form[int] = Form(f"a whole number from 0 to {MOST_TOKENS:,}", _count)
