"""Strategies as stage trees, and things to run them with."""

import itertools
from collections import Counter
from types import SimpleNamespace

import pytest

from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Each, Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.select import Select
from ttsflow.strategies.until import Agreed, AllFinished
from ttsflow.strategies.verify import Verify
from ttsflow.strategies.watches import FirstFinished
from ttsflow.testing import FakeEngine


def majority(n=16):
    return Sequence({"sample": GenerateStage(n), "vote": Aggregate()})


def ffs(n=16, k=4, refill=0):
    return Sequence(
        {
            "sample": GenerateStage(n, watch=FirstFinished(k, refill)),
            "keep": Select(by="tokens", keep=k, answered=True),
            "vote": Aggregate(),
        }
    )


def self_consistency(n=16, batch=4):
    rounds = Repeat({"sample": GenerateStage(batch, total=n)}, at_most=n, until=Agreed(0.75, at_least=4))
    return Sequence({"rounds": rounds, "vote": Aggregate()})


def scored(how, n=8):
    return Sequence({"sample": GenerateStage(n), "score": Verify(), "answer": Aggregate(how=how)})


def beam(n=8, width=4, depth=6, **extra):
    stages = {
        "step": GenerateStage(n, unit="step"),
        "score": Verify(),
        "keep": Select(into=n, copies=width),
        **extra,
    }
    search = Repeat(stages, at_most=depth, until=AllFinished())
    return Sequence({"search": search, "answer": Aggregate(how="weighted")})


def subtrees(n=4, width=3, depth=5):
    stages = {
        "step": GenerateStage(width, unit="step"),
        "score": Verify(),
        "keep": Select(into=width, copies=width),
    }
    each = Each({"search": Repeat(stages, at_most=depth, until=AllFinished())})
    return Sequence({"roots": GenerateStage(n, unit="step"), "each": each, "vote": Aggregate()})


TREES = SimpleNamespace(
    majority=majority,
    ffs=ffs,
    ffs_refill=lambda: ffs(n=4, k=4, refill=6),
    self_consistency=self_consistency,
    best_of_n=lambda: scored("best"),
    weighted=lambda: scored("weighted"),
    beam=beam,
    subtrees=subtrees,
)


class Watcher:
    """A recorder that keeps every event in memory."""

    enabled = True

    def __init__(self):
        self.events = []

    def event(self, kind, problem, data):
        self.events.append((kind, problem, dict(data)))

    def flush(self):
        pass

    def of(self, kind):
        return [(problem, data) for name, problem, data in self.events if name == kind]

    def samples(self):
        """Return path -> (seed, text, finish) for every candidate of every problem."""
        return {
            (problem, data["path"]): (data["seed"], data["text"], data["finish"])
            for problem, data in self.of("candidate")
        }


class ByArrival(FakeEngine):
    """Seeds by arrival, as an engine does that ignores the seed of a request."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self._arrivals = itertools.count()

    def seed_of(self, request):
        return next(self._arrivals)


class Endless(FakeEngine):
    """Every sample runs to its limit, so that all samples have one length."""

    def decode(self, tokens):
        return "7" * len(tokens)

    def _decode_one(self, sequence):
        sequence.last = ord("7")  # neither after a line break nor after an answer
        sequence.reach = 0
        return super()._decode_one(sequence)


def key(results):
    """Return what must not depend on the schedule."""
    return [
        (name, r.answer, r.outcome, r.correct, r.candidates, r.truncated, r.path_tokens, r.text, r.reason)
        for name, r in sorted(results.items())
    ]


@pytest.fixture(scope="session")
def tools():
    return SimpleNamespace(
        trees=TREES,
        Watcher=Watcher,
        ByArrival=ByArrival,
        Endless=Endless,
        key=key,
        decoded=lambda results: sum(r.usage.decoded for r in results.values()),
        outcomes=lambda results: Counter(r.outcome for r in results.values()),
    )
