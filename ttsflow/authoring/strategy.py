"""``ttsflow new strategy``: a file of one's own that begins as a shipped one."""

from __future__ import annotations

import re
from pathlib import Path

from ttsflow.build import build, walk
from ttsflow.config import VARIABLES, compose, to_yaml
from ttsflow.control import ControllerPart
from ttsflow.errors import ConfigError, suggest
from ttsflow.further import engines_of
from ttsflow.plugins import load
from ttsflow.registry import Entry, config_folder

__all__ = ["trial_words", "write_strategy"]

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def write_strategy(name: str, base: str, folder: Path, *, extend: bool = False) -> Path:
    """Write ``folder``/strategy/``name``.yaml and return it: a copy of ``base``, or with ``extend`` a change.

    Raises ``ConfigError`` for a name that cannot be one or is taken, a base that there is not, and
    a file that exists.
    """
    registry = load()
    if not _NAME.fullmatch(name):
        raise ConfigError(f"a strategy's name has small letters, digits and _, got '{name}'.")
    if f"strategy/{name}" in registry.options or name in {e.name for e in registry.entries("strategy")}:
        raise ConfigError(f"'{name}' is installed already; give yours another name.")
    entry = registry.find("strategy", base)
    if not entry.is_config:
        files = [e.name for e in registry.entries("strategy") if e.is_config]
        raise ConfigError(f"'{base}' is a Python class and has no file to begin with. {suggest(base, files)}")
    file = folder / "strategy" / f"{name}.yaml"
    if file.exists():
        raise ConfigError(f"'{file}' exists; nothing is overwritten.")
    text = _change(base) if extend else _copy(entry)
    cost = entry.notes.get("cost", "")
    head = f"# What: {entry.doc}\n# Source: {base} of {entry.provider}, changed\n# Cost: {cost}\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("x", encoding="utf-8") as out:
        out.write(head + text)
    return file


def trial_words(base: str) -> list[str]:
    """Return what a run of a strategy has to be given besides an engine, for a first try."""
    stage = build("stage", compose([f"strategy={base}"])["strategy"], "", load())
    parts = [part for _, part in walk(stage)]
    words = [f"engines.{name}.use=fake" for name in engines_of(stage)]
    words += ["verifier=fake"] if any("verifier" in getattr(part, "needs", ()) for part in parts) else []
    return words + ["budget.run.tokens=2000"] * any(isinstance(part, ControllerPart) for part in parts)


def _copy(entry: Entry) -> str:
    """Return a strategy's file without the comment at its head."""
    package, _, name = str(entry.target).partition(":")
    lines = config_folder(package).joinpath(*name.split("/")).read_text("utf-8").splitlines(keepends=True)
    first = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[first:])


def _change(base: str) -> str:
    """Return a file that starts from ``base``, with its variables to be set."""
    variables = compose([f"strategy={base}"])[VARIABLES]
    return f"defaults: [{base}, _self_]\n{to_yaml(variables) if variables else ''}"
