"""Every exception ttsflow raises on purpose.

::

    TtsflowError
    ├── ConfigError          a setting is wrong; carries its dotted config path      (exit code 2)
    │   ├── UnknownPart      `use:` names nothing that is registered
    │   └── DataError        a data file is wrong; carries file and line
    ├── PluginError          a plugin could not be loaded, clashes or misspells a hook (exit code 2)
    ├── MissingExtra         an optional dependency is needed and not installed       (exit code 2)
    ├── ModelError           an engine refused to load its model                      (exit code 1)
    ├── EngineDead           an engine stopped answering while a run was on           (exit code 1)
    └── MeterDead            an energy meter stopped answering while a run was on     (exit code 1)

A message says what was asked, what exists, the nearest match and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "DataError",
    "EngineDead",
    "MeterDead",
    "MissingExtra",
    "ModelError",
    "PluginError",
    "TtsflowError",
    "UnknownPart",
    "suggest",
]


class TtsflowError(Exception):
    """Base of all errors of ttsflow; its text is meant for the person at the keyboard."""

    exit_code = 1


class ConfigError(TtsflowError):
    """A setting is wrong.

    ``path`` is the dotted place in the config, such as ``strategy.stages.sample.n``; a part that
    refuses one of its own fields names only the field, and ``build`` puts the rest in front.
    """

    exit_code = 2

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def below(self, prefix: str) -> ConfigError:
        """Return the same error seen from further up the config tree."""
        path = ".".join(part for part in (prefix, self.path) if part)
        return type(self)(self.message, path)

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class UnknownPart(ConfigError):
    """`use:` names a part that no installed package registers."""


class DataError(ConfigError):
    """A data file cannot be read as it should; the message holds file and line."""


class PluginError(TtsflowError):
    """A plugin is broken, clashes with another one, or does not fit this version."""

    exit_code = 2


class MissingExtra(TtsflowError):
    """An optional dependency is needed; the message says which extra to install."""

    exit_code = 2


class ModelError(TtsflowError):
    """A model could not be loaded."""


class EngineDead(TtsflowError):
    """An engine stopped working while requests were running on it."""


class MeterDead(TtsflowError):
    """An energy meter stopped working while it was needed."""


def suggest(asked: str, known: Iterable[str]) -> str:
    """Return "Did you mean 'x'? Known: a, b, c." for a name that does not exist."""
    names = sorted(known)
    if not names:
        return "None exists."
    # Whoever writes the beginning of one name does not mean another that has it in the middle.
    begun = [name for name in names if len(asked) > 2 and name.startswith(asked)]
    near = difflib.get_close_matches(asked, begun or names, n=1, cutoff=0.5) or begun
    hint = f"Did you mean '{near[0]}'? " if near else ""
    return f"{hint}Known: {', '.join(names)}."
