"""The stage that asks a candidate in the middle of its work what its answer would be."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Request
from ttsflow.strategies.flow import Steps
from ttsflow.types import Candidate, State

__all__ = ["HEDGES", "Probe"]

#: Words of a model that is not sure yet*.
HEDGES = ("wait", "hmm", "hold on", "not sure", "let me check", "maybe", "perhaps")


@dataclass(frozen=True, slots=True)
class Probe:
    """Probes the answer of every active candidate (Dynasor-CoT, arXiv 2412.20993).

    ``words`` (null: the task's own) are put behind the candidate, at most ``tokens`` tokens are decoded,
    and the answer is read. Once the last ``window`` probes of a candidate gave one answer and none of
    them used one of the ``hedges``, it ends with that answer. Probes are thrown away, their tokens
    count like all others.
    """

    window: int = 3
    tokens: int = 20
    words: str | None = None
    hedges: tuple[str, ...] = HEDGES

    needs: ClassVar[frozenset[str]] = frozenset({"continuation"})

    def __post_init__(self) -> None:
        for name in ("window", "tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"must be at least 1, got {getattr(self, name)}.", name)
        if self.words == "":
            raise ConfigError("an empty text asks for nothing; null means the task's own words.", "words")
        if "" in self.hedges:
            raise ConfigError("an empty word is in every text.", "hedges")

    def __call__(self, state: State) -> Steps:
        """Probe, and end the candidates whose probes agree."""
        active = {candidate.path: candidate for candidate in state.pool if candidate.active}
        if not active:
            return state
        requests = (
            Request(candidate, "tokens", step_tokens=self.tokens, probe=self.words or "")
            for candidate in active.values()
        )
        got: Generated = yield Generate(tuple(requests))
        probed = {
            candidate.path: self._heard(candidate, probe)
            for candidate, probe in zip(active.values(), got.candidates, strict=False)
        }
        yield Note(
            "probe", {"answers": [{"path": path, "answer": said} for path, (_, said) in probed.items()]}
        )
        pool = tuple(probed[c.path][0] if c.path in probed else c for c in state.pool)
        reasons = [c.reason for c in pool if c.path in probed and c.finished]
        over = bool(reasons) and not any(candidate.active for candidate in pool)
        return state.with_(
            pool=pool, spent=got.spent, stopped=got.stopped or state.stopped or (reasons[0] if over else None)
        )

    def _heard(self, candidate: Candidate, probe: Candidate) -> tuple[Candidate, str | None]:
        """Return the candidate with its probes so far, ended if they agree, and what this one said."""
        answer = probe.answer if probe.finish in {"stop", "step", "length"} else None
        # Only the model hedges, not the words it was asked with.
        words = probe.text[len(candidate.text) :].removeprefix(self.words or "")
        if answer is not None and self._hedges(words):
            answer = None
        said = None if answer is None else answer.key
        history = (*candidate.extra.get("probes", ()), said)[-self.window :]
        candidate = candidate.with_(extra={**candidate.extra, "probes": history})
        if answer is not None and len(history) == self.window and set(history) == {said}:
            reason = f"the last {self.window} probes agree"
            candidate = candidate.with_(finish="stop", answer=answer, reason=reason)
        return candidate, said

    def _hedges(self, text: str) -> bool:
        words = "|".join(map(re.escape, self.hedges))
        return bool(words) and re.search(rf"\b(?:{words})\b", text, re.IGNORECASE) is not None
