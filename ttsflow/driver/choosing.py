"""The driver's side of choosers: they are asked, and told what came of it in the order of their choices."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ttsflow.choice import Chooser, ChooserPart, Outcome, Question
from ttsflow.driver.flight import Case
from ttsflow.ledger import Ledger
from ttsflow.ops import Choose, Chosen, Earned, Learn
from ttsflow.types import Answer, Problem, Usage

__all__ = ["Choosers", "Choosing"]


class Choosers(NamedTuple):
    """The choosers of a run with the unit that each counts, and what its task is called."""

    units: Mapping[ChooserPart, str]
    task: str = ""


@dataclass(slots=True)
class _Choice:
    """A choice of which the outcome is awaited; ``outcomes`` is None as long as it is."""

    case: Case
    by: ChooserPart
    arm: str
    features: Mapping[str, float | str]
    before: Usage
    outcomes: Mapping[str, Outcome] | None = field(default=None)


class Choosing:
    """The choosers of a run, by their parts.

    ``settle`` brings the books up to date before they are read, ``correct`` is the task's word on an answer.
    What a budget ended midway, and what was lost with the engine, tells nothing of an arm and is left out.
    Outcomes are learnt in the order of the choices: one that ends early waits for those chosen before it,
    since otherwise what is short would be learnt first.
    """

    def __init__(
        self,
        ledger: Ledger,
        choosers: Choosers,
        *,
        settle: Callable[[], None],
        correct: Callable[[Answer | None, Problem], bool | None],
    ) -> None:
        self._ledger = ledger
        self._units, self._task = choosers
        self._settle = settle
        self._correct = correct
        self._choosers: dict[ChooserPart, Chooser] = {
            part: part.open_chooser(unit) for part, unit in self._units.items()
        }
        self._ahead = 0
        self._asked: set[Case] = set()
        self._awaited: deque[_Choice] = deque()
        self._choices: dict[int, _Choice] = {}
        self._number = 0

    def begin(self, problems: int) -> None:
        """Begin a run of so many problems."""
        self._ahead = problems
        for part, chooser in self._choosers.items():
            chooser.begin(problems, self._ledger.budget.run.get(self._units[part]))

    def reply(self, case: Case, op: Choose | Learn, now: float, started: float) -> Chosen | None:
        """Carry out an operation of a stage."""
        if isinstance(op, Choose):
            return self._choose(case, op, now, started)
        self._learn(case, op, now)
        return None

    def _choose(self, case: Case, op: Choose, now: float, started: float) -> Chosen:
        self._settle()
        unit, account = self._units[op.by], case.account
        limit, left = self._ledger.budget.run.get(unit), None
        spent = self._spent(case, op.before, unit, now)
        if limit is not None:
            left = max(0.0, self._ledger.funds(account, now, started).left[unit]) + spent
        share = 1.0 if limit is None or left is None else min(1.0, left / limit)
        known: dict[str, float | str] = {
            "task": self._task,
            "prompt_tokens": float(len(case.prompt)),
            "budget_left": share,
        }
        features = {**op.features, **known}
        chosen = self._choosers[op.by].choose(Question(features, left, self._waiting(case)), op.rng)
        self._asked.add(case)
        if chosen.arm is None:
            return chosen
        expected = {} if chosen.expected is None else {unit: max(0.0, chosen.expected - spent)}
        self._ledger.quote(account, op.samples.get(chosen.arm, 1), now, started, known=expected)
        self._number += 1
        choice = _Choice(case, op.by, chosen.arm, features, op.before)
        self._choices[self._number] = choice
        self._awaited.append(choice)
        return chosen._replace(number=self._number)

    def _waiting(self, case: Case) -> int:
        """Return how many problems have no arm yet, this one among them."""
        if case not in self._asked:
            self._one_less()
        return self._ahead + 1

    def _one_less(self) -> None:
        # A problem that a controller deferred may be asked once more, and was counted before.
        self._ahead = max(0, self._ahead - 1)

    def _learn(self, case: Case, op: Learn, now: float) -> None:
        self._settle()
        choice = self._choices[op.number]
        # What was set aside and not needed goes back.
        case.account.reserved.clear()
        case.account.quoted = 0
        if case.account.stopped is None:
            choice.outcomes = {name: self._outcome(choice, earned, now) for name, earned in op.arms.items()}
        else:
            choice.outcomes = {}
        del self._choices[op.number]
        self._flush()

    def _outcome(self, choice: _Choice, earned: Earned, now: float) -> Outcome:
        unit, reward = self._units[choice.by], earned.reward
        if choice.by.graded:
            reward = self._grade(earned.answer, choice.case.problem)
        if reward is not None and not 0 <= reward <= 1:
            msg = f"a reward lies between 0 and 1, got {reward}."
            raise ValueError(msg)
        if earned.usage is None:
            return Outcome(reward, self._spent(choice.case, choice.before, unit, now))
        # Nobody knows how long an arm would have taken that has not run.
        return Outcome(reward, None if self._ledger.passes(unit) else self._ledger.costs[unit](earned.usage))

    def _grade(self, answer: Answer | None, problem: Problem) -> float | None:
        try:
            right = self._correct(answer, problem)
        except Exception:  # noqa: BLE001 - a grader that breaks is told of when the problem is graded itself
            return None
        return None if right is None else float(right)

    def _spent(self, case: Case, before: Usage, unit: str, now: float) -> float:
        """Return what a problem has spent since ``before``."""
        model = self._ledger.costs[unit]
        spent = model(case.account.usage(now))
        return spent if before == Usage() else spent - model(before)

    def closed(self, case: Case, now: float, *, lost: bool) -> None:
        """Take in that a problem is over; ``lost``: with the engine, which is not its arm's fault."""
        if case not in self._asked:
            self._one_less()
        self._asked.discard(case)
        open_ones = [number for number, choice in self._choices.items() if choice.case is case]
        for number in open_ones:
            choice = self._choices.pop(number)
            spent = self._spent(case, choice.before, self._units[choice.by], now)
            tells_nothing = lost or case.account.stopped is not None
            # A strategy that breaks has earned nothing.
            choice.outcomes = {} if tells_nothing else {choice.arm: Outcome(0.0, spent)}
        self._flush()

    def _flush(self) -> None:
        """Tell the outcomes of all choices before which none is awaited."""
        while self._awaited and self._awaited[0].outcomes is not None:
            choice = self._awaited.popleft()
            if choice.outcomes:
                self._choosers[choice.by].learn(choice.arm, choice.features, choice.outcomes)

    def state(self) -> list[Mapping[str, Any]]:
        """Return what the choosers have learnt, in the order of their stages."""
        return [chooser.state() for chooser in self._choosers.values()]
