"""Which option of a multiple-choice question a text chooses."""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence

from ttsflow.errors import DataError
from ttsflow.tasks.keys import key_of, tidy

__all__ = ["Choices", "final_choice", "gold_label", "labelled", "options_of", "render"]

#: The (label, text) pairs of one question, such as ("A", "bank").
Choices = Sequence[tuple[str, str]]

_HEAD = re.compile(r"\(?([A-Z])\s*[).:]\s*(.*)", re.DOTALL)
_NEGATED = re.compile(
    r"\b(?:not|nor|isn't|n't)\s+(?:option\s+|choice\s+)?[(*]*([A-Z0-9])\b[)*]*", re.IGNORECASE
)
_REJECTED = (
    r"(?!\)?\*{0,4}\s{1,9}(?:is|are|was)\s{0,9}(?:n't|not|incorrect|wrong|false)\b)"
    r"(?!\)?\*{0,4}\s{1,9}isn't)"
)


def final_choice(text: str, box: str | None, phrases: Sequence[str], choices: Choices) -> str | None:
    """Return the label ``text`` chooses, None when it chooses none or more than one.

    ``box`` is the content of its last box, ``phrases`` what follows each "answer is", last first.
    Without either, "option X" or "X is correct", then a last line that is nothing but an option.
    """
    if not choices:
        return None
    if box is not None:
        return _whole(box, choices)
    for said in phrases:
        label = _whole(said, choices) or _within(said, choices)
        if label is not None:
            return label
    one = _any_label(choices)
    named = re.findall(
        rf"\b(?:option|choice)\s{{0,9}}(?:is\b)?[\s:(*]{{0,20}}({one})(?!\w){_REJECTED}", text, re.IGNORECASE
    )
    named = named or re.findall(
        rf"(?<!\w)\(?({one})\)?\*{{0,4}}\s{{1,9}}is\s{{1,9}}(?:the\s{{1,9}})?(?:correct|right|best|answer)",
        text,
    )
    if named:
        return _label(named[-1], choices)
    return _whole(text.strip().splitlines()[-1], choices)


def gold_label(gold: object, choices: Choices) -> str | None:
    """Return the label a gold answer means: a label, a text of an option, or a zero-based index."""
    if isinstance(gold, int) and not isinstance(gold, bool):
        by_name = _label(str(gold), choices)
        return by_name or (choices[gold][0] if 0 <= gold < len(choices) else None)
    return _whole(str(gold), choices)


def render(choices: Choices) -> str:
    """Return the options as a prompt shows them, one a line."""
    return "\n".join(f"{label}) {text}" for label, text in choices)


def labelled(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return texts with the labels A, B, C and so on."""
    return tuple(zip(string.ascii_uppercase, texts, strict=False))


def options_of(value: object, place: str) -> tuple[tuple[str, str], ...]:
    """Return the options in a field. Raises ``DataError`` for a form that is not known.

    Known are a list of texts, headed by labels (``A) bank``) or not, a list of {label, text}, a mapping
    with the lists ``label`` and ``text``, and a mapping of labels to texts.
    """
    if isinstance(value, Mapping):
        if isinstance(value.get("label"), list) and isinstance(value.get("text"), list):
            pairs = list(zip(value["label"], value["text"], strict=False))
        else:
            pairs = list(value.items())
    elif isinstance(value, list) and all(
        isinstance(item, Mapping) and {"label", "text"} <= {*item} for item in value
    ):
        pairs = [(item["label"], item["text"]) for item in value]
    elif isinstance(value, list):
        texts = [str(item).strip() for item in value]
        heads = [_HEAD.match(text) for text in texts]
        letters = string.ascii_uppercase[: len(texts)]
        if all(head is not None and head[1] == letter for head, letter in zip(heads, letters, strict=False)):
            texts = [head[2] for head in heads if head is not None]
        pairs = list(labelled(texts))
    else:
        raise DataError(f"{place}: options are a {type(value).__name__}, expected a list or a mapping")
    options = tuple((str(label).strip(), str(text).strip()) for label, text in pairs)
    if len(options) < 2 or len({label.casefold() for label, _ in options}) < len(options):
        raise DataError(
            f"{place}: expected two or more options with different labels, found {options!r}"[:300]
        )
    return options


def _any_label(choices: Choices) -> str:
    return "|".join(sorted((re.escape(label) for label, _ in choices), key=len, reverse=True))


def _label(name: str, choices: Choices) -> str | None:
    return next((label for label, _ in choices if label.casefold() == name.strip().casefold()), None)


def _plain(text: str) -> str:
    text = re.sub(r"\\(?:text|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}", r"\1", text)
    return tidy(text).strip("\"' ")


def _whole(said: str, choices: Choices) -> str | None:
    """Return the label when ``said`` is nothing but an option: its label, its text, or both."""
    said = _plain(said)
    if label := _label(said.strip("()[] "), choices):
        return label
    headed = re.match(
        rf"^(?:option|choice)?\s*\(?({_any_label(choices)})\s*[).:]+\s*(.*)$", said, re.IGNORECASE
    )
    if headed and (headed[2] == "" or _by_text(headed[2], choices) == headed[1].upper()):
        return _label(headed[1], choices)
    if found := re.fullmatch(rf"(?:option|choice)\s*\(?({_any_label(choices)})\)?", said, re.IGNORECASE):
        return _label(found[1], choices)
    return _by_text(said, choices)


def _by_text(said: str, choices: Choices) -> str | None:
    for form in (_words, lambda text: key_of(text, "math")):
        wanted = form(said)
        labels = [label for label, text in choices if wanted and form(text) == wanted]
        if len(labels) == 1:
            return labels[0]
    return None


def _words(text: str) -> str:
    return re.sub(r"^(?:the|an?)\s+", "", " ".join(_plain(text).casefold().split()))


def _within(said: str, choices: Choices) -> str | None:
    """Return the one label a statement names, such as ``B because a car moves``."""
    said = _NEGATED.sub(" ", _plain(said))
    one = _any_label(choices)
    # Within a sentence a label is upper case, or stands in brackets; "I" and "a" are words there.
    found = re.findall(rf"\(({one})\)", said, re.IGNORECASE)
    if not found:
        starts = re.match(
            rf"(?:option\s+|choice\s+)?({one})(?![\w'])(?!\s+(?:or|and)\s)(?!\s*[,/&]\s*({one})\b)", said
        )
        if starts:
            return _label(starts[1], choices)
        found = [name for name in re.findall(rf"(?<![\w'])({one})(?![\w'])", said) if name not in ("A", "I")]
        found += re.findall(r"(?<![\w'])([AI])(?=\s*(?:$|[.,;:)]|or\b|and\b))", said)
    labels = {_label(name, choices) for name in found} - {None}
    return labels.pop() if len(labels) == 1 else None
