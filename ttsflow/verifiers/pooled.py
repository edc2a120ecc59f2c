"""The working verifier on a model that reads: prompts in, numbers out, a score for every place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ttsflow.engines.pooler import Pooled, Pooler
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ops import Verdict
from ttsflow.types import Candidate, Problem, Tokens

__all__ = ["PooledVerifier", "Read", "Text", "Unreadable", "sigmoid", "softmax"]

Row = tuple[float, ...]

_NONE: Mapping[int, float | None] = {}


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

    Of texts that wait and are the beginning of another one, or equal, only the longest is read: the numbers
    at their places are among its own.

    Where the engine reads its prefix cache, scores are remembered by the tokens up to their place: a prefix
    found there is not computed again, so that the numbers at its places come once only. A text of which
    every score is known is not read at all.
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
        self._queued: list[str] = []
        #: Texts that are not read themselves, by the name of the one that is read for them.
        self._covered: dict[str, list[str]] = {}
        self._decided: dict[str, Verdict] = {}
        self._known: dict[int, float | None] = {}
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
        self._asked += len(text.tokens)
        self._waiting[id] = waiting = _Waiting(text, _keys(text), whole=False)
        if self._pooler.caches and all(key in self._known for key in waiting.keys):
            self._decide(id, self._known)
        else:
            self._queued.append(id)

    def step(self) -> list[Verdict]:
        """Advance the engine by one iteration and return what is decided by now."""
        news: list[Pooled] = []
        self._ask_queued()
        if self._waiting and not self._dead:
            self._batches += 1
            try:
                news = self._pooler.step()
            except EngineDead as error:
                self._die(error)
        read = {pooled.id: self._scores(pooled) for pooled in news if pooled.id in self._waiting}
        if self._pooler.caches:
            # All of them first: what is absent from one was computed for another. The first value stays, so
            # that whoever comes later sees what those before it saw.
            for scores in read.values():
                for key, score in scores.items():
                    self._known.setdefault(key, score)
        for pooled in news:
            if pooled.id in read:
                self._settle(pooled, self._known if self._pooler.caches else read[pooled.id])
        verdicts, self._decided = list(self._decided.values()), {}
        return verdicts

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget queued candidates; unknown ids are ignored."""
        for name in ids:
            self._decided.pop(name, None)
        live = [name for name in ids if self._waiting.pop(name, None) is not None]
        for name in live:
            self._queued += self._covered.pop(name, ())
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

    def _ask_queued(self) -> None:
        """Give the engine all that is queued, but for what is read with another one."""
        queued = [name for name in self._queued if name in self._waiting]
        self._queued.clear()
        readers: dict[int, str] = {}
        for name in sorted(queued, key=lambda name: -len(self._waiting[name].text.tokens)):
            keys = self._waiting[name].keys
            reader = readers.get(keys[-1])
            if reader is not None and set(keys) <= set(self._waiting[reader].keys):
                self._covered.setdefault(reader, []).append(name)
            else:
                readers |= dict.fromkeys(keys, name) | readers
        covered = {name for names in self._covered.values() for name in names}
        for name in queued:
            if name not in covered:
                self._ask(name)

    def _ask(self, name: str) -> None:
        waiting = self._waiting.get(name)
        if waiting is None:
            return
        try:
            self._pooler.submit(name, waiting.text.tokens, waiting.text.places, cached=not waiting.whole)
        except EngineDead as error:
            self._die(error)

    def _die(self, error: EngineDead) -> None:
        self._dead = f"the verifier's engine died: {error}"
        for name in [*self._waiting]:
            self._decide(name, reason=self._dead)
        self._covered.clear()

    def _scores(self, pooled: Pooled) -> dict[int, float | None]:
        """Return what a text's numbers come to, by the keys of their places; decide one that has none."""
        waiting = self._waiting[pooled.id]
        if pooled.reason:
            return {}
        keys = dict(zip(waiting.text.places, waiting.keys, strict=True))
        try:
            return {keys[place]: _finite(self._read(row)) for place, row in pooled.rows.items()}
        except Unreadable as error:
            self._decide(pooled.id, reason=str(error))
            return {}

    def _settle(self, pooled: Pooled, known: Mapping[int, float | None]) -> None:
        """Decide a text that was read, and those it was read for."""
        waiting = self._waiting.get(pooled.id)
        if waiting is not None and not pooled.reason and not all(key in known for key in waiting.keys):
            if not waiting.whole:
                # Some numbers are gone with what they were computed for.
                self._asked += len(waiting.text.tokens)
                self._waiting[pooled.id] = waiting._replace(whole=True)
                self._ask(pooled.id)
                return
            reason = f"the model gave numbers for {len(pooled.rows)} of {len(waiting.keys)} places"
            pooled = pooled._replace(reason=reason)
        covered = self._covered.pop(pooled.id, ())
        if waiting is not None:
            self._decide(pooled.id, known, reason=pooled.reason)
        for name in covered:
            waiting = self._waiting.get(name)
            if waiting is not None and all(key in known for key in waiting.keys):
                self._decide(name, known)
            else:
                # What went wrong may have been behind its end.
                self._queued.append(name)

    def _decide(self, name: str, known: Mapping[int, float | None] = _NONE, *, reason: str = "") -> None:
        waiting = self._waiting.pop(name)
        scores = () if reason else tuple(known[key] for key in waiting.keys)
        self._decided[name] = Verdict(name, scores, len(waiting.text.tokens), reason)


def _keys(text: Text) -> tuple[int, ...]:
    """Return a key for each place, made of the tokens up to it."""
    return tuple(hash(text.tokens[: place + 1]) for place in text.places)


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
