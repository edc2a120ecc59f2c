"""Begins early what is sure or likely to follow: scores of what has ended, and the steps behind it.

Strategies never meet this. What they ask for is served from what was begun if it is the same to the token;
what nobody asks for is dropped and counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from ttsflow.acceleration import Speculation
from ttsflow.driver.chances import survival, tiered
from ttsflow.driver.flight import Case, Flight, Frame, Live
from ttsflow.driver.rounds import Hope, Round, rounds_of
from ttsflow.driver.settle import Rules
from ttsflow.driver.verifying import Verifying
from ttsflow.lineage import Path
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Expecting, Outlook
from ttsflow.types import Candidate

__all__ = ["Ahead"]

_numbers = itertools.count()
#: A step that has ended early is read along from this chance on that it will be asked about.
_WORTH_READING = 0.5


class Ahead:
    """Told by the driver what begins, ends and is scored.

    With ``eager`` candidates that all go to the verifier go there as they end. With ``expecting``, an engine
    that begins requests early, it is told what may follow, as far ahead as ``speculation`` says, and of the
    children of a candidate the more, the likelier it survives.
    """

    def __init__(
        self,
        rules: Rules,
        verifying: Verifying,
        *,
        eager: bool = False,
        expecting: Expecting | None = None,
        speculation: Speculation | None = None,
    ) -> None:
        self._rules = rules
        self._verifying = verifying
        self._eager = eager
        self._engine = expecting
        self._wanted = speculation or Speculation()
        #: Of every frame its round, or the parts of it that will go on apart.
        self._rounds: dict[Frame, list[Round]] = {}
        self._hopes: dict[str, Hope] = {}
        if expecting is not None:
            expecting.on_end = self._hope_ended
            verifying.heard = self._scored

    # --- what the driver tells ----------------------------------------------------------------------

    def launched(self, flight: Flight) -> None:
        """Take in that an operation has begun: it decides what was expected of its frame."""
        if self._engine is None or flight.template.aside:
            return
        frame = flight.frame
        own = not any(request.decoder for request in flight.op.requests)
        old, new = self._rounds.pop(frame, ()), rounds_of(flight, flight.op.outlook if own else None)
        if new:
            self._rounds[frame] = new
        if not old:
            return
        running = {live.path for live in flight.live.values()}
        hopes = [item for round_ in old for hopes in round_.hopes.values() for item in hopes.items()]
        for path, hope in hopes:
            if path not in running:
                self._retract(hope.whole())
                continue
            self._hopes.pop(hope.request.id, None)
            for kid in hope.kids.values():
                if len(new) != 1:
                    self._retract(kid.whole())
                    continue
                # What lay two rounds ahead lies one ahead now.
                for one in kid.whole():
                    one.depth -= 1
            if len(new) == 1 and hope.kids:
                new[0].hopes[path] = hope.kids

    def ended(self, live: Live, candidate: Candidate) -> None:
        """Take in that a request has ended."""
        flight = live.flight
        if self._eager and flight.op.scored and not flight.stopped:
            self._verifying.ahead(flight, candidate)
        rounds = self._rounds.get(flight.frame)
        if rounds is None or flight.template.aside:
            return
        size = rounds[0].outlook.size
        round_ = rounds[0 if size is None else live.index // size]
        round_.pending -= 1
        parent = live.request.parent
        if candidate.active:
            round_.ends(candidate, parent.score if parent else None)
        else:
            for hope in round_.hopes.pop(candidate.path, {}).values():
                self._retract(hope.whole())
        self._weigh(round_, candidate)

    def forked(self, frame: Frame, branches: Sequence[Frame]) -> None:
        """Take in that a frame has split: what was expected of a part goes with its branch."""
        rounds = self._rounds.get(frame)
        if rounds is None or rounds[0].outlook.size is None:
            return
        if len(rounds) != len(branches):
            self.left(frame)
            return
        del self._rounds[frame]
        for branch, round_ in zip(branches, rounds, strict=True):
            round_.moves(branch.lineage)
            self._rounds[branch] = [round_]

    def left(self, frame: Frame) -> None:
        """Take in that a stage has returned: nothing more comes of its frame."""
        for round_ in self._rounds.pop(frame, ()):
            self._retract(round_.whole())

    def closed(self, case: Case) -> None:
        """Take in that a problem is over, and book what was decoded early for it."""
        for frame in [frame for frame in self._rounds if frame.case is case]:
            self.left(frame)
        if self._engine is not None:
            adopted, dropped = self._engine.collect(case.problem.id)
            case.account.adopted += adopted
            case.account.dropped += dropped

    def close(self) -> None:
        """Leave nothing with the engine."""
        for frame in list(self._rounds):
            self.left(frame)

    # --- what may follow ----------------------------------------------------------------------------

    def _scored(self, frame: Frame, path: Path, scores: Sequence[float | None]) -> None:
        for round_ in self._rounds.get(frame, ()):
            if path in round_.ended:
                round_.scores[path] = round_.outlook.rate(scores)
                self._weigh(round_, None)

    def _weigh(self, round_: Round, news: Candidate | None) -> None:
        """Tell the engine how likely the children of those that have ended are, after some news."""
        known = len(round_.ended) + len(round_.scores)
        step = (len(round_.ended) + round_.pending) // 16
        # A large round is weighed anew when enough has changed, what has just ended always.
        if known - round_.seen > step:
            round_.seen = known
            candidates = list(round_.ended.values())
        elif news is not None and news.path in round_.ended:
            candidates = [news]
        else:
            return
        scored = sorted(score for score in round_.scores.values() if score is not None)
        for candidate in candidates:
            self._hope(round_, candidate, self._chance(round_, candidate, scored))

    def _chance(self, round_: Round, candidate: Candidate, scored: Sequence[float]) -> float:
        """Return how likely a candidate survives its round."""
        outlook, rivals = round_.outlook, len(round_.ended) + round_.pending - 1
        score = round_.scores.get(candidate.path)
        if score is not None:
            return survival(score, scored, rivals + 1 - len(scored), outlook.slots)
        if candidate.path in round_.scores:
            return 0.0
        blind = min(1.0, outlook.slots / (rivals + 1))
        parent, others = round_.parents[candidate.path], round_.ranked
        if parent is None or len(others) < 2:
            return blind
        # The parent's score says something, and less than its own would.
        return (blind + survival(parent, others, rivals + 1 - len(others), outlook.slots)) / 2

    def _hope(self, round_: Round, candidate: Candidate, chance: float) -> None:
        """Expect the children of a candidate that survives with this chance."""
        hopes = round_.hopes.setdefault(candidate.path, {})
        paths = self._expect(round_, candidate, round_.outlook, chance, among=hopes, depth=1)
        for path in [path for path in hopes if path not in paths]:
            self._retract(hopes.pop(path).whole())

    def _expect(
        self,
        within: Round | Hope,
        parent: Candidate,
        outlook: Outlook,
        chance: float,
        *,
        among: dict[Path, Hope],
        depth: int,
    ) -> set[Path]:
        """Expect as many children of ``parent`` as its chance is worth; return their paths."""
        # Further engines begin nothing early.
        children = [child for child in outlook.children(parent) if not child.decoder]
        wanted = children[: tiered(chance, len(children), self._wanted.tiers)]
        if self._wanted.mode == "shared":
            # Its siblings begin with what the first has.
            wanted = wanted[:1]
        case = within.case
        paths = within.lineage.peek(parent.path, len(wanted))
        for path, child in zip(paths, wanted, strict=True):
            hope = among.get(path)
            if hope is None:
                asked = self._rules.asked(f"s{next(_numbers)}", child, path, case.prompt)
                if asked.border.limit < 1:
                    continue
                request = self._rules.engine_request(
                    asked, case.problem, case.prompt, priority=case.index, stream=True
                )
                hope = among[path] = Hope(within, asked, request, outlook.then, depth)
                self._hopes[request.id] = hope
            self._set(hope, chance)
        return set(paths)

    def _set(self, hope: Hope, chance: float) -> None:
        engine = self._engine
        if engine is None or math.isclose(hope.chance, chance):
            return
        hope.chance = chance
        engine.expect(hope.request, chance)
        self._offer(hope)
        for kid in hope.kids.values():
            self._set(kid, chance * kid.share)

    def _hope_ended(self, request: EngineRequest, end: Progress) -> None:
        """Expect what follows an expected request that has ended, where that is not too far ahead."""
        hope = self._hopes.get(request.id)
        if hope is None:
            return
        goes_on = hope.outlook is not None and hope.depth < self._wanted.depth
        if not (goes_on or self._wanted.verify):
            return
        hope.asked.trace.tokens = list(end.tokens)
        case = hope.case
        try:
            candidate = self._rules.candidate(case.problem, hope.asked, case.prompt, end)
        except Exception:  # noqa: BLE001 - an answer parser that breaks is heard when the request is asked for
            return
        hope.candidate = candidate
        self._offer(hope)
        outlook = hope.outlook
        if outlook is None or not goes_on:
            return
        children = outlook.children(candidate)
        if children:
            # Of the children of all survivors as many survive: one in so many.
            share = 1 / len(children)
            self._expect(
                hope,
                candidate,
                outlook,
                hope.chance * share,
                among=hope.kids,
                depth=hope.depth + 1,
            )
            for kid in hope.kids.values():
                kid.share = share

    def _offer(self, hope: Hope) -> None:
        """Have a step that has ended early scored along with others, where it is likely to be asked about."""
        candidate = hope.candidate
        if candidate is None or not self._wanted.verify or not hope.scored or hope.chance < _WORTH_READING:
            return
        if candidate.finish != "failed" and candidate.tokens:
            self._verifying.offer(hope.case, candidate)

    def _retract(self, hopes: Iterator[Hope]) -> None:
        gone = []
        for hope in hopes:
            name = hope.request.id
            if self._hopes.pop(name, None) is None:
                continue
            gone.append(name)
            if hope.candidate is not None:
                self._verifying.withdraw(hope.case, hope.candidate.path)
        if gone and self._engine is not None:
            self._engine.retract(gone)
