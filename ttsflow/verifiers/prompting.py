"""How a question and what a candidate says to it become the prompt of a verifier's model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from ttsflow.errors import ConfigError, suggest
from ttsflow.types import Message, Problem

__all__ = ["Template", "check_places", "check_template", "filled", "question_of", "turns_of"]

#: A plain text, or the turns of a chat by their roles, in the order in which they stand.
Template = str | Mapping[str, str]

_ROLES = ("system", "user", "assistant")
_BLANK = re.compile(r"\{(\w+)\}")
#: What tells a name in braces from an argument of LaTeX; a command has its option with it.
_PIECE = re.compile(r"\{(?P<name>\w+)\}|(?P<command>\\[A-Za-z]+\*?(?:\[[^\]]*\])?|[\^_])|\\.|.", re.DOTALL)


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
    """Raise ``ConfigError`` unless ``{wanted}`` stands there once, and all places and roles exist."""
    if not isinstance(template, str):
        for role in template:
            if role not in _ROLES:
                raise ConfigError(f"a chat has no role {role!r}. {suggest(role, _ROLES)}", "template")
    text = template if isinstance(template, str) else "\n".join(template.values())
    check_places(text, known, "template")
    names = _BLANK.findall(text)
    if names.count(wanted) != 1:
        places = ", ".join(f"{{{name}}}" for name in known)
        raise ConfigError(
            f"needs {{{wanted}}} once, found {names.count(wanted)}; it may hold {places}.", "template"
        )


def check_places(text: str, known: Collection[str], setting: str) -> None:
    """Raise ``ConfigError`` for a place that nothing fills, which the model would see as it stands.

    A place is a word of two or more characters in braces. Arguments of LaTeX are none: what stands in
    braces behind a command, ``^`` or ``_``. Nor are braces around a number, a single letter or white space.
    """
    for name in _places(text):
        if name not in known:
            raise ConfigError(
                f"there is no place {{{name}}}. {suggest(name, known)} Braces that are meant as they stand "
                f"have a space inside: {{ {name} }}.",
                setting,
            )


def _places(text: str) -> Iterator[str]:
    groups: list[bool] = []  # whether each open brace begins an argument
    argument = False  # whether the next one would
    for piece in _PIECE.finditer(text):
        name = piece["name"]
        if name is not None:
            if len(name) > 1 and name.isidentifier() and not (argument or any(groups)):
                yield name
        elif piece[0] == "{":
            groups.append(argument)
            argument = False
        elif piece[0] == "}":
            argument = bool(groups) and groups.pop()
        else:
            argument = piece["command"] is not None
