"""Problems given in memory, for use from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttsflow.errors import ConfigError, suggest
from ttsflow.tasks import grade
from ttsflow.tasks.choices import Choices, gold_label, options_of
from ttsflow.tasks.extract import PROBE, extract
from ttsflow.tasks.keys import Kind, check_kind
from ttsflow.tasks.rows import check_text_setting, strings
from ttsflow.types import Answer, Message, Problem

__all__ = ["Item", "Plain", "unique"]

#: A prompt, a mapping with ``prompt`` and optionally ``gold``, ``id``, ``choices``, or a problem.
Item = str | Mapping[str, Any] | Problem

_FIELDS = ("prompt", "gold", "id", "choices")


@dataclass(frozen=True, slots=True)
class Plain:
    """Takes ``items``: prompts, mappings or problems, in this order and unchanged.

    A text prompt is a user's turn with ``chat``, else raw text to continue; a tuple of messages and a
    ``Problem`` are used as they are. Options (``choices``) are for checking answers only: the prompt
    shows them itself. A repeated id gets ``-2``, ``-3``.
    """

    items: tuple[Item, ...] = ()
    kind: Kind = "number"
    chat: bool = True
    stop: tuple[str, ...] = ()
    separator: str = "\n\n"
    probe: str = PROBE

    def __post_init__(self) -> None:
        if isinstance(self.items, str | Mapping | Problem):
            raise ConfigError("is one problem; give a list of problems", "items")
        object.__setattr__(self, "items", tuple(self.items))
        object.__setattr__(self, "stop", strings(self.stop, "stop"))
        check_kind(self.kind)
        check_text_setting([*self.stop, self.separator], "stop")
        if not self.separator:
            raise ConfigError("is empty; give the string that ends a step", "separator")

    def problems(self) -> list[Problem]:
        """Return all problems. Raises ``ConfigError`` when there are none or one cannot be read."""
        if not self.items:
            raise ConfigError("there are no problems", "items")
        if self.kind == "math":
            grade.need_math_verify()
        return unique([self._problem(item, f"items[{place}]") for place, item in enumerate(self.items)])

    def answer(self, text: str, problem: Problem) -> Answer | None:
        """Return the answer a finished text gives."""
        return extract(text, self.kind, problem.data.get("choices", ()))

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return whether the answer equals the gold one; None without one or when grading failed."""
        return grade.correct(answer, problem.gold, self.kind, problem.data.get("choices", ()))

    def _problem(self, item: Item, place: str) -> Problem:
        if isinstance(item, Problem):
            return item
        fields = {"prompt": item} if isinstance(item, str) else dict(item)
        for name in fields:
            if name not in _FIELDS:
                raise ConfigError(
                    f"there is no field {name!r} of a problem. {suggest(str(name), _FIELDS)}", place
                )
        prompt = fields.get("prompt")
        if not prompt:
            raise ConfigError("has no prompt", place)
        if isinstance(prompt, str):
            prompt = (Message("user", prompt),) if self.chat else prompt
        else:
            prompt = tuple(Message(*turn) for turn in prompt)
        choices: Choices = options_of(fields["choices"], place) if fields.get("choices") else ()
        if self.kind == "choice" and not choices:
            raise ConfigError("has no choices, which kind: choice needs", place)
        return Problem(
            prompt=prompt,
            id=str(fields.get("id", "")),
            gold=self._gold(fields.get("gold"), choices, place),
            data={"choices": choices} if choices else {},
        )

    def _gold(self, gold: object, choices: Choices, place: str) -> str | None:
        if gold is None:
            return None
        text = gold_label(gold, choices) if choices else grade.gold_text(str(gold), self.kind)
        if not text:
            raise ConfigError(f"gold {gold!r} is no answer of kind {self.kind}", place)
        return text


def unique(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems with ``-2``, ``-3`` appended to the ids that came before."""
    used: set[str] = set()
    result = []
    for problem in problems:
        name, turn = problem.id, 1
        while name in used:
            turn += 1
            name = f"{problem.id}-{turn}"
        used.add(name)
        result.append(problem if name == problem.id else replace(problem, id=name))
    return result
