"""The loop: resumes stages, turns engine and verifier, enforces budgets.

Many problems are in flight at once. A stage that yields an operation is resumed as soon as that one
operation is met, so that no problem waits for another, and stages themselves never wait for I/O.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.ahead import Ahead
from ttsflow.control import ControllerPart
from ttsflow.controlling import Controlling
from ttsflow.decoding import Decoding
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.flight import Case, Frame
from ttsflow.ledger import Ledger
from ttsflow.lineage import Lineage, content_id
from ttsflow.metering import Metering
from ttsflow.ops import Fork, Generate, Generated, Note, Quotation, Quote, Score, Scored
from ttsflow.protocols import Expecting, Stage, Verifier
from ttsflow.results import make_result, outcome_of
from ttsflow.sensors import LoadMonitor
from ttsflow.settle import Rules
from ttsflow.status import Status
from ttsflow.strategies.flow import run_stage
from ttsflow.trace import NoTrace, Recorder
from ttsflow.types import Answer, Candidate, Outcome, Problem, Result, State, Usage
from ttsflow.verifying import Verifying

__all__ = ["CORE_EVENTS", "Driver"]

#: Events of the trace that only the driver writes.
CORE_EVENTS = frozenset({"start", "candidate", "score", "watch", "stop", "failed", "result"})

MOST_REPLIES = 100_000
"""Notes and quotes in a row, without a token decoded or a score asked for, that no sane stage needs."""

_WAITS = object()
"""What asking returns when the reply comes later."""


class Driver:
    """Runs one strategy over problems.

    ``rules`` holds engine, task and sampling; ``verifier`` may be None when nothing asks for scores.
    ``on_step`` is called with the live status after every turn of the loop, ``on_round`` with the tokens of
    every step of a round that is to be scored, and how many candidates of all problems there are. ``dead``
    is the reason when the engine or the meter died midway: the problems left are then failed with it.
    """

    def __init__(
        self,
        strategy: Stage,
        rules: Rules,
        ledger: Ledger,
        *,
        verifier: Verifier | None = None,
        trace: Recorder | None = None,
        concurrency: int = 8,
        on_step: Callable[[Status], None] | None = None,
        acceleration: Acceleration | None = None,
        on_round: Callable[[Sequence[int], int], object] | None = None,
        controllers: Mapping[ControllerPart, str] | None = None,
        metering: Metering | None = None,
        load: LoadMonitor | None = None,
    ) -> None:
        self.strategy = strategy
        self.rules = rules
        self.engine = rules.engine
        self.ledger = ledger
        self.trace: Recorder = trace or NoTrace()
        self.concurrency = concurrency
        self.on_step = on_step
        self.status = Status()
        self.dead: str | None = None
        self._engine_dead = False
        #: Problems in which a budget had a say: it ended or refused requests, or a stage found its funds low.
        self.capped: set[str] = set()
        #: Seconds in which the verifier and the engine of the run were advanced, one after the other.
        self.seconds = {"generator_seconds": 0.0, "verifier_seconds": 0.0}
        self.started = self.engine.now()
        self._metering = metering
        self._load = load
        #: Problems that were deferred and are asked once more when all others have been.
        self._again: deque[tuple[int, Problem]] = deque()
        self._asked_twice: set[int] = set()
        self.controlling = Controlling(ledger, controllers or {}, settle=self._settle, load=self._load_of)
        self._cases: dict[Case, None] = {}
        self._ready: deque[tuple[Frame, Any]] = deque()
        self._results: deque[Result] = deque()
        self._run_stopped: str | None = None
        self._verifying = Verifying(verifier, self.trace, deliver=self._deliver, now=self.engine.now)
        self._on_round = on_round
        self._verifying.round = self._round if on_round is not None else None
        self._ahead = self._looks_ahead(acceleration or PLAIN)
        self._decoding = Decoding(
            rules, ledger, self.trace, deliver=self._deliver, fail=self._fail, ahead=self._ahead
        )

    def _looks_ahead(self, wanted: Acceleration) -> Ahead:
        # What is decoded early and dropped would spend the funds that answers depend on.
        engine = self.engine
        expecting = engine if isinstance(engine, Expecting) and not self.ledger.budget else None
        return Ahead(
            self.rules,
            self._verifying,
            eager=wanted.eager_verify and not self.ledger.budget,
            expecting=expecting,
            speculation=wanted.speculates,
        )

    @property
    def requests(self) -> int:
        """Requests of this run that are on the engine."""
        return len(self._decoding.live)

    def _round(self, candidates: Sequence[Candidate]) -> None:
        """Tell of a round that is to be scored: tokens of its steps, and how many candidates are about."""
        if self._on_round is not None:
            about = len(candidates) + sum(case.live for case in self._cases)
            self._on_round([candidate.tokens_new for candidate in candidates], about)

    def run(self, problems: Sequence[Problem], done: AbstractSet[str] = frozenset()) -> Iterator[Result]:
        """Yield one result per problem but those ``done`` before, in the order in which they end.

        Whatever ends the iteration, an exception or the caller, no request stays on the engine.
        """
        waiting = deque(one for one in enumerate(problems) if one[1].id not in done)
        self.started = self.engine.now()
        self.status.problems = len(waiting)
        self.controlling.begin(len(waiting))
        try:
            while waiting or self._again or self._cases or self._results:
                while self._results:
                    yield self._results.popleft()
                if self._again and not waiting and not self._cases:
                    waiting, self._again = self._again, waiting
                    self.controlling.expect(len(waiting))
                while waiting and len(self._cases) < self.concurrency and not self._run_stopped:
                    self._start(*waiting.popleft())
                self._turn()
                while waiting and self._run_stopped:
                    self._refuse(*waiting.popleft())
        finally:
            if not self._engine_dead:
                self._decoding.close()
                self._ahead.close()
            self._verifying.close()

    # --- the loop ---------------------------------------------------------------------------------

    def _turn(self) -> None:
        moved = bool(self._ready)
        while self._ready:
            frame, reply = self._ready.popleft()
            if frame.case in self._cases:
                self._advance(frame, reply)
        if not self._decoding.live:
            self._decoding.rest()
        began = self.engine.now()
        moved |= self._verifying.step()
        scored = self.engine.now()
        if self._decoding.live:
            self._step()
            moved = True
        self.seconds["verifier_seconds"] += scored - began
        self.seconds["generator_seconds"] += self.engine.now() - scored
        self._meter()
        if self.ledger.budget:
            self._enforce()
        if not moved and self._cases:
            if not self._verifying.pending:
                msg = "a problem waits for nothing; this is a bug in ttsflow."
                raise RuntimeError(msg)
            time.sleep(0.0005)
        if self.on_step is not None:
            self._report(self.on_step)

    def _meter(self) -> None:
        if self._metering is None:
            return
        self._metering.look(self.ledger.open, self.engine.now())
        if self._metering.dead is not None and self.dead is None:
            self._die(self._metering.dead)

    def _step(self) -> None:
        busy = [case.account for case in self._cases if case.live]
        for account in busy:
            account.engine_steps += 1
        self.status.steps += 1
        try:
            iterations = self._decoding.step()
            for account in busy if iterations > 1 else ():
                account.engine_steps += iterations - 1
        except EngineDead as error:
            self._engine_dead = True
            self._die(str(error))

    def _die(self, reason: str) -> None:
        """Fail all problems that have not ended."""
        self.dead = self._run_stopped = reason
        for case in list(self._cases):
            self._fail(case, reason)

    def _enforce(self) -> None:
        """End whatever has reached its limit; called after every engine step."""
        now = self.engine.now()
        self._run_stopped = self._run_stopped or self.ledger.run_exceeded(now, self.started)
        for case in list(self._cases):
            if case.account.stopped is None:
                reason = self._limit(case, now, live=case.live > 0)
                if reason is not None:
                    case.account.stopped = reason
                    self.capped.add(case.problem.id)
                    self._decoding.stop(case, reason)
                    self.trace.event("stop", case.problem.id, {"reason": reason})

    def _limit(self, case: Case, now: float, *, live: bool) -> str | None:
        """Return the limit that ends the running requests of a problem, or forbids it new ones."""
        return self.ledger.run_exceeded(now, self.started, live=live) or self.ledger.exceeded(
            case.account, now, live=live
        )

    def _report(self, show: Callable[[Status], None]) -> None:
        status = self.status
        status.live, status.in_flight = len(self._decoding.live), len(self._cases)
        status.tokens = self._decoding.tokens
        status.seconds = self.engine.now() - self.started
        show(status)

    # --- stages -----------------------------------------------------------------------------------

    def _start(self, index: int, problem: Problem) -> None:
        case = Case(index, problem, self.ledger.account(self.engine.now()))
        self._cases[case] = None
        start = {"index": index, "prompt": content_id(repr(problem.prompt))}
        try:
            case.prompt = self.engine.encode(problem.prompt)
        except Exception as error:  # noqa: BLE001 - a chat template may raise anything; one problem is lost
            self.trace.event("start", problem.id, start)
            self._fail(case, f"the prompt cannot be encoded: {type(error).__name__}: {error}")
            return
        self.trace.event("start", problem.id, start | {"prompt_tokens": len(case.prompt)})
        case.root = Frame(case, run_stage(self.strategy, State(problem, self.rules.seed)), Lineage())
        self._deliver(case.root, None)

    def _deliver(self, frame: Frame, reply: Any) -> None:
        self._ready.append((frame, reply))

    def _advance(self, frame: Frame, reply: Any) -> None:
        """Resume a stage until it has to wait, returns or breaks."""
        try:
            for _ in range(MOST_REPLIES):
                reply = self._ask(frame, frame.steps.send(reply))
                if reply is _WAITS:
                    return
        except StopIteration as end:
            self._returned(frame, end.value)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a broken stage fails its problem alone
            self._fail(frame.case, f"{type(error).__name__}: {error}", traceback.format_exc())
        else:
            self._fail(frame.case, f"a stage asked {MOST_REPLIES:,} times without waiting for anything")

    def _ask(self, frame: Frame, op: Any) -> Any:
        """Carry out an operation; return its reply, or ``_WAITS`` when that comes later."""
        case = frame.case
        if isinstance(op, Note):
            if op.kind in CORE_EVENTS:
                msg = f"a stage cannot write the event '{op.kind}', which the driver writes."
                raise ValueError(msg)
            self.trace.event(op.kind, case.problem.id, op.data)
            return None
        now = self.engine.now()
        if isinstance(op, Quote):
            return self._quote(case, op, now)
        if isinstance(op, Generate):
            stopped = self._refused(case, now)
            if stopped is not None or not op.requests:
                return Generated((), case.account.usage(now), stopped)
            self._decoding.launch(frame, op)
        elif isinstance(op, Score):
            if not op.candidates:
                return Scored((), case.account.usage(now))
            self._verifying.ask(frame, op)
        elif isinstance(op, Fork):
            if not op.branches:
                return ()
            branches = frame.fork(op)
            self._ahead.forked(frame, branches)
            self._ready.extend((branch, None) for branch in branches)
        else:
            msg = f"a stage yielded {type(op).__name__}, which is no operation of ttsflow.ops."
            raise TypeError(msg)
        return _WAITS

    def _quote(self, case: Case, op: Quote, now: float) -> Quotation:
        if op.by is not None:
            # What others have spent decides.
            self.capped.add(case.problem.id)
            return self.controlling.quote(case, op, now, self.started)
        quotation = self.ledger.quote(case.account, op.samples, now, self.started)
        if quotation.short(op) is not None:
            self.capped.add(case.problem.id)
        return quotation

    def _refused(self, case: Case, now: float) -> str | None:
        """Return the limit that forbids a problem new requests, None when there is none."""
        stopped = case.account.stopped or self._limit(case, now, live=False)
        if stopped is not None:
            self.capped.add(case.problem.id)
        return stopped

    def _returned(self, frame: Frame, state: State) -> None:
        parent = frame.parent
        self._ahead.left(frame)
        if parent is None:
            self._finish(frame.case, state)
            return
        ends = parent.join(frame, state)
        if ends is not None:
            self._deliver(parent, ends)

    # --- ends -------------------------------------------------------------------------------------

    def _finish(self, case: Case, state: State) -> None:
        if not _is_sound(state):
            self._fail(case, "the strategy left a state whose pool, answer or reason is not one.")
            return
        outcome, correct, reason = outcome_of(state), None, None
        if (
            outcome == "deferred"
            and self.controlling.asks_again(case)
            and case.index not in self._asked_twice
        ):
            self._asked_twice.add(case.index)
            self._again.append((case.index, case.problem))
            self._leave(case)
            return
        try:
            correct = self.rules.task.correct(state.answer, case.problem)
        except Exception as error:  # noqa: BLE001 - a grader that breaks is an error, never "wrong"
            outcome, reason = "failed", f"grading failed: {type(error).__name__}: {error}"
        self._close(case, state, outcome, correct=correct, reason=reason)

    def _fail(self, case: Case, reason: str, details: str | None = None) -> None:
        self.trace.event("failed", case.problem.id, {"reason": reason, "traceback": details})
        self._decoding.cancel(case, self.dead if self._engine_dead else None)
        self._verifying.cancel(case)
        self._close(case, State(case.problem, stopped=case.account.stopped), "failed", reason=reason)

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
                self.ledger.cost(usage),
                correct=correct,
                reason=reason,
                tree=case.tree,
            )
        )

    def _leave(self, case: Case) -> Usage:
        """Forget a problem and return what it has spent."""
        del self._cases[case]
        self._verifying.finish(case)
        self._ahead.closed(case)
        self._settle()
        now = self.engine.now()
        self.controlling.closed(case, now)
        if self._metering is not None:
            self._metering.end(case.account)
        return self.ledger.close(case.account, now)

    def _settle(self) -> None:
        """Bring the joules of all problems up to date."""
        if self._metering is not None:
            self._metering.settle(self.ledger.open, self.engine.now())

    def _load_of(self, problem: int) -> float:
        return 0.0 if self._load is None else self._load.read(self.engine.now(), problem)

    def _refuse(self, index: int, problem: Problem) -> None:
        """Record a problem that never started: the run's funds are spent, or its engine is dead."""
        self.trace.event("start", problem.id, {"index": index})
        outcome: Outcome = "failed" if self.dead else "deferred"
        self.capped.add(problem.id)
        state = State(problem, stopped=None if self.dead else self._run_stopped)
        nothing = self.ledger.nothing
        self._record(make_result(state, outcome, nothing, self.ledger.cost(nothing), reason=self.dead))

    def _record(self, result: Result) -> None:
        self.status.done += 1
        self.status.graded += result.correct is not None
        self.status.correct += bool(result.correct)
        self._results.append(result)
        self.trace.event(
            "result",
            result.id,
            {
                "outcome": result.outcome,
                "answer": result.answer,
                "correct": result.correct,
                "stopped": result.stopped,
            },
        )
        self.trace.flush()


def _is_sound(state: State) -> bool:
    """Return whether what a strategy returned can be made a result of."""
    return (
        isinstance(state.pool, tuple)
        and all(isinstance(candidate, Candidate) for candidate in state.pool)
        and isinstance(state.answer, Answer | None)
        and isinstance(state.stopped, str | None)
        and isinstance(state.ended, str | None)
    )
