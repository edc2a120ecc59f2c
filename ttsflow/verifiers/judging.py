"""Asks a model about candidates and reads what it replies."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ops import EngineRequest, Progress, Verdict
from ttsflow.protocols import Engine
from ttsflow.types import Candidate, Problem, Prompt, Sampling, Tokens
from ttsflow.verifiers.batch import steps_of
from ttsflow.verifiers.marks import chance_of, mark_of
from ttsflow.verifiers.prompting import filled, question_of, turns_of

if TYPE_CHECKING:
    from ttsflow.verifiers.judge import Judge

__all__ = ["Judging"]

# Ids must be new to an engine that earlier runs of this process have used.
_numbers = itertools.count()


class _Question:
    """One request to the judge: what it said so far."""

    __slots__ = ("first", "prompt", "tokens")

    def __init__(self, prompt: Tokens) -> None:
        self.prompt = prompt
        self.tokens: list[int] = []
        self.first: Mapping[int, float] | None = None


class _Asked:
    """A candidate: its questions that are open, by request, and the scores of the others."""

    __slots__ = ("open", "scores", "tokens")

    def __init__(self, count: int) -> None:
        self.open: dict[str, int] = {}
        self.scores: list[float | None] = [None] * count
        self.tokens = 0


class Judging:
    """The working verifier; a step is one iteration of its engine, in which all that was asked goes on."""

    def __init__(self, part: Judge, engine: Engine, separator: str, *, owned: bool) -> None:
        self.deadline = part.deadline
        self._part = part
        self._engine = engine
        self._separator = separator if part.separator is None else part.separator
        self._owned = owned
        self._dead = ""
        self._asked: dict[str, _Asked] = {}
        self._questions: dict[str, tuple[str, _Question]] = {}
        self._decided: dict[str, Verdict] = {}

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate under a new id; an id that is waiting is a ``ValueError``."""
        if id in self._asked or id in self._decided:
            raise ValueError(f"{id!r} is already waiting for its scores")
        if self._dead:
            self._decided[id] = Verdict(id, (), reason=self._dead)
            return
        try:
            prompts = [self._engine.encode(prompt) for prompt in self._prompts(problem, candidate)]
        except ConfigError:
            raise
        except Exception as error:  # noqa: BLE001 - a chat template may raise anything; one candidate is lost
            reason = f"the judge's prompt cannot be made: {type(error).__name__}: {error}"
            self._decided[id] = Verdict(id, (), reason=reason)
            return
        longest = max(map(len, prompts), default=0)
        if longest >= self._engine.context:
            reason = f"the judge's prompt has {longest} tokens, its context is {self._engine.context}"
            self._decided[id] = Verdict(id, (), reason=reason)
        elif not prompts:
            self._decided[id] = Verdict(id, ())
        else:
            self._ask(id, prompts)

    def step(self) -> list[Verdict]:
        """Advance the engine by one iteration and return what is decided by now."""
        if self._questions:
            try:
                for news in self._engine.step():
                    self._hear(news)
            except EngineDead as error:
                self._die(error)
        verdicts, self._decided = list(self._decided.values()), {}
        return verdicts

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget queued candidates; unknown ids are ignored."""
        for name in ids:
            self._decided.pop(name, None)
            self._end(name)

    def close(self) -> None:
        """Forget everything, and close the engine if it belongs to this verifier; may be called twice."""
        self.cancel([*self._asked, *self._decided])
        if self._owned:
            self._engine.close()

    # --- questions ----------------------------------------------------------------------------------

    def _prompts(self, problem: Problem, candidate: Candidate) -> list[Prompt]:
        """Return the prompts about a candidate, one for each score."""
        steps = steps_of(candidate.text, self._separator)
        if self._part.per == "candidate":
            return [self._prompt(problem, candidate.text.strip(), steps[-1] if steps else "")]
        return [
            self._prompt(problem, self._separator.join(steps[: number + 1]).strip(), step)
            for number, step in enumerate(steps)
        ]

    def _prompt(self, problem: Problem, text: str, step: str) -> Prompt:
        values = {"question": question_of(problem), "text": text, "step": step.strip()}
        template = self._part.template
        return filled(template, values) if isinstance(template, str) else turns_of(template, values)

    def _ask(self, id: str, prompts: Sequence[Tokens]) -> None:
        asked = self._asked[id] = _Asked(len(prompts))
        words = self._part.read == "words"
        try:
            for place, prompt in enumerate(prompts):
                name = f"judge-{next(_numbers)}"
                asked.open[name] = place
                self._questions[name] = (id, _Question(prompt))
                self._engine.submit(
                    EngineRequest(
                        name,
                        prompt,
                        Sampling(temperature=0.0),
                        seed=0,
                        max_tokens=1 if words else self._part.max_tokens,
                        logprobs=self._part.top if words else 0,
                    )
                )
        except EngineDead as error:
            self._die(error)

    def _hear(self, news: Progress) -> None:
        known = self._questions.get(news.id)
        if known is None:
            return
        name, question = known
        if question.first is None and news.logprobs:
            question.first = news.logprobs[0]
        question.tokens += news.tokens
        if news.finish is None:
            return
        del self._questions[news.id]
        asked = self._asked[name]
        place = asked.open.pop(news.id)
        asked.tokens += len(question.prompt) + len(question.tokens)
        failed = f"the judge failed: {news.reason}" if news.finish == "failed" else ""
        try:
            asked.scores[place] = None if failed else self._score(question)
        except Exception as error:  # noqa: BLE001 - a reply that cannot be read fails one candidate
            failed = f"the judge's reply cannot be read: {type(error).__name__}: {error}"
        if failed:
            self._end(name)
            self._decided[name] = Verdict(name, (), asked.tokens, failed)
            return
        if not asked.open:
            del self._asked[name]
            self._decided[name] = Verdict(name, tuple(asked.scores), asked.tokens)

    def _score(self, question: _Question) -> float | None:
        part = self._part
        if part.read == "score":
            return mark_of(self._engine.decode(tuple(question.tokens)), part.scale)
        return chance_of(question.first or {}, self._word, part.good, part.bad)

    def _word(self, token: int) -> str:
        """Return the text of a token; none where the output layer has a place for one that does not exist."""
        try:
            return self._engine.decode((token,))
        except Exception:  # noqa: BLE001 - every tokenizer has its own way to say so
            return ""

    def _end(self, id: str) -> None:
        """Stop asking about a candidate."""
        asked = self._asked.pop(id, None)
        if asked is not None and asked.open:
            for name in asked.open:
                self._questions.pop(name, None)
            if not (self._dead or getattr(self._engine, "dead", False)):
                self._engine.abort(list(asked.open))

    def _die(self, error: EngineDead) -> None:
        self._dead = f"the judge's engine died: {error}"
        for name, asked in self._asked.items():
            self._decided[name] = Verdict(name, (), asked.tokens, self._dead)
        self._asked.clear()
        self._questions.clear()
