"""A process verifier that needs no model: it checks the equations a step writes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from ttsflow.protocols import Task
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched, check_separator, check_unchecked, steps_of
from ttsflow.verifiers.reading import Equation, equations_in
from ttsflow.verifiers.suited import check_steps

__all__ = ["Equations"]

_ANSWER = re.compile(
    r"(?:\banswer\b\s*(?:is\b|[:=])|####)\s*[$*\\(]*\s*(-?\d[\d,]*(?:\.\d+)?)(?![\d/^]|\.\d|\s*[-+*/=])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Equations:
    """Scores each step by whether what it computes is right, without ever reading the gold answer.

    1.0: all equations of the step hold, and an answer it states is the value computed last.
    0.0: one equation is wrong, or the answer differs from the value computed last.
    ``unchecked``: the step has neither, or an answer before anything was computed (None: no score).

    When the problem's data lists ``terms``, the question is their sum, and a step must also do
    something for it: every number it adds must be a term or a partial sum not used yet, and the answer
    must be what remains when all are used. On such problems, as of the task ``arithmetic``, these rules
    amount to knowing the right answer: close to an oracle, so gains measured with this verifier there
    are those of a perfect process reward. A wrong step uses up nothing: a later step that goes on with
    its result is wrong too, one that repairs it is right. A trajectory that ends before all terms are used
    ends with a wrong step.

    On other problems each step is judged by itself; equations with symbols, percentages or powers are
    not read, so the verifier is silent about them. A right-hand side may be rounded to the decimals it
    shows.
    """

    separator: str = "\n"
    unchecked: float | None = 0.5

    def __post_init__(self) -> None:
        check_separator(self.separator)
        check_unchecked(self.unchecked)

    def check_task(self, task: Task) -> None:
        """Refuse a task that says its steps are others, which would all be ``unchecked``."""
        check_steps(task, "sums")

    def open(self) -> Batched:
        """Return the working verifier."""
        return Batched(self.score, self.separator)

    def score(self, batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float | None]]:
        """Return one score per non-empty step of each candidate."""
        return [self._steps(problem, candidate) for problem, candidate in batch]

    def _steps(self, problem: Problem, candidate: Candidate) -> list[float | None]:
        terms = problem.data.get("terms")
        book = _Values() if terms is None else _Sum(terms)
        scores: list[float | None] = []
        said_one = False
        for step in steps_of(candidate.text, self.separator):
            verdicts = [book.take(equation) for equation in equations_in(step)]
            answers = [book.answer(_value(said)) for said in _ANSWER.findall(step)]
            said_one = said_one or bool(answers)
            verdicts += answers
            known = [verdict for verdict in verdicts if verdict is not None]
            scores.append(float(all(known)) if known else self.unchecked)
        if scores and candidate.finished and not said_one and book.unfinished:
            scores[-1] = 0.0
        return scores


class _Values:
    """What was computed so far, on a problem of which nothing else is known."""

    def __init__(self) -> None:
        self._last: Fraction | None = None

    @property
    def unfinished(self) -> bool:
        """Whether ending here, without a word, leaves something undone."""
        return False

    def take(self, equation: Equation) -> bool | None:
        if equation.holds:
            self._last = equation.result
        return equation.holds

    def answer(self, value: Fraction) -> bool | None:
        return None if self._last is None else value == self._last


class _Sum(_Values):
    """The terms and partial sums of one addition that are still to be used."""

    def __init__(self, terms: Sequence[int]) -> None:
        super().__init__()
        self._left = Counter(Fraction(term) for term in terms)

    @property
    def unfinished(self) -> bool:
        return self._left.total() > 1

    def take(self, equation: Equation) -> bool | None:
        used = Counter(equation.operands)
        if not equation.holds or not equation.sum or used - self._left:
            return False
        self._left = self._left - used + Counter([equation.result])
        return True

    def answer(self, value: Fraction) -> bool | None:
        return self._left == Counter([value])


def _value(said: str) -> Fraction:
    return Fraction(said.replace(",", "").rstrip("."))
