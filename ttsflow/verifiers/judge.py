"""A generative model as the verifier: it is asked what it thinks of a candidate."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ttsflow.engines.sim import Sim
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ops import EngineRequest, Progress, Verdict
from ttsflow.protocols import Capabilities, Engine, EnginePart
from ttsflow.strategies.idle import refuse_idle
from ttsflow.types import Candidate, Problem, Prompt, Sampling, Tokens
from ttsflow.verifiers.batch import check_separator, steps_of
from ttsflow.verifiers.marks import chance_of, mark_of
from ttsflow.verifiers.prompting import Template, check_template, filled, question_of, turns_of
from ttsflow.verifiers.served import check_deadline

__all__ = ["Judge", "Judging"]

_QUESTION = """Question:
{question}

A student's work on it:
{text}

Is this work correct so far? Answer yes or no."""

# Ids must be new to an engine that earlier runs of this process have used.
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks a model about each candidate, or with ``per`` step about each of its steps.

    ``engine`` is any engine (None: that of the run, which answers in the same batch as it generates).
    ``template`` is the question to it, of {question}, {text} and {step}: the turns of a chat, or a plain
    text. {text} is what the candidate says, up to the step that is asked about. Of other words in braces
    only arguments of LaTeX commands may stand in it: see ``prompting.check_places``.

    ``read`` words: P(good) / (P(good) + P(bad)) of the first token, by its ``top`` log-probabilities;
    ``good`` and ``bad`` are lists of words that count as one, whatever their case. ``read`` score: a number
    in a reply of at most ``max_tokens``, as a share of ``scale``. An answer with neither is a missing score,
    never 0.

    A step ends with ``separator`` (None: that of the task). A candidate without scores after ``deadline``
    seconds is failed.
    """

    engine: EnginePart | None = None
    read: Literal["words", "score"] = "words"
    per: Literal["candidate", "step"] = "candidate"
    template: Template = field(default_factory=lambda: {"user": _QUESTION})
    good: tuple[str, ...] = ("yes",)
    bad: tuple[str, ...] = ("no",)
    top: int = 20
    scale: float = 10.0
    max_tokens: int = 64
    separator: str | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        check_template(self.template, "text", ("question", "text", "step"))
        if not isinstance(self.template, str) and [*self.template][-1] != "user":
            raise ConfigError("the last turn is the user's, which the judge replies to", "template")
        for name in ("good", "bad", "top"):
            refuse_idle(self, self.read == "words", name, "`read: words`")
        for name in ("scale", "max_tokens"):
            refuse_idle(self, self.read == "score", name, "`read: score`")
        self._check_words()
        for name in ("top", "max_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"must be at least 1, got {getattr(self, name)}", name)
        if not self.scale > 0:
            raise ConfigError(f"is the best mark there is, above 0, got {self.scale}", "scale")
        if self.separator is not None:
            check_separator(self.separator)
        check_deadline(self.deadline)

    def _check_words(self) -> None:
        """Refuse words that no first token can be, and such as would count for both sides."""
        for name in ("good", "bad"):
            words = getattr(self, name)
            if not words:
                raise ConfigError("at least one word is needed", name)
            for word in words:
                if _same(word, ""):
                    raise ConfigError(f"{word!r} is no word: nothing is left of it when it is compared", name)
                if len(word.split()) > 1:
                    raise ConfigError(
                        f"{word!r} is more than one word, and the first token of a reply is at most one; "
                        f"write {word.split()[0]!r}, or set `read: score`",
                        name,
                    )
        for word in self.bad:
            other = next((good for good in self.good if _same(word, good)), None)
            if other is not None:
                raise ConfigError(
                    f"{word!r} counts as {other!r} of `good`: case and the signs around a word do not matter",
                    "bad",
                )

    @property
    def engines(self) -> tuple[EnginePart, ...]:
        """The engine that has to be opened; none when it is that of the run."""
        return () if self.engine is None else (self.engine,)

    def check(self) -> None:
        """Raise what would make ``open`` fail, as far as it shows without importing torch or vllm."""
        own = getattr(self.engine, "check", None)
        try:
            if own is not None:
                own()
            if self.engine is not None:
                _check_reads(self.engine)
                self.check_engine(self.engine.capabilities)
        except ConfigError as error:
            raise error.below("engine") from error

    def check_beside(self, engine: EnginePart) -> None:
        """Raise ``ConfigError`` where the judge would be an engine that answers no question."""
        if self.engine is None:
            _check_reads(engine)

    def check_engine(self, capabilities: Capabilities) -> None:
        """Raise ``ConfigError`` unless an engine can be asked."""
        if not capabilities.token_prompts:
            raise ConfigError(
                "the engine plays back what was recorded and answers nothing new; set verifier.engine"
            )
        if self.read == "words" and capabilities.logprobs < self.top:
            raise ConfigError(
                f"`read: words` needs {self.top} log-probabilities per token; the engine gives "
                f"{capabilities.logprobs or 'none'}. Set `top`, or `read: score`."
            )

    def open_on(self, engines: Sequence[Any], separator: str) -> Judging:
        """Return the working verifier on an opened engine, which stays open when it is closed."""
        return Judging(self, engines[0], separator, owned=False)

    def open(self) -> Judging:
        """Open the engine and return the working verifier. Raises ``ConfigError`` when it has none."""
        if self.engine is None:
            raise ConfigError("null is the engine of a run, and here is none; set an engine", "engine")
        return Judging(self, self.engine.open(), "\n", owned=True)


def _check_reads(engine: EnginePart) -> None:
    """Raise ``ConfigError`` for an engine that draws its texts whatever the prompt says."""
    if isinstance(engine, Sim):
        raise ConfigError(
            "a judge reads words, and the engine `sim` plays trajectories that answer no question; set "
            "verifier.engine to an engine with a model, or take verifier=simulated."
        )


def _same(word: str, other: str) -> bool:
    """Whether two words are one to ``chance_of``, which compares the replies."""
    return chance_of({0: 0.0}, lambda _: word, (other,), ()) is not None


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
