"""What a part must offer to be used in a pipeline. All are structural: no base class is needed.

A *part* is a frozen dataclass whose fields are its settings. Building one does no work; what lives
longer (an engine, a verifier) is made by ``open()``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ttsflow.ops import Decision, EngineRequest, Op, Progress, Request, Trace, Verdict
from ttsflow.types import Answer, Candidate, Problem, Prompt, State, Tokens, Usage

__all__ = [
    "Capabilities",
    "CostModel",
    "Engine",
    "EnginePart",
    "Expecting",
    "Leaping",
    "Observer",
    "Outlook",
    "Paged",
    "Predictor",
    "Reply",
    "Stage",
    "Task",
    "Until",
    "Verifier",
    "VerifierPart",
    "Watch",
    "innermost",
    "leaping",
]

#: A stage's generator is sent the reply that belongs to the operation it yielded.
Reply = Any


@runtime_checkable
class Stage(Protocol):
    """Turns a state into a new one; a generator when it has to ask for something on the way."""

    def __call__(self, state: State, /) -> State | Generator[Op, Reply, State]:
        """Return the new state, or a generator of operations that returns it."""
        ...


Observer = Callable[[Sequence[Trace], Sequence[int]], Decision | None]


@runtime_checkable
class Watch(Protocol):
    """Decides during a generate operation; the only code that runs per engine step."""

    def begin(self, size: int) -> Observer:
        """Return an observer for one operation of ``size`` requests.

        It is called after each engine step with all traces of the operation (grown by what it
        launched) and the indices of those with news, in index order; it decides or returns None.

        An observer may have a method ``leap(traces)``: how many tokens each running trace may grow
        before it must be asked again (None: until one of them ends). It is taken at its word by an
        engine in virtual time; without it that is one token.
        """
        ...


@runtime_checkable
class Outlook(Protocol):
    """What a search will ask for next, so that an engine may begin early; strategies never mention it."""

    def children(self, candidate: Candidate, /) -> tuple[Request, ...]:
        """Return exactly the requests that follow if ``candidate`` survives; none when others decide that."""
        ...

    def rate(self, scores: Sequence[float | None], /) -> float | None:
        """Return the one score that the search makes of step scores, None when there is none."""
        ...

    @property
    def slots(self) -> int:
        """Candidates of a round, or of a part of it, that survive."""
        ...

    @property
    def size(self) -> int | None:
        """After the round so many requests in a row go on apart, each such part in a branch of its own.

        None: all of them stay together.
        """
        ...

    @property
    def then(self) -> Outlook | None:
        """The outlook of the round after this one, None when this is the last that can be foreseen."""
        ...


@runtime_checkable
class Predictor(Protocol):
    """Foresees how long a trajectory will be."""

    def __call__(self, trace: Trace, /) -> tuple[int, int | None]:
        """Return the least and the most tokens it will have; None: any number."""
        ...


@runtime_checkable
class Until(Protocol):
    """A condition on a state, with settings."""

    def __call__(self, state: State, /) -> str | None:
        """Return why the condition holds, None when it does not.

        An empty reason means the natural end, which is not an early stop.
        """
        ...


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do, known before it is opened.

    ``logprobs`` is the highest number of top log-probabilities per token, 0 for none; ``seeds`` whether
    a seed decides a text; ``token_prompts`` whether a prompt may be token ids, as continuing a candidate
    needs; ``abort`` whether a running request can be ended; ``temperature`` is the highest one it takes;
    ``certainty`` whether it knows how far a token's distribution is from uniform.
    """

    logprobs: int = 0
    seeds: bool = True
    token_prompts: bool = True
    abort: bool = True
    temperature: float = math.inf
    certainty: bool = False


@runtime_checkable
class Engine(Protocol):
    """Decodes sequences. Driven by one thread; nothing happens but in ``step``."""

    capabilities: Capabilities

    @property
    def capacity(self) -> int:
        """Sequences decoded at once."""
        ...

    @property
    def context(self) -> int:
        """Most tokens of prompt and output together."""
        ...

    def now(self) -> float:
        """Return seconds on the engine's own clock, which may be virtual."""
        ...

    def encode(self, prompt: Prompt) -> Tokens:
        """Return the token ids of a prompt, its chat template applied."""
        ...

    def tokenize(self, text: str) -> Tokens:
        """Return the token ids of a text within a trajectory: no special tokens are added."""
        ...

    def decode(self, tokens: Tokens) -> str:
        """Return the text of output tokens, special tokens left out."""
        ...

    def submit(self, request: EngineRequest) -> None:
        """Queue a request; its id must be new."""
        ...

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now; no news of them follows. Unknown and ended ids are ignored."""
        ...

    def step(self) -> list[Progress]:
        """Advance by one iteration and return the news. Raises ``EngineDead``."""
        ...

    def reset(self) -> None:
        """Forget everything that could make a later run differ (the prefix cache)."""
        ...

    def close(self) -> None:
        """Free all resources; may be called twice."""
        ...


@runtime_checkable
class Leaping(Protocol):
    """What an engine in virtual time has besides: it may jump from event to event.

    One on a device that a verifier shares has a method ``rest()``, which is called when it will not be
    advanced for now, though work that was begun early may be on it.
    """

    leap: int | None
    """Set before every step: the most tokens a sequence may grow in it; None: until something happens."""

    advanced: int
    """The iterations that the last step stands for."""


@runtime_checkable
class Paged(Protocol):
    """What an engine has besides that keeps keys and values in blocks."""

    @property
    def block_size(self) -> int:
        """Tokens of a block."""
        ...

    @property
    def kv_blocks(self) -> int:
        """Blocks of its cache."""
        ...


def innermost(engine: Any) -> Any:
    """Return the engine that others stand around, each with what it stands around as ``inner``."""
    while (inner := getattr(engine, "inner", None)) is not None:
        engine = inner
    return engine


def leaping(engine: Any) -> Leaping | None:
    """Return the outermost of an engine and those inside it that is ``Leaping``, None where none is."""
    while engine is not None and not isinstance(engine, Leaping):
        engine = getattr(engine, "inner", None)
    return engine


@runtime_checkable
class Expecting(Protocol):
    """What an engine has besides that begins requests before they are asked for.

    A request that is submitted and equal to an expected one, but for its id, goes on with what that one has
    decoded. Expected ones never hold up others, and no news of them is given.
    """

    on_end: Callable[[EngineRequest, Progress], None] | None
    """Called when an expected request has ended, with all its tokens."""

    def expect(self, request: EngineRequest, chance: float) -> None:
        """Say that a request may come, with this chance from 0 to 1; said again, the chance is a new one."""
        ...

    def retract(self, ids: Sequence[str]) -> None:
        """Say that expected requests will not come; what they have decoded is dropped."""
        ...

    def collect(self, problem: str) -> tuple[int, int]:
        """Return the tokens decoded early that a problem has adopted and dropped since last asked."""
        ...


@runtime_checkable
class EnginePart(Protocol):
    """Settings of an engine.

    One whose samples are numbered has ``most_samples``, how many of each problem there are; one that does not
    suit every task has ``check_task(task)``. One that has settings which change no text has
    ``text_settings()``, a mapping of all that may change one; without it a pool of samples takes every
    setting for such. One whose samples must not come from a pool has ``unpooled``, the reason. One in virtual
    time has ``virtual = True``; it runs beside other engines only if ``waits`` is true as well, and its
    engine has a method ``wait(seconds)``, which moves its clock on by what another one took.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the engine will be able to do."""
        ...

    def open(self) -> Engine:
        """Load and return the engine. Raises ``ModelError``, ``MissingExtra``, ``ConfigError``."""
        ...


@runtime_checkable
class Verifier(Protocol):
    """Scores candidates, pumped like an engine so that a slow one never blocks the loop."""

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate under a new id."""
        ...

    def step(self) -> list[Verdict]:
        """Advance and return what is decided by now."""
        ...

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget queued candidates; no verdict of them follows."""
        ...

    def close(self) -> None:
        """Free all resources; may be called twice."""
        ...


@runtime_checkable
class VerifierPart(Protocol):
    """Settings of a verifier. A plain one is wrapped by ``ttsflow.verifiers.batch.Batched``.

    An oracle has a method ``open_for(task)`` besides, which is then called instead of ``open``, one whose
    time is that of a simulated device ``open_beside(engine, task)`` and ``check_beside(engine part)``; any
    verifier or engine may have ``check()``, which refuses its settings before anything is opened, and
    ``check_task(task)``, which refuses a task that it cannot work with.
    """

    def open(self) -> Verifier:
        """Return the working verifier."""
        ...


@runtime_checkable
class CostModel(Protocol):
    """A price: a pure function of what was spent."""

    @property
    def unit(self) -> str:
        """What it is measured in, for labels."""
        ...

    def __call__(self, usage: Usage, /) -> float:
        """Return the cost of ``usage`` in ``unit``."""
        ...


@runtime_checkable
class Task(Protocol):
    """A set of problems, and what an answer to one of them is.

    One whose answers are programs that the verifier ``tests`` can run has ``gives_programs = True``, one that
    reads what the law of engine ``sim`` writes ``reads_law = True``. ``steps`` may say what its steps are:
    "sums" for the verifier ``equations``, "game" for ``countdown``; a verifier of others is then refused.
    """

    @property
    def stop(self) -> tuple[str, ...]:
        """Stop strings that end a trajectory of this task."""
        ...

    @property
    def separator(self) -> str:
        """The string that ends a step of this task."""
        ...

    @property
    def probe(self) -> str:
        """Words that make a model in the middle of a trajectory answer at once."""
        ...

    def problems(self) -> Sequence[Problem]:
        """Return all problems, ids unique. Raises ``DataError``."""
        ...

    def answer(self, text: str, problem: Problem) -> Answer | None:
        """Return the answer a finished trajectory gives, None when it gives none."""
        ...

    def correct(self, answer: Answer | None, problem: Problem) -> bool | None:
        """Return whether the answer equals the gold one; None when there is no gold answer."""
        ...
