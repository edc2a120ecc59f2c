"""What a text of a number game answers, and whether that is right."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction

from ttsflow.tasks.expression import Expression, Operation, chains_in
from ttsflow.tasks.extract import after_thinking, last_box, statement
from ttsflow.types import Problem

__all__ = ["LEFT", "final_in", "longest_in", "solves"]

#: What a step says is left, such as ``(left: 3, 8/3)``; the group holds the numbers.
LEFT = re.compile(
    r"[(\[]?\s*(?:numbers?\s+)?\b(?:left|remaining)\s*:([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)", re.IGNORECASE
)


def final_in(text: str) -> Expression | None:
    """Return the expression that a text ends with, None when it ends with none.

    In this order: the last box; what follows "answer is" or "Answer:"; the last line that has one, where
    a line that says which numbers are left is a step and no end. A final statement that gives a number
    but no expression is no answer.
    """
    rest = after_thinking(text)
    if rest is None:
        return None
    box, unclosed = last_box(rest)
    if box is None and unclosed:
        return None
    said = statement(rest, box)
    for one in said:
        if (found := longest_in(one)) is not None:
            return found
    if said and any(char.isdigit() for char in said[0]):
        return None
    lines = (line for line in reversed(rest.splitlines()) if LEFT.search(line) is None)
    return next((found for found in map(longest_in, lines) if found is not None), None)


def longest_in(text: str) -> Expression | None:
    """Return the expression of a text with the most numbers, the first of equals; one number is none."""
    found = [side for chain in chains_in(text) for side in chain if isinstance(side.tree, Operation)]
    return max(found, key=lambda side: len(side.numbers), default=None)


def solves(expression: Expression, problem: Problem) -> bool:
    """Return whether an expression is right, by what the problem says and nothing else."""
    used, given = Counter(expression.numbers), Counter(map(Fraction, problem.data["numbers"]))
    allowed = used == given if problem.data["all"] else used <= given
    return allowed and expression.value == problem.data["target"]
