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
from dataclasses import replace
from typing import Any

from ttsflow.acceleration import PLAIN, Acceleration
from ttsflow.control import ControllerPart
from ttsflow.driver.ahead import Ahead
from ttsflow.driver.choosing import Choosers, Choosing
from ttsflow.driver.controlling import Controlling
from ttsflow.driver.decoding import Decoding
from ttsflow.driver.ends import Ends, is_sound
from ttsflow.driver.flight import Case, Frame
from ttsflow.driver.limiting import Limiting
from ttsflow.driver.metering import Metering
from ttsflow.driver.pacing import Pace
from ttsflow.driver.resting import Resting
from ttsflow.driver.settle import Rules
from ttsflow.driver.verifying import Verifying
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ledger import Account, Ledger
from ttsflow.lineage import Lineage, content_id
from ttsflow.ops import (
    Choose,
    Fork,
    Generate,
    Generated,
    Learn,
    Note,
    Quote,
    Score,
    Scored,
    Tally,
    Wait,
)
from ttsflow.protocols import Expecting, Stage, Verifier
from ttsflow.sensors import LoadMonitor
from ttsflow.status import Status
from ttsflow.strategies.flow import run_stage
from ttsflow.trace import NoTrace, Recorder
from ttsflow.types import Candidate, Problem, Result, State, Usage

__all__ = ["CORE_EVENTS", "Driver"]

#: Events of the trace that only the driver writes.
CORE_EVENTS = frozenset({"start", "fallback", "candidate", "score", "watch", "stop", "failed", "result"})

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
        choosers: Choosers | None = None,
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
        #: Seconds in which the verifier and the engine of the run were advanced, one after the other.
        self.seconds = {"generator_seconds": 0.0, "verifier_seconds": 0.0}
        self.started = self.engine.now()
        #: Up to when seconds are shared out.
        self._seen = self.started
        self._metering = metering
        self._load = load
        self.controlling = Controlling(ledger, controllers or {}, settle=self._settle, load=self._load_of)
        self.pace = Pace(self._load_of)
        self.choosing = Choosing(
            ledger, choosers or Choosers({}), settle=self._settle, correct=rules.task.correct
        )
        self._cases: dict[Case, None] = {}
        self._ready: deque[tuple[Frame, Any]] = deque()
        #: Whose question a controller answers later, and the question.
        self._held: list[tuple[Frame, Quote]] = []
        # They take no place of those in flight.
        self._resting = Resting(ledger, self.controlling, metering, settle=self._settle)
        self._ends = Ends(
            rules.task,
            ledger,
            self.trace,
            self.status,
            leave=self._leave,
            asks_again=self.controlling.asks_again,
        )
        self._verifying = Verifying(verifier, self.trace, deliver=self._deliver, now=self.engine.now)
        self._on_round = on_round
        self._verifying.round = self._round if on_round is not None else None
        self._ahead = self._looks_ahead(acceleration or PLAIN)
        self._decoding = Decoding(
            rules, ledger, self.trace, deliver=self._deliver, fail=self._fail, ahead=self._ahead
        )
        self._limiting = Limiting(ledger, self.trace, self._ends, self._decoding, self.engine.now)

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
        """Requests of this run that are on its engine."""
        return self._decoding.engines.live("")

    @property
    def _active(self) -> int:
        """Problems in flight that do not rest."""
        return len(self._cases) - len(self._resting)

    @property
    def broken(self) -> str | None:
        """Why the breaker of the run has tripped; None while it has not."""
        return self._ends.broken

    @property
    def capped(self) -> set[str]:
        """Problems in which a budget had a say."""
        return self._limiting.capped

    @property
    def _over(self) -> str | None:
        """Why no problem is begun any more."""
        return self.dead or self._limiting.over

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
        self.started = self._seen = self._limiting.started = self.engine.now()
        self.status.problems = len(waiting)
        self.controlling.begin(len(waiting))
        self.choosing.begin(len(waiting))
        ends = self._ends
        try:
            while waiting or ends.again or self._cases or ends.results:
                while ends.results:
                    yield ends.results.popleft()
                if ends.again and not waiting and not self._active:
                    # What was deferred is asked once more when all others have been.
                    waiting, ends.again = ends.again, waiting
                    self.controlling.expect(len(waiting))
                while waiting and self._active < self.concurrency and not self._over:
                    self._start(*waiting.popleft())
                if not waiting and not ends.again:
                    self._wake()
                self._turn()
                while waiting and self._over:
                    self._refuse(*waiting.popleft())
        finally:
            if not self._engine_dead:
                self._decoding.close()
                self._ahead.close()
            self._verifying.close()

    # --- the loop ---------------------------------------------------------------------------------

    def _wake(self) -> None:
        """Let problems that rest go on, as many as there are places for."""
        while self._active < self.concurrency and (frame := self._resting.wake(self._active)) is not None:
            self._deliver(frame, None)

    def _turn(self) -> None:
        moved = self._resume()
        if not self._decoding.live:
            self._decoding.rest()
        began = self.engine.now()
        moved |= self._verifying.step()
        scored = self.engine.now()
        busy: list[Account] = []
        if self._decoding.live:
            busy, moved = self._step(), True
        self.seconds["verifier_seconds"] += scored - began
        ended = self.engine.now()
        self.seconds["generator_seconds"] += ended - scored
        self._meter()
        if self.ledger.budget:
            self.ledger.passed(ended - self._seen, busy)
            self._limiting.enforce(list(self._cases))
        self._seen = ended
        if not moved and self._active:
            if not self._verifying.pending:
                msg = "a problem waits for nothing; this is a bug in ttsflow."
                raise RuntimeError(msg)
            time.sleep(0.0005)
        if self.on_step is not None:
            self._report(self.on_step)

    def _resume(self) -> bool:
        """Resume the stages that wait for nothing, and return whether anything came of it."""
        moved = bool(self._ready)
        held, self._held = self._held, []
        ended = self.controlling.ended
        for frame, op in held:
            if frame.case in self._cases:
                self._advance(frame, None, op)
        while self._ready:
            frame, reply = self._ready.popleft()
            if frame.case in self._cases:
                self._advance(frame, reply)
        # Whoever was asked about before may have waited for just that, and is asked about again.
        return moved or self._held != held or self.controlling.ended != ended

    def _meter(self) -> None:
        if self._metering is None:
            return
        self._metering.look(self.ledger.open, self.engine.now())
        if self._metering.dead is not None and self.dead is None:
            self._die(self._metering.dead)

    def _step(self) -> list[Account]:
        """Advance the engine; return the accounts of the problems that had a request on it."""
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
        return busy

    def _die(self, reason: str) -> None:
        """Fail all problems that have not ended."""
        self.dead = reason
        for case in list(self._cases):
            self._fail(case, reason)

    def _report(self, show: Callable[[Status], None]) -> None:
        status = self.status
        status.live, status.in_flight = len(self._decoding.live), self._active
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
        stage = self._limiting.fallback(case) or self.strategy
        case.root = Frame(case, run_stage(stage, State(problem, self.rules.seed)), Lineage())
        self._deliver(case.root, None)

    def _deliver(self, frame: Frame, reply: Any) -> None:
        self._ready.append((frame, reply))

    def _advance(self, frame: Frame, reply: Any, held: Quote | None = None) -> None:
        """Resume a stage until it has to wait, returns or breaks; ``held`` is what it asked last."""
        try:
            for _ in range(MOST_REPLIES):
                reply = self._ask(frame, held or frame.steps.send(reply))
                held = None
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
        if isinstance(op, Quote | Tally | Wait | Choose | Learn):
            return self._told(frame, op, now)
        if isinstance(op, Generate):
            stopped = self._limiting.refused(case, now)
            if stopped is not None or not op.requests:
                return Generated((), case.account.usage(now), stopped)
            self.pace.launched(case, now)
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

    def _told(self, frame: Frame, op: Quote | Tally | Wait | Choose | Learn, now: float) -> Any:
        """Return what the books, and those who decide across problems, say."""
        case = frame.case
        if isinstance(op, Tally):
            return self.controlling.agreed(op)
        if not isinstance(op, Quote) or op.by is not None:
            # What others have spent, or what came of them, decides.
            self.capped.add(case.problem.id)
        if isinstance(op, Wait):
            return _WAITS if self._resting.rest(frame, now) else None
        if not isinstance(op, Quote):
            return self.choosing.reply(case, op, now, self.started)
        if op.by is not None:
            offered = self.controlling.quote(case, op, now, self.started)
            if offered is None:
                self._held.append((frame, op))
            return _WAITS if offered is None else offered
        takes = self.pace.takes(case, op.timed, now) if op.timed else None
        quotation = self.ledger.quote(case.account, op.samples, now, self.started)
        if op.timed or quotation.short(op) is not None:
            self.capped.add(case.problem.id)
        return replace(quotation, takes=takes) if op.timed else quotation

    def _returned(self, frame: Frame, state: State) -> None:
        parent = frame.parent
        self._ahead.left(frame)
        if parent is None:
            if is_sound(state):
                self._ends.finish(frame.case, state)
            else:
                self._fail(frame.case, "the strategy left a state whose pool, answer or reason is not one.")
            return
        ends = parent.join(frame, state)
        if ends is not None:
            self._deliver(parent, ends)

    # --- ends -------------------------------------------------------------------------------------

    def _fail(self, case: Case, reason: str, details: str | None = None) -> None:
        self.trace.event("failed", case.problem.id, {"reason": reason, "traceback": details})
        self._decoding.cancel(case, self.dead if self._engine_dead else None)
        self._verifying.cancel(case)
        self._ends.fail(case, reason)

    def _refuse(self, index: int, problem: Problem) -> None:
        self.capped.add(problem.id)
        self._ends.refuse(index, problem, self._over, dead=self.dead)

    def _leave(self, case: Case) -> Usage:
        """Forget a problem and return what it has spent."""
        del self._cases[case]
        self._resting.leave(case)
        self._verifying.finish(case)
        self._ahead.closed(case)
        self._settle()
        now = self.engine.now()
        self.controlling.closed(case)
        self.pace.closed(case, now)
        self.choosing.closed(case, now, lost=self.dead is not None)
        if self._metering is not None:
            self._metering.end(case.account)
        return self.ledger.close(case.account, now)

    def _settle(self) -> None:
        """Bring the joules of all problems up to date."""
        if self._metering is not None:
            self._metering.settle(self.ledger.open, self.engine.now())

    def _load_of(self, problem: int) -> float:
        return 0.0 if self._load is None else self._load.read(self.engine.now(), problem)
