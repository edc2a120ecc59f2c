"""Which verifier can read the steps of which task, as far as a task says what they are."""

from __future__ import annotations

from collections.abc import Mapping

from ttsflow.errors import ConfigError
from ttsflow.protocols import Task

__all__ = ["check_steps", "steps_in"]

#: What steps may be, in words, and the verifier that reads them.
_STEPS: Mapping[str, tuple[str, str]] = {
    "sums": ("the additions of a sum", "equations"),
    "game": ("the lines of a number game", "countdown"),
    "program": ("parts of a program", "tests"),
    "law": ("the marks of a simulated law", "simulated"),
}


def steps_in(task: Task) -> str | None:
    """Return what the steps of a task are, None where it does not say so: then they may be anything."""
    if getattr(task, "gives_programs", False):
        return "program"
    if getattr(task, "reads_law", False):
        return "law"
    said: str | None = getattr(task, "steps", None)
    return said


def check_steps(task: Task, reads: str) -> None:
    """Raise ``ConfigError`` for a task that says its steps are others than a verifier reads."""
    steps = steps_in(task)
    if steps is None or steps == reads:
        return
    words, verifier = _STEPS.get(steps, (f"'{steps}'", None))
    advice = f"set verifier={verifier}, or another task" if verifier else "set another verifier"
    raise ConfigError(
        f"it reads {_STEPS[reads][0]}, and the steps of this task are {words}; {advice}. A task of your own "
        f"says `steps = {reads!r}`, or nothing where its steps may be any.",
        "use",
    )
