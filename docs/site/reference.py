"""Pages that are made whenever the site is built: parts, strategies, the public API, a list of decisions."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from ttsflow.authoring.reference import settings_of
from ttsflow.plugins import load
from ttsflow.registry import KINDS, Entry, Registry, config_folder

_MODULE = re.compile(r"^\| `(ttsflow[\w.]*)` \|", re.MULTILINE)
#: How a name of each sort is documented; what is neither is a constant or an alias.
_SORTS = ((inspect.isclass, "autoclass"), (inspect.isroutine, "autofunction"))


def write_reference(source: Path) -> None:
    """Write all pages into ``source/reference``; ``source/docs`` and ``source/conf`` are read."""
    registry = load()
    parts = {kind: _own(registry, kind) for kind in KINDS if kind != "strategy"}
    homes = _homes(public_modules(source))
    pages = {
        "parts": _contents("Parts", "Every part with its settings, types and defaults.", parts, "parts/"),
        "strategies": _strategies(_own(registry, "strategy")),
        "api": _contents("Public API", "What may be relied on.", homes, "api/"),
        "decisions": _contents("Decisions", "Why things are as they are.", ["*"], "../docs/decisions/"),
    }
    pages |= {f"parts/{kind}": _kind(registry, kind, entries) for kind, entries in parts.items()}
    pages |= {f"api/{module}": _module(module, names) for module, names in homes.items()}
    for name, text in pages.items():
        file = source / "reference" / f"{name}.rst"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")


def _own(registry: Registry, kind: str) -> list[Entry]:
    return [entry for entry in registry.entries(kind) if entry.provider == "ttsflow"]


def _title(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


def _indented(text: str, by: str = "   ") -> str:
    return "\n".join(by + line if line else line for line in text.splitlines())


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for first, *others in (columns, *rows):
        lines += [f"   * - {first}", *(f"     - {cell}" for cell in others)]
    return "\n".join([*lines, ""])


def _contents(title: str, what: str, names: Iterable[str], folder: str) -> str:
    pages = "\n".join(f"   {folder}{name}" for name in names)
    return "\n".join((_title(title), what, "", ".. toctree::", "   :glob:", "   :maxdepth: 1", "", pages, ""))


def _kind(registry: Registry, kind: str, entries: Sequence[Entry]) -> str:
    """Return the page of a kind of part: what ``ttsflow describe`` prints of each one."""
    also = f":doc:`Parts </docs/parts>` has what each setting does, ``ttsflow describe {kind} NAME`` this."
    pieces = [_title(kind), also, ""]
    for entry in entries:
        cls = registry.get(kind, entry.name)
        rows = [(f"``{key}``", words, f"``{default}``") for key, words, default in settings_of(cls)]
        pieces += [_title(entry.name, "-"), inspect.cleandoc(cls.__doc__ or ""), ""]
        pieces += [_table(("setting", "type", "default"), rows) if rows else "It has no settings.", ""]
        pieces += [f"Class ``{cls.__module__}.{cls.__qualname__}``.", ""]
    return "\n".join(pieces)


def _strategies(entries: Sequence[Entry]) -> str:
    """Return the table that ``ttsflow list strategy`` prints, and the file of every strategy."""
    rows = [
        (
            f":doc:`{entry.name} </docs/strategies/{entry.name}>`",
            *(entry.notes[key] for key in ("what", "source", "cost")),
        )
        for entry in entries
    ]
    pieces = [_title("Strategies"), _table(("strategy", "what", "source", "cost"), rows)]
    for entry in entries:
        package, _, file = str(entry.target).partition(":")
        text = config_folder(package).joinpath(*file.split("/")).read_text("utf-8")
        pieces += [_title(entry.name, "-"), ".. code-block:: yaml", "", _indented(text), ""]
    return "\n".join(pieces)


@cache
def public_modules(source: Path) -> dict[str, list[str]]:
    """Return the names in ``__all__`` of every module that ``docs/api.md`` lists."""
    listed = _MODULE.findall((source / "docs" / "api.md").read_text("utf-8"))
    return {module: importlib.import_module(module).__all__ for module in listed}


def _homes(public: dict[str, list[str]]) -> dict[str, dict[str, str]]:
    """Return, by public module, its names and where each is documented: where it is defined, if public."""
    first = {name: module for module in reversed(public) for name in public[module]}
    found: dict[str, dict[str, str]] = {}
    for module, names in public.items():
        defined = {name: str(getattr(getattr(sys.modules[module], name), "__module__", "")) for name in names}
        found[module] = {
            name: home if name in public.get(home, ()) else first[name] for name, home in defined.items()
        }
    return found


def _module(module: str, names: dict[str, str]) -> str:
    """Return the page of a public module, with every name in its ``__all__``."""
    pieces = [_title(module), f".. automodule:: {module}", ""]
    elsewhere = [f"* :py:obj:`{name} <{home}.{name}>`" for name, home in names.items() if home != module]
    for name, home in names.items():
        if home == module:
            value = getattr(sys.modules[module], name)
            sort = next((sort for is_one, sort in _SORTS if is_one(value)), "autodata")
            members = ["   :members:"] if sort == "autoclass" else []
            pieces += [f".. {sort}:: {module}.{name}", *members, ""]
    return "\n".join([*pieces, *(["Also here:", ""] if elsewhere else []), *elsewhere, ""])
