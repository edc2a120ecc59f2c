"""JSON schemas of config files, made from the installed parts: for editors, and for checks elsewhere.

They say what ``build`` would refuse by shape: names of parts, keys, types. What only a whole run shows, such
as a strategy that needs scores without a verifier, is found by ``ttsflow check``. An interpolation may stand
for any value. A file with ``defaults`` changes another one, so nothing in it is required.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from ttsflow.acceleration import Acceleration
from ttsflow.composing.order import AFTER
from ttsflow.costs.hardware import Hardware
from ttsflow.errors import ConfigError, TtsflowError, suggest
from ttsflow.ledger import Budget
from ttsflow.parts import PROTOCOLS, schema
from ttsflow.registry import MOUNT, Entry, Registry, config_folder
from ttsflow.types import Sampling

__all__ = ["GROUPS", "file_schema"]

Schema = dict[str, Any]

#: What a file of each group describes: a part of a kind, settings that are no part, or None: a whole run.
GROUPS: Mapping[str, str | type | None] = {
    "strategy": "stage",
    "engine": "engine",
    "task": "task",
    "verifier": "verifier",
    "cost": "cost",
    "meter": "meter",
    "load": "load",
    "logger": "logger",
    "experiment": None,
    "budget": Budget,
    "sampling": Sampling,
    "hardware": Hardware,
}

#: Groups that may be empty: then there is nothing of the kind.
_MAY_BE_EMPTY = ("verifier", "hardware")

_SCALARS: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    bool: "boolean",
    str: "string",
    type(None): "null",
}
_NULL = {"type": "null"}
#: An interpolation, or what a later file or the command line has to set.
_REFERENCE = {"type": "string", "pattern": r"\$\{|^\?\?\?$"}


def file_schema(group: str | None, registry: Registry) -> Schema:
    """Return the schema of the files of a group, or with None of a whole run as ``config.yaml`` holds it.

    Raises ``ConfigError`` for a group that there is not.
    """
    if group is not None and group not in GROUPS:
        raise ConfigError(f"there is no group of config files '{group}'. {suggest(group, GROUPS)}")
    maker = _Maker(registry)
    made = maker.run() if group is None else maker.file(group)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"ttsflow {group or 'run'}",
        **made,
        "$defs": dict(sorted(maker.defs.items())),
    }


class _Maker:
    """Makes definitions as they are referred to; ``change`` is of what changes another file."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.defs: dict[str, Schema] = {"reference": _REFERENCE}

    def run(self) -> Schema:
        """Return the schema of a run: every group, and the settings that belong to none."""
        text = config_folder("ttsflow.conf").joinpath("config.yaml").read_text("utf-8")
        plain = {
            key: value for key, value in yaml.safe_load(text).items() if key not in {"defaults", "hydra"}
        }
        return {
            "type": "object",
            "properties": {
                **{group: self._group(group, change=True) for group, what in GROUPS.items() if what},
                **{key: _like(value) for key, value in plain.items() if key != "engines"},
                "engines": {"type": "object", "additionalProperties": self._kind("engine", change=True)},
                **{key: {} for key in ("defaults", "hydra", "variables", "choices", "experiment")},
            },
            "additionalProperties": False,
        }

    def file(self, group: str) -> Schema:
        """Return the schema of a file of a group."""
        return {
            "if": {"type": "object", "required": ["defaults"]},
            "then": self._group(group, change=True, defaults=True),
            # What must be set may be left to the command line, but not within a strategy.
            "else": self._group(group, change=group != "strategy", chosen=True),
        }

    def _group(self, group: str, *, change: bool, defaults: bool = False, chosen: bool = False) -> Schema:
        what = GROUPS[group]
        if what is None:
            return self.run()
        extra: Schema = {"defaults": {"type": "array"}} if defaults else {}
        if isinstance(what, type):
            made = self._settings(what, change=change, extra=extra)
        elif group == "cost":
            made = {"type": "object", "properties": extra, "additionalProperties": self._kind("cost", change)}
        else:
            if group == "engine":
                extra |= self._properties(Acceleration, change)
            made = self._part(what, change=change, extra=extra, variables=group == "strategy")
            if chosen:
                made["required"] = ["use"]
        if group in _MAY_BE_EMPTY:
            made = {"anyOf": [made, _NULL, {"type": "object", "maxProperties": 0}]}
        return made

    def _kind(self, kind: str, change: bool) -> Schema:
        """Return a reference to what any part of a kind looks like."""
        name = f"{kind} (changed)" if change else kind
        if name not in self.defs:
            self.defs[name] = {}  # a stage holds stages
            self.defs[name] = self._part(kind, change=change, extra={})
        return {"$ref": f"#/$defs/{name}"}

    def _part(self, kind: str, *, change: bool, extra: Schema, variables: bool = False) -> Schema:
        """Return what a part looks like: the settings that its `use` has.

        With ``variables`` other keys are let pass. Without `use` a change may be one of any part.
        """
        entries = [entry for entry in self._registry.entries(kind) if not entry.is_config]
        cases = [self._case(entry, change=change, extra=extra, variables=variables) for entry in entries]
        names = [entry.name for entry in entries]
        if kind == "stage":
            names.append(MOUNT)
            mounted: Schema = {"properties": {"name": {"type": "string"}}}
            cases.append(_when(MOUNT, mounted if change else {**mounted, "required": ["name"]}))
        head = {"use": {"if": {"$ref": "#/$defs/reference"}, "else": {"enum": names}}}
        made: Schema = {"type": "object", "properties": head, "allOf": cases}
        if not change:
            return {**made, "required": ["use"]}
        return {**made, "properties": head | self._any_of_all(entries) | extra}

    def _case(self, entry: Entry, *, change: bool, extra: Schema, variables: bool) -> Schema:
        name = f"{entry.kind} {entry.name}{' (changed)' if change else ''}"
        alone = not extra and not variables
        if not alone or name not in self.defs:
            try:
                cls = entry.load()
                made = self._settings(
                    cls, change=change, extra={"use": {}, AFTER: {"type": "string"}, **extra}
                )
                made["description"] = inspect.cleandoc(cls.__doc__ or entry.doc)
            except TtsflowError:
                made = {}  # what it needs is not installed, so that its settings are not known
            if variables:
                made.pop("additionalProperties", None)
            if not alone:
                return _when(entry.name, made)
            self.defs[name] = made
        return _when(entry.name, {"$ref": f"#/$defs/{name}"})

    def _any_of_all(self, entries: list[Entry]) -> Schema:
        """Return the keys that parts have, where all of those that have one mean the same by it."""
        known: dict[str, list[Schema]] = {}
        for entry in entries:
            try:
                properties = self._properties(entry.load(), change=True)
            except TtsflowError:
                continue
            for key, made in properties.items():
                plain = {name: value for name, value in made.items() if name != "default"}
                if plain not in known.setdefault(key, []):
                    known[key].append(plain)
        return {key: made[0] if len(made) == 1 else {"anyOf": made} for key, made in known.items()}

    def _settings(self, cls: type[Any], *, change: bool, extra: Schema) -> Schema:
        required = [
            key
            for key, (field, _) in schema(cls).items()
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        ]
        made: Schema = {
            "type": "object",
            "properties": {**extra, **self._properties(cls, change)},
            "additionalProperties": False,
        }
        return made if change or not required else {**made, "required": required}

    def _properties(self, cls: type[Any], change: bool) -> Schema:
        made = {}
        for key, (field, hint) in schema(cls).items():
            made[key] = self._value(hint, change)
            if isinstance(field.default, bool | int | float | str):
                made[key]["default"] = field.default
        return made

    def _value(self, hint: Any, change: bool) -> Schema:
        """Return what a field of this type may hold, or an interpolation in its place."""
        members = [self._plain(member, change) for member in _members(hint)]
        others = [member for member in members if member != _NULL]
        if {} in members:
            return {}
        made = others[0].copy() if len(others) == 1 else {"anyOf": others}
        if len(others) == 1 and made.get("type") == "string":
            return made if others == members else {"type": ["string", "null"]}
        # As a choice instead of one of several, so that an editor marks the very key that is wrong.
        apart = [{"$ref": "#/$defs/reference"}] + [_NULL] * (others != members)
        return {"if": apart[0] if len(apart) == 1 else {"anyOf": apart}, "else": made}

    def _plain(self, hint: Any, change: bool) -> Schema:  # noqa: PLR0911 - one for each kind of annotation
        origin, args = get_origin(hint), get_args(hint)
        if hint in PROTOCOLS:
            return self._kind(PROTOCOLS[hint], change)
        if hint in _SCALARS:
            return {"type": _SCALARS[hint]}
        if origin is Literal:
            return {"enum": list(args)}
        if origin in (tuple, list):
            return self._list(args, endless=origin is list or args[-1] is Ellipsis, change=change)
        if origin is not None and isinstance(origin, type) and issubclass(dict, origin):
            item = self._value(args[1], change)
            if change and args[1] in PROTOCOLS:
                item = {"if": _NULL, "else": item}  # null takes one away
            return {"type": "object", "additionalProperties": item}
        if dataclasses.is_dataclass(hint) and isinstance(hint, type):
            return self._settings(hint, change=change, extra={})
        return {}

    def _list(self, args: tuple[Any, ...], *, endless: bool, change: bool) -> Schema:
        if not endless:
            items = [self._value(arg, change) for arg in args]
            return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
        made = {"type": "array", "items": self._value(args[0], change)}
        # One text may stand for a list of one.
        return {"anyOf": [{"type": "string"}, made]} if args[0] is str else made


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _when(name: str, then: Schema) -> Schema:
    return {"if": {"properties": {"use": {"const": name}}, "required": ["use"]}, "then": then}


def _like(value: Any) -> Schema:
    """Return the schema of a setting of a run by its default; null stands for a number that is not set."""
    return {"type": ["integer", "null"] if value is None else _SCALARS[type(value)]}
