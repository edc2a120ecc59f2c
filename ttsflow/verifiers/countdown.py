"""A process verifier for number games that needs no model: it follows which numbers are left."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from ttsflow.protocols import Task
from ttsflow.tasks.countdown_answers import LEFT, alone_in, joined, solves, stated_in
from ttsflow.tasks.expression import Expression, Negative, Operation, Tree, chains_in, evaluate, tidy
from ttsflow.tasks.reach import MOST, solution
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched, check_separator, check_unchecked, steps_of
from ttsflow.verifiers.suited import check_steps

__all__ = ["CountdownSteps"]

#: Numbers that may be used, sorted; a number that is there twice stands in it twice.
Bag = tuple[Fraction, ...]

_NUMBER = re.compile(r"-?\d+(?:\.\d+|\s*/\s*\d+)?")


@dataclass(frozen=True, slots=True)
class CountdownSteps:
    """Scores each step of a number game by the rules of the game alone; it reads no gold answer.

    A step is a line such as ``3 * 8 = 24 (left: 24, 1)`` or ``3 * 8 = 24``.
    1.0: the equation holds exactly, uses only numbers that are left (those of the problem and results of
    earlier steps, each once), and what it says is left is left. Or it states a final expression that
    solves the problem. 0.0: one of these fails. ``unchecked``: the step has no equation (None: no
    score). A wrong step uses up nothing: a later step that goes on with its result is wrong too, one
    that repairs it is right. A trajectory that ends without the solution ends with a wrong step.

    ``reachable``: a step is right only if the target can still be reached from what it leaves, by an
    exact search (up to 6 numbers, milliseconds for 4). Without it a correct sum that leads nowhere is a
    right step; with it the verifier knows every dead end, which is close to an oracle, so gains measured
    with it are those of a perfect process reward.

    The problem's data must hold ``numbers``, ``target`` and ``all``, as those of the task ``countdown``
    do. On other problems only the equations are checked, each by itself.
    """

    separator: str = "\n"
    unchecked: float | None = 0.5
    reachable: bool = False

    def __post_init__(self) -> None:
        check_separator(self.separator)
        check_unchecked(self.unchecked)

    def check_task(self, task: Task) -> None:
        """Refuse a task that says its steps are others, which would all be ``unchecked``."""
        check_steps(task, "game")

    def open(self) -> Batched:
        """Return the working verifier."""
        return Batched(self.score, self.separator)

    def score(self, batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float | None]]:
        """Return one score per non-empty step of each candidate."""
        return [self._steps(problem, candidate) for problem, candidate in batch]

    def _steps(self, problem: Problem, candidate: Candidate) -> list[float | None]:
        known = {"numbers", "target", "all"} <= {*problem.data}
        game = _Game(problem, reachable=self.reachable) if known else _Sums()
        scores: list[float | None] = []
        for step in steps_of(candidate.text, self.separator):
            verdicts = [game.take(line) for line in step.splitlines()]
            said = [verdict for verdict in verdicts if verdict is not None]
            scores.append(float(all(said)) if said else self.unchecked)
        if scores and candidate.finished and not game.solved:
            scores[-1] = 0.0
        return scores


class _Sums:
    """Equations of a problem of which nothing is known."""

    @property
    def solved(self) -> bool:
        """Whether ending here leaves nothing undone."""
        return True

    def take(self, line: str) -> bool | None:
        """Return whether a line is right, None when it says nothing that can be checked."""
        verdicts = [_holds(chain) for chain in chains_in(_cut(line)[0]) if len(chain) > 1]
        return all(verdicts) if verdicts else None


class _Game(_Sums):
    """The numbers that are left of one game, as its right lines have used them."""

    def __init__(self, problem: Problem, *, reachable: bool) -> None:
        self._problem = problem
        self._reachable = reachable
        self._solved = False
        self._last = ""
        self._ended = False  # by the last line
        self._bag: Bag = tuple(sorted(map(Fraction, problem.data["numbers"])))

    @property
    def solved(self) -> bool:
        """Whether the last final expression was right."""
        return self._solved

    def take(self, line: str) -> bool | None:
        if not line.strip():
            return None
        goes_on = bool(self._last) and joined(self._last, line)
        self._last = f"{self._last} {line}" if goes_on else line
        if goes_on and self._ended:
            # What the line before stated as the end was not all of it.
            self._solved = self._ended = self._solves(self._last)[0]
            return self._ended
        text, left = _cut(line)
        right, states = self._solves(text)
        if states and goes_on:
            right, _ = self._solves(self._last)
        chains = [chain for chain in chains_in(text) if len(chain) > 1]
        # A line that says what is left is a step; another one may be the whole solution, unannounced.
        self._ended = right and (states or (left is None and not goes_on))
        if states or self._ended:
            self._solved = self._ended
            return self._ended
        return self._step(chains, left) if chains else None

    def _solves(self, text: str) -> tuple[bool, bool]:
        """Return whether a line has a right final expression, and whether it states one as its end."""
        found, states = stated_in(text)
        if not states:
            found = alone_in(text)
        return found is not None and solves(found, self._problem), states

    def _step(self, chains: Iterable[list[Expression]], left: Bag | None) -> bool:
        # An operand such as 8/3 may be one number or two, so several bags are possible.
        bags = {self._bag}
        for chain in chains:
            result = chain[0].value
            if result is None or not _holds(chain):
                return False
            worked = next(side.tree for side in chain if isinstance(side.tree, Operation))
            bags = {
                tuple(sorted((*rest, result)))
                for bag in bags
                for used in _uses(worked, bag)
                if (rest := _without(bag, used)) is not None
            }
        fitting = [bag for bag in sorted(bags) if left is None or bag == left]
        alive = [bag for bag in fitting if not self._reachable or self._alive(bag)]
        if alive:
            self._bag = alive[0]
        return bool(alive)

    def _alive(self, bag: Bag) -> bool:
        data = self._problem.data
        return len(bag) > MOST or solution(bag, data["target"], every=data["all"]) is not None


def _holds(chain: Sequence[Expression]) -> bool:
    """Whether all sides are one value: exactly, so a rounded result is wrong."""
    return chain[0].value is not None and all(a.value == b.value for a, b in pairwise(chain))


def _cut(line: str) -> tuple[str, Bag | None]:
    """Return a line without what it says is left, and those numbers; None when it says nothing."""
    line = " ".join(line.split())
    found = LEFT.search(line)
    if found is None:
        return line, None
    left = (Fraction("".join(number.split())) for number in _NUMBER.findall(tidy(found[1])))
    try:
        return line[: found.start()], tuple(sorted(left))
    except ZeroDivisionError:
        return line[: found.start()], ()


def _uses(tree: Tree, bag: Bag) -> set[Bag]:
    """Return the ways to read the numbers of a tree that ``bag`` has room for, each a sorted bag."""
    if isinstance(tree, Fraction):
        return {(tree,)} if tree in bag else set()
    ways: set[Bag] = set()
    value = evaluate(tree)
    # A fraction or a negative number that is left is one number, although it is written with a sign.
    if value is not None and value in bag and _is_number(tree):
        ways.add((value,))
    if isinstance(tree, Negative):
        return ways | _uses(tree.of, bag)
    for left in _uses(tree.left, bag):
        for right in _uses(tree.right, bag):
            both = tuple(sorted((*left, *right)))
            if _without(bag, both) is not None:
                ways.add(both)
    return ways


def _is_number(tree: Tree) -> bool:
    """Whether a tree is written as one number would be: ``-3``, ``8/3``, ``-8/3``."""
    if isinstance(tree, Negative):
        return isinstance(tree.of, Fraction) or _is_number(tree.of)
    if isinstance(tree, Operation):
        left = tree.left.of if isinstance(tree.left, Negative) else tree.left
        return tree.sign == "/" and isinstance(left, Fraction) and isinstance(tree.right, Fraction)
    return True


def _without(bag: Bag, used: Bag) -> Bag | None:
    """Return what is left of a bag, None when it does not hold all of ``used``."""
    left = list(bag)
    for number in used:
        if number not in left:
            return None
        left.remove(number)
    return tuple(left)
