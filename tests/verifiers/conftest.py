"""A pooling engine that needs no model: its numbers are a function of the tokens up to a place."""

import math
from collections import deque

import pytest

from ttsflow.engines.pooler import Pooled
from ttsflow.errors import ConfigError, EngineDead


class FakePooler:
    """Tokens are characters, but for the words of ``vocabulary``; ``seats`` texts are read per step."""

    def __init__(self, *, width=2, vocabulary=("<extra_0>", " ки", "<s>"), bos="<s>", context=400, seats=64):
        self.width = width
        self.vocabulary = vocabulary
        self.bos = bos
        self.context = context
        self.seats = seats
        self.caches = False
        self.broken = {}
        self.dies = False
        self.closed = 0
        self.chat = True
        self.asked = []
        self.waiting = deque()

    def render(self, turns):
        if not self.chat:
            raise ConfigError("no chat template", "template")
        return self.bos + "".join(f"[{turn.role}]{turn.content}|" for turn in turns)

    def tokenize(self, text, *, special=False):
        tokens = []
        while text:
            word = next((w for w in self.vocabulary if text.startswith(w)), text[0])
            tokens.append(1000 + self.vocabulary.index(word) if len(word) > 1 else ord(word))
            text = text[len(word) :]
        return ((1000 + self.vocabulary.index(self.bos),) if special and self.bos else ()) + tuple(tokens)

    def continuation(self, text):
        return self.tokenize(text)

    def decode(self, tokens):
        return "".join(self.vocabulary[t - 1000] if t >= 1000 else chr(t) for t in tokens)

    def logits(self, tokens):
        """Return the numbers at the last of ``tokens``."""
        return tuple(math.sin(sum(tokens) * (n + 1)) for n in range(self.width))

    def submit(self, id, tokens, places, *, cached=True):
        self.asked.append((id, self.decode(tokens), cached))
        self.waiting.append((id, tokens, tuple(places), cached))

    def abort(self, ids):
        self.waiting = deque(item for item in self.waiting if item[0] not in ids)

    def step(self):
        if self.dies:
            raise EngineDead("no memory")
        news = []
        for _ in range(min(self.seats, len(self.waiting))):
            name, tokens, places, cached = self.waiting.popleft()
            if name in self.broken:
                news.append(self.broken[name])
                continue
            first = self.found(tokens) if self.caches and cached else 0
            rows = {place: self.logits(tokens[: place + 1]) for place in places if place >= first}
            news.append(Pooled(name, rows))
        return news

    def found(self, tokens):
        """Return how many of ``tokens`` are in the cache."""
        return 0

    def reset(self):
        self.waiting.clear()

    def close(self):
        self.closed += 1


@pytest.fixture(scope="session")
def make_pooler():
    return FakePooler


@pytest.fixture
def pooler():
    return FakePooler()


@pytest.fixture
def drain():
    """Return a function that steps a verifier until so many verdicts are there; by id."""

    def steps(verifier, count, most=50):
        found = {}
        for _ in range(most):
            for verdict in verifier.step():
                assert verdict.id not in found
                found[verdict.id] = verdict
            if len(found) == count:
                return found
        raise AssertionError(f"only {sorted(found)}")

    return steps
