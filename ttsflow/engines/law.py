"""Trajectories by a law: how many steps, how long each, whether it is right."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, NamedTuple

from ttsflow.engines.segments import Segment, Segments
from ttsflow.errors import ConfigError
from ttsflow.lineage import derive
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Capabilities, Task
from ttsflow.types import Prompt, Tokens

__all__ = ["Law", "LawPaths", "Played"]

#: Tokens a step may have at most: a piece has a bounded number of ids.
MOST_TOKENS = 100_000
#: How near to 0 and 1 a chance may be whose logit is taken.
_LEAST = 1e-9
#: Tokens of an answer that is asked for.
_ANSWER_TOKENS = 2


@dataclass(frozen=True, slots=True)
class Law:
    """Trajectories of independent steps.

    A trajectory has ``least`` steps, and each further one is its last with chance ``end``: their number is
    ``least`` + Geometric(``end``). The tokens of a step are log-normal with median ``median`` and standard
    deviation ``sigma`` of the logarithm, at most ``longest``. A step is right with the chance of its problem,
    whose logit is normal around that of ``right`` with standard deviation ``spread``; after a wrong step all
    are wrong. The answer is 0 where all were right, otherwise one of 1 to ``answers``, the k-th with a chance
    in proportion to 1/k. The text of a step comes with its last token.

    A trajectory that is asked midway, by words put behind it, answers as if its next step were the last.
    A pure function of prefix and seed; at temperature 0 of the prefix alone.
    """

    least: int = 4
    end: float = 0.25
    median: float = 60.0
    sigma: float = 0.8
    longest: int = 1200
    right: float = 0.9
    spread: float = 1.0
    answers: int = 8

    def __post_init__(self) -> None:
        for name in ("least", "answers"):
            if not 0 <= getattr(self, name) <= MOST_TOKENS:
                raise ConfigError(f"must lie between 0 and {MOST_TOKENS:,}, got {getattr(self, name)}.", name)
        if not self.answers:
            raise ConfigError("at least one wrong answer is needed.", "answers")
        if not 0 < self.end <= 1:
            raise ConfigError(f"a chance above 0 and up to 1 is wanted, got {self.end}.", "end")
        if not 1 <= self.longest <= MOST_TOKENS:
            raise ConfigError(f"must lie between 1 and {MOST_TOKENS:,}, got {self.longest}.", "longest")
        if not 1 <= self.median <= self.longest:
            raise ConfigError(f"must lie between 1 and `longest`, got {self.median}.", "median")
        if not _LEAST <= self.right <= 1 - _LEAST:
            raise ConfigError(
                f"a chance between 0 and 1 is wanted, by at least {_LEAST:g}, got {self.right}.", "right"
            )
        for name in ("sigma", "spread"):
            if not 0 <= getattr(self, name) <= 10:
                raise ConfigError(f"must lie between 0 and 10, got {getattr(self, name)}.", name)

    @property
    def capabilities(self) -> Capabilities:
        """Seeds, continuation and aborts; nothing is known of single tokens."""
        return Capabilities()

    @property
    def mean_step(self) -> float:
        """Tokens of a step on average, but for those that ``longest`` cuts."""
        return min(float(self.longest), self.median * math.exp(self.sigma**2 / 2))

    def longest_of(self, count: int) -> float:
        """Tokens of about the longest of so many steps: the quantile that one of them exceeds."""
        far = NormalDist().inv_cdf(1 - 1 / (count + 1))
        return min(float(self.longest), self.median * math.exp(self.sigma * far))

    @property
    def mean_steps(self) -> float:
        """Steps of a trajectory on average."""
        return self.least + 1 / self.end

    def check_task(self, task: Task) -> None:
        """Refuse a task that would read no answer out of what the law writes."""
        if not getattr(task, "reads_law", False):
            raise ConfigError(
                "this task cannot read trajectories that a law draws; set task=simulated, or play a run of "
                "this task with 'engine.paths={use: trace, run: FOLDER}'.",
                "task",
            )

    def open_paths(self) -> LawPaths:
        """Return the paths."""
        return LawPaths(self)


class _Step(NamedTuple):
    """A step: its tokens, its text, and what is so after it."""

    tokens: int
    text: str
    right: bool
    last: bool


class _State(NamedTuple):
    """Where a trajectory stands: steps made, all right or not, what is left of one cut short, its end."""

    steps: int = 0
    right: bool = True
    rest: _Step | None = None
    last: bool = False


class Played:
    """One request and the piece it decodes."""

    __slots__ = ("done", "finish", "length", "piece", "request", "stop")

    def __init__(
        self, request: EngineRequest, piece: Segment, finish: Literal["stop", "length"], stop: str | None
    ) -> None:
        self.request = request
        self.piece = piece
        self.length = piece.length
        self.finish = finish
        self.stop = stop
        self.done = 0

    @property
    def last(self) -> int | None:
        """The id of its last token."""
        return self.piece.base + self.length - 1 if self.length else None

    def news(self, upto: int, *, ended: bool) -> Progress:
        """Return the news of having grown to ``upto`` tokens."""
        tokens = self.piece.tokens(self.done, upto)
        self.done = upto
        if ended:
            return Progress(self.request.id, tokens, self.finish, self.stop)
        return Progress(self.request.id, tokens)


class LawPaths:
    """Draws trajectories by a law."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._segments = Segments()
        self._chances: dict[str, float] = {}
        self._weights = [1 / k for k in range(1, law.answers + 1)]

    def reset(self) -> None:
        """Forget what was drawn; the same requests draw the same again."""
        self._segments.reset()

    def encode(self, prompt: Prompt) -> Tokens:
        """Return one id for every four characters."""
        return self._segments.encode(prompt)

    def tokenize(self, text: str) -> Tokens:
        """Return one id for every four characters."""
        return self._segments.encode(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of ids."""
        return self._segments.decode(tokens)

    def play(self, request: EngineRequest, context: int) -> Played:
        """Draw what a request decodes."""
        room = max(0, min(request.max_tokens, context - len(request.prompt)))
        before, asked = self._segments.before(request.prompt)
        begun, left_of = self._segments.part(request.prompt), 1.0
        like: _State | None = None
        if begun is not None:
            # It begins with a part of another one's step. As much of its own as that one had left follows,
            # and it is the last one if that is: steps are as long and paths have as many as without.
            piece, done, before = begun
            asked, like, left_of = False, piece.state, 1 - done / piece.length
        state: _State = _State() if before is None else before.state
        seed = request.seed
        if request.sampling.temperature == 0:
            place = 0 if before is None else before.base + before.length
            seed = derive("greedy", request.problem, place, request.prompt[-1] if request.prompt else 0)
        length, parts = 0, []
        finish: Literal["stop", "length"] = "length"
        stop: str | None = None
        if before is not None and asked:
            steps = self._answer(state, request.problem, seed)
        else:
            steps = self._steps(state, request.problem, seed, like)
        for drawn in steps:
            step = drawn
            if left_of < 1:
                step = drawn._replace(tokens=max(1, round(drawn.tokens * left_of)))
            left_of, left = 1.0, room - length
            if step.tokens > left:
                state = _State(state.steps, state.right, step._replace(tokens=step.tokens - left))
                length = room
                break
            length += step.tokens
            parts.append((length, step.text))
            state = _State(state.steps + 1, step.right, last=step.last)
            stop = next((word for word in request.stop if word in step.text), None)
            if step.last or stop is not None:
                finish = "stop"
                break
        return Played(request, self._segments.add(seed, length, parts, state), finish, stop)

    def _steps(self, state: _State, problem: str, seed: int, like: _State | None) -> Iterator[_Step]:
        """Yield the steps behind a state, without end; the first one is the last if that of ``like`` is."""
        law, chance = self._law, self._chance(problem)
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        steps, right = state.steps, state.right
        if state.rest is not None:
            yield state.rest
            steps, right = steps + 1, state.rest.right
        while True:
            drawn = round(law.median * math.exp(law.sigma * rng.gauss(0.0, 1.0)))
            right = right and rng.random() < chance
            last = steps >= law.least and rng.random() < law.end
            if like is not None:
                last, like = like.last, None
            text = f"{'right' if right else 'wrong'} {rng.getrandbits(32):08x}"
            if last:
                text += f" Answer: {self._said(rng, right=right)}"
            else:
                text += "\n\n"
            yield _Step(max(1, min(law.longest, drawn)), text, right, last)
            steps += 1

    def _answer(self, state: _State, problem: str, seed: int) -> Iterator[_Step]:
        """Yield the answer of a trajectory that is asked for it midway: right if one more step would be."""
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        right = state.right and rng.random() < self._chance(problem)
        yield _Step(_ANSWER_TOKENS, str(self._said(rng, right=right)), right, last=True)

    def _said(self, rng: random.Random, *, right: bool) -> int:
        return 0 if right else rng.choices(range(1, self._law.answers + 1), self._weights)[0]

    def _chance(self, problem: str) -> float:
        """Return the chance that a step of a problem is right."""
        known = self._chances.get(problem)
        if known is None:
            shift = random.Random(derive("difficulty", problem)).gauss(0.0, self._law.spread)  # noqa: S311
            logit = math.log(self._law.right / (1 - self._law.right)) + shift
            known = self._chances[problem] = 1 / (1 + math.exp(-logit))
        return known
