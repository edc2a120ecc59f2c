"""Process reward models, described by settings: how their prompt looks, and where a score is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ttsflow.engines.pooler import Pooler
from ttsflow.engines.pooling import Pooling, Readable, on_vllm
from ttsflow.errors import ConfigError
from ttsflow.protocols import Capabilities
from ttsflow.strategies.idle import refuse_idle
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import check_separator
from ttsflow.verifiers.pooled import PooledVerifier, Row, Unreadable, sigmoid, softmax
from ttsflow.verifiers.prm_prompt import Writer
from ttsflow.verifiers.prompting import Template, check_places, check_template
from ttsflow.verifiers.served import check_deadline

__all__ = ["PRM"]

Reading = Literal["classes", "tag", "value"]

#: How many numbers a place has, and what they are.
_WIDTHS: Mapping[str, tuple[int, str]] = {
    "classes": (2, "one for each of two classes, bad and good"),
    "tag": (2, "the logits of `good` and `bad`"),
    "value": (1, "a value"),
}


@dataclass(frozen=True, slots=True)
class PRM:
    """Scores every step of a candidate by a process reward model on an engine of its own.

    ``engine`` has the settings of the engine ``vllm``, which alone reads models. ``read`` says what a score
    is: ``classes``, a token classifier, the probability of the second of two classes; ``tag``, a language
    model, the probability of the token ``good`` against ``bad`` as the next one; ``value``, a value head, the
    sigmoid of its number.

    ``tag`` is put behind each step, and a score is read at its token, or ``at`` the token before it.
    ``step`` is what a step looks like, of {step}, {tag} and {number}. ``template`` is what all looks like, of
    {question}, {steps} and {bos}: the turns of a chat by their roles, or a plain text. All of it is tokenized
    at once; ``apart`` tokenizes every step by itself, with the tag's own tokens behind it. Any other word in
    braces is refused, but for arguments of LaTeX commands: see ``prompting.check_places``.

    A step of the candidate ends with ``separator`` (None: that of the task). ``architecture``, ``rename`` and
    ``cache`` are those of ``Pooling``. A candidate without scores after ``deadline`` seconds is failed.
    """

    engine: Readable
    tag: str
    read: Reading = "classes"
    good: str = "+"
    bad: str = "-"
    at: Literal["tag", "before"] = "tag"
    step: str = "{step}{tag}"
    template: Template = field(default_factory=lambda: {"user": "{question}", "assistant": "{steps}"})
    apart: bool = False
    separator: str | None = None
    architecture: str | None = None
    rename: Mapping[str, str] = field(default_factory=dict)
    cache: bool = True
    deadline: float | None = None

    #: What to do where a setting is missing that has no default.
    advice: ClassVar[Mapping[str, str]] = {
        "engine": "verifier.engine.model=NAME names a reward model; verifier=qwen_prm, math_shepherd and "
        "skywork_prm describe one each, with all settings.",
        "tag": "It is what the model was trained to find behind a step, such as '<extra_0>' of qwen_prm.",
    }

    def __post_init__(self) -> None:
        if not self.tag:
            raise ConfigError("is empty; give the text whose token a step is scored at", "tag")
        if "\\n" in self.tag:
            raise ConfigError('is a backslash and an n; in YAML write "\\n" in double quotes', "tag")
        if self.separator is not None:
            check_separator(self.separator)
        for name in ("step", "tag"):
            if self.step.count(f"{{{name}}}") != 1:
                raise ConfigError(f"needs {{{name}}} once, got {self.step!r}", "step")
        check_places(self.step, ("step", "tag", "number"), "step")
        check_template(self.template, "steps", ("question", "steps", "bos"))
        for name in ("good", "bad"):
            refuse_idle(self, self.read == "tag", name, "`read: tag`")
        check_deadline(self.deadline)
        _ = self.engines

    @property
    def engines(self) -> tuple[Pooling]:
        """The engine that has to be loaded."""
        words = {"good": self.good, "bad": self.bad} if self.read == "tag" else {}
        return (
            Pooling(
                on_vllm(self.engine),
                words=words,
                architecture=self.architecture,
                labels=1 if self.read == "value" else None,
                rename=dict(self.rename),
                cache=self.cache,
            ),
        )

    def check(self) -> None:
        """Raise what would make ``open`` fail, as far as it shows without importing torch or vllm."""
        self.engines[0].check()

    def check_engine(self, capabilities: Capabilities) -> None:
        """Accept any engine of the run: none is asked."""

    def open_on(self, engines: Sequence[Any], separator: str) -> PooledVerifier:
        """Return the working verifier on its opened engine, which stays open when it is closed."""
        return self._verifier(engines[0], separator, owned=False)

    def open(self) -> PooledVerifier:
        """Load the model and return the working verifier; steps are lines unless ``separator`` is set."""
        return self._verifier(self.engines[0].open(), "\n", owned=True)

    def _verifier(self, pooler: Pooler, separator: str, *, owned: bool) -> PooledVerifier:
        write = Writer(self, pooler, separator if self.separator is None else self.separator)
        try:
            # Whatever does not fit the model's tokenizer shows at the first prompt.
            write(Problem("1 + 1?"), Candidate((), (), text="2"))
        except Unreadable as error:
            raise ConfigError(str(error), "tag") from error
        return PooledVerifier(pooler, write, self._score, owned=owned, deadline=self.deadline)

    def _score(self, row: Row) -> float:
        """Return the score in the numbers at a place. Raises ``Unreadable`` when they are too many or few."""
        width, what = _WIDTHS[self.read]
        if len(row) != width:
            raise Unreadable(
                f"the model gave {len(row)} numbers for a step, `read: {self.read}` wants {width} ({what}); "
                "set `read` to the kind of model it is"
            )
        if self.read == "value":
            return sigmoid(row[0])
        return softmax(row)[1 if self.read == "classes" else 0]
