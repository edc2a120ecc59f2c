"""Finds the equations between plain numbers that a line of text states."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from ttsflow.tasks.exact import exact_value

__all__ = ["Equation", "equations_in"]

_NUMBER = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_TOKEN = re.compile(rf"(?P<number>{_NUMBER})|(?P<sign>[-+*/()=])|(?P<space>\s+)|(?P<other>.)", re.DOTALL)
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2013", "-"),
        **dict.fromkeys("\u00d7\u22c5\u00b7", "*"),
        **dict.fromkeys("$\u20ac\u00a3", ""),
        "\u00f7": "/",
        "\u2248": "=",
    }
)
_REWRITES = (
    (re.compile(r"\\(?:times|cdot)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\\approx(?![A-Za-z])"), "="),
    (re.compile(r"\\[dt]?frac\{(\d+)\}\{(\d+)\}"), r"(\1/\2)"),
    (re.compile(r"\\[()\[\],$]"), " "),
    (re.compile(r"(?<=[\d)])\s*[xX]\s*(?=[\d(.])"), "*"),
    # A unit between a number and an operator: 3 apples + 4 apples = 7 apples.
    (re.compile(r"(?<=\d)\s+(?!(?:of|and|or|is|more|less|times|than)\b)[a-z]{2,}\s*(?=[-+*/=])"), " "),
)
_LONGEST = 4000  # characters; a longer step is no step
_OPERATION = re.compile(r"(?<=[\d)])[-+*/]")


@dataclass(frozen=True, slots=True)
class Equation:
    """One chain ``a + b = c``: the numbers of the side that computes, its stated value, whether it holds.

    ``sum`` says that this side only adds.
    """

    operands: tuple[Fraction, ...]
    result: Fraction
    holds: bool
    sum: bool


def equations_in(text: str) -> list[Equation]:
    """Return the equations of a text that can be read for sure; others are left out, not guessed."""
    if len(text) > _LONGEST:
        return []
    text = text.translate(_SIGNS)
    for pattern, new in _REWRITES:
        text = pattern.sub(new, text)
    equations = [_equation(sides) for run in _runs(text) for sides in _chains(run)]
    return [equation for equation in equations if equation is not None]


@dataclass(slots=True)
class _Run:
    """Neighbouring numbers and signs, with what stands right before and after them."""

    text: str = ""
    before: str = ""
    after: str = ""


def _runs(text: str) -> list[_Run]:
    """Cut a text into runs of numbers and signs."""
    runs, run = [], _Run()
    for match in _TOKEN.finditer(text):
        if match["other"] is not None:
            if "=" in run.text:
                run.after = " " if text[match.start() - 1].isspace() else match[0]
                runs.append(run)
            run = _Run()
        elif match["space"] is None or run.text:
            if not run.text:
                head = text[max(0, match.start() - 20) : match.start()]
                run.before = head[-1:] if head[-1:].strip() else head.rstrip()[-1:] + " "
            run.text += match[0].replace(",", "")
    return [*runs, run] if "=" in run.text else runs


def _chains(run: _Run) -> list[list[str]]:
    """Return the sides of the chains of a run, without those that are only part of an expression."""
    sides = run.text.split("=")
    first = _suffix(sides[0]) if _starts_clean(run, sides[0]) else None
    sides[0] = first or ""
    last = _prefix(sides[-1]) if run.after in ("", " ") or run.after in ".,;:!?)]}>\"'*" else None
    sides[-1] = last or ""
    chains: list[list[str]] = [[]]
    for side in sides:
        if side and _read(side) is not None:
            chains[-1].append(side)
        else:
            chains.append([])
    return [chain for chain in chains if len(chain) > 1 and any(_operations(side) for side in chain)]


def _starts_clean(run: _Run, side: str) -> bool:
    """Whether a first side is whole: ``2x + 3 = 7`` and ``5% of 20 = 1`` begin with half of one."""
    before = run.before
    if not before.strip():
        return True
    if re.match(r"\s*[-+*/]", side) and (before.strip().isalnum() or before.strip() in ")]}%"):
        return False
    if (before[-1] != " " and before in "^_%.\\}!") or before[-1].isalpha():
        return False
    return bool(_operations(side)) or not before.strip().isalnum()


def _suffix(side: str) -> str | None:
    """Return the longest end of ``side`` that is an expression: without ``1)`` of a list, say."""
    starts = [0, *(match.end() for match in re.finditer(r"\)\s+|\(|\s(?=\d)|\s(?=\()", side))]
    return next((side[start:] for start in starts if _read(side[start:]) is not None), None)


def _prefix(side: str) -> str | None:
    """Return ``side`` without an unpaired closing bracket; None when it breaks off within itself."""
    whole = side.strip()
    return next((part for part in (whole, whole.rstrip(")(").strip()) if _read(part) is not None), None)


def _read(side: str) -> Fraction | None:
    if re.search(r"\d\s+[\d.(]|\)\s*\d|\d\(", side):
        return None  # two numbers side by side are not a product
    return exact_value("".join(side.split()))


def _operations(side: str) -> list[str]:
    return _OPERATION.findall("".join(side.split()))


def _equation(sides: list[str]) -> Equation | None:
    values = [_read(side) for side in sides]
    if any(value is None for value in values):
        return None
    exact = [value for value in values if value is not None]
    worked = next(side for side in sides if _operations(side))
    operations = _operations(worked)
    holds = all(_same(exact[0], value, side) for value, side in zip(exact[1:], sides[1:], strict=True))
    return Equation(
        operands=tuple(Fraction(number) for number in re.findall(r"\d+(?:\.\d+)?|\.\d+", worked)),
        result=exact[0] if worked is sides[-1] else exact[-1],
        holds=holds,
        sum=set(operations) <= {"+"} and "-" not in worked,
    )


def _same(value: Fraction, said: Fraction, side: str) -> bool:
    """Whether ``said`` is ``value``, or ``value`` rounded to the decimals written in ``side``."""
    if value == said:
        return True
    decimals = re.fullmatch(r"\s*-?\d*\.(\d+)\s*", side)
    if decimals is None:
        return False
    rounding = Fraction(1, 2 * 10 ** len(decimals[1]))
    return abs(value - said) <= max(rounding, abs(value) / 10**12)  # the noise of a calculator's floats
