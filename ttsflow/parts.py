"""What a part's dataclass says: its keys, its plain form, and the parts inside it."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from ttsflow.composing.order import AFTER
from ttsflow.control import ControllerPart
from ttsflow.errors import PluginError
from ttsflow.logger import LoggerPart
from ttsflow.paths import PathsPart
from ttsflow.protocols import (
    CostModel,
    EnginePart,
    Predictor,
    Stage,
    Task,
    Until,
    VerifierPart,
    Watch,
)
from ttsflow.registry import MOUNT, Registry
from ttsflow.sensors import LoadPart, MeterPart

__all__ = ["PROTOCOLS", "explain", "join", "schema", "settings", "walk"]

#: Which kind of part a field with this annotation holds.
PROTOCOLS: Mapping[Any, str] = {
    Stage: "stage",
    Watch: "watch",
    Until: "until",
    Predictor: "predictor",
    EnginePart: "engine",
    PathsPart: "paths",
    VerifierPart: "verifier",
    LoadPart: "load",
    CostModel: "cost",
    MeterPart: "meter",
    LoggerPart: "logger",
    ControllerPart: "controller",
    Task: "task",
}

_known: dict[type[Any], dict[str, tuple[dataclasses.Field[Any], Any]]] = {}


def join(path: str, key: str) -> str:
    """Return the path of ``key`` below ``path``."""
    return ".".join(piece for piece in (path, key) if piece)


def schema(cls: type[Any]) -> dict[str, tuple[dataclasses.Field[Any], Any]]:
    """Return field and type by key. Raises ``PluginError`` when ``cls`` is no dataclass."""
    if cls not in _known:
        where = f"{cls.__module__}:{cls.__qualname__}"
        if not dataclasses.is_dataclass(cls):
            raise PluginError(f"{where} is not a dataclass, so its settings are not known.")
        try:
            hints = typing.get_type_hints(cls)
        except Exception as error:
            raise PluginError(f"the annotations of {where} cannot be read: {error}") from error
        taken = {"use", AFTER} & {f.name for f in dataclasses.fields(cls)}
        if taken:
            raise PluginError(f"{where} has a setting '{min(taken)}', a key that configs use themselves.")
        _known[cls] = {f.name.rstrip("_"): (f, hints[f.name]) for f in dataclasses.fields(cls) if f.init}
    return _known[cls]


def explain(part: Any, registry: Registry) -> Any:
    """Return the mapping, defaults included, from which ``build`` makes an equal part.

    A mapping of parts gives a mapping of mappings. Raises ``PluginError`` when the class of a part is
    not registered.
    """
    return _explain(part, "", registry)


def settings(part: Any, registry: Registry) -> dict[str, Any]:
    """Return the settings of a part without its own name, for ``fill``; errors as in ``explain``."""
    told: dict[str, Any] = _explain(part, None, registry)
    return told


def _explain(value: Any, kind: str | None, registry: Registry) -> Any:
    """Return plain data. ``kind`` is None where no part is wanted, and "" where any may stand."""
    if isinstance(value, Mapping):
        return {key: _explain(item, kind, registry) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_explain(item, kind, registry) for item in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return value
    settings = {
        key: _explain(getattr(value, field.name), _wanted(hint), registry)
        for key, (field, hint) in schema(type(value)).items()
    }
    return settings if kind is None else _head(type(value), kind, registry) | settings


def _head(cls: type[Any], kind: str, registry: Registry) -> dict[str, str]:
    entry = registry.entry_of(cls, kind or None)
    if entry is None and kind == "stage":
        entry = registry.entry_of(cls, MOUNT)
    if entry is None:
        raise PluginError(f"{cls.__module__}:{cls.__qualname__} is not registered, so it has no name.")
    return {"use": MOUNT, "name": entry.name} if entry.kind == MOUNT else {"use": entry.name}


def _wanted(hint: Any) -> str | None:
    """Return the kind of part that a field of this type holds, also inside unions and mappings."""
    if hint in PROTOCOLS:
        return PROTOCOLS[hint]
    return next((kind for kind in map(_wanted, get_args(hint)) if kind), None)


def walk(part: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, part) for a part and every dataclass inside it, outermost first."""
    if isinstance(part, Mapping):
        for key, item in part.items():
            yield from walk(item, join(path, str(key)))
    elif isinstance(part, tuple | list):
        for number, item in enumerate(part):
            yield from walk(item, join(path, str(number)))
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        yield path, part
        for key, (field, _) in schema(type(part)).items():
            yield from walk(getattr(part, field.name), join(path, key))
