"""Which numbers can be made from others with + - * / and brackets: an exact, complete search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import prod

from ttsflow.tasks.expression import Operation, Tree

__all__ = ["MOST", "out_of_reach", "solution"]

#: More numbers than this are not searched.
MOST = 6

_TABLED = 3  # all values of so many numbers are kept in a table; the rest is searched for one goal

# Whole numbers stay int: they are many, equal to their fractions, and several times as fast.
_Value = int | Fraction
_Numbers = tuple[_Value, ...]


def solution(numbers: Sequence[Fraction | int], target: Fraction | int, *, every: bool) -> Tree | None:
    """Return a tree over ``numbers`` whose value is ``target``, None when there is none.

    ``every`` number is used exactly once, or else at most once; then a tree of fewer numbers is
    preferred. Complete for up to ``MOST`` numbers, which may be fractions; the search for one goal goes
    backwards from it, so it takes milliseconds for 4 numbers and a second at most for 6. Raises
    ``ValueError`` for more numbers.
    """
    if len(numbers) > MOST:
        raise ValueError(f"at most {MOST} numbers are searched, got {len(numbers)}")
    pool, goal = tuple(sorted(map(_plain, numbers))), _plain(target)
    for size in range(len(pool) if every else 1, len(pool) + 1):
        for chosen in dict.fromkeys(combinations(pool, size)):
            tree = _find(chosen, goal)
            if tree is not None:
                return tree
    return None


def out_of_reach(numbers: Sequence[int], target: int) -> bool:
    """Whether ``target`` is too large for these positive whole numbers, whatever is done with them.

    A value p/q made from them has p + q of at most the product of all (n + 1): each operation keeps
    that, and so a target above it needs no search.
    """
    return target + 1 > prod(number + 1 for number in numbers)


@lru_cache(maxsize=1 << 16)
def _find(numbers: _Numbers, goal: _Value) -> Tree | None:
    """Return a tree that uses all of ``numbers``."""
    if len(numbers) <= _TABLED:
        return _table(numbers).get(goal)
    for some, rest in _splits(numbers):
        for value, tree in _table(some).items():
            found = _with(value, tree, rest, goal)
            if found is not None:
                return found
    return None


def _with(value: _Value, tree: Tree, rest: _Numbers, goal: _Value) -> Tree | None:
    """Return a tree for ``goal`` whose last operation joins ``tree``, of this value, and all of ``rest``."""
    for sign, wanted, first in _wanted(value, goal):
        other = _find(rest, wanted)
        if other is not None:
            return Operation(sign, tree, other) if first else Operation(sign, other, tree)
    if value == 0 == goal:
        return Operation("*", tree, _any(rest))
    return None


def _wanted(value: _Value, goal: _Value) -> Iterator[tuple[str, _Value, bool]]:
    """Yield (sign, the number that is missing, whether ``value`` stands first)."""
    if value:
        yield "*", _over(goal, value), True
    yield "+", goal - value, True
    yield "-", goal + value, False
    yield "-", value - goal, True
    if value:
        yield "/", goal * value, False
        if goal:
            yield "/", _over(value, goal), True


@lru_cache(maxsize=1 << 12)
def _table(numbers: _Numbers) -> dict[_Value, Tree]:
    """Return every value that uses all of a few numbers, each with one tree."""
    if len(numbers) == 1:
        return {numbers[0]: Fraction(numbers[0])}
    found: dict[_Value, Tree] = {}
    for some, rest in _splits(numbers):
        for left, left_tree in _table(some).items():
            for right, right_tree in _table(rest).items():
                for value, tree in _joined(left, left_tree, right, right_tree):
                    found.setdefault(value, tree)
    return found


def _joined(left: _Value, one: Tree, right: _Value, other: Tree) -> Iterator[tuple[_Value, Tree]]:
    yield left * right, Operation("*", one, other)
    yield left + right, Operation("+", one, other)
    yield left - right, Operation("-", one, other)
    yield right - left, Operation("-", other, one)
    if right:
        yield _over(left, right), Operation("/", one, other)
    if left:
        yield _over(right, left), Operation("/", other, one)


def _splits(numbers: _Numbers) -> list[tuple[_Numbers, _Numbers]]:
    """Return the ways to divide sorted numbers into two parts, the smaller or equal one first."""
    places = range(len(numbers))
    found: dict[tuple[_Numbers, _Numbers], None] = {}
    for size in range(1, len(numbers) // 2 + 1):
        for chosen in combinations(places, size):
            some = tuple(numbers[place] for place in chosen)
            rest = tuple(numbers[place] for place in places if place not in chosen)
            if 2 * size < len(numbers) or (rest, some) not in found:
                found[some, rest] = None
    return list(found)


def _any(numbers: _Numbers) -> Tree:
    """Return some tree that uses all numbers and has a value."""
    tree: Tree = Fraction(numbers[0])
    for number in numbers[1:]:
        tree = Operation("+", tree, Fraction(number))
    return tree


def _over(above: _Value, below: _Value) -> _Value:
    if isinstance(above, int) and isinstance(below, int) and above % below == 0:
        return above // below
    return _plain(Fraction(above, below))


def _plain(value: _Value) -> _Value:
    return value.numerator if value.denominator == 1 else value
