"""An engine that needs no model.

The fake engine's next token is a pure function of prefix and seed, so that anything that claims not to
change an answer (another order, more seats, an abort, a preemption) can be held to it exactly. So are its
log-probabilities and certainties, which vary from token to token and mean nothing.
"""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Mapping, Sequence

from ttsflow.errors import EngineDead
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Capabilities
from ttsflow.types import Finish, Prompt, Tokens

__all__ = ["FakeEngine"]

_MASK = (1 << 64) - 1
_PRIME = 0x100000001B3
_END = 0
_WORDS = {128 + digit: f"Answer: {digit}" for digit in range(5)}
_TEXTS = [chr(code) for code in range(128)]
_TEXTS[_END] = ""
_TEXTS += [_WORDS[code] for code in sorted(_WORDS)]
_NEWLINE = ord("\n")
_DIGITS = [ord(digit) for digit in "0123456789"]


def _mix(value: int) -> int:
    """Return a 64-bit number every bit of which depends on every bit of ``value`` (splitmix64)."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _top(token: int, draw: int, count: int) -> Mapping[int, float]:
    """Return log-probabilities made of ``draw``, best first: the token itself and those after it."""
    share = 0.1 + 0.8 * (_mix(draw ^ 1) % 10**6) / 10**6
    best, gap = math.log1p(-share), math.log(share)
    return {token + rank: best + gap * rank for rank in range(count)}


def _certainty(draw: int) -> float:
    """Return a number from 0 to 10 made of ``draw``."""
    return _mix(draw ^ 2) % 10**6 / 10**5


class _Sequence:
    """One request being decoded; ``hash`` stands for its prefix of prompt and tokens.

    ``held`` are tokens not reported yet, each with the draw that it came from.
    """

    __slots__ = ("done", "draw", "hash", "held", "last", "limit", "reach", "request", "seed", "tail")

    def __init__(self, request: EngineRequest, seed: int, context: int) -> None:
        self.request = request
        self.limit = min(request.max_tokens, context - len(request.prompt))
        self.seed = _mix(seed & _MASK)
        self.hash = 0
        self.draw = 0
        for token in request.prompt:
            self.hash = (self.hash * _PRIME + token + 1) & _MASK
        self.last = request.prompt[-1] if request.prompt else _NEWLINE
        self.done = 0
        self.held: list[tuple[int, int]] = []
        self.reach = max(map(len, request.stop), default=0)
        self.tail = ""

    def next(self) -> int:
        """Draw the next token: lines of digits, then an answer, then the end."""
        self.draw = draw = _mix(self.hash ^ self.seed)
        last = self.last
        if last in _WORDS:
            token = _END
        elif last == _NEWLINE and draw % 100 < 25:
            token = 128 + (draw >> 8) % 5
        elif last != _NEWLINE and draw % 100 < 20:
            token = _NEWLINE
        else:
            token = _DIGITS[(draw >> 8) % 10]
        self.hash = (self.hash * _PRIME + token + 1) & _MASK
        self.last = token
        self.done += 1
        return token


class FakeEngine:
    """Decodes one token per running sequence and step, by priority and then arrival.

    Time is virtual: one step takes ``step_seconds``. With ``preempt`` above 0 that share of steps
    takes one running sequence off its seat, as an engine short of memory would; ``schedule_seed``
    chooses which. After ``dies_after`` steps it raises ``EngineDead``.
    """

    def __init__(
        self,
        *,
        capacity: int = 16,
        context: int = 4096,
        logprobs: int = 20,
        certainty: bool = True,
        preempt: float = 0.0,
        schedule_seed: int = 0,
        step_seconds: float = 0.01,
        dies_after: int | None = None,
    ) -> None:
        self.capabilities = Capabilities(logprobs=logprobs, certainty=certainty)
        self.capacity = capacity
        self.context = context
        self.steps = 0
        self.decoded = 0
        self._preempt = preempt
        self._schedule = random.Random(schedule_seed)  # noqa: S311 - a schedule, not a secret
        self._step_seconds = step_seconds
        self._waited = 0.0
        self._dies_after = dies_after
        self._waiting: deque[_Sequence] = deque()
        self._running: dict[str, _Sequence] = {}

    def now(self) -> float:
        """Return virtual seconds."""
        return self.steps * self._step_seconds + self._waited

    def wait(self, seconds: float) -> None:
        """Let time pass that another engine takes."""
        self._waited += seconds

    def encode(self, prompt: Prompt) -> Tokens:
        """Return one token per character; a chat is its turns, a line each."""
        text = prompt if isinstance(prompt, str) else "".join(f"{m.role}: {m.content}\n" for m in prompt)
        return tuple(min(ord(char), 127) or 127 for char in text)

    def tokenize(self, text: str) -> Tokens:
        """Return one token per character."""
        return self.encode(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of tokens."""
        return "".join([_TEXTS[token] for token in tokens])

    def seed_of(self, request: EngineRequest) -> int:
        """Return the seed a request is decoded with; a test may break this on purpose."""
        return request.seed

    def submit(self, request: EngineRequest) -> None:
        """Queue a request."""
        if request.id in self._running or any(s.request.id == request.id for s in self._waiting):
            msg = f"request id {request.id!r} is in use"
            raise ValueError(msg)
        self._waiting.append(_Sequence(request, self.seed_of(request), self.context))

    def abort(self, ids: Sequence[str]) -> None:
        """Forget requests."""
        for name in ids:
            self._running.pop(name, None)
        if self._waiting:
            gone = set(ids)
            self._waiting = deque(s for s in self._waiting if s.request.id not in gone)

    def step(self) -> list[Progress]:
        """Decode one token for every running sequence."""
        if self._dies_after is not None and self.steps >= self._dies_after:
            msg = f"the fake engine died after {self.steps} steps, as it was told to."
            raise EngineDead(msg)
        self.steps += 1
        self._seat()
        news = []
        for sequence in list(self._running.values()):
            progress = self._decode_one(sequence)
            if progress is not None:
                news.append(progress)
        return news

    def reset(self) -> None:
        """Forget everything queued; there is no cache."""
        self._waiting.clear()
        self._running.clear()

    def close(self) -> None:
        """Free everything."""
        self.reset()

    def _seat(self) -> None:
        if self._preempt and self._running and self._schedule.random() < self._preempt:
            name = self._schedule.choice(list(self._running))
            self._waiting.append(self._running.pop(name))
        free = self.capacity - len(self._running)
        if free and self._waiting:
            if len(self._waiting) > free:
                self._waiting = deque(sorted(self._waiting, key=lambda s: s.request.priority))
            for _ in range(min(free, len(self._waiting))):
                sequence = self._waiting.popleft()
                self._running[sequence.request.id] = sequence

    def _decode_one(self, sequence: _Sequence) -> Progress | None:
        request = sequence.request
        if sequence.done >= sequence.limit:
            return self._finish(sequence, "length")
        token = sequence.next()
        self.decoded += 1
        stop = None
        if sequence.reach:
            sequence.tail += _TEXTS[token]
            stop = next((text for text in request.stop if text in sequence.tail), None)
            sequence.tail = sequence.tail[1 - sequence.reach :] if sequence.reach > 1 else ""
        sequence.held.append((token, sequence.draw))
        if token == _END or stop is not None:
            return self._finish(sequence, "stop", stop)
        if sequence.done >= sequence.limit:
            return self._finish(sequence, "length")
        return self._news(sequence) if request.stream else None

    def _finish(self, sequence: _Sequence, finish: Finish, stop: str | None = None) -> Progress:
        del self._running[sequence.request.id]
        return self._news(sequence, finish, stop)

    def _news(self, sequence: _Sequence, finish: Finish | None = None, stop: str | None = None) -> Progress:
        """Report what is held."""
        request, held = sequence.request, sequence.held
        sequence.held = []
        tokens = tuple([token for token, _ in held])
        if not (request.logprobs or request.certainty):
            return Progress(request.id, tokens, finish, stop)
        top = min(request.logprobs, self.capabilities.logprobs)
        certain = request.certainty and self.capabilities.certainty
        return Progress(
            request.id,
            tokens,
            finish,
            stop,
            logprobs=tuple([_top(token, draw, top) for token, draw in held]) if top else (),
            certainties=tuple([_certainty(draw) for _, draw in held]) if certain else (),
        )
