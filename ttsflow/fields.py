"""Fields of a JSON record, each refused with what it should be and what it is."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

__all__ = ["COUNT", "FLAG", "LABEL", "NUMBER", "NUMBERS", "TEXT", "Form", "Wrong", "each", "get", "shown"]

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
    return float(value) if math.isfinite(value) else None


def _numbers(value: Any) -> tuple[float, ...] | None:
    if not isinstance(value, list) or not value:
        return None
    found = [_number(entry) for entry in value]
    known = tuple(entry for entry in found if entry is not None)
    return known if len(known) == len(found) else None


def _label(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    if _number(value) is None:
        return None
    return str(int(value)) if float(value).is_integer() else str(value)


TEXT: Form[str] = Form("text", lambda value: value if isinstance(value, str) else None)
LABEL: Form[str] = Form("text or a number", _label)
FLAG: Form[bool] = Form("true or false", lambda value: value if isinstance(value, bool) else None)
NUMBER: Form[float] = Form("a finite number", _number)
NUMBERS: Form[tuple[float, ...]] = Form("a list of finite numbers", _numbers)
COUNT: Form[int] = Form(
    "a whole number from 0 on",
    lambda value: value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None,
)
