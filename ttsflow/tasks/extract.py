r"""What answer a finished text gives, by the kind of answer a task asks for.

The final statement of a text is, in this order:

1. the last well-formed ``\boxed{...}``, by counting braces. A box that never closes is no answer, and
   neither is what stands around it; a mention of the command without braces is ignored;
2. the last line that starts with ``####`` and a value;
3. what follows the last "answer is", "answer:" (also in a few other languages) up to the end of the
   sentence, or the next line when nothing follows on its own.

Text before a closing ``</think>`` is never read, and thinking left open is no answer.

``number``: the final statement when it is a number (or a list of numbers: then the list); else the
number it starts with unless an operator follows (``12 (3 more than 9)``); else its last number
(``3 * 4 = 12``). Without a final statement, the last number of the text outside Markdown headings.

``math``: the final statement, reduced to its formula when it mixes words and ``$...$``. Without one,
the right-hand side of the last formula, else the last number.

``choice``: a label of this very question. A lone capital in running text is never a choice, an answer
that equals the text of one option is. Two labels in one statement are no answer.

``text``: the final statement, else the last line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ttsflow.tasks.choices import Choices, final_choice
from ttsflow.tasks.exact import exact_value
from ttsflow.tasks.keys import Kind, key_of, no_number, tidy
from ttsflow.types import Answer

__all__ = ["PROBE", "Choices", "after_thinking", "extract", "last_box", "statement"]

#: Words that make a model answer at once in a form that every kind of answer is found in.
PROBE = "\n\nThe final answer is \\boxed{"

# A model caught in a loop repeats a phrase thousands of times; only so much of it is looked at.
_PHRASES = 20
_STATEMENT = 400  # characters

_THINK = re.compile(r"<(?:think|thinking)>", re.IGNORECASE)
_THOUGHT = re.compile(r"</(?:think|thinking)>", re.IGNORECASE)
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_BARE_BOX = re.compile(r"\\boxed\s*(-?[\d.,/]*\d)")
_HASHES = re.compile(
    r"^[ \t]*####[ \t]*(?!\d+[.)]\s+[A-Za-z])([-+$\\\d.\u2212(*\u20ac\u00a3].*)$", re.MULTILINE
)
_PHRASE = re.compile(
    r"\b(?:answers?|antwort|respuesta|r\u00e9ponse|risposta|resposta)\b[\s*_]*"
    r"(?:to\s[^.\n:]{0,80}?)?"
    r"(?:(?:is|are|was|would be|should be|must be|will be|seems to be|ist|lautet|es|est|\u00e8|\u00e9)\b"
    r"|[:=\uff1a]|(?=\n))[\s*_]*[:=]?|\u7b54\u6848[\u662f\u4e3a:\uff1a\s]*",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"\n|[.!?](?=[\s*]|$)")
# An opening that never closes is left at the next one, so that many of them take no longer than one.
_FORMULA = re.compile(
    r"\$\$(.+?)\$\$|\$([^$\n]+)\$|\\\(((?:(?!\\\().)+?)\\\)|\\\[((?:(?!\\\[).)+?)\\\]", re.DOTALL
)
_NUMBER = re.compile(
    r"(?<![\w)\]}.])(?:[-+]\s?)?[$\u20ac\u00a3]?-?(?:\\[dtc]?frac\{\d+\}\{\d+\}|\d+\s+\d+/\d+(?![\d/])"
    r"|(?:\d{1,3}(?:,\d{3}){1,100}(?!,?\d)|\d+)(?:\.\d+)?(?:e[-+]?\d+)?(?:\s?/\s?\d+(?![\d/.]))?|\.\d+)"
    r"|(?<![\d.])\d+(?:\.\d+)?"
)
_OPERATOR = re.compile(
    r"\s*(?:[-+*/x\u00d7\u00f7=^<>]|\\(?:times|cdot|div)|(?:times|plus|minus|divided|multiplied)\b)"
)
_HEADING = re.compile(r"^[^\S\n]*#{1,6}\s.*$|^[^\S\n]*\d+[.)]\s", re.MULTILINE)


def extract(text: str, kind: Kind, choices: Choices = ()) -> Answer | None:
    """Return the answer of kind ``kind`` that ``text`` gives, None when it gives none.

    ``choices`` are the (label, text) pairs of a multiple-choice question.
    """
    rest = after_thinking(text)
    if rest is None or not rest.strip():
        return None
    box, unclosed = last_box(rest)
    if box is None and unclosed:
        return None
    if kind == "choice":
        label = final_choice(rest, box, _phrases(rest), choices)
        return None if label is None else Answer(label, key_of(label, "choice"))
    if kind == "number":
        found = _number(rest, box)
    elif kind == "math":
        found = _math(rest, box)
    else:
        found = _first(statement(rest, box), rest.strip().splitlines()[-1:])
    if found is None:
        return None
    key = key_of(found, kind)
    return Answer(found.strip(), key) if key else None


def after_thinking(text: str) -> str | None:
    """Return what follows the thinking part, None when that part was left open."""
    closed = [match.end() for match in _THOUGHT.finditer(text)]
    rest = text[closed[-1] :] if closed else text
    return None if _THINK.search(rest) else rest


def last_box(text: str) -> tuple[str | None, bool]:
    r"""Return the content of the last well-formed, non-empty box, and whether any box never closes."""
    content, unclosed, at, closing = None, False, 0, _closing_braces(text)
    while (match := _BOX.search(text, at)) is not None:
        end = closing.get(match.end())
        if end is None:
            unclosed, at = True, match.end()
            continue
        content = text[match.end() : end].strip() or content
        at = end
    if content is None and not unclosed and (bare := _BARE_BOX.search(text)):
        content = bare[1]
    return content, unclosed


def statement(text: str, box: str | None) -> list[str]:
    """Return the final statements of a text, the most telling first."""
    if box is not None:
        return [box]
    hashes = _HASHES.findall(text)
    return [hashes[-1]] if hashes else _phrases(text)


def _phrases(text: str) -> list[str]:
    """Return what follows each "answer is", the last one first."""
    found = []
    for match in [*_PHRASE.finditer(text)][: -_PHRASES - 1 : -1]:
        rest = text[match.end() : match.end() + _STATEMENT].lstrip(" \t\r\n:*_")
        end = _SENTENCE.search(rest)
        if cut := (rest[: end.start()] if end else rest).strip():
            found.append(cut)
    return found


def _closing_braces(text: str) -> dict[int, int]:
    """Return the place of each closing brace by the place behind its opening one, in one pass."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    # An escaped brace is part of the answer.
    for match in re.finditer(r"\\.|[{}]", text, re.DOTALL):
        if match[0] == "{":
            opened.append(match.end())
        elif match[0] == "}" and opened:
            pairs[opened.pop()] = match.start()
    return pairs


def _first(*options: Sequence[str]) -> str | None:
    return next((text for texts in options for text in texts if text.strip()), None)


def _number(text: str, box: str | None) -> str | None:
    for said in statement(text, box):
        found = _number_in(said)
        if found is not None:
            return found
    if box is not None:
        return None
    numbers = _numbers(_HEADING.sub("", text))
    return numbers[-1][1] if numbers else None


def _number_in(said: str) -> str | None:
    key = key_of(said, "number")
    if _is_numeric(key) or no_number(key):
        return said
    if "\\" in tidy(said) and not _FORMULA.search(said) and not re.search(r"\\[dtc]?frac\{\d", said):
        return None  # a formula that is no number, such as 3\sqrt{2}: its last digit is no answer
    numbers = _numbers(said)
    if not numbers:
        return None
    start, first, end = numbers[0]
    if start <= len(said) - len(said.lstrip(" $(*_\\")) and not _OPERATOR.match(said, end):
        return first
    return numbers[-1][1]


def _is_numeric(key: str) -> bool:
    items = key.strip("{}").split(", ")
    return all(exact_value(item) is not None for item in items)


def _numbers(text: str) -> list[tuple[int, str, int]]:
    text = text.replace("\u2212", "-")
    return [(match.start(), match[0], match.end()) for match in _NUMBER.finditer(text)]


def _math(text: str, box: str | None) -> str | None:
    said = statement(text, box)
    if said:
        return said[0] if box is not None else _formula_in(said[0])
    if formulas := [_inside(match) for match in _FORMULA.finditer(text)]:
        return formulas[-1].rpartition("=")[2]
    lines = text.strip().splitlines()
    return None if "\\" in lines[-1].replace("\\$", "") else _number(text, None)


def _inside(formula: re.Match[str]) -> str:
    return next(group for group in formula.groups() if group is not None)


def _formula_in(said: str) -> str:
    if _is_numeric(key_of(said, "math")):
        return said
    if formula := _FORMULA.search(said):
        return _inside(formula)
    numbers = _numbers(said)
    if numbers and numbers[0][0] == 0 and re.match(r"\s+[A-Za-z]{2}", said[numbers[0][2] :]):
        return numbers[0][1]
    return said
