"""Verifiers with a model of their own, which stays loaded between runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from ttsflow.errors import ConfigError
from ttsflow.protocols import Capabilities, Task, Verifier, VerifierPart

__all__ = ["Openable", "Served", "check_deadline", "opened", "served"]


def opened(part: VerifierPart, task: Task) -> Verifier:
    """Return the working verifier of a part without models; an oracle alone reads what is correct."""
    open_for: Callable[[Task], Verifier] | None = getattr(part, "open_for", None)
    return part.open() if open_for is None else open_for(task)


def check_deadline(deadline: float | None) -> None:
    """Raise ``ConfigError`` for a time in which nothing can be done."""
    if deadline is not None and not deadline > 0:
        raise ConfigError(f"must be above 0 seconds, or null for none, got {deadline}", "deadline")


class Openable(Protocol):
    """Settings of something that is loaded, such as an engine."""

    def open(self) -> Any:
        """Load and return it."""
        ...


@runtime_checkable
class Served(VerifierPart, Protocol):
    """What the part of a verifier offers so that a session keeps its models warm."""

    @property
    def engines(self) -> tuple[Openable, ...]:
        """What has to be loaded; none when the verifier asks the engine of the run."""
        ...

    def check_engine(self, capabilities: Capabilities) -> None:
        """Raise ``ConfigError`` unless an engine that can do this, the one it asks, is enough."""
        ...

    def open_on(self, engines: Sequence[Any], separator: str) -> Verifier:
        """Return the working verifier on what was loaded, or on the engine of the run.

        ``separator`` is what ends a step of the task. Closing the verifier leaves the engines open.
        """
        ...


def served(part: Any) -> Served | None:
    """Return a verifier that has to be opened with engines, None for any other.

    A part that holds others says with ``serves`` whether one of them does.
    """
    return part if isinstance(part, Served) and getattr(part, "serves", True) else None
