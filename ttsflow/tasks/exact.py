"""Exact values of written numbers: a small recursive-descent reader that knows no symbols."""

from __future__ import annotations

import math
import re
from fractions import Fraction

__all__ = ["divides_by_zero", "exact_value"]

_TOKEN = re.compile(r"\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\\frac|\\sqrt|[-+*/^(){}]")
_LONGEST = 500  # characters; longer texts are compared as they are
_LARGEST = 4000  # bits of a value or a power


class _Unreadable(ValueError):
    """The text is not a number this module can evaluate."""


def exact_value(text: str) -> Fraction | None:
    r"""Return the value of ``text``, or None when it is not an exact rational number.

    Read are decimals, ``1.5e3``, + - * / ^, brackets, ``\frac{}{}``, mixed numbers such as
    ``1\frac{1}{2}`` and square roots of squares. White space must have been removed.
    """
    try:
        value = _read(text)
    except (_Unreadable, ZeroDivisionError, RecursionError, OverflowError):
        return None
    size = max(value.numerator.bit_length(), value.denominator.bit_length())
    return value if size <= _LARGEST else None


def divides_by_zero(text: str) -> bool:
    """Return whether ``text`` would be a number if it did not divide by zero, such as ``1/0``."""
    try:
        _read(text)
    except ZeroDivisionError:
        return True
    except (_Unreadable, RecursionError, OverflowError):
        return False
    return False


def _read(text: str) -> Fraction:
    tokens = _TOKEN.findall(text) if len(text) <= _LONGEST else []
    if not text or "".join(tokens) != text:
        raise _Unreadable
    reader = _Reader(tokens)
    value = reader.sum()
    reader.end()
    return value


class _Reader:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> str:
        token = self._peek()
        if wanted and token not in wanted:
            raise _Unreadable
        self._at += 1
        return token

    def end(self) -> None:
        if self._peek():
            raise _Unreadable

    def sum(self) -> Fraction:
        sign = -1 if self._peek() in ("-", "+") and self._take() == "-" else 1
        value = sign * self._product()
        while self._peek() in ("+", "-"):
            sign = 1 if self._take() == "+" else -1
            value += sign * self._product()
        return value

    def _product(self) -> Fraction:
        value = self._power()
        while self._peek() in ("*", "/", "("):
            operator = self._take("*", "/") if self._peek() != "(" else "*"
            value = value * self._power() if operator == "*" else value / self._power()
        return value

    def _power(self) -> Fraction:
        base = self._atom()
        if self._peek() != "^":
            return base
        self._take()
        if self._peek() == "-":
            self._take()
            exponent = -self._atom()
        else:
            exponent = self._atom()
        if exponent.denominator != 1:
            raise _Unreadable
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent.numerator) * bits > _LARGEST:
            raise _Unreadable
        return base**exponent.numerator

    def _atom(self) -> Fraction:
        word = self._take()
        if word == "\\frac":
            return self._braced() / self._braced()
        if word == "\\sqrt":
            return _root(self._braced())
        if word in ("(", "{"):
            value = self.sum()
            self._take(")" if word == "(" else "}")
            return value
        if not word or not (word[0].isdigit() or word[0] == "."):
            raise _Unreadable
        value = _number(word)
        if self._peek() == "\\frac" and word.isdigit():
            self._take()
            value += self._braced() / self._braced()
        return value

    def _braced(self) -> Fraction:
        self._take("{")
        value = self.sum()
        self._take("}")
        return value


def _number(token: str) -> Fraction:
    mantissa, _, exponent = token.lower().partition("e")
    if exponent and abs(int(exponent)) > _LARGEST // 4:
        raise _Unreadable
    return Fraction(mantissa.rstrip(".") or "0") * Fraction(10) ** int(exponent or 0)


def _root(value: Fraction) -> Fraction:
    if value < 0:
        raise _Unreadable
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if (top * top, bottom * bottom) != (value.numerator, value.denominator):
        raise _Unreadable
    return Fraction(top, bottom)
