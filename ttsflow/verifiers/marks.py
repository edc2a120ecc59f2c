"""Reads what a judge said: a mark in its words, or words such as yes and no by their log-probabilities."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping

__all__ = ["chance_of", "mark_of"]

_NUMBER = r"[-+]?(?:\d+(?:[.,]\d+)?|\.\d+)"
#: A number, and what it is out of or a percent sign behind it.
_MARK = rf"(?P<mark>{_NUMBER})\s*(?:(?:/|out\s+of)\s*(?P<of>{_NUMBER})|(?P<percent>%))?"
_LABEL = r"(?:score|rating|grade|mark|points?|verdict)"
#: Signs of emphasis that may stand anywhere.
_NOISE = re.compile(r"[*_`$\\{}\[\]()]|\\?boxed|\btext\b")
_LABELLED = re.compile(rf"\b{_LABEL}\b(?:\s+(?:is|of|would\s+be))?\s*[:=]?\s*{_MARK}", re.IGNORECASE)
_OUT_OF = re.compile(rf"(?<![\w./]){_NUMBER}\s*(?:/|out\s+of)\s*{_NUMBER}(?![\w/]|\.\d)", re.IGNORECASE)
_ANY = re.compile(rf"(?<![\w.,/]){_MARK}(?![\w/]|[.,]\d)", re.IGNORECASE)
_THOUGHT = "</think>"


def mark_of(reply: str, scale: float) -> float | None:
    """Return the mark in a reply as a share of ``scale``; None when none can be read for sure.

    A labelled number goes before one out of ``scale``, that before the only number of the reply, and that
    before the only one of its last line. ``7/10`` and ``70%`` say themselves what they are out of. A mark
    below 0 or above the whole is none.
    """
    if "<think>" in reply and _THOUGHT not in reply:
        return None
    said = _NOISE.sub(" ", reply.rpartition(_THOUGHT)[2])
    labelled = list(_LABELLED.finditer(said))
    if labelled:
        return _share(labelled[-1], scale)
    out_of = [match for match in map(_ANY.match, _OUT_OF.findall(said)) if match and _of(match) == scale]
    if out_of:
        return _share(out_of[-1], scale)
    lines = [line for line in said.splitlines() if line.strip()]
    for text in (said, *lines[-1:]):
        found = list(_ANY.finditer(text))
        if len(found) == 1:
            return _share(found[0], scale)
    return None


def chance_of(
    top: Mapping[int, float], decode: Callable[[int], str], good: Collection[str], bad: Collection[str]
) -> float | None:
    """Return P(good) / (P(good) + P(bad)) of one token's log-probabilities; None without any of the words.

    Tokens that differ in case, in spaces or in the sign after a word are one word.
    """
    shares = {True: 0.0, False: 0.0}
    words = {_word(word): False for word in bad} | {_word(word): True for word in good}
    for token, value in top.items():
        kind = words.get(_word(decode(token)))
        if kind is not None:
            shares[kind] += math.exp(value)
    total = shares[True] + shares[False]
    return shares[True] / total if total > 0 else None


def _word(text: str) -> str:
    return text.strip().strip(".,:;!*\"'").casefold()


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _of(match: re.Match[str]) -> float | None:
    return None if match["of"] is None else _number(match["of"])


def _share(match: re.Match[str], scale: float) -> float | None:
    whole = 100.0 if match["percent"] else _of(match) or scale
    share = _number(match["mark"]) / whole
    return share if 0 <= share <= 1 else None
