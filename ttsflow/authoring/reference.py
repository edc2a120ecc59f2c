"""``ttsflow describe``: what a part is and which settings it has, from its class."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

from rich.table import Table
from rich.text import Text

from ttsflow.errors import ConfigError, suggest
from ttsflow.listing import wide_console
from ttsflow.parts import schema
from ttsflow.registry import KINDS, Registry, config_folder
from ttsflow.values import describe_type

__all__ = ["describe_part", "only_named", "settings_of"]


def settings_of(cls: type[Any]) -> list[tuple[str, str, str]]:
    """Return key, type in words and default of every setting; "required" where there is no default."""
    return [(key, describe_type(hint), _default(field)) for key, (field, hint) in schema(cls).items()]


def only_named(registry: Registry, name: str) -> tuple[str, str]:
    """Return kind and name of the one part of this name. Raises ``ConfigError`` for none and for several."""
    if name in KINDS:
        known = [entry.name for entry in registry.entries(name)]
        raise ConfigError(f"'{name}' is a kind of part; say which: {', '.join(known)}.")
    entries = registry.entries()
    found = [entry.kind for entry in entries if entry.name == name]
    if not found:
        raise ConfigError(f"there is no part '{name}'. {suggest(name, {entry.name for entry in entries})}")
    if len(found) > 1:
        raise ConfigError(
            f"there are several parts '{name}'; say which: {', '.join(f'{k} {name}' for k in found)}."
        )
    return found[0], name


def describe_part(registry: Registry, kind: str, name: str) -> None:
    """Print a part's docstring and settings, or the file of a strategy.

    Raises ``ConfigError`` for a kind or a name that there is not, ``PluginError`` for a part that cannot be
    loaded.
    """
    if kind not in KINDS:
        raise ConfigError(f"there is no kind of part '{kind}'. {suggest(kind, KINDS)}")
    entry, console = registry.find(kind, name), wide_console()
    console.print(Text(f"{kind} {name}, of {entry.provider}\n"))
    if entry.is_config:
        package, _, file = str(entry.target).partition(":")
        console.print(Text(config_folder(package).joinpath(*file.split("/")).read_text("utf-8").rstrip()))
        return
    cls = registry.get(kind, name)
    console.print(Text(inspect.cleandoc(cls.__doc__ or "It has no docstring.")))
    rows = settings_of(cls)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("setting", "type", "default"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(Text(""), table if rows else Text("It has no settings."))


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    if field.default is dataclasses.MISSING:
        return "required"
    value = field.default
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
