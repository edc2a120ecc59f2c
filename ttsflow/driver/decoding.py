"""The driver's side of the engine: requests out, candidates in, every token booked."""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from ttsflow.driver.ahead import Ahead
from ttsflow.driver.engines import Engines
from ttsflow.driver.flight import Case, Flight, Frame, Live
from ttsflow.driver.settle import Rules
from ttsflow.ledger import Ledger
from ttsflow.ops import Decision, Generate, Generated, Progress, Request
from ttsflow.protocols import innermost, leaping
from ttsflow.trace import Recorder, candidate_event
from ttsflow.types import Candidate, Tokens

__all__ = ["Decoding"]

# Ids must be new to an engine that earlier runs of this process have used.
_numbers = itertools.count()


class Decoding:
    """Carries out generate operations.

    ``deliver(frame, reply)`` hands a finished operation back, ``fail(case, reason, details)`` ends a
    problem whose watch broke. ``ahead`` is told what begins and what has ended, to begin what follows.
    """

    def __init__(
        self,
        rules: Rules,
        ledger: Ledger,
        trace: Recorder,
        *,
        deliver: Callable[[Frame, Any], None],
        fail: Callable[[Case, str, str | None], None],
        ahead: Ahead,
    ) -> None:
        self.rules = rules
        self.engine = rules.engine
        self.engines = Engines(rules.engine, rules.engines)
        self.ahead = ahead
        self.ledger = ledger
        self.trace = trace
        self.deliver = deliver
        self.fail = fail
        self.tokens = 0
        self.live: dict[str, Live] = {}
        self._watched: dict[Flight, None] = {}
        self._leaping = leaping(rules.engine)
        self._rests: Callable[[], None] | None = getattr(innermost(rules.engine), "rest", None)

    def launch(self, frame: Frame, op: Generate) -> None:
        """Submit the requests of an operation."""
        observer = op.watch.begin(len(op.requests)) if op.watch is not None else None
        flight = Flight(frame, op, observer)
        frame.case.flights[flight] = None
        if observer is not None:
            self._watched[flight] = None
        for request in op.requests:
            self._submit(flight, request)
        self.ahead.launched(flight)
        self._look(flight)

    def step(self) -> int:
        """Advance the engines, work through their news, return iterations. Raises ``EngineDead``."""
        if self._leaping is not None:
            self._leaping.leap = self._leap()
        for news in self.engines.turn():
            self._hear(news)
        return 1 if self._leaping is None else self._leaping.advanced

    def _hear(self, news: Sequence[Progress]) -> None:
        """Work through the news of an engine."""
        touched: dict[Flight, None] = {}
        live = self.live
        for item in news:
            request = live.get(item.id)
            if request is None:
                continue
            flight, tokens = request.flight, item.tokens
            if tokens:
                request.trace.tokens.extend(tokens)
                fresh = len(tokens) - item.reused
                request.reused += item.reused
                request.played += item.played
                request.account.running += fresh
                if request.books is not None:
                    request.books.running += fresh
                self.tokens += fresh
                if item.logprobs:
                    request.trace.logprobs.extend(item.logprobs)
                if item.certainties:
                    request.trace.certainties.extend(item.certainties)
            if item.finish is not None:
                self._end(request, item)
                touched[flight] = None
            if flight.observer is not None:
                flight.changed.add(request.index)
                touched[flight] = None
        for flight in touched:
            self._look(flight)

    def rest(self) -> None:
        """Tell the engine that it will not be advanced for now: nothing that was asked for is running."""
        if self._rests is not None:
            self._rests()

    def stop(self, case: Case, reason: str) -> None:
        """End all requests of a problem; its stages get what there is, and the reason."""
        for flight in list(case.flights):
            flight.stopped = reason
            self._abort(list(flight.live.values()), reason)
            self._land(flight)

    def cancel(self, case: Case, dead: str | None = None) -> None:
        """End all requests of a problem for good; with ``dead`` the engine itself is gone."""
        for flight in list(case.flights):
            requests = list(flight.live.values())
            if dead is None:
                self._abort(requests, "problem ended")
            else:
                # Another one may be alive.
                self.engines.abort(requests)
                for live in requests:
                    self._end(live, Progress(live.id, finish="failed", reason=dead))
            _count_serial(flight)
        case.flights.clear()

    def close(self) -> None:
        """Leave nothing on the engine."""
        if self.live:
            self.engines.abort(self.live.values())
            self.live.clear()

    def _leap(self) -> int | None:
        """Return how many tokens a sequence may grow before a watch or a budget has to be asked."""
        for flight in [flight for flight in self._watched if not flight.live]:
            del self._watched[flight]
        leaps = [_leap_of(flight) for flight in self._watched]
        if self.ledger.budget:
            leaps.append(self.ledger.room(self.engine.now()))
        return min((leap for leap in leaps if leap is not None), default=None)

    def _submit(self, flight: Flight, request: Request) -> None:
        frame, case = flight.frame, flight.frame.case
        prompt = self._prompt(case, request)
        path = frame.lineage.child(request.parent.path if request.parent else ())
        live = Live(self.rules.asked(f"r{next(_numbers)}", request, path, prompt), flight, prompt)
        if live.border.limit < 1:
            reason = "no room is left for more tokens under `sampling.max_tokens` and the engine's context"
            self._end(live, Progress(live.id, finish="length", reason=reason))
            flight.changed.add(live.index)
            return
        engine_request = self.rules.engine_request(
            live,
            case.problem,
            prompt,
            priority=case.index,
            # The tokens of an aborted request are known only if they were reported as they came, and a meter
            # shares its joules by them.
            stream=flight.observer is not None
            or bool(self.ledger.budget)
            or self.ledger.metered
            or frame.parent is not None,
        )
        case.live += 1
        for books in (case.account, live.books):
            if books is not None:
                books.requests += 1
                books.prompt += len(engine_request.prompt)
                books.live += 1
                books.live_prompt += len(engine_request.prompt)
        self.live[live.id] = live
        self.engines.submit(live.engine, engine_request)

    def _prompt(self, case: Case, request: Request) -> Tokens:
        """Return the prompt as the engine of a request has encoded it. Raises ``ValueError``."""
        name = request.decoder
        if not name:
            return case.prompt
        if name not in case.prompts:
            engine = self.rules.decoder(request)
            try:
                case.prompts[name] = engine.encode(case.problem.prompt)
            except Exception as error:
                msg = f"engine `{name}` cannot encode the prompt: {type(error).__name__}: {error}"
                raise ValueError(msg) from error
        return case.prompts[name]

    def _end(self, live: Live, end: Progress) -> None:
        """Turn an ended request into a candidate and book its tokens."""
        case = live.flight.frame.case
        tokens = live.trace.tokens
        try:
            candidate = self.rules.candidate(case.problem, live, live.prompt, end)
        except Exception as error:  # noqa: BLE001 - an answer parser that breaks fails one sample
            reason = f"reading the answer failed: {type(error).__name__}: {error}"
            candidate = Candidate(
                live.path,
                live.prompt,
                (*live.prefix, *tokens),
                tokens_new=len(tokens),
                finish="failed",
                reason=reason,
                engine=live.engine,
            )
        live.trace.candidate = candidate
        del live.flight.live[live.index]
        # What another request has decoded is in its books.
        account, fresh = case.account, len(tokens) - live.reused
        account.reused += live.reused + live.played
        begun = self.live.pop(live.id, None) is not None
        if begun:
            case.live -= 1
            self.engines.ended(live.engine)
        for books in (account, live.books):
            if books is None:
                continue
            if begun:
                books.live -= 1
                books.live_prompt -= len(live.prompt) + len(live.prefix)
                books.running -= fresh
                books.cached += end.cached
            if candidate.finish == "aborted":
                books.aborted += fresh
            else:
                books.output += fresh
        case.tree[candidate.path] = fresh
        self.ledger.settle(account, 1)
        self.ahead.ended(live, candidate)
        if self.trace.enabled:
            record = candidate_event(candidate, logprobs=self.rules.keep_logprobs)
            if live.request.aside:
                record["aside"] = live.request.aside
            self.trace.event("candidate", case.problem.id, record)

    def _look(self, flight: Flight) -> None:
        """Let the watch decide until it has nothing more to say, and land what has ended."""
        while flight.observer is not None and flight.changed and flight in flight.frame.case.flights:
            changed = sorted(flight.changed)
            flight.changed.clear()
            try:
                decision = flight.observer(flight.traces, changed)
            except Exception as error:  # noqa: BLE001 - a watch that breaks fails its problem
                reason = f"watch: {type(error).__name__}: {error}"
                self.fail(flight.frame.case, reason, traceback.format_exc())
                return
            if decision is not None:
                self._decide(flight, decision)
        if not flight.live:
            self._land(flight)

    def _decide(self, flight: Flight, decision: Decision) -> None:
        account = flight.frame.case.account
        if decision.cut is not None:
            flight.cut = decision.cut
            if any(t.candidate is not None and t.candidate.finish == "aborted" for t in flight.traces):
                account.early = decision.reason or None
        doomed = list(flight.live) if decision.done else [i for i in decision.abort if i in flight.live]
        if doomed:
            account.early = decision.reason or None
            self._abort([flight.live[i] for i in doomed], decision.reason)
            if self.trace.enabled:
                data = {"reason": decision.reason, "aborted": len(doomed), "cut": decision.cut}
                self.trace.event("watch", flight.frame.case.problem.id, data)
        if account.stopped is None and not decision.done:
            for _ in range(decision.launch):
                self._submit(flight, flight.template)

    def _abort(self, doomed: Sequence[Live], reason: str) -> None:
        self.engines.abort(doomed)
        for live in doomed:
            self._end(live, Progress(live.id, finish="aborted", reason=reason))

    def _land(self, flight: Flight) -> None:
        """Hand the finished operation back to the stage that asked for it."""
        case = flight.frame.case
        if flight not in case.flights:
            return
        del case.flights[flight]
        _count_serial(flight)
        spent = case.account.usage(self.engine.now())
        self.deliver(flight.frame, Generated(flight.candidates(), spent, flight.stopped))


def _leap_of(flight: Flight) -> int | None:
    leap = getattr(flight.observer, "leap", None)
    return 1 if leap is None else leap(flight.traces)


def _count_serial(flight: Flight) -> None:
    frame = flight.frame
    frame.serial += flight.serial
    if frame.case.root is not None:
        frame.case.account.serial = _longest(frame.case.root)


def _longest(frame: Frame) -> int:
    return frame.serial + max((_longest(branch) for branch in frame.branches), default=0)
