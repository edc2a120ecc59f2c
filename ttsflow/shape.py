"""What the stages of a strategy cannot do in the places where they stand: they would run, and do nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttsflow.errors import ConfigError
from ttsflow.parts import walk
from ttsflow.protocols import Stage

__all__ = ["check_shape", "foreign"]


def foreign(part: Any) -> bool:
    """Whether a stage is another package's and does not say what it needs, so that it may do anything."""
    own = type(part).__module__.startswith("ttsflow.")
    return isinstance(part, Stage) and not own and not hasattr(part, "needs")


def check_shape(parts: Sequence[tuple[str, Any]]) -> None:
    """Refuse what goes by steps without any, and what goes by scores where there are none yet.

    ``parts`` are those of a strategy with their paths. Raises ``ConfigError``.
    """
    stepping = any("continuation" in getattr(part, "needs", ()) or foreign(part) for _, part in parts)
    for path, part in parts:
        if "steps" in getattr(part, "needs", ()) and not stepping:
            raise ConfigError(
                "only candidates that can go on are chosen here, and no stage of the strategy makes any: set "
                "`unit: step` on `generate`, or choose among whole ones with `select` and `keep`.",
                path,
            )
        stages = getattr(part, "stages", None)
        if isinstance(stages, Mapping):
            _check_scored(stages, f"{path}.stages")
            _check_engines(stages, f"{path}.stages")


def _check_engines(stages: Mapping[str, Any], path: str) -> None:
    """Refuse a step that would go on with what another engine has begun: their tokens differ."""
    before: tuple[str, str] | None = None
    for name, stage in stages.items():
        if not hasattr(stage, "request") or getattr(stage, "unit", "whole") == "whole":
            continue
        engine: str | None = getattr(stage, "engine", None)
        if before is not None and engine is not None and engine != before[1]:
            theirs = f"engine '{before[1]}'" if before[1] else "the engine of the run"
            raise ConfigError(
                f"it would go on with candidates that '{before[0]}' has begun on {theirs}, and engine "
                f"'{engine}' has other tokens. Leave `engine` null, so that each goes on with its own, or "
                "put it into `apart`, which begins anew.",
                f"{path}.{name}.engine",
            )
        if before is None or engine is not None:
            before = (name, engine or "")


def _check_scored(stages: Mapping[str, Any], path: str) -> None:
    """Refuse a choice by scores right after new candidates, which have none."""
    new: str | None = None
    for name, stage in stages.items():
        if hasattr(stage, "request"):
            new = name
            continue
        inside = [part for _, part in walk(stage)]
        by_scores = "scores" in getattr(stage, "needs", ()) and hasattr(stage, "into")
        if new is not None and by_scores:
            raise ConfigError(
                f"it goes by scores, and what '{new}' has just made has none: put a stage that gives them, "
                f"such as `verify`, between the two (`after: {new}` moves one there).",
                f"{path}.{name}",
            )
        if any("scores" in getattr(part, "gives", ()) or foreign(part) for part in inside):
            new = None
