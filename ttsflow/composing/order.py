"""The order of stages in a mapping, which can be overridden but not inserted into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttsflow.errors import ConfigError, suggest

__all__ = ["AFTER", "in_order"]

#: The key in a stage's mapping that moves it behind another stage.
AFTER = "after"


def in_order(stages: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return the stages that remain, each behind the one it names with ``after``, without that key.

    A stage that is null is removed. Several stages behind one keep the order of the mapping. Raises
    ``ConfigError`` when ``after`` names no remaining stage, or when stages wait for each other.
    """
    left = {name: stage for name, stage in stages.items() if stage is not None}
    followers: dict[str, list[str]] = {name: [] for name in left}
    first = []
    for name, stage in left.items():
        if not isinstance(stage, Mapping) or AFTER not in stage:
            first.append(name)
            continue
        target = stage[AFTER]
        if target not in left or target == name:
            known = [other for other in left if other != name]
            raise ConfigError(
                f"'{name}' stands after '{target}', which is no other stage here. "
                f"{suggest(str(target), known)}",
                f"{path}.{name}.{AFTER}",
            )
        followers[target].append(name)
    order: list[str] = []
    waiting = first[::-1]
    while waiting:
        name = waiting.pop()
        order.append(name)
        waiting.extend(reversed(followers[name]))
    circle = sorted(set(left) - set(order))
    if circle:
        raise ConfigError(f"the stages {', '.join(circle)} stand after each other in a circle.", path)
    return {name: _without(left[name]) for name in order}


def _without(stage: Any) -> Any:
    if not isinstance(stage, Mapping):
        return stage
    return {key: value for key, value in stage.items() if key != AFTER}
