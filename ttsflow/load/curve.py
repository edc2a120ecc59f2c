"""A load written down: levels at positions, which are seconds or questions."""

from __future__ import annotations

import bisect
import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ttsflow.errors import DataError, suggest
from ttsflow.fields import shown
from ttsflow.files import named_path

__all__ = ["COLUMNS", "Curve", "read_curve"]

COLUMNS = ("seconds", "load")
_ENDINGS = (".csv", ".jsonl")


@dataclass(frozen=True, slots=True)
class Curve:
    """Loads in [0, 1] at positions that grow from row to row.

    Between two rows it is the load of the earlier one, or with ``linear`` on the line between both. Before
    the first row it is the first load. At ``end``, which is at least the last position, it begins again from
    the first position, or without ``end`` the last load stays.
    """

    positions: tuple[float, ...]
    loads: tuple[float, ...]
    linear: bool = False
    end: float | None = None

    def at(self, position: float) -> float:
        """Return the load there."""
        first = self.positions[0]
        if self.end is not None and position >= self.end:
            position = first + (position - first) % (self.end - first)
        after = bisect.bisect_right(self.positions, position)
        if after == 0:
            return self.loads[0]
        if after == len(self.positions) or not self.linear:
            return self.loads[after - 1]
        (left, right), (low, high) = self.positions[after - 1 : after + 1], self.loads[after - 1 : after + 1]
        return low + (high - low) * (position - left) / (right - left)


def read_curve(asked: str, *, linear: bool, cycle: bool) -> Curve:
    """Return the curve of a CSV or JSONL file of rows with ``seconds`` and ``load``.

    A CSV file may have a head with these names, in any order, else its columns are in this one; what other
    fields a JSON object has is left alone. With ``cycle`` the last row says where it begins again. Raises
    ``DataError`` with file and line.
    """
    path = named_path(asked, "path")
    if path.suffix.lower() not in _ENDINGS:
        raise DataError(f"{asked!r} is neither a .csv nor a .jsonl file.", "path")
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{asked!r} cannot be read: {getattr(error, 'strerror', None) or error}", "path"
        ) from error
    rows = _csv(text, asked) if path.suffix.lower() == ".csv" else _jsonl(text, asked)
    positions: list[float] = []
    loads: list[float] = []
    for place, fields in rows:
        second, load = (_number(value, name, place) for name, value in zip(COLUMNS, fields, strict=True))
        if not 0 <= load <= 1:
            raise DataError(f"{place}: a load lies between 0 and 1, found {load:g}", "path")
        if positions and second <= positions[-1]:
            raise DataError(f"{place}: seconds must grow, found {second:g} after {positions[-1]:g}", "path")
        positions.append(second)
        loads.append(load)
    if len(positions) < 1 + cycle:
        least = "two rows, the last of which says where it begins again" if cycle else "a row"
        raise DataError(f"{asked!r} needs at least {least}; found {len(positions)}.", "path")
    return Curve(tuple(positions), tuple(loads), linear, positions[-1] if cycle else None)


def _number(value: Any, name: str, place: str) -> float:
    """Return a field as a finite number; text is taken for one, as CSV has nothing else."""
    try:
        number = None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not abs(number) <= 1e15:
        raise DataError(f"{place}: `{name}` must be a finite number, found {shown(value)}", "path")
    return number


def _csv(text: str, asked: str) -> Iterator[tuple[str, Sequence[Any]]]:
    lines = csv.reader(text.splitlines())
    order: tuple[int, int] | None = None
    try:
        for row in lines:
            place, cells = f"{asked}:{lines.line_num}", [cell.strip() for cell in row]
            if not any(cells):
                continue
            if order is None:
                named = not _looks_like_a_number(cells[0])
                order = (_column("seconds", cells, place), _column("load", cells, place)) if named else (0, 1)
                if named:
                    continue
            if len(cells) <= max(order):
                raise DataError(f"{place}: expected {max(order) + 1} columns, found {len(cells)}", "path")
            yield place, [cells[column] for column in order]
    except csv.Error as error:
        raise DataError(f"{asked}:{lines.line_num}: {error}", "path") from error


def _looks_like_a_number(cell: str) -> bool:
    return bool(cell) and (cell[0] in "+-.0123456789" or cell.lower() in {"nan", "inf"})


def _column(name: str, cells: Sequence[str], place: str) -> int:
    names = [cell.lower() for cell in cells]
    if name not in names:
        raise DataError(f"{place}: the head has no column `{name}`. {suggest(name, names)}", "path")
    return names.index(name)


def _jsonl(text: str, asked: str) -> Iterator[tuple[str, Sequence[Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        place = f"{asked}:{number}"
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{place}: no JSON object: {error}", "path") from error
        if not isinstance(row, dict):
            raise DataError(
                f"{place}: expected an object with `seconds` and `load`, found {shown(row)}", "path"
            )
        for name in COLUMNS:
            if name not in row:
                raise DataError(f"{place}: there is no `{name}`. {suggest(name, row)}", "path")
        yield place, [row[name] for name in COLUMNS]
