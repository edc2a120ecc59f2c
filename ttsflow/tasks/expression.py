r"""Arithmetic expressions over whole numbers: found in a text, read without ``eval``, exact, in one form.

An expression has numbers, ``+ - * /``, unary minus and brackets, at least one operation, no powers, and
a bounded length and depth. Typographic signs, ``\times``, ``\frac{8}{3}`` and an ``x`` between numbers
are understood; anything else, and two numbers side by side, is not an expression. What an unknown sign
or a word such as ``mod`` joins to more is left out, for a part of an expression is another one.

The key of an expression is one text for all its rearrangements: sums and products are flattened with
their signs and inverses and sorted, so that ``8*3-2+1`` and ``1 + (3*8 - 2)`` share a key. Expressions
with different values never do.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

__all__ = [
    "JOINING",
    "Expression",
    "Negative",
    "Operation",
    "Tree",
    "chain_of",
    "chains_in",
    "evaluate",
    "is_sign",
    "plain_line",
    "read",
    "tidy",
    "written",
]

#: Words that make something else of the expression next to them.
JOINING = (
    r"(?:minus|plus|times|over|mod(?:ulo|ulus)?|rem(?:ainder)?|div(?:ided)?|multiplied|added"
    r"|subtracted|less|per|percent|half|halved|thirds?|quarters?|twice|thrice|doubled?|tripled?"
    r"|(?:square|cube)[ds]?|roots?|sqrt|cbrt|power|raised|negative|opposite|negated?|reciprocal|inverse"
    r"|factorial|log|ln|exp|abs|floor|ceil(?:ing)?|rounded|increased|decreased|reduced|choose|not|without"
    r"|by|x|mal|durch|hoch)"
)


class Operation(NamedTuple):
    """Two trees and the sign between them: ``+ - *`` or ``/``."""

    sign: str
    left: Tree
    right: Tree


class Negative(NamedTuple):
    """A tree behind a minus sign."""

    of: Tree


Tree = Fraction | Operation | Negative


@dataclass(frozen=True, slots=True)
class Expression:
    """What was read. ``value`` is None where it divides by zero; ``numbers`` are those written in it."""

    text: str
    tree: Tree
    value: Fraction | None
    numbers: tuple[Fraction, ...]
    key: str


_LONGEST = 300  # characters
_DEEPEST = 40  # operations within each other
_LINE = 4000  # characters; a longer line is no line of arithmetic

_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2013\u2014\ufe63\uff0d\u2010\u2011", "-"),
        **dict.fromkeys("\u00d7\u22c5\u00b7\u2219\u2217\u2715\u2716\uff0a", "*"),
        **dict.fromkeys("\u00f7\u2215\u2044\uff0f", "/"),
        **dict.fromkeys("[{\uff08", "("),
        **dict.fromkeys("]}\uff09", ")"),
        **dict.fromkeys("\u00a0\u2009\u202f", " "),
        "\uff0b": "+",
        "\uff1d": "=",
    }
)
_FRACTION = re.compile(r"\\[dtc]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_REWRITES = (
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\(?:left|right|big|Big|displaystyle)(?![A-Za-z])|\\[,;:! ]"), " "),
    (re.compile(r"\\[()\[\]]|\\?\$"), " "),
    (re.compile(r"(?<=[\d)])\s*[xX]\s*(?=[\d(])"), "*"),
    (re.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),
)
_HEAD = re.compile(r"^\s*(?:\d{1,2}[.)](?=\s)|[*\u2022-](?=\s))")
# Everything that could belong to an expression, and what would make it another one than it seems.
_RUN = re.compile(r"[\d.+\-*/()=^!%\s]+")
_PLAIN = re.compile(r"[\d.+\-*/()\s]+")
_CONTINUING = ("+", "-", "*", "/")
# Two stars that are no power: nothing to raise stands before them, or no exponent behind.
_EMPHASIS = re.compile(r"(^|[^\d)\s*])(\s*)\*\*(?!\*)|()()\*\*(?=\s*(?:$|[=A-Za-z,;:.!?]))")
_AROUND = re.compile(rf"(?:\b{JOINING}(?:\s+of)?(?:\s+the)?|\\[A-Za-z]+)\s*$", re.IGNORECASE)
_BEHIND = re.compile(rf"\s*(?:{JOINING}\b|:\s*[\d(+\-.]|[,;]\d)", re.IGNORECASE)
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}
_OPERATIONS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


class _Unreadable(ValueError):
    """The text is not an expression."""


def tidy(text: str) -> str:
    """Return ``text`` with plain signs and brackets."""
    for _ in range(_DEEPEST):
        text, found = _FRACTION.subn(r"((\1)/(\2))", text)
        if not found:
            break
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    return text.translate(_SIGNS)


def read(text: str) -> Expression | None:
    """Return the expression that ``text`` is, a number alone included; None when it is none."""
    text = text.strip().rstrip(". ")
    if len(text) > _LONGEST or not _PLAIN.fullmatch(text):
        return None
    try:
        source = " ".join(text.split())
        tree = _tree(ast.parse(source, mode="eval").body, source, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    value, key = evaluate(tree), _sum_text(_terms(tree))
    # 1 / (1 / 0) has no value, and its rearrangement 0 * 1 has one.
    return Expression(
        text, tree, value, tuple(_leaves(tree)), key if value is not None else f"undefined {key}"
    )


def chains_in(text: str) -> Iterator[list[Expression]]:
    """Yield the expressions of a text that can be read for sure, those joined by ``=`` together.

    In ``3 * 8 = 24`` there is one chain of two. A chain holds an operation; one of which a side cannot be
    read is left out, and so is what belongs to a word, such as the end of ``2x + 3``.
    """
    for line in text.splitlines():
        if len(line) > _LINE:
            continue
        plain = _HEAD.sub("", plain_line(line))
        for run in _RUN.finditer(plain):
            if _belongs_to_more(plain, run):
                continue
            chain = [read(side) for side in _sides(run[0])]
            known = [side for side in chain if side is not None]
            if len(known) == len(chain) and any(isinstance(side.tree, Operation) for side in known):
                yield known


def plain_line(line: str) -> str:
    """Return a line as ``tidy`` does, without stars of emphasis."""
    return _EMPHASIS.sub(r"\1\2 ", tidy(line))


def chain_of(text: str) -> list[Expression] | None:
    """Return the expressions that all of a plain text is, joined by ``=``; None unless all are equal."""
    sides = [read(side) for side in text.split("=")]
    known = [side for side in sides if side is not None]
    if len(known) < len(sides):
        return None
    # A lone expression needs no value: it is one, even if it divides by zero.
    same = len(known) == 1 or (known[0].value is not None and len({side.value for side in known}) == 1)
    return known if same else None


def is_sign(char: str) -> bool:
    """Return whether a character could stand for an operation, known or not, or join more to one."""
    # So holds the operators that are drawn as pictures, such as a heavy minus.
    return char in "+-*/=^%!&|<>~@\\" or unicodedata.category(char) in {"Sm", "So", "No", "Mn"}


def evaluate(tree: Tree) -> Fraction | None:
    """Return the exact value, None where it divides by zero."""
    if isinstance(tree, Fraction):
        return tree
    if isinstance(tree, Negative):
        value = evaluate(tree.of)
        return None if value is None else -value
    left, right = evaluate(tree.left), evaluate(tree.right)
    if left is None or right is None or (tree.sign == "/" and right == 0):
        return None
    if tree.sign == "+":
        return left + right
    if tree.sign == "-":
        return left - right
    return left * right if tree.sign == "*" else left / right


def written(tree: Tree) -> str:
    """Return a tree as text, with the brackets it needs; ``8/3`` and ``-3`` as operands stand in some."""
    return _written(tree, 0)


def _written(tree: Tree, above: int) -> str:
    if isinstance(tree, Fraction):
        plain = tree >= 0 and tree.denominator == 1
        return str(tree) if plain or not above else f"({tree})"
    if isinstance(tree, Negative):
        text = f"-{_written(tree.of, 3)}"
        return f"({text})" if above else text
    own = _PRECEDENCE[tree.sign]
    # What is taken away or divided by needs its brackets also around signs of equal rank.
    right = own + 1 if tree.sign in "-/" else own
    text = f"{_written(tree.left, own)} {tree.sign} {_written(tree.right, right)}"
    return f"({text})" if own < above else text


def _tree(node: ast.expr, source: str, depth: int) -> Tree:
    if depth > _DEEPEST:
        raise _Unreadable
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        # What was written and not what was parsed, for a float is rounded.
        return Fraction(source[node.col_offset : node.end_col_offset])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return Negative(_tree(node.operand, source, depth + 1))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        left, right = _tree(node.left, source, depth + 1), _tree(node.right, source, depth + 1)
        return Operation(_OPERATIONS[type(node.op)], left, right)
    raise _Unreadable


def _leaves(tree: Tree) -> Iterator[Fraction]:
    if isinstance(tree, Fraction):
        yield tree
    elif isinstance(tree, Negative):
        yield from _leaves(tree.of)
    else:
        yield from _leaves(tree.left)
        yield from _leaves(tree.right)


def _sides(run: str) -> list[str]:
    """Return what stands between the signs of equality, without brackets that only surround it all."""
    sides = [side.strip() for side in run.split("=") if side.strip(" .")]
    if not sides:
        return []
    if len(sides) > 1 and sides[0].count("(") > sides[0].count(")"):
        sides[0] = sides[0].removeprefix("(")
    last = sides[-1].rstrip("( .")
    while last.endswith(")") and last.count(")") > last.count("("):
        last = last[:-1].rstrip()
    return [*sides[:-1], last]


def _belongs_to_more(line: str, run: re.Match[str]) -> bool:
    before, after = line[: run.start()], line[run.end() :]
    if any(map(is_sign, before.rstrip()[-1:] + after.lstrip()[:1])):
        return True
    if _AROUND.search(before[-40:]) or _BEHIND.match(after):
        return True
    if re.search(r"\d[,;]$", before) and not run[0][0].isspace():
        return True
    if before.endswith((*"_\\",)) or after.startswith((*"_\\",)):
        return True
    if before[-1:].isalnum() and (not run[0][0].isspace() or run[0].lstrip()[:1] in _CONTINUING):
        return True
    return after[:1].isalnum() and not run[0][-1].isspace() and run[0][-1] not in "(.="


# --- one form ---------------------------------------------------------------------------------------


def _terms(tree: Tree) -> list[tuple[int, str]]:
    """Return the terms of a sum with their signs."""
    if isinstance(tree, Negative):
        return _flipped(_terms(tree.of))
    if isinstance(tree, Operation) and tree.sign in "+-":
        right = _terms(tree.right)
        return _terms(tree.left) + (right if tree.sign == "+" else _flipped(right))
    sign, factors = _factors(tree)
    return [(sign, _product_text(factors))]


def _factors(tree: Tree) -> tuple[int, list[tuple[int, str]]]:
    """Return the sign of a product and its factors, 1 above and -1 below the line."""
    if isinstance(tree, Fraction):
        return 1, [(1, str(tree))]
    if isinstance(tree, Negative):
        sign, factors = _factors(tree.of)
        return -sign, factors
    if tree.sign in "+-":
        # Of a sum and its opposite, which differ by a sign outside, one stands for both.
        terms = _terms(tree)
        texts = _sum_text(terms), _sum_text(_flipped(terms))
        return (1 if texts[0] >= texts[1] else -1), [(1, f"({max(texts)})")]
    left_sign, left = _factors(tree.left)
    right_sign, right = _factors(tree.right)
    return left_sign * right_sign, left + (right if tree.sign == "*" else _flipped(right))


def _flipped(parts: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [(-sign, text) for sign, text in parts]


def _sum_text(terms: list[tuple[int, str]]) -> str:
    plus = sorted(text for sign, text in terms if sign > 0)
    minus = sorted(text for sign, text in terms if sign < 0)
    return "+".join(plus) + "".join(f"-{text}" for text in minus)


def _product_text(factors: list[tuple[int, str]]) -> str:
    above = sorted(text for sign, text in factors if sign > 0)
    below = sorted(text for sign, text in factors if sign < 0)
    return "*".join(above) + "".join(f"/{text}" for text in below)
