"""How a question and what a candidate says to it become the prompt of a verifier's model."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ttsflow.errors import ConfigError, suggest
from ttsflow.types import Message, Problem

__all__ = ["Template", "check_template", "filled", "question_of", "turns_of"]

#: A plain text, or the turns of a chat by their roles, in the order in which they stand.
Template = str | Mapping[str, str]

_ROLES = ("system", "user", "assistant")
_BLANK = re.compile(r"\{(\w+)\}")


def question_of(problem: Problem) -> str:
    """Return the question of a problem: its prompt, or the last turn of a user in a chat."""
    if isinstance(problem.prompt, str):
        return problem.prompt
    said = [turn.content for turn in problem.prompt if turn.role == "user"]
    return said[-1] if said else ""


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return ``text`` with every ``{name}`` of ``values`` replaced; any other brace stays as it is."""
    return _BLANK.sub(lambda match: values.get(match[1], match[0]), text)


def turns_of(template: Mapping[str, str], values: Mapping[str, str]) -> tuple[Message, ...]:
    """Return the turns of a chat, filled in."""
    return tuple(Message(role, filled(text, values)) for role, text in template.items())


def check_template(template: Template, wanted: str, known: Collection[str]) -> None:
    """Raise ``ConfigError`` unless the template has one place for ``{wanted}``, and its roles exist."""
    if not isinstance(template, str):
        for role in template:
            if role not in _ROLES:
                raise ConfigError(f"a chat has no role {role!r}. {suggest(role, _ROLES)}", "template")
    text = template if isinstance(template, str) else "\n".join(template.values())
    names = _BLANK.findall(text)
    if names.count(wanted) != 1:
        places = ", ".join(f"{{{name}}}" for name in known)
        raise ConfigError(
            f"needs {{{wanted}}} once, found {names.count(wanted)}; it may hold {places}.", "template"
        )
