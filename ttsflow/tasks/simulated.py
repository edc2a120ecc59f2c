"""Problems for trajectories that are drawn by a law."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.types import Answer, Problem

__all__ = ["SimulatedTask"]

#: Characters of a token, as the law cuts a prompt.
_CHARACTERS = 4
#: Characters that say which problem it is.
_HEAD = 16
_ANSWER = re.compile(r"Answer: (\d+)\s*$")


@dataclass(frozen=True, slots=True)
class SimulatedTask:
    """``size`` numbered problems with prompts of ``prompt_tokens`` tokens, whose right answer is 0.

    For engine ``sim`` with ``paths: {use: law}``. ``seed`` gives other problems, of other difficulties.
    """

    size: int = 30
    prompt_tokens: int = 150
    seed: int = 0

    reads_law: ClassVar[bool] = True
    stop: ClassVar[tuple[str, ...]] = ()
    separator: ClassVar[str] = "\n\n"
    probe: ClassVar[str] = "\nAnswer: "

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(f"at least one problem is needed, got {self.size}.", "size")
        if not _HEAD // _CHARACTERS < self.prompt_tokens <= 1 << 20:
            raise ConfigError(f"more than 4 tokens are needed, got {self.prompt_tokens}.", "prompt_tokens")

    def problems(self) -> list[Problem]:
        """Return the problems."""
        return [self._problem(number) for number in range(self.size)]

    def answer(self, text: str, problem: Problem) -> Answer | None:
        """Return the number behind the last "Answer:"."""
        del problem
        found = _ANSWER.search(text)
        return Answer(found[1], found[1]) if found else None

    def correct(self, answer: Answer | None, problem: Problem) -> bool:
        """Return whether the answer is 0."""
        return answer is not None and answer.key == problem.gold

    def _problem(self, number: int) -> Problem:
        name = f"simulated-{self.seed}-{number}"
        return Problem(name.ljust(self.prompt_tokens * _CHARACTERS, "."), id=name, gold="0")
