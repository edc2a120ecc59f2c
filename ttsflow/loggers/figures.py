"""What trackers of experiments are told, in the plain form that all of them take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ttsflow.types import Result

__all__ = ["flat", "running"]


def flat(mapping: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return a mapping of mappings as one, with dotted keys; nothing stands for what is empty or None."""
    found: dict[str, Any] = {}
    for key, value in mapping.items():
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping):
            found |= flat(value, here)
        elif value is not None:
            found[here] = value
    return found


def running() -> Callable[[Result], dict[str, float]]:
    """Return a function that takes one result after the other and says how the run stands."""
    graded = correct = tokens = serial = 0

    def told(result: Result) -> dict[str, float]:
        nonlocal graded, correct, tokens, serial
        graded += result.correct is not None
        correct += result.correct is True
        tokens += result.usage.decoded
        serial += result.usage.serial
        figures = {"decoded_tokens_so_far": float(tokens), "serial_tokens_so_far": float(serial)}
        return figures | ({"accuracy_so_far": correct / graded} if graded else {})

    return told
