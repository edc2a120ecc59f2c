r"""Canonical keys: answers with one key are one answer in a vote.

A key is a pure function of one text, so "has the same key" is an equivalence relation, which a
pairwise comparison of expressions is not. What is brought to one form:

- numbers are exact fractions: ``0.5``, ``\frac{1}{2}``, ``1/2`` and ``50/100`` share the key ``1/2``.
  Nothing is rounded: ``0.333`` is not ``1/3``, ``1/2^{99}`` is not ``1/2^{98}``;
- a comma separates thousands only between groups of three digits outside brackets (``1,234``);
  elsewhere it separates the items of a list (``1,2``). The order of a bare list and of a set does not
  matter, that of a tuple does; ``(1,2)`` and ``[1,2]`` differ;
- currency signs, percent and degree signs (``50%`` is ``50``), units in words behind a number,
  emphasis, math delimiters and trailing punctuation are dropped; ``x = 5`` is ``5``, ``x < 3`` is the
  interval ``(-\infty, 3)``;
- words are compared without case; any other expression by its text without spacing commands.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal, get_args

from ttsflow.errors import ConfigError, suggest
from ttsflow.tasks.exact import divides_by_zero, exact_value

__all__ = ["Kind", "check_kind", "decided", "key_of", "no_number", "tidy"]

#: What an answer is: a number, a mathematical object, the label of an option, or plain text.
Kind = Literal["number", "math", "choice", "text"]

_UNICODE = {
    **dict.fromkeys("\u2212\ufe63\uff0d\u2010\u2011", "-"),
    **dict.fromkeys("\u00d7\u22c5\u00b7", "*"),
    **dict.fromkeys("\u20ac\u00a3\u00a5\u00b0\u200b\ufeff", ""),
    "\u00f7": "/",
    "\u2044": "/",
    "\u03c0": r"\pi ",
    "\u221e": r"\infty ",
    "\u2264": r"\le ",
    "\u2265": r"\ge ",
    "\u222a": r"\cup ",
    "\u221a": r"\sqrt ",
    "\u00bd": r"\frac{1}{2}",
    "\u00bc": r"\frac{1}{4}",
    "\u00be": r"\frac{3}{4}",
    "\u00b2": "^2",
    "\u00b3": "^3",
}
_TABLE = str.maketrans(_UNICODE)
_NARROW = re.compile("(?<=\\d)[\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")
_DASH = re.compile("(?<![\\w)])[\u2013\u2014](?=[\\d.$\\\\])")
_EMPHASIS = re.compile(r"(?<![\w)*])(\*\*|__|\*|`)(?=\S)([^*`\n]{1,400}?)(?<=\S)\1(?![\w(*])")
# The look-behind lets a run be tried at its first character only: linear in its length.
_END = re.compile(r"(?<![\s.,;:*`])[\s.,;:*`]+$")

_WRAP = r"\\(?:text|textbf|textit|textrm|textnormal|mathrm|mathbf|mathit|mbox|operatorname|rm)"
_UNIT = re.compile(rf"(?<=[\d}})])\s*{_WRAP}\{{\s*([A-Za-z.\s/()\d]+)\}}(?:\^\{{?\d\}}?)?$")
_BARE_UNIT = re.compile(
    r"^(-?[\d.,/]*\d)\s+(?!(?:pi|or|and|times|mod|sqrt|over)\b)[A-Za-z]{2}[A-Za-z\s./^\d]*$"
)
_WRAPPED = re.compile(rf"{_WRAP}\s*\{{([^{{}}]*)\}}")
_AND = re.compile(r"(?<=[\d})])\s*,?\s*\b(?:and|or)\b\s*(?=[-\d\\(])")
_SPACING = re.compile(
    r"\\[,;:!> ]|~|\\(?:quad|qquad|left|right|displaystyle|big|Big|limits)(?![A-Za-z])|\{,\}(?!\d{3})"
)
_REWRITES = (
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(?=[\d{])"), r"\\frac{\1}"),
    (re.compile(r"(\\frac\s*\{[^{}]*\})\s*(\w)"), r"\1{\2}"),
    (re.compile(r"(?<![\\A-Za-z])sqrt\(([^()]*)\)"), r"\\sqrt{\1}"),
    (re.compile(r"\\sqrt\s*(\w)"), r"\\sqrt{\1}"),
    (re.compile(r"(?<![\\A-Za-z])pi(?![A-Za-z])"), r"\\pi"),
    (re.compile(r"(?<![\\A-Za-z])inf(?:ty|inity)(?![A-Za-z])"), r"\\infty"),
    (re.compile(r"\\(?:cdot|times)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\leq(?![A-Za-z])"), r"\\le "),
    (re.compile(r"\\geq(?![A-Za-z])"), r"\\ge "),
    (re.compile(r"\\lt(?![A-Za-z])"), "<"),
    (re.compile(r"\\gt(?![A-Za-z])"), ">"),
    (re.compile(r"\\\{"), "\u27ec"),
    (re.compile(r"\\\}"), "\u27ed"),
    (re.compile(r"([\^_])\{(\w)\}"), r"\1\2"),
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!,?\d)")
_MIXED = re.compile(r"^(-?)(\d+)\s+(\d+)\s*/\s*(\d+)$")
_NAMED = re.compile(r"^[A-Za-z](?:\([A-Za-z]\))?\s*(?:=|\\in(?![A-Za-z]))\s*(?=[^=]+$)")
_BELOW = re.compile(r"^[a-z](<|\\le)([^<>=]+)$")
_ABOVE = re.compile(r"^[a-z](>|\\ge)([^<>=]+)$")
_BETWEEN = re.compile(r"^([^<>=]+?)(<|\\le)[a-z](<|\\le)([^<>=]+)$")
_LETTER = re.compile(r"^\(([A-Z])\)$")

_ATOM = r"(?:-?\d+(?:/\d+)?|-?\\infty)"
_EXACT = re.compile(rf"^[(\[{{]?{_ATOM}(?:, {_ATOM})*[)\]}}]?$")
_RATIONAL = re.compile(r"^-?\d+(?:/\d+)?$")
_WORDS = re.compile(r"^[a-z]{2,}$")
_LONGEST = 2000  # characters; no answer is longer, and nested brackets would exhaust the stack
_DIGITS = 4300
_OPEN, _CLOSE = "([\u27ec{", ")]\u27ed}"


def check_kind(kind: str) -> None:
    """Raise ``ConfigError`` for a kind that does not exist."""
    if kind not in get_args(Kind):
        raise ConfigError(
            f"there is no kind of answer {kind!r}. {suggest(str(kind), get_args(Kind))}", "kind"
        )


def tidy(text: str) -> str:
    """Return ``text`` with plain ASCII signs and without emphasis, delimiters and final punctuation."""
    text = _DASH.sub("-", _NARROW.sub(",", text)).translate(_TABLE)
    text = _EMPHASIS.sub(r"\2", text)
    for mark in ("\\$", "$", "\\(", "\\)", "\\[", "\\]", "\\%", "%", "^\\circ", "^{\\circ}", "\\degree"):
        text = text.replace(mark, "")
    text = re.sub(r"\{,\}(?=\d{3})|,\\!(?=\d{3})", ",", text)
    return _END.sub("", re.sub(r"^[\s:=*`]+", "", text))


def key_of(text: str, kind: Kind) -> str:
    """Return the canonical key of an answer, empty when there is nothing to compare.

    For ``choice``, ``text`` is a label. Kinds ``number`` and ``math`` share one normal form.
    """
    if kind == "choice":
        return text.strip().upper()
    if kind == "text":
        return " ".join(tidy(_WRAPPED.sub(r"\1", text)).casefold().split())
    return _math_key(text)


def decided(one: str, other: str, tolerance: float = 0.0) -> bool | None:
    """Return whether two keys of kind number or math are equal, None when the keys cannot tell.

    Exact numbers and lists of them, words, and lists with different brackets are always decided; two
    expressions that differ in text are not. What is ``no_number`` equals nothing else. ``tolerance`` is
    relative and for single numbers only.
    """
    if not one or not other:
        return False
    if one == other:
        return True
    if no_number(one) or no_number(other):
        return False
    if _RATIONAL.match(one) and _RATIONAL.match(other):
        left, right = Fraction(one), Fraction(other)
        return abs(left - right) <= Fraction(tolerance) * max(abs(left), abs(right))
    if all(_EXACT.match(key) or _WORDS.match(key) for key in (one, other)):
        return False
    lists = all(", " in key and "\\cup" not in key for key in (one, other))
    return False if lists and one[0] + one[-1] != other[0] + other[-1] else None


def no_number(key: str) -> bool:
    """Return whether a key of kind number or math, or an item of its list, has no value that can be known.

    That is a division by zero, or a numeral of more than 4,300 digits, which Python does not read.
    """
    if max(map(len, re.findall(r"\d+", key)), default=0) > _DIGITS:
        return True
    items = re.split(r", | \\cup ", key)
    return any(divides_by_zero(text) for item in items for text in (item, item.strip("()[]{}")))


def _math_key(text: str) -> str:
    if len(text) > _LONGEST:
        return "".join(text.split())
    text = tidy(text)
    while (inner := re.fullmatch(r"\\(?:boxed|fbox)\s*\{(.*)\}", text, re.DOTALL)) is not None:
        text = tidy(inner[1])
    text = _BARE_UNIT.sub(r"\1", _UNIT.sub("", text))
    text = _WRAPPED.sub(r"\1", text)
    text = _AND.sub(", ", _SPACING.sub("", text))
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    if mixed := _MIXED.match(text.strip()):
        sign, whole, top, bottom = mixed.groups()
        text = f"{sign}({whole}+{top}/{bottom})"
    key = _key(_NAMED.sub("", text.strip()))
    return key if re.search(r"\w", key) else ""


def _key(text: str) -> str:
    """Return the key of rewritten text: of a list, an interval, a union, or one expression."""
    text = text.strip()
    if text[:1] in ("(", "[", "\u27ec") and _closes_at_end(text):
        parts = _split(text[1:-1])
        if len(parts) > 1 or text[0] == "\u27ec":
            keys = [_key(part) for part in parts]
            if text[0] == "\u27ec":
                return "{" + ", ".join(sorted(keys)) + "}"
            return text[0] + ", ".join(keys) + text[-1]
        if letter := _LETTER.match(text):
            return letter[1]
    text = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), text)
    parts = _split(text)
    if len(parts) > 1:
        # A bare list and a set say the same thing.
        return "{" + ", ".join(sorted(_key(part) for part in parts)) + "}"
    if "\\cup" in text:
        return r" \cup ".join(_key(part) for part in text.split("\\cup"))
    text = "".join(text.split())
    return _interval(text) or _expression(text)


def _interval(text: str) -> str:
    if found := _BELOW.match(text):
        return rf"(-\infty, {_expression(found[2])}" + (")" if found[1] == "<" else "]")
    if found := _ABOVE.match(text):
        return ("(" if found[1] == ">" else "[") + rf"{_expression(found[2])}, \infty)"
    if found := _BETWEEN.match(text):
        low, opened, closed, high = found.groups()
        left, right = "(" if opened == "<" else "[", ")" if closed == "<" else "]"
        return f"{left}{_expression(low)}, {_expression(high)}{right}"
    return ""


def _expression(text: str) -> str:
    value = exact_value(text)
    if value is not None:
        return str(value)
    text = re.sub(r"^\+", "", text)
    if re.fullmatch(r"[A-Za-z]{2,}", text):
        return text.casefold()
    # An explicit product sign next to a symbol says nothing: 2*x is 2x.
    return re.sub(r"\*(?=[A-Za-z\\(])|(?<=[A-Za-z)}])\*", "", text)


def _closes_at_end(text: str) -> bool:
    depth = 0
    for place, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if depth == 0:
            return place == len(text) - 1
    return False


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for place, char in enumerate(text):
        depth += (char in _OPEN) - (char in _CLOSE)
        if char == "," and depth <= 0:
            parts.append(text[start:place])
            start = place + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]
