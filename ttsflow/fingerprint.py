"""A name for a resolved config: equal settings, equal name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["fingerprint"]


def fingerprint(mapping: Mapping[str, Any]) -> str:
    """Return the sha256 of a resolved mapping.

    The order of parts in a mapping counts, since stages run in it; the order of settings does not.
    """
    text = json.dumps(_canonical(mapping), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value and all(isinstance(item, Mapping) and "use" in item for item in value.values()):
            return [[key, _canonical(item)] for key, item in value.items()]
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    return value
