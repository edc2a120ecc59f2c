"""A generative model as the verifier: it is asked what it thinks of a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ttsflow.engines.sim import Sim
from ttsflow.errors import ConfigError
from ttsflow.protocols import Capabilities, EnginePart
from ttsflow.strategies.idle import refuse_idle
from ttsflow.verifiers.batch import check_separator
from ttsflow.verifiers.judging import Judging
from ttsflow.verifiers.marks import chance_of
from ttsflow.verifiers.prompting import Template, check_template
from ttsflow.verifiers.served import check_deadline

__all__ = ["Judge"]

_QUESTION = """Question:
{question}

A student's work on it:
{text}

Is this work correct so far? Answer yes or no."""


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
