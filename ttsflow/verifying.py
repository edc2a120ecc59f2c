"""The driver's side of the verifier: candidates out, verdicts in."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from ttsflow.errors import ConfigError
from ttsflow.flight import Case, Frame, Scoring
from ttsflow.ops import Score, Scored, Verdict
from ttsflow.protocols import Verifier
from ttsflow.trace import Recorder

__all__ = ["Verifying"]

_numbers = itertools.count()


class Verifying:
    """Carries out score operations; ``deliver(frame, reply)`` hands a finished one back."""

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

    def ask(self, frame: Frame, op: Score) -> None:
        """Queue the candidates of an operation."""
        if self.verifier is None:
            raise ConfigError("this strategy asks for scores, but no verifier is set.", "verifier")
        scoring = Scoring(frame, op, [f"v{next(_numbers)}" for _ in op.candidates])
        frame.case.scorings[scoring] = None
        for name, candidate in zip(scoring.ids, op.candidates, strict=True):
            self.pending[name] = scoring
            self.verifier.submit(name, frame.case.problem, candidate)

    def step(self) -> bool:
        """Advance the verifier; return whether it had anything to say."""
        if self.verifier is None or not self.pending:
            return False
        verdicts = self.verifier.step()
        for verdict in verdicts:
            self._take(verdict)
        return bool(verdicts)

    def cancel(self, case: Case) -> None:
        """Forget everything a problem waits for."""
        names = [name for scoring in case.scorings for name in scoring.ids if name in self.pending]
        if names and self.verifier is not None:
            self.verifier.cancel(names)
        for name in names:
            del self.pending[name]
        case.scorings.clear()

    def close(self) -> None:
        """Leave nothing with the verifier."""
        if self.pending and self.verifier is not None:
            self.verifier.cancel(list(self.pending))
            self.pending.clear()

    def _take(self, verdict: Verdict) -> None:
        scoring = self.pending.pop(verdict.id, None)
        if scoring is None:
            return
        # A score that is no number is a missing score, whoever gave it.
        known = tuple(s if s is not None and math.isfinite(s) else None for s in verdict.scores)
        scoring.verdicts[verdict.id] = verdict._replace(scores=known)
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
