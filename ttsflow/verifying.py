"""The driver's side of the verifier: candidates out, verdicts in."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from numbers import Real
from typing import Any

from ttsflow.errors import ConfigError
from ttsflow.flight import Case, Frame, Scoring
from ttsflow.ops import Score, Scored, Verdict
from ttsflow.protocols import Verifier
from ttsflow.trace import Recorder
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
        self.pending: dict[str, Scoring] = {}
        self.deadline: float | None = getattr(verifier, "deadline", None)
        self._asked: dict[str, float] = {}
        self._refused: list[Verdict] = []

    def ask(self, frame: Frame, op: Score) -> None:
        """Queue the candidates of an operation."""
        if self.verifier is None:
            raise ConfigError("this strategy asks for scores, but no verifier is set.", "verifier")
        scoring = Scoring(frame, op, [f"v{next(_numbers)}" for _ in op.candidates])
        frame.case.scorings[scoring] = None
        for name, candidate in zip(scoring.ids, op.candidates, strict=True):
            self.pending[name] = scoring
            self._asked[name] = time.monotonic()
            try:
                self.verifier.submit(name, frame.case.problem, candidate)
            except ConfigError:
                raise
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a verifier that breaks fails one candidate
                self._refused.append(Verdict(name, (), reason=_said(error)))

    def step(self) -> bool:
        """Advance the verifier; return whether it had anything to say."""
        if self.verifier is None or not self.pending:
            return False
        verdicts, self._refused = self._refused, []
        try:
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
        late = [n for n in self.pending if n not in done and now - self._asked[n] > self.deadline]
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
        self._forget(names)
        for name in names:
            del self.pending[name], self._asked[name]
        case.scorings.clear()

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
        del self._asked[verdict.id]
        scoring.verdicts[verdict.id] = verdict
        case = scoring.frame.case
        case.account.verifier += verdict.tokens
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
