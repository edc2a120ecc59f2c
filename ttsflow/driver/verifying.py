"""The driver's side of the verifier: candidates out, verdicts in."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

from ttsflow.driver.flight import Case, Flight, Frame, Scoring
from ttsflow.errors import ConfigError
from ttsflow.lineage import Path
from ttsflow.ops import Score, Scored, Verdict
from ttsflow.protocols import Verifier
from ttsflow.trace import Recorder
from ttsflow.types import Candidate
from ttsflow.verifiers.batch import finite, scores_in

__all__ = ["Verifying"]

_numbers = itertools.count()


class Verifying:
    """Carries out score operations; ``deliver(frame, reply)`` hands a finished one back.

    A verifier that raises fails the candidate it was given, or all it was asked for when it was to go on; a
    config error alone ends the run. One with a ``deadline`` has that many seconds for each candidate, the
    time in which others are scored included; the candidate is then failed and the verifier told to forget it.
    A call that never returns cannot be ended.
    """

    def __init__(
        self,
        verifier: Verifier | None,
        trace: Recorder,
        *,
        deliver: Callable[[Frame, Any], None],
        now: Callable[[], float],
    ) -> None:
        self.verifier = verifier
        self.trace = trace
        self.deliver = deliver
        self.now = now
        self.pending: dict[str, Scoring | _Early] = {}
        #: Called with frame, path and scores of every verdict that came before it was asked for.
        self.heard: Callable[[Frame, Path, Sequence[float | None]], None] | None = None
        #: Called with every round that is to be scored.
        self.round: Callable[[Sequence[Candidate]], None] | None = None
        self._early: dict[tuple[Case, Path], _Early] = {}
        #: Candidates that may be asked about in a later round, by problem and parent.
        self._offered: dict[Case, dict[Path, dict[Path, Candidate]]] = {}
        self._held: dict[Frame, list[Candidate]] = {}
        #: Whether it works while the engine does, so that nothing is won by asking for many at once.
        self._aside = bool(getattr(verifier, "aside", False))
        self.deadline: float | None = getattr(verifier, "deadline", None)
        self._asked: dict[str, float] = {}
        self._refused: list[Verdict] = []

    def ask(self, frame: Frame, op: Score) -> None:
        """Queue the candidates of an operation."""
        if self.verifier is None:
            raise ConfigError("this strategy asks for scores, but no verifier is set.", "verifier")
        if self.round is not None:
            self.round(op.candidates)
        scoring = Scoring(frame, op, [])
        frame.case.scorings[scoring] = None
        self._held.pop(frame, None)
        fresh = []
        for candidate in op.candidates:
            self._not_offered(frame.case, candidate.path)
            early = self._early.pop((frame.case, candidate.path), None)
            if early is not None and early.fits(candidate):
                scoring.ids.append(early.name)
                self.pending[early.name] = scoring
                if early.verdict is not None:
                    self._refused.append(early.verdict)
                continue
            if early is not None and early.verdict is None:
                self._forget([early.name])
                del self.pending[early.name], self._asked[early.name]
            scoring.ids.append(self._submit(frame.case, candidate, scoring))
            fresh.append(candidate.path)
        self._along(frame.case, fresh)

    def ahead(self, flight: Flight, candidate: Candidate) -> None:
        """Take a candidate that will be asked about, and have it scored before that.

        One that works aside gets it at once. For any other the engine has to wait, so that candidates are
        held back until no more of their operation are still running than wait here: that are a few calls for
        an operation, and all but its stragglers are known early.
        """
        if self.verifier is None or candidate.finish in {"aborted", "failed"} or not candidate.tokens:
            return
        frame = flight.frame
        self._not_offered(frame.case, candidate.path)
        known = self._early.get((frame.case, candidate.path))
        if known is not None and known.fits(candidate):
            # It was scored along with its parent, or is being.
            known.frame = frame
            if known.verdict is not None:
                self._tell(frame, candidate.path, known.verdict)
            return
        if known is not None:
            self.withdraw(frame.case, candidate.path)
        held = self._held.setdefault(frame, [])
        held.append(candidate)
        if flight.live and not (self._aside or len(held) >= len(flight.live)):
            return
        del self._held[frame]
        if not flight.live:
            # With the last of them all are asked about, and nothing is early any more.
            return
        for one in held:
            self._begin(frame.case, one, frame)
        self._along(frame.case, [one.path for one in held])

    def offer(self, case: Case, candidate: Candidate) -> None:
        """Take a candidate that may be asked about; it is scored along with the one that it goes on from.

        One of each parent is: a text that goes on from another one is read with it, a second one by itself.
        """
        if self.verifier is not None and (case, candidate.path) not in self._early:
            siblings = self._offered.setdefault(case, {}).setdefault(candidate.path[:-1], {})
            siblings[candidate.path] = candidate

    def withdraw(self, case: Case, path: Path) -> None:
        """Forget a candidate that was offered and will not be asked about."""
        self._not_offered(case, path)
        early = self._early.pop((case, path), None)
        if early is not None and early.verdict is None:
            self._drop([early.name])

    def _not_offered(self, case: Case, path: Path) -> None:
        self._offered.get(case, {}).get(path[:-1], {}).pop(path, None)

    def _along(self, case: Case, paths: list[Path]) -> None:
        """Have what was offered scored with what it goes on from, which is scored now."""
        offered = self._offered.get(case, {})
        for path in paths if offered else ():
            siblings = offered.pop(path, None)
            if siblings:
                self._begin(case, siblings[min(siblings)], None)
                # A whole chain of steps is one text.
                paths.append(min(siblings))

    def _begin(self, case: Case, candidate: Candidate, frame: Frame | None) -> None:
        """Have a candidate scored before anyone asks; ``frame`` will ask, None: one of a later round."""
        early = self._early[case, candidate.path] = _Early(case, candidate, frame)
        early.name = self._submit(case, candidate, early)

    def _submit(self, case: Case, candidate: Candidate, waiting: Scoring | _Early) -> str:
        """Give the verifier a candidate; return the name under which it answers."""
        name = f"v{next(_numbers)}"
        self.pending[name] = waiting
        self._asked[name] = time.monotonic()
        try:
            if self.verifier is not None:
                self.verifier.submit(name, case.problem, candidate)
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a verifier that breaks fails one candidate
            self._refused.append(Verdict(name, (), reason=_said(error)))
        return name

    def step(self) -> bool:
        """Advance the verifier; return whether it had anything to say."""
        if self.verifier is None or not self.pending:
            return False
        verdicts, self._refused = self._refused, []
        try:
            if len(verdicts) < len(self.pending):
                verdicts += [_checked(verdict) for verdict in self.verifier.step()]
        except ConfigError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - one that breaks fails what it was asked for
            done = {verdict.id for verdict in verdicts}
            broken = [name for name in self.pending if name not in done]
            verdicts += [Verdict(name, (), reason=_said(error)) for name in broken]
            self._forget(broken)
        else:
            verdicts += self._late({verdict.id for verdict in verdicts})
        for verdict in verdicts:
            self._take(verdict)
        return bool(verdicts)

    def _late(self, done: set[str]) -> list[Verdict]:
        """Return a verdict on every candidate whose time is up."""
        if self.deadline is None:
            return []
        now = time.monotonic()
        late = [n for n, asked in self._asked.items() if n not in done and now - asked > self.deadline]
        self._forget(late)
        return [Verdict(n, (), reason=f"the verifier gave no scores in {self.deadline:g} s") for n in late]

    def _forget(self, names: list[str]) -> None:
        """Tell the verifier not to go on with candidates; whether it still can is its own matter."""
        if names and self.verifier is not None:
            with contextlib.suppress(Exception):
                self.verifier.cancel(names)

    def cancel(self, case: Case) -> None:
        """Forget everything a problem waits for."""
        names = [name for scoring in case.scorings for name in scoring.ids if name in self.pending]
        self._drop(names)
        case.scorings.clear()
        self.finish(case)

    def finish(self, case: Case) -> None:
        """Forget what was begun for a problem and never asked about."""
        early = [key for key in self._early if key[0] is case]
        self._drop([one.name for one in map(self._early.pop, early) if one.verdict is None])
        self._offered.pop(case, None)
        for frame in [frame for frame in self._held if frame.case is case]:
            del self._held[frame]

    def _drop(self, names: list[str]) -> None:
        self._forget(names)
        for name in names:
            self.pending.pop(name, None)
            self._asked.pop(name, None)

    def close(self) -> None:
        """Leave nothing with the verifier."""
        if self.pending and self.verifier is not None:
            self._forget(list(self.pending))
            self.pending.clear()
            self._asked.clear()

    def _take(self, verdict: Verdict) -> None:
        scoring = self.pending.pop(verdict.id, None)
        if scoring is None:
            return
        case = scoring.case
        if self._asked.pop(verdict.id, None) is not None:
            # The first time it is heard; one that came early is taken again when it is asked for.
            case.account.verifier += verdict.tokens
        if isinstance(scoring, _Early):
            self._take_early(scoring, verdict)
            return
        scoring.verdicts[verdict.id] = verdict
        if len(scoring.verdicts) < len(scoring.ids):
            return
        del case.scorings[scoring]
        verdicts = tuple(scoring.verdicts[name] for name in scoring.ids)
        if self.trace.enabled:
            for candidate, word in zip(scoring.op.candidates, verdicts, strict=True):
                data: dict[str, Any] = {"path": candidate.path, "scores": word.scores}
                if word.reason:
                    data["reason"] = word.reason
                self.trace.event("score", case.problem.id, data)
        self.deliver(scoring.frame, Scored(verdicts, case.account.usage(self.now())))

    def _take_early(self, early: _Early, verdict: Verdict) -> None:
        if early.frame is not None:
            early.verdict = verdict
            self._tell(early.frame, early.candidate.path, verdict)
        elif verdict.reason:
            # It may be asked once more, when it is a candidate.
            self._early.pop((early.case, early.candidate.path), None)
        else:
            early.verdict = verdict

    def _tell(self, frame: Frame, path: Path, verdict: Verdict) -> None:
        if self.heard is not None and not verdict.reason:
            self.heard(frame, path, verdict.scores)


class _Early:
    """A candidate that was given to the verifier before anyone asked, and its verdict once there is one.

    ``frame`` is None for one that is not there yet: its text was begun early as well.
    """

    __slots__ = ("candidate", "case", "frame", "name", "verdict")

    def __init__(self, case: Case, candidate: Candidate, frame: Frame | None) -> None:
        self.case = case
        self.candidate = candidate
        self.frame = frame
        self.name = ""
        self.verdict: Verdict | None = None

    def fits(self, candidate: Candidate) -> bool:
        """Whether the candidate asked about is the one that was given."""
        mine = self.candidate
        return mine is candidate or (mine.tokens == candidate.tokens and mine.text == candidate.text)


def _checked(verdict: Any) -> Verdict:
    """Return a verdict as the rest of the program may rely on it; one that is none of that says so.

    A score that is no finite number is a missing score, whoever gave it. Raises ``TypeError`` for what does
    not even say which candidate it is about.
    """
    if not isinstance(verdict, Verdict):
        msg = f"step() returned {type(verdict).__name__} where a Verdict is wanted"
        raise TypeError(msg)
    fields: tuple[Any, ...] = verdict
    name, scores, tokens, said = fields
    reason = str(said or "")
    given = scores_in(scores)
    if given is None:
        reason = reason or f"the verifier gave {type(scores).__name__} instead of a list of step scores"
    odd = [score for score in given or () if score is not None and not _is_number(score)]
    if odd:
        reason = reason or f"the verifier gave the score {odd[0]!r:.40}, which is no number"
    count = finite(tokens)
    if count is None or count < 0 or count != int(count):
        reason, tokens = reason or f"the verifier counted {tokens!r:.40} tokens, which is no count", 0
    return Verdict(name, tuple(map(finite, given or ())), int(tokens), reason)


def _is_number(value: Any) -> bool:
    return type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))


def _said(error: BaseException) -> str:
    return f"the verifier raised {type(error).__name__}: {error}"
