"""Number games: reach a target from a few numbers with + - * / and brackets, made up on the spot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.lineage import derive
from ttsflow.tasks.countdown_answers import final_in, solves
from ttsflow.tasks.expression import Operation, Tree, evaluate, read, written
from ttsflow.tasks.reach import MOST, out_of_reach, solution
from ttsflow.types import Answer, Message, Problem, Prompt

__all__ = ["Countdown", "worked"]

#: So many draws in a row that give no new problem mean that there are no more; by the count of numbers,
#: because a search that finds nothing takes longer the more there are.
_VAIN = {2: 4000, 3: 2000, 4: 1000, 5: 100, 6: 10}

_RULES = "Use + - * / and brackets. Write one operation a line, with the numbers left, then the answer.\n\n"


@dataclass(frozen=True, slots=True)
class Countdown:
    """Problems such as ``Make 24 from 3, 8, 8, 1``, each solved step by step, then ``Answer: ...``.

    ``numbers`` whole numbers from ``low`` to ``high`` must be used exactly once (``all``, the 24 game) or
    at most once (countdown; the target is then none of the numbers). ``target`` null: each problem draws
    its own between ``target_low`` and ``target_high``. Every problem has a solution, found by an exact
    search. A problem set is a pure function of the settings, a larger ``size`` only appends to it; when
    no new problems are found any more, they come again. ``shots`` worked examples are never among them.

    ``chat``: the question and the examples are turns of a chat, and any text may come before the answer.
    Else they are one text to continue, and the full stop behind the answer ends a trajectory.

    An answer is the expression in the last box or "Answer:", else in the last line that has one and is
    no step; ``= 24`` may follow, if it is true. One that anything else is joined to, such as ``mod 7``, is
    no answer. Votes count rearrangements of one expression as one answer. Gold is one
    solution of many, so it is checked by computing, never compared. ``data`` holds ``numbers``,
    ``target`` and ``all``.

    Raises ``ConfigError`` when no draw can be solved.
    """

    numbers: int = 4
    low: int = 1
    high: int = 25
    target: int | None = None
    target_low: int = 10
    target_high: int = 100
    all: bool = False
    size: int = 40
    seed: int = 0
    shots: int = 4
    chat: bool = False

    steps: ClassVar[str] = "game"

    def __post_init__(self) -> None:
        for name, least, most in (
            ("numbers", 2, MOST),
            ("low", 1, 10**6),
            ("high", 1, 10**6),
            ("target_low", 1, 10**9),
            ("target_high", 1, 10**9),
            ("size", 1, 10**6),
            ("shots", 0, 32),
        ):
            value = getattr(self, name)
            if not least <= value <= most:
                raise ConfigError(f"must lie between {least} and {most}, got {value}", name)
        if self.low > self.high:
            raise ConfigError(f"must be at most high, {self.high}, got {self.low}", "low")
        if self.target is None and self.target_low > self.target_high:
            raise ConfigError(
                f"must be at most target_high, {self.target_high}, got {self.target_low}", "target_low"
            )
        if self.target is not None and self.target < 1:
            raise ConfigError(f"must be at least 1, or null to draw one, got {self.target}", "target")
        least, field = (self.target_low, "target_low") if self.target is None else (self.target, "target")
        if out_of_reach([self.high] * self.numbers, least):
            raise ConfigError(
                f"{least} is more than {self.numbers} numbers up to {self.high} can make", field
            )

    @property
    def stop(self) -> tuple[str, ...]:
        """A full stop, which no worked line has before its end, or the next problem; nothing in a chat."""
        return () if self.chat else (".", "\n\n", "Make ")

    @property
    def separator(self) -> str:
        """A line is a step."""
        return "\n"

    @property
    def probe(self) -> str:
        """What stands before the answer in the worked examples."""
        return "\nAnswer:"

    def problems(self) -> list[Problem]:
        """Return all problems. Raises ``ConfigError`` when none is found."""
        return list(_problems(self))

    def answer(self, text: str, problem: Problem) -> Answer | None:  # noqa: ARG002 - the protocol's signature
        """Return the final expression of a text."""
        found = final_in(text)
        return None if found is None else Answer(found.text, found.key)

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return whether the answer reaches the target and uses the numbers as the problem says."""
        if problem.gold is None:
            return None
        found = None if answer is None else read(answer.text)
        return found is not None and solves(found, problem)


def worked(numbers: Sequence[int], tree: Tree) -> str:
    """Return a solution as the examples show it, step by step, without the final full stop."""
    left, lines = [Fraction(number) for number in numbers], []

    def step(part: Tree) -> Fraction:
        value = evaluate(part)
        assert value is not None
        if isinstance(part, Operation):
            operands = step(part.left), step(part.right)
            for operand in operands:
                left.remove(operand)
            left.append(value)
            said = ", ".join(map(str, left))
            lines.append(f"{written(Operation(part.sign, *operands))} = {value} (left: {said})")
        return value

    step(tree)
    return "\n".join([*lines, f"Answer: {written(tree)}"])


@dataclass(frozen=True, slots=True)
class _Game:
    """One drawn problem with a solution."""

    numbers: tuple[int, ...]
    target: int
    tree: Tree

    @property
    def name(self) -> tuple[int, ...]:
        """What makes two games one: the numbers in any order, and the target."""
        return (*sorted(self.numbers), self.target)

    @property
    def plain(self) -> bool:
        """Whether every step of the solution is a whole number, zero or more."""
        return all(value >= 0 and value.denominator == 1 for value in _values(self.tree))


# Kept because the settings decide everything, and a run asks more than once.
@lru_cache(maxsize=8)
def _problems(task: Countdown) -> tuple[Problem, ...]:
    examples = _examples(task)
    found: list[Problem] = []
    drawn = _drawn(task, ("countdown", task.seed), {game.name for game in examples})
    for game, _ in zip(drawn, range(task.size), strict=False):
        found.append(_problem(task, game, examples))
    if not found:
        raise _no_problem(task, "they are all among the examples" if examples else "")
    first = len(found)
    # Nothing new was found, so those that are there come again.
    for place in range(first, task.size):
        again = found[place % first]
        found.append(replace(again, id=f"{again.id}-{place // first + 1}"))
    return tuple(found)


def _problem(task: Countdown, game: _Game, examples: Sequence[_Game]) -> Problem:
    rule = "all-" if task.all else ""
    return Problem(
        prompt=_prompt(task, game, examples),
        id=f"countdown-{rule}{','.join(map(str, game.numbers))}-{game.target}",
        gold=f"{written(game.tree)} = {game.target}",
        data={"numbers": game.numbers, "target": game.target, "all": task.all},
    )


def _prompt(task: Countdown, game: _Game, examples: Sequence[_Game]) -> Prompt:
    if not task.chat:
        shots = "".join(f"{_asked(task, one)}{worked(one.numbers, one.tree)}.\n\n" for one in examples)
        return f"{_RULES}{shots}{_asked(task, game)}"
    turns = []
    for one in examples:
        turns += [Message("user", _question(task, one))]
        turns += [Message("assistant", worked(one.numbers, one.tree))]
    return (*turns, Message("user", _question(task, game)))


def _asked(task: Countdown, game: _Game) -> str:
    given = ", ".join(map(str, game.numbers))
    return f"Make {game.target} from {given}, each number {_often(task)}\n"


def _question(task: Countdown, game: _Game) -> str:
    given = ", ".join(map(str, game.numbers))
    return (
        f"Make {game.target} from the numbers {given}. Use each number {_often(task)}, with + - * / and "
        "brackets. Write one operation a line, followed by the numbers that are left, such as "
        "`3 * 8 = 24 (left: 24, 1)`. End with one expression over the given numbers, in the form "
        "`Answer: expression`."
    )


def _often(task: Countdown) -> str:
    return "exactly once" if task.all else "at most once"


def _examples(task: Countdown) -> list[_Game]:
    """Return the worked examples, those that need no fractions if there are enough."""
    if not task.shots:
        return []
    drawn = _drawn(task, ("countdown examples",), set())
    found = [game for game, _ in zip(drawn, range(4 * task.shots), strict=False)]
    if not found:
        raise _no_problem(task, "")
    return sorted(found, key=lambda game: not game.plain)[: task.shots]


def _drawn(task: Countdown, tags: tuple[object, ...], refused: set[tuple[int, ...]]) -> Iterator[_Game]:
    """Yield different games that have a solution, until too many draws in a row give no new one."""
    target = (task.target, task.target) if task.target is not None else (task.target_low, task.target_high)
    settings = (*tags, task.numbers, task.low, task.high, *target, task.all)
    seen, turn, vain = set(refused), 0, 0
    while vain < _VAIN[task.numbers]:
        turn, vain = turn + 1, vain + 1
        # Hashes instead of a generator, whose draws a new Python may change.
        numbers = tuple(
            _between(task.low, task.high, *settings, turn, place) for place in range(task.numbers)
        )
        goal = _between(*target, *settings, turn, "target")
        name = (*sorted(numbers), goal)
        if name in seen or out_of_reach(numbers, goal) or (not task.all and goal in numbers):
            continue
        tree = solution(numbers, goal, every=task.all)
        if tree is not None:
            seen.add(name)
            vain = 0
            yield _Game(numbers, goal, tree)


def _between(low: int, high: int, *parts: object) -> int:
    return low + derive(*parts) % (high - low + 1)


def _values(tree: Tree) -> Iterator[Fraction]:
    value = evaluate(tree)
    assert value is not None
    yield value
    if isinstance(tree, Operation):
        yield from _values(tree.left)
        yield from _values(tree.right)


def _no_problem(task: Countdown, why: str) -> ConfigError:
    goal = task.target if task.target is not None else f"{task.target_low} to {task.target_high}"
    rule = "all of" if task.all else "some of"
    return ConfigError(
        f"no problem was found in {_VAIN[task.numbers]} draws: {goal} from {rule} {task.numbers} numbers "
        f"between {task.low} and {task.high}{'; ' + why if why else ''}. Choose another target, more "
        "numbers, or a wider range",
        "target" if task.target is not None else "target_low",
    )
