"""What a part or a config file says about itself, read without importing or composing it.

Listing everything that is installed must be fast and must not fail because one part needs a package
that is missing, so classes are read from their source.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
from collections.abc import Mapping

__all__ = ["describe_class", "describe_source", "describe_yaml"]

_NOTE = re.compile(r"^(What|Source|Cost):\s*(.*)$")


def describe_yaml(text: str) -> Mapping[str, str]:
    """Return the notes in a file's leading comment: ``what``, ``source`` and ``cost``.

    A comment line that starts none of them goes on with the one before.
    """
    notes: dict[str, str] = {}
    current = ""
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        words = line.lstrip("#").strip()
        match = _NOTE.match(words)
        if match:
            current = match[1].lower()
            notes[current] = match[2].strip()
        elif current and words:
            notes[current] = f"{notes[current]} {words}".strip()
    return notes


def _describe_docstring(doc: str | None) -> Mapping[str, str]:
    lines = inspect.cleandoc(doc or "").splitlines()
    notes = {"what": lines[0]} if lines else {}
    for line in lines[1:]:
        match = _NOTE.match(line.strip())
        if match and match[1] != "What":
            notes[match[1].lower()] = match[2].strip()
    return notes


def describe_class(cls: type) -> Mapping[str, str]:
    """Return the notes in a class's docstring; its first line is ``what``."""
    return _describe_docstring(cls.__doc__)


def describe_source(target: str, hops: int = 2) -> Mapping[str, str]:
    """Return the notes of "module:Class" from its source; empty when there is none to read."""
    module, _, name = target.partition(":")
    try:
        spec = importlib.util.find_spec(module)
        source = spec.loader.get_source(module) if spec and spec.loader else None  # type: ignore[attr-defined]
        tree = ast.parse(source or "")
    except Exception:  # noqa: BLE001 - a broken package must not break the list of parts
        return {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return _describe_docstring(ast.get_docstring(node))
        # A package often offers a class that one of its modules defines.
        if isinstance(node, ast.ImportFrom) and node.module and not node.level and hops:
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return describe_source(f"{node.module}:{alias.name}", hops - 1)
    return {}
