"""Rows of a JSONL file or a hub data set, their fields, and templates that name fields."""

from __future__ import annotations

import difflib
import gzip
import importlib.util
import json
import re
import string
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttsflow.errors import ConfigError, DataError, MissingExtra, suggest

__all__ = ["Row", "Template", "as_text", "check_text_setting", "named_rows", "read_rows", "strings"]

_NAME = re.compile(r"[A-Za-z][\w \-]*(?:\.[A-Za-z][\w \-]*)*")
_MISSING = object()
# How JSON spells half a character; raw UTF-8 has none.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Row:
    """One record and where it stands, such as ``test.jsonl:12``."""

    data: Mapping[str, Any]
    place: str

    def get(self, name: str) -> Any:
        """Return a field by its name or dotted path. Raises ``DataError`` naming the nearest field."""
        value = self.find(name)
        if value is _MISSING:
            raise DataError(f"{self.place}: there is no field {name!r}. {suggest(name, self.names())}")
        return value

    def has(self, name: str) -> bool:
        """Return whether there is such a field."""
        return self.find(name) is not _MISSING

    def find(self, name: str) -> Any:
        """Return a field, or a value that is none of JSON's when there is no such field."""
        if name in self.data:
            return self.data[name]
        value: Any = self.data
        for part in name.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return _MISSING
            value = value[part]
        return value

    def first(self, names: Sequence[str]) -> Any:
        """Return the first of several fields that this row has."""
        for name in names:
            value = self.find(name)
            if value is not _MISSING:
                return value
        if len(names) == 1:
            return self.get(names[0])
        raise DataError(
            f"{self.place}: there is none of the fields {', '.join(names)}. {suggest(names[0], self.names())}"
        )

    def names(self) -> list[str]:
        """Return the names of all fields, those one level down as dotted paths."""
        below = [f"{k}.{name}" for k, v in self.data.items() if isinstance(v, Mapping) for name in v]
        return [*map(str, self.data), *below]


class Template:
    """A text with fields in braces, ``{question}`` or ``{question.stem}``; ``{{`` is a brace.

    Fields are looked up by name in the row and nowhere else: no attributes, no indices, no format
    specifications, nothing evaluated. ``setting`` is the config field that an error names.
    """

    def __init__(self, text: str, setting: str) -> None:
        self._parts: list[tuple[str, str | None]] = []
        try:
            parsed = list(string.Formatter().parse(text))
        except ValueError as error:
            raise ConfigError(
                f"{error} in {text!r}; a literal brace is written twice: {{{{", setting
            ) from error
        for literal, name, spec, conversion in parsed:
            if name is not None and (spec or conversion or not _NAME.fullmatch(name)):
                shown = name + (f"!{conversion}" if conversion else "") + (f":{spec}" if spec else "")
                raise ConfigError(
                    f"{{{shown}}} is no field name; write {{field}} or {{field.below}}, a plain brace twice",
                    setting,
                )
            self._parts.append((literal, name))

    @property
    def names(self) -> tuple[str, ...]:
        """The fields it names."""
        return tuple(name for _, name in self._parts if name is not None)

    def fill(self, row: Row) -> str:
        """Return the text for one row. Raises ``DataError`` for a field that is missing or no text."""
        return "".join(
            literal + ("" if name is None else as_text(row.get(name), name, row.place))
            for literal, name in self._parts
        )


def as_text(value: Any, name: str, place: str) -> str:
    """Return a field's value as text; whole floats lose their ``.0``. Raises ``DataError``."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise DataError(
        f"{place}: field {name!r} holds {json.dumps(value, default=str)[:60]}, expected text or a number"
    )


def read_rows(asked: str) -> Iterator[Row]:
    """Yield the rows of a ``.jsonl`` or ``.jsonl.gz`` file. Raises ``DataError`` with file and line."""
    path = _file(asked)
    rows = number = 0
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        # Bytes that are no UTF-8 come through and are refused where they stand, not a buffer ahead of it.
        with opener(path, "rt", encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    rows += 1
                    yield Row(_record(line, f"{asked}:{number}"), f"{asked}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        after = f":{number}: cannot be read beyond this line" if number else ": cannot be read"
        raise DataError(f"{asked}{after}: {error}", "path") from error
    if rows == 0:
        raise DataError(f"{asked}: the file holds no rows", "path")


def named_rows(path: str | None, hub: str | None, subset: str | None, split: str) -> Iterator[Row]:
    """Return the rows of a file, or else of a hub data set. Raises ``ConfigError`` when neither is named."""
    if path is not None:
        return read_rows(path)
    if hub is not None:
        return hub_rows(hub, subset, split)
    raise ConfigError("no data is named: set path to a JSONL file, or hub to a data set", "task.path")


def hub_rows(name: str, subset: str | None, split: str) -> Iterator[Row]:
    """Yield the rows of a hub data set. Raises ``MissingExtra`` without the package ``datasets``."""
    if importlib.util.find_spec("datasets") is None:
        raise MissingExtra(
            f"the hub data set {name!r} needs the package datasets, which is not installed; "
            "pip install 'ttsflow[hub]', or set path to a JSONL file"
        )
    import datasets  # noqa: PLC0415 - optional, and slow to import

    label = f"{name}/{subset}[{split}]" if subset else f"{name}[{split}]"
    try:
        data = datasets.load_dataset(name, subset, split=split)
    except Exception as error:
        raise DataError(f"the hub data set {label} cannot be loaded: {error}", "hub") from error
    if len(data) == 0:
        raise DataError(f"the hub data set {label} holds no rows", "hub")
    for number, record in enumerate(data):
        yield Row(dict(record), f"{label}:{number}")


def strings(value: str | Sequence[str] | None, setting: str) -> tuple[str, ...]:
    """Return a setting that may be one text or a list of them as a tuple."""
    values = () if value is None else (value,) if isinstance(value, str) else tuple(value)
    for entry in values:
        if not isinstance(entry, str) or not entry:
            raise ConfigError(f"must be text that is not empty, or a list of such, got {entry!r}", setting)
    return values


def check_text_setting(values: Sequence[str], setting: str) -> None:
    """Refuse stop strings and separators that hold a backslash and an n instead of a line break."""
    for value in values:
        if "\\n" in value:
            raise ConfigError(
                f'{value!r} holds a backslash and an n, no line break; in YAML use double quotes: "\\n\\n"',
                setting,
            )


def _record(line: str, place: str) -> Mapping[str, Any]:
    try:
        if not line.isascii():
            line.encode(errors="surrogateescape").decode()
        record = json.loads(line)
        if _SURROGATE.search(line):
            json.dumps(record, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise DataError(f"{place}: is no UTF-8 text: {error}") from error
    except UnicodeEncodeError as error:
        raise DataError(f"{place}: holds half a character, which no tokenizer takes: {error}") from error
    except json.JSONDecodeError as error:
        raise DataError(f"{place}: not a JSON object: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: cannot be read: {error}") from error
    if not isinstance(record, dict):
        raise DataError(f"{place}: expected a JSON object with fields, found {type(record).__name__}")
    return record


def _file(asked: str) -> Path:
    """Return the path of a file that can be opened. Raises ``DataError``."""
    try:
        path = Path(asked).expanduser()
        there = path.is_file()
        if there and path.suffix == ".gz" and not path.stat().st_size:
            raise DataError(f"{asked}: is no gzip data: the file has 0 bytes", "path")
        message = "" if there else _not_there(asked, path)
    except (OSError, RuntimeError, ValueError) as error:
        named = asked if len(asked) <= 200 else f"{asked[:200]}..."
        raise DataError(
            f"{named!r} cannot be read: {getattr(error, 'strerror', None) or error}", "path"
        ) from error
    if message:
        raise DataError(message, "path")
    return path


def _not_there(asked: str, path: Path) -> str:
    if "\0" in asked:
        return f"{asked!r} is no path: it holds a null character"
    if path.is_dir():
        files = sorted(file.name for file in path.iterdir() if ".jsonl" in file.name)
        return (
            f"{asked!r} is a folder; give a file. {'It holds: ' + ', '.join(files) if files else ''}".strip()
        )
    if path.is_symlink() and not path.exists():
        return (
            f"{asked!r} cannot be read: it is a link that leads to no file, but to {str(path.readlink())!r}"
        )
    if path.exists():
        return f"{asked!r} is no regular file; give a .jsonl or .jsonl.gz file"
    folder = path.parent
    where = "" if path.is_absolute() else f" (looked for in {Path.cwd()})"
    if not folder.is_dir():
        return f"there is no file {asked!r}{where}: the folder {str(folder)!r} does not exist"
    names = [file.name for file in folder.iterdir() if file.is_file()]
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.4)
    hint = f" Did you mean {str(folder / near[0])!r}?" if near else ""
    return f"there is no file {asked!r}{where}.{hint}"
