"""The exact accuracy of majority voting over all choices of k samples."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import comb
from operator import mul

__all__ = ["maj_at_k"]

_Number = int | Fraction
_Table = list[list[_Number]]


def maj_at_k(counts: Sequence[int], correct: Sequence[_Number], abstentions: int, k: int) -> float:
    """Return maj@k: the chance that the plurality of ``k`` of the recorded samples is right.

    The mean over all C(n, k) choices of ``k`` out of n samples, n = sum(counts) + abstentions:
    ``counts`` has the samples of each distinct answer and ``correct`` whether that answer is right (a
    ``Fraction`` where its samples were judged differently: the share judged right). A tie of m answers
    counts the mean of their ``correct``, so one right answer of m counts 1/m. The ``abstentions``,
    samples without an answer, can be chosen and never vote; a choice of nothing else is wrong.

    The counts are integers and the mean is a fraction, rounded once at the end. A choice is counted by
    the votes of its winners: for every number of votes, a table over (answers tied, samples chosen) is
    built answer by answer from those that have as many samples. That takes O(n k^2) products of
    integers of up to n bits: microseconds for 8 samples, seconds for 256. Raises ``ValueError`` for
    k < 1, k > n and numbers that cannot be.
    """
    if len(counts) != len(correct):
        raise ValueError(f"one entry of correct per answer, got {len(correct)} for {len(counts)}.")
    if min(counts, default=1) < 1 or abstentions < 0:
        raise ValueError(f"counts are at least 1 and abstentions at least 0, got {counts}, {abstentions}.")
    if not all(0 <= right <= 1 for right in correct):
        raise ValueError(f"correct says whether an answer is right, from 0 to 1, got {correct}.")
    n = sum(counts) + abstentions
    if not 1 <= k <= n:
        raise ValueError(f"maj@{k} needs 1 <= k <= n, and there are n = {n} samples.")
    won = Fraction(0)
    for votes in range(1, min(k, max(counts, default=0)) + 1):
        rivals = [(count, right) for count, right in zip(counts, correct, strict=True) if count >= votes]
        if not any(right for _, right in rivals):
            break
        # All other samples, of rarer answers and of none, may be chosen freely.
        rest = n - sum(count for count, _ in rivals)
        for tied, row in enumerate(_right(rivals, votes, k)):
            choices = sum(value * comb(rest, k - chosen) for chosen, value in enumerate(row) if value)
            won += Fraction(choices) / max(tied, 1)
    return float(won / comb(n, k))


def _right(rivals: Sequence[tuple[int, _Number]], votes: int, k: int) -> _Table:
    """Return, by answers tied at ``votes`` and samples chosen, how many choices times how many right.

    The choices are those of up to ``k`` samples of ``rivals`` in which none has more than ``votes``;
    ``right`` weighs each by the sum of ``correct`` over the answers with exactly that many.
    """
    ways: _Table = [[1]]
    right: _Table = [[0]]
    for count, correct in rivals:
        fewer = [comb(count, number) for number in range(votes)]
        exact = comb(count, votes)
        right = _add(right, fewer, exact, votes, k)
        if correct:
            for tied, row in enumerate(ways[: len(right) - 1]):
                for chosen, value in enumerate(row[: k - votes + 1]):
                    right[tied + 1][chosen + votes] += value * exact * correct
        ways = _add(ways, fewer, exact, votes, k)
    return right


def _add(table: _Table, fewer: list[int], exact: int, votes: int, k: int) -> _Table:
    """Return the table with one more answer: it has fewer than ``votes``, or ties."""
    size = min(k + 1, len(table[0]) + votes)
    rows = [_product(row, fewer, size) for row in table]
    if len(table) * votes <= k:
        rows.append([0] * size)
    for tied, row in enumerate(table[: len(rows) - 1]):
        for chosen, value in enumerate(row[: size - votes]):
            rows[tied + 1][chosen + votes] += value * exact
    return rows


def _product(row: list[_Number], other: list[int], size: int) -> list[_Number]:
    """Return the first ``size`` coefficients of the product of two polynomials."""
    row = row + [0] * (size - len(row))
    other = other[:size]
    pad = [0] * (len(other) - 1) + row
    other = other[::-1]
    return [sum(map(mul, other, pad[at : at + len(other)])) for at in range(size)]
