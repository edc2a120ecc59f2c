"""The data that flows through a pipeline: frozen, slotted, and free of behaviour that needs I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import add, attrgetter, sub
from typing import Any, Literal, NamedTuple

from ttsflow.errors import ConfigError
from ttsflow.lineage import Path, content_id, rng_of

__all__ = [
    "Answer",
    "Candidate",
    "EngineTokens",
    "Finish",
    "Message",
    "Outcome",
    "Problem",
    "Prompt",
    "Result",
    "Sampling",
    "State",
    "Tokens",
    "Usage",
]

Tokens = tuple[int, ...]

#: Why a candidate's tokens end where they do. ``step``: at a step border, it can go on. ``stop``: end
#: of text or a stop string of the task. ``length``: cut by the limit per trajectory or the context.
#: ``aborted``: ended by ttsflow. ``failed``: the engine gave no usable sample.
Finish = Literal["step", "stop", "length", "aborted", "failed"]

Outcome = Literal["answered", "abstained", "truncated", "deferred", "failed"]


class Message(NamedTuple):
    """One turn of a chat prompt; ``role`` is system, user or assistant."""

    role: str
    content: str


#: A raw text the model continues, or the turns of a chat that its template is applied to.
Prompt = str | tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """One question. ``id`` is a hash of the prompt when the data gives none."""

    prompt: Prompt
    id: str = ""
    gold: str | None = None
    data: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.id:
            object.__setattr__(self, "id", content_id(repr(self.prompt)))


@dataclass(frozen=True, slots=True)
class Answer:
    """A parsed answer: ``text`` as written; answers with one ``key`` are one answer in a vote."""

    text: str
    key: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn, for every stage of a run.

    ``max_tokens`` limits a whole trajectory, ``max_step_tokens`` one step of a stepwise strategy; a
    step cut by the latter is a step like any other, a trajectory cut by the former is truncated.
    ``stop`` adds stop strings to those of the task.
    """

    temperature: float = 0.8
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_tokens: int = 512
    max_step_tokens: int = 128
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ConfigError(f"must be at least 0 (0 is greedy), got {self.temperature}.", "temperature")
        if not 0 < self.top_p <= 1:
            raise ConfigError(f"must lie above 0 and up to 1 (1 is off), got {self.top_p}.", "top_p")
        if self.top_k < 0:
            raise ConfigError(f"must be at least 0 (0 is off), got {self.top_k}.", "top_k")
        if not 0 <= self.min_p <= 1:
            raise ConfigError(f"must lie between 0 (off) and 1, got {self.min_p}.", "min_p")
        for name in ("max_tokens", "max_step_tokens"):
            if getattr(self, name) < 1:
                raise ConfigError(f"at least one token is needed, got {getattr(self, name)}.", name)
        if "" in self.stop:
            raise ConfigError("an empty stop string would end every text at once.", "stop")


class EngineTokens(NamedTuple):
    """The part of a further engine, by its name in ``engines``: tokens and requests as in ``Usage``."""

    engine: str
    prompt: int = 0
    cached: int = 0
    output: int = 0
    aborted: int = 0
    requests: int = 0

    @property
    def decoded(self) -> int:
        """All tokens it had decoded."""
        return self.output + self.aborted


@dataclass(frozen=True, slots=True)
class Usage:
    """What was spent. Additive; every cost model is a pure function of it.

    Tokens unless said otherwise. ``output``: of candidates that ended by themselves or at a limit;
    ``aborted``: of candidates ttsflow ended; ``dropped``: speculated and not used; ``adopted``: the
    part of ``output`` that was speculated; ``reused``: taken over instead of decoded, from a
    pool of samples and then part of ``output`` and ``aborted`` as well, or from another request (shared
    speculation) and then in no other count; ``cached``: the part of ``prompt`` found in the prefix cache,
    unknown of requests that were aborted.
    ``serial`` is the length of the longest chain of tokens that had to be decoded one after another.
    ``seconds`` is the time from a problem's start to its result. ``joules`` is None where no meter ran.
    ``engines`` tells the parts of further engines, in the order of their names; the rest of the counts that
    they have is that of the engine of the run.
    """

    prompt: int = 0
    cached: int = 0
    output: int = 0
    aborted: int = 0
    dropped: int = 0
    adopted: int = 0
    reused: int = 0
    verifier: int = 0
    serial: int = 0
    requests: int = 0
    engine_steps: int = 0
    seconds: float = 0.0
    joules: float | None = None
    engines: tuple[EngineTokens, ...] = ()

    @property
    def decoded(self) -> int:
        """All tokens the strategy had decoded: output + aborted + dropped; a pool may have played them."""
        return self.output + self.aborted + self.dropped

    def __add__(self, other: Usage) -> Usage:
        one, two = self.joules, other.joules
        joules = two if one is None else one if two is None else one + two
        engines = _merged(self.engines, other.engines, add) if other.engines else self.engines
        # A budget adds up many of these at every engine step.
        return Usage(*(*map(add, _counts(self), _counts(other)), joules, engines))

    def less(self, part: Usage) -> Usage:
        """Return what is left without a part of it; joules as they are where the part has none."""
        joules = None if self.joules is None else self.joules - (part.joules or 0.0)
        engines = _merged(self.engines, part.engines, sub) if part.engines else self.engines
        return Usage(*(*map(sub, _counts(self), _counts(part)), joules, engines))

    def of(self, engine: str) -> Usage:
        """Return the part of a further engine: its tokens and requests, and nothing else."""
        found = next((one for one in self.engines if one.engine == engine), EngineTokens(engine))
        return Usage(
            prompt=found.prompt,
            cached=found.cached,
            output=found.output,
            aborted=found.aborted,
            requests=found.requests,
        )


_counts: Callable[[Usage], tuple[Any, ...]] = attrgetter(
    *(item.name for item in fields(Usage) if item.name not in {"joules", "engines"})
)


def _merged(
    one: tuple[EngineTokens, ...], two: tuple[EngineTokens, ...], how: Callable[[int, int], int]
) -> tuple[EngineTokens, ...]:
    """Return the parts of engines, those of one name made one."""
    first, second = ({part.engine: part for part in parts} for parts in (one, two))
    return tuple(
        EngineTokens(
            name, *map(how, first.get(name, EngineTokens(name))[1:], second.get(name, EngineTokens(name))[1:])
        )
        for name in sorted({*first, *second})
    )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One sampled trajectory, or its beginning: a beam is a candidate that can go on.

    ``path`` is its place in the lineage (see ``lineage``), ``prompt`` and ``tokens`` are token ids as
    the engine saw and decoded them (never re-tokenised text), ``text`` is what ``tokens`` say without
    the stop string that ended them. ``scores`` has one entry per verified step, None where a verifier
    gave none; ``score`` is their reduction. ``answer`` is parsed once, from candidates that ended by
    themselves. ``tokens_new`` counts the tokens decoded since its parent. ``logprobs`` and ``certainties``
    have one entry per token where they were asked for. ``engine`` is the name of the further engine whose
    tokens these are, "" for the engine of the run.
    """

    path: Path
    prompt: Tokens
    tokens: Tokens = ()
    text: str = ""
    finish: Finish | None = None
    seed: int = 0
    answer: Answer | None = None
    scores: tuple[float | None, ...] = ()
    score: float | None = None
    tokens_new: int = 0
    logprobs: tuple[Mapping[int, float], ...] = ()
    certainties: tuple[float, ...] = ()
    reason: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    engine: str = ""

    @property
    def active(self) -> bool:
        """Whether a further step can be asked for."""
        return self.finish == "step"

    @property
    def finished(self) -> bool:
        """Whether it ended by itself, so that its answer counts."""
        return self.finish == "stop"

    def with_(self, **changes: Any) -> Candidate:
        """Return a copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class State:
    """What a stage receives and returns: one problem and all that is known about it so far.

    ``round`` counts the rounds of the innermost ``repeat``, ``last`` says this is the final one.
    ``chosen`` is the candidate that stands for ``answer``. ``stopped`` is the reason for which a loop must
    end, ``ended`` that of what ended early by itself and ends nothing else. ``unanswered`` is why a stage
    that chooses an answer chose none. ``spent`` is the problem's usage when this state was made.
    """

    problem: Problem
    seed: int = 0
    pool: tuple[Candidate, ...] = ()
    answer: Answer | None = None
    chosen: Candidate | None = None
    round: int = 0
    last: bool = False
    spent: Usage = Usage()
    stopped: str | None = None
    ended: str | None = None
    unanswered: str | None = None

    @property
    def early(self) -> str | None:
        """Why anything ended early; None when nothing did."""
        return self.stopped or self.ended

    def with_(self, **changes: Any) -> State:
        """Return a copy with some fields changed."""
        return replace(self, **changes)

    def rng(self, tag: str) -> random.Random:
        """Return randomness for ``tag`` that depends on run seed, problem and round alone."""
        return rng_of(self.seed, self.problem.id, tag, self.round)


@dataclass(frozen=True, slots=True)
class Result:
    """What one problem came to: the same record for every strategy.

    ``correct`` is None when the problem has no gold answer. ``cost`` has one entry per cost model.
    ``candidates`` counts those in the final pool, ``truncated`` those of them cut by a limit;
    ``path_tokens`` are the distinct tokens of its finished trajectories, the basis of goodput.
    ``text`` is the trajectory the answer was taken from, or of a truncated problem the best of those that
    were cut; ``reason`` says why there
    is no answer.
    """

    id: str
    answer: str | None
    outcome: Outcome
    correct: bool | None
    stopped: str | None
    usage: Usage
    cost: Mapping[str, float]
    candidates: int
    truncated: int
    path_tokens: int = 0
    gold: str | None = None
    reason: str | None = None
    text: str | None = None
    fingerprint: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
