"""Settings that another setting leaves without effect are refused, not ignored."""

from __future__ import annotations

from typing import Any

from ttsflow.errors import ConfigError

__all__ = ["refuse_idle"]


def refuse_idle(part: Any, read: bool, name: str, reader: str) -> None:
    """Raise ``ConfigError`` when setting ``name`` of ``part`` is not its default and is not ``read``.

    ``reader`` says what would read it.
    """
    if not read and getattr(part, name) != part.__dataclass_fields__[name].default:
        raise ConfigError(f"only {reader} reads it.", name)
