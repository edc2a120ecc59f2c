"""The working verifier on a model that reads: prompts in, numbers out, a score for every place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ttsflow.engines.pooler import Pooled, Pooler
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ops import Verdict
from ttsflow.types import Candidate, Problem, Tokens

__all__ = ["PooledVerifier", "Read", "Text", "Unreadable", "sigmoid", "softmax"]

Row = tuple[float, ...]


class Unreadable(Exception):
    """A candidate that cannot be scored, or numbers that are no score; the text says why."""


class Text(NamedTuple):
    """A prompt of the model, and the places of the tokens at which a score is read."""

    tokens: Tokens
    places: tuple[int, ...]


#: Makes a candidate's prompt, and a score of the numbers at a place; both may raise ``Unreadable``.
Write = Callable[[Problem, Candidate], Text]
Read = Callable[[Row], float]


class _Waiting(NamedTuple):
    """A candidate whose numbers are on their way; ``whole``: asked for once more without the cache."""

    text: Text
    keys: tuple[int, ...]
    whole: bool


class PooledVerifier:
    """Scores candidates on a ``Pooler``; a step is one iteration of its engine.

    All candidates that wait are one batch, whichever problem they are of. What goes wrong with one of them
    is its reason; when the engine dies, that is the reason of all that wait and of all that follow.

    Where the engine reads its prefix cache, scores are remembered by the tokens up to their place: a prefix
    found there is not computed again, so that the numbers at its places come once only.
    """

    def __init__(
        self, pooler: Pooler, write: Write, read: Read, *, owned: bool, deadline: float | None = None
    ) -> None:
        self.deadline = deadline
        self._pooler = pooler
        self._write = write
        self._read = read
        self._owned = owned
        self._dead = ""
        self._waiting: dict[str, _Waiting] = {}
        self._decided: dict[str, Verdict] = {}
        self._known: dict[int, float | None] = {}
        self._number = itertools.count(1)
        self._asked = self._batches = 0

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate under a new id; an id that is waiting is a ``ValueError``."""
        if id in self._waiting or id in self._decided:
            raise ValueError(f"{id!r} is already waiting for its scores")
        try:
            text = self._text(problem, candidate)
        except ConfigError:
            raise
        except Unreadable as error:
            self._decided[id] = Verdict(id, (), reason=str(error))
            return
        except Exception as error:  # noqa: BLE001 - a chat template may raise anything; one candidate is lost
            reason = f"the verifier's prompt cannot be made: {type(error).__name__}: {error}"
            self._decided[id] = Verdict(id, (), reason=reason)
            return
        if not text.places:
            self._decided[id] = Verdict(id, ())
            return
        # Without a cache nothing is shared, not even between equal texts.
        salt = 0 if self._pooler.caches else next(self._number)
        self._ask(id, _Waiting(text, _keys(text, salt), whole=False))

    def step(self) -> list[Verdict]:
        """Advance the engine by one iteration and return what is decided by now."""
        news: list[Pooled] = []
        if self._waiting and not self._dead:
            self._batches += 1
            try:
                news = self._pooler.step()
            except EngineDead as error:
                self._die(error)
        # All numbers first: what is absent from one was computed for another.
        for pooled in news:
            self._remember(pooled)
        for pooled in news:
            self._settle(pooled)
        verdicts, self._decided = list(self._decided.values()), {}
        return verdicts

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget queued candidates; unknown ids are ignored."""
        for name in ids:
            self._decided.pop(name, None)
        live = [name for name in ids if self._waiting.pop(name, None) is not None]
        if live and not self._dead:
            self._pooler.abort(live)

    def counters(self) -> dict[str, float]:
        """Return iterations, and prompt tokens that were computed and that the prefix cache had."""
        computed = getattr(self._pooler, "computed", self._asked)
        return {
            "verifier_iterations": self._batches,
            "verifier_computed_tokens": computed,
            "verifier_saved_tokens": max(0, self._asked - computed),
        }

    def close(self) -> None:
        """Forget everything, and close the engine if it belongs to this verifier; may be called twice."""
        self.cancel([*self._waiting, *self._decided])
        self._known.clear()
        if self._owned:
            self._pooler.close()

    def _text(self, problem: Problem, candidate: Candidate) -> Text:
        if self._dead:
            raise Unreadable(self._dead)
        text = self._write(problem, candidate)
        if len(text.tokens) > self._pooler.context:
            raise Unreadable(
                f"the verifier's prompt has {len(text.tokens)} tokens, its context is {self._pooler.context}"
            )
        return text

    def _ask(self, name: str, waiting: _Waiting) -> None:
        self._waiting[name] = waiting
        self._asked += len(waiting.text.tokens)
        try:
            self._pooler.submit(name, waiting.text.tokens, waiting.text.places, cached=not waiting.whole)
        except EngineDead as error:
            self._die(error)

    def _die(self, error: EngineDead) -> None:
        self._dead = f"the verifier's engine died: {error}"
        for name, waiting in self._waiting.items():
            self._decided[name] = Verdict(name, (), len(waiting.text.tokens), self._dead)
        self._waiting.clear()

    def _remember(self, pooled: Pooled) -> None:
        waiting = self._waiting.get(pooled.id)
        if waiting is None or pooled.reason:
            return
        keys = dict(zip(waiting.text.places, waiting.keys, strict=True))
        try:
            scores = {place: _finite(self._read(row)) for place, row in pooled.rows.items()}
        except Unreadable as error:
            del self._waiting[pooled.id]
            self._decided[pooled.id] = Verdict(pooled.id, (), len(waiting.text.tokens), str(error))
            return
        for place, score in scores.items():
            # The first value stays: whoever comes later sees what those before it saw.
            self._known.setdefault(keys[place], score)

    def _settle(self, pooled: Pooled) -> None:
        waiting = self._waiting.pop(pooled.id, None)
        if waiting is None:
            return
        read = len(waiting.text.tokens)
        if pooled.reason:
            self._decided[pooled.id] = Verdict(pooled.id, (), read, pooled.reason)
        elif all(key in self._known for key in waiting.keys):
            scores = tuple(self._known[key] for key in waiting.keys)
            self._decided[pooled.id] = Verdict(pooled.id, scores, read)
            for key in waiting.keys if not self._pooler.caches else ():
                self._known.pop(key, None)
        elif waiting.whole:
            self._decided[pooled.id] = Verdict(
                pooled.id,
                (),
                read,
                f"the model gave numbers for {len(pooled.rows)} of {len(waiting.keys)} places",
            )
        else:
            self._ask(pooled.id, waiting._replace(whole=True))


def _keys(text: Text, salt: int) -> tuple[int, ...]:
    """Return a key for each place, made of the tokens up to it."""
    return tuple(hash((salt, text.tokens[: place + 1])) for place in text.places)


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None


def sigmoid(value: float) -> float:
    """Return 1 / (1 + exp(-value)); NaN where the value is no finite number."""
    if not math.isfinite(value):
        return math.nan
    if value >= 0:
        return 1 / (1 + math.exp(-value))
    return math.exp(value) / (1 + math.exp(value))


def softmax(row: Iterable[float]) -> list[float]:
    """Return the probabilities of logits; NaN where one of them is no finite number."""
    values = list(row)
    if not all(map(math.isfinite, values)):
        return [math.nan] * len(values)
    top = max(values)
    shares = [math.exp(value - top) for value in values]
    return [share / sum(shares) for share in shares]
