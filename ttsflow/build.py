"""Turns plain mappings into parts, and parts back into mappings.

``use:`` names a registered part, the other keys are its fields, and the part's dataclass is the
schema. Nothing is coerced and nothing is ignored. A field's annotation says what may stand in it: a
protocol means a part of that kind, a plain dataclass means a mapping of its fields. A field called
``if_`` is written ``if``, since Python's own words cannot name a field.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

from ttsflow.composing.order import in_order
from ttsflow.errors import ConfigError, PluginError, TtsflowError, suggest
from ttsflow.parts import PROTOCOLS, explain, join, schema, walk
from ttsflow.registry import MOUNT, Registry
from ttsflow.values import check_key, check_literal, check_scalar, describe_type, show

__all__ = ["build", "explain", "field_names", "fill", "part_class", "walk"]

_SCALARS = (int, float, bool, str)


def build(kind: str, mapping: Any, path: str, registry: Registry) -> Any:
    """Build the part of ``kind`` that ``mapping`` describes; ``path`` is where it stands in the config.

    Raises ``ConfigError`` with the full path of what is wrong, ``UnknownPart``, ``PluginError``.
    """
    if not isinstance(mapping, Mapping):
        article = "an" if kind[0] in "aeiou" else "a"
        example = f" Write {{use: {mapping}}}." if isinstance(mapping, str) else ""
        raise ConfigError(
            f"{article} {kind} is a mapping with the key `use`, got {show(mapping)}.{example}", path
        )
    settings = dict(mapping)
    cls = part_class(kind, settings, path, registry)
    del settings["use"]
    if mapping["use"] == MOUNT and kind == "stage":
        del settings["name"]
    return _fill(cls, settings, path, registry, str(mapping["use"]))


def part_class(kind: str, mapping: Mapping[str, Any], path: str, registry: Registry) -> type[Any]:
    """Return the class that ``mapping`` names with ``use``; errors as in ``build``."""
    _check_keys(mapping, path)
    if "use" not in mapping:
        known = ", ".join(entry.name for entry in registry.entries(kind))
        raise ConfigError(f"`use` is missing; it names one of the {kind} parts: {known}.", path)
    name = mapping["use"]
    if kind == "stage" and name == MOUNT:
        if "name" not in mapping:
            raise ConfigError("`name` is missing; it names the strategy that stands here.", path)
        kind, name = MOUNT, mapping["name"]
    if not isinstance(name, str):
        raise ConfigError(f"the name of a part is a text, got {show(name)}.", join(path, "use"))
    try:
        cls = registry.get(kind, name)
    except ConfigError as error:
        raise error.below(join(path, "name" if kind == MOUNT else "use")) from error
    if kind == MOUNT and "name" in schema(cls):
        raise PluginError(f"the strategy '{name}' has a setting 'name', which is the key of its own name.")
    return cls


def fill(cls: type[Any], mapping: Mapping[str, Any], path: str, registry: Registry) -> Any:
    """Build a plain dataclass, one without ``use``, from a mapping of its fields; errors as in ``build``."""
    if not isinstance(mapping, Mapping):
        raise ConfigError(f"a mapping is wanted, got {show(mapping)}.", path)
    return _fill(cls, mapping, path, registry, cls.__name__)


def field_names(cls: type[Any]) -> list[str]:
    """Return the keys a mapping for ``cls`` may have. Raises ``PluginError`` when it is no dataclass."""
    return list(schema(cls))


def _fill(cls: type[Any], mapping: Mapping[str, Any], path: str, registry: Registry, name: str) -> Any:
    _check_keys(mapping, path)
    fields = schema(cls)
    for key in mapping:
        if key not in fields:
            hint = suggest(key, fields) if fields else f"'{name}' has no settings."
            raise ConfigError(f"'{name}' has no setting '{key}'. {hint}", join(path, key))
    values = {}
    for key, (field, hint) in fields.items():
        if key in mapping:
            values[field.name] = _convert(mapping[key], hint, join(path, key), registry)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            what = f"'{name}' needs the setting '{key}': {describe_type(hint)}."
            advice = getattr(cls, "advice", {}).get(key)
            raise ConfigError(f"{what} {advice}" if advice else what, join(path, key))
    try:
        return cls(**values)
    except ConfigError as error:
        inside = ".".join(piece.rstrip("_") for piece in error.path.split("."))
        raise type(error)(error.message, join(path, inside)) from error
    except TtsflowError:
        raise
    except Exception as error:
        raise ConfigError(f"'{name}' refused its settings: {type(error).__name__}: {error}", path) from error


def _check_keys(mapping: Mapping[Any, Any], path: str) -> None:
    for key in mapping:
        if check_key(key, path).startswith("_") and key.endswith("_"):
            raise ConfigError(
                f"'{key}' is refused: a config names parts with `use`, it cannot call Python.",
                join(path, key),
            )


def _convert(  # noqa: PLR0911 - one for each kind of annotation
    value: Any, hint: Any, path: str, registry: Registry, *, optional: bool = False
) -> Any:
    """Return ``value`` as a field of type ``hint`` wants it."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, types.UnionType):
        return _convert_union(value, args, path, registry)
    if hint in PROTOCOLS:
        return build(PROTOCOLS[hint], value, path, registry)
    if hint in _SCALARS:
        return check_scalar(value, hint, path, optional=optional)
    if origin is Literal:
        return check_literal(value, args, path)
    if origin in (tuple, list):
        return _convert_list(value, origin, args, path, registry)
    if origin is not None and isinstance(origin, type) and issubclass(dict, origin):
        return _convert_mapping(value, args[1], path, registry)
    if dataclasses.is_dataclass(hint):
        return fill(hint, value, path, registry)  # type: ignore[arg-type]
    raise PluginError(f"{path}: a setting of type {hint} cannot be written in a config.")


def _convert_union(value: Any, args: tuple[Any, ...], path: str, registry: Registry) -> Any:
    members = [arg for arg in args if arg is not type(None)]
    optional = len(members) < len(args)
    if value is None and optional:
        return None
    if len(members) == 1:
        return _convert(value, members[0], path, registry, optional=optional)
    errors = []
    # The exact type goes first, so that 3 stays a whole number in `float | int`.
    for member in sorted(members, key=lambda member: member is not type(value)):
        try:
            return _convert(value, member, path, registry, optional=optional)
        except ConfigError as error:
            errors.append(error)
    # An error from further inside means that the shape was right.
    inner = [error for error in errors if error.path != path]
    if inner:
        raise inner[0]
    wanted = " or ".join(describe_type(arg) for arg in args)
    raise ConfigError(f"{wanted} is wanted, got {show(value)}.", path)


def _convert_list(value: Any, origin: Any, args: tuple[Any, ...], path: str, registry: Registry) -> Any:
    endless = origin is list or args[-1] is Ellipsis
    if endless and args[0] is str and isinstance(value, str):
        value = [value]
    if not isinstance(value, list | tuple):
        example = "" if value is None else f" Write [{value}]."
        raise ConfigError(f"a list is wanted, got {show(value)}.{example}", path)
    hints = [args[0]] * len(value) if endless else list(args)
    if len(hints) != len(value):
        raise ConfigError(f"a list of {len(hints)} is wanted, got {show(value)}.", path)
    items = zip(value, hints, strict=True)
    return origin(_convert(item, hint, f"{path}.{i}", registry) for i, (item, hint) in enumerate(items))


def _convert_mapping(value: Any, hint: Any, path: str, registry: Registry) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError(f"a mapping is wanted, got {show(value)}.", path)
    _check_keys(value, path)
    if hint in PROTOCOLS:
        value = in_order(value, path)
    for key, item in value.items():
        # A name with settings but no `use` is mostly a misspelt one, written to change another.
        if hint in PROTOCOLS and isinstance(item, Mapping) and "use" not in item and len(value) > 1:
            others = suggest(key, [other for other in value if other != key])
            raise ConfigError(
                f"`use` is missing, so '{key}' is no {PROTOCOLS[hint]}. {others}", join(path, key)
            )
    return {key: _convert(item, hint, join(path, key), registry) for key, item in value.items()}
