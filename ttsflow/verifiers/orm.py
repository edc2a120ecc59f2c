"""Outcome reward models: one score for a whole candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ttsflow.engines.pooler import Pooler
from ttsflow.engines.pooling import Pooling, Readable, on_vllm
from ttsflow.errors import ConfigError
from ttsflow.protocols import Capabilities
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.pooled import PooledVerifier, Row, Text, Unreadable, sigmoid, softmax
from ttsflow.verifiers.prompting import Template, check_template, filled, question_of, turns_of
from ttsflow.verifiers.served import check_deadline

__all__ = ["ORM"]


@dataclass(frozen=True, slots=True)
class ORM:
    """Scores a candidate as a whole by a sequence classifier on an engine of its own.

    ``engine`` has the settings of the engine ``vllm``. A model with one number gives that number, through
    ``activation``; one with two classes gives the probability of class ``good``. ``template`` is its prompt,
    of {question}, {text} and {bos}: the turns of a chat by their roles, or a plain text. ``architecture`` and
    ``rename`` are those of ``Pooling``. A candidate without a score after ``deadline`` seconds is failed.
    """

    engine: Readable
    activation: Literal["none", "sigmoid"] = "none"
    good: int = 1
    template: Template = field(default_factory=lambda: {"user": "{question}", "assistant": "{text}"})
    architecture: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    deadline: float | None = None

    #: What to do where a setting is missing that has no default.
    advice: ClassVar[Mapping[str, str]] = {
        "engine": "verifier.engine.model=NAME names a reward model; the config file of verifier=orm sets one."
    }

    def __post_init__(self) -> None:
        if self.good not in (0, 1):
            raise ConfigError(f"is the number of one of two classes, 0 or 1, got {self.good}", "good")
        check_template(self.template, "text", ("question", "text", "bos"))
        check_deadline(self.deadline)
        _ = self.engines

    @property
    def engines(self) -> tuple[Pooling]:
        """The engine that has to be loaded."""
        pooling = Pooling(
            on_vllm(self.engine),
            per_token=False,
            architecture=self.architecture,
            rename=dict(self.rename),
        )
        return (pooling,)

    def check(self) -> None:
        """Raise what would make ``open`` fail, as far as it shows without importing torch or vllm."""
        self.engines[0].check()

    def check_engine(self, capabilities: Capabilities) -> None:
        """Accept any engine of the run: none is asked."""

    def open_on(self, engines: Sequence[Any], separator: str) -> PooledVerifier:
        """Return the working verifier on its opened engine, which stays open when it is closed."""
        del separator
        return self._verifier(engines[0], owned=False)

    def open(self) -> PooledVerifier:
        """Load the model and return the working verifier."""
        return self._verifier(self.engines[0].open(), owned=True)

    def _verifier(self, pooler: Pooler, *, owned: bool) -> PooledVerifier:
        def write(problem: Problem, candidate: Candidate) -> Text:
            return self._text(pooler, problem, candidate)

        write(Problem("1 + 1?"), Candidate((), (), text="2"))
        return PooledVerifier(pooler, write, self._score, owned=owned, deadline=self.deadline)

    def _text(self, pooler: Pooler, problem: Problem, candidate: Candidate) -> Text:
        values = {"question": question_of(problem), "text": candidate.text.strip(), "bos": pooler.bos}
        if isinstance(self.template, str):
            text = filled(self.template, values)
            # A template that writes the first token itself must not get a second one.
            special = not (pooler.bos and text.startswith(pooler.bos))
        else:
            text, special = pooler.render(turns_of(self.template, values)), False
        tokens = pooler.tokenize(text, special=special)
        return Text(tokens, (len(tokens) - 1,))

    def _score(self, row: Row) -> float:
        """Return the score in the model's numbers. Raises ``Unreadable`` when they are too many."""
        if len(row) == 1:
            return sigmoid(row[0]) if self.activation == "sigmoid" else row[0]
        if len(row) != 2:
            raise Unreadable(
                f"the model gave {len(row)} numbers for a text, 1 (a value) or 2 (classes) are wanted; is it "
                "a reward model? `architecture` names the class of vLLM's that reads it"
            )
        return softmax(row)[self.good]
