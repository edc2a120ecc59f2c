"""Checks of plain values against a field's type: strict, and telling what to write instead.

YAML and the command line turn `on` into true, `1e3` into a float and `none` into a string; nothing
of that is guessed back here, apart from a whole number where a float is wanted.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin

from ttsflow.errors import ConfigError, suggest

__all__ = ["check_key", "check_literal", "check_scalar", "describe_type", "show"]

_NULLS = {"none", "null", "~", "nil"}
_BOOLS = {"true": "true", "yes": "true", "on": "true", "false": "false", "no": "false", "off": "false"}
_WORDS: Mapping[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    type(None): "null",
}


def show(value: Any) -> str:
    """Return a value as one writes it in YAML, with its type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"{str(value).lower()} (true or false)"
    if isinstance(value, str):
        return f"the text {value!r}"
    if isinstance(value, Mapping):
        return f"a mapping with the keys {', '.join(map(str, value)) or '(none)'}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    return f"{value!r} ({type(value).__name__})"


def describe_type(hint: Any) -> str:
    """Return what a field wants, in words."""
    if hint in _WORDS:
        return _WORDS[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {', '.join(map(repr, args))}"
    if origin in (tuple, list):
        return f"a list, each {describe_type(args[0])}" if args else "a list"
    settings = dataclasses.is_dataclass(hint) or getattr(hint, "_is_protocol", False)
    if settings or (isinstance(origin, type) and issubclass(origin, Mapping)):
        return "a mapping"
    if args and origin is not None and not isinstance(origin, type(Literal)):
        return " or ".join(dict.fromkeys(describe_type(arg) for arg in args))
    return f"a {getattr(hint, '__name__', hint)}"


def check_key(key: Any, path: str) -> str:
    """Return ``key`` when it is a text, else say which YAML habit made it something else."""
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        words = "on, yes" if key else "off, no"
        raise ConfigError(
            f"a key was read as {str(key).lower()}: YAML takes {words} for it. Put the key in quotes.", path
        )
    raise ConfigError(f"the key {key!r} is {type(key).__name__}, not a text. Put it in quotes.", path)


def check_literal(value: Any, allowed: tuple[Any, ...], path: str) -> Any:
    """Return ``value`` when it is one of ``allowed``, of the same type."""
    for choice in allowed:
        if type(choice) is type(value) and choice == value:
            return value
    hint = suggest(str(value), map(str, allowed))
    quote = " YAML reads on, yes, off and no as true or false; use quotes." if isinstance(value, bool) else ""
    raise ConfigError(f"{show(value)} is not allowed here.{quote} {hint}", path)


def check_scalar(value: Any, wanted: type, path: str, *, optional: bool = False) -> Any:
    """Return ``value`` when it is of the type ``wanted``; a whole number may stand for a float."""
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError as error:
            raise ConfigError("a finite number is wanted, got one of more than 308 digits.", path) from error
    if type(value) is wanted:
        if isinstance(value, str):
            _check_text(value, path, optional=optional)
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"a finite number is wanted, got {value}.", path)
        return value
    null = " or null" if optional else ""
    raise ConfigError(f"{_WORDS[wanted]}{null} is wanted, got {show(value)}.{_advice(value, wanted)}", path)


def _advice(value: Any, wanted: type) -> str:
    """Return " Write ..." for a value that is nearly right."""
    if isinstance(value, str):
        return _advice_on_text(value.strip().lower(), wanted)
    if wanted is str and isinstance(value, bool):
        return " YAML reads on, yes, off and no as true or false; put the text in quotes."
    if wanted is str and isinstance(value, int | float):
        return f' Write "{value}", with quotes.'
    if wanted is bool and value in (0, 1):
        return f" Write {str(bool(value)).lower()}."
    if (
        wanted in (int, float)
        and isinstance(value, bool | float)
        and math.isfinite(value)
        and value == int(value)
    ):
        return f" Write {int(value)}."
    return ""


def _advice_on_text(text: str, wanted: type) -> str:
    if text in _NULLS:
        return " For nothing, write null."
    if wanted is bool and text in _BOOLS:
        return f" Write {_BOOLS[text]}."
    number = r"[+-]?[\d_]+" if wanted is int else r"[+-]?[\d._]+(e[+-]?\d+)?"
    if wanted in (int, float) and re.fullmatch(number, text):
        return f" Write {text} without quotes."
    return ""


def _check_text(value: str, path: str, *, optional: bool) -> None:
    if optional and value.strip().lower() in _NULLS:
        raise ConfigError(f"the text {value!r} most likely means nothing at all; write null.", path)
    name = path.rpartition(".")[2]
    if ("stop" in path or "separator" in name) and re.search(r"\\[nrt]", value):
        raise ConfigError(
            f"{value!r} holds a backslash and a letter, not a line break. Put it in double quotes: "
            f'"{value}".',
            path,
        )
