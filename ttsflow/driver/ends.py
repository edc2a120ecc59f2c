"""How problems end: graded, recorded, and kept in order for whoever runs them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ttsflow.budget import Fuse
from ttsflow.driver.flight import Case
from ttsflow.ledger import Ledger
from ttsflow.protocols import Task
from ttsflow.results import make_result, outcome_of
from ttsflow.status import Status
from ttsflow.trace import Recorder
from ttsflow.types import Answer, Candidate, Outcome, Problem, Result, State, Usage

__all__ = ["Ends", "is_sound"]


class Ends:
    """What came of problems: ``results`` in the order in which they ended, until somebody takes them.

    ``leave`` takes a problem out of all books and returns what it has spent. ``asks_again`` says whether one
    that was deferred gets a second chance: it waits in ``again``, and has one only. ``broken`` is why the
    run's breaker has tripped.
    """

    def __init__(
        self,
        task: Task,
        ledger: Ledger,
        trace: Recorder,
        status: Status,
        *,
        leave: Callable[[Case], Usage],
        asks_again: Callable[[Case], bool],
    ) -> None:
        self._task = task
        self._ledger = ledger
        self._trace = trace
        self._status = status
        self._leave = leave
        self._asks_again = asks_again
        self.results: deque[Result] = deque()
        self.again: deque[tuple[int, Problem]] = deque()
        self._asked_twice: set[int] = set()
        self.broken: str | None = None
        self._fuse = None if ledger.budget.breaker is None else Fuse(ledger.budget.breaker)

    def finish(self, case: Case, state: State) -> None:
        """Grade and record a problem whose strategy has come to its end."""
        outcome, correct, reason = outcome_of(state), None, None
        if outcome == "deferred" and self._asks_again(case) and case.index not in self._asked_twice:
            self._asked_twice.add(case.index)
            self.again.append((case.index, case.problem))
            self._leave(case)
            return
        try:
            correct = self._task.correct(state.answer, case.problem)
        except Exception as error:  # noqa: BLE001 - a grader that breaks is an error, never "wrong"
            outcome, reason = "failed", f"grading failed: {type(error).__name__}: {error}"
        self._close(case, state, outcome, correct=correct, reason=reason)

    def fail(self, case: Case, reason: str) -> None:
        """Record a problem that failed; nothing of it may run any more."""
        self._close(case, State(case.problem, stopped=case.account.stopped), "failed", reason=reason)

    def refuse(self, index: int, problem: Problem, stopped: str | None, *, dead: str | None) -> None:
        """Record a problem that never started: the run has ``stopped``, or its engine is ``dead``."""
        self._trace.event("start", problem.id, {"index": index})
        outcome: Outcome = "failed" if dead else "deferred"
        state = State(problem, stopped=None if dead else stopped)
        nothing = self._ledger.nothing
        self._record(make_result(state, outcome, nothing, self._ledger.cost(nothing), reason=dead))

    def _close(
        self,
        case: Case,
        state: State,
        outcome: Outcome,
        *,
        correct: bool | None = None,
        reason: str | None = None,
    ) -> None:
        state = state.with_(stopped=state.early or case.account.early)
        usage = self._leave(case)
        self._record(
            make_result(
                state,
                outcome,
                usage,
                self._ledger.cost(usage),
                correct=correct,
                reason=reason,
                tree=case.tree,
            )
        )

    def _record(self, result: Result) -> None:
        self._status.done += 1
        self._status.graded += result.correct is not None
        self._status.correct += bool(result.correct)
        self.results.append(result)
        if self._fuse is not None and self.broken is None:
            self.broken = self._fuse.ended(result.outcome)
        self._trace.event(
            "result",
            result.id,
            {
                "outcome": result.outcome,
                "answer": result.answer,
                "correct": result.correct,
                "stopped": result.stopped,
            },
        )
        self._trace.flush()


def is_sound(state: State) -> bool:
    """Return whether what a strategy returned can be made a result of."""
    return (
        isinstance(state.pool, tuple)
        and all(isinstance(candidate, Candidate) for candidate in state.pool)
        and isinstance(state.answer, Answer | None)
        and isinstance(state.stopped, str | None)
        and isinstance(state.ended, str | None)
    )
