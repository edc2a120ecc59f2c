"""The watch that ends loops: exactly those, cheaply, and in whatever portions tokens come."""

import random
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ttsflow import plugins
from ttsflow.build import build, explain
from ttsflow.errors import ConfigError
from ttsflow.ops import Decision, Trace
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.repetition import Repetition, loop_at_end
from ttsflow.testing import FakeEngine, run_fake
from ttsflow.types import Problem, Sampling


def loops(tokens, watch):
    """Say by trying all of them whether ``tokens`` end in a loop."""
    for size in range(watch.shortest, watch.longest + 1):
        length = max(watch.times * size, watch.least)
        if length <= len(tokens):
            tail = tokens[-length:]
            if tail[size:] == tail[:-size]:
                return True
    return False


@st.composite
def watches(draw):
    shortest = draw(st.integers(1, 4))
    longest = draw(st.integers(shortest, 8))
    return Repetition(shortest, longest, draw(st.integers(2, 4)), draw(st.integers(1, 20)))


@st.composite
def texts(draw):
    """Return tokens of few sorts, mostly with a loop at the end, which may be broken once."""
    start = draw(st.lists(st.integers(0, 2), max_size=30))
    unit = draw(st.lists(st.integers(0, 2), min_size=1, max_size=9))
    tokens = (start + unit * draw(st.integers(0, 8)))[: draw(st.integers(0, 90))]
    if tokens and draw(st.booleans()):
        tokens[draw(st.integers(0, len(tokens) - 1))] = 3
    return tokens


@pytest.mark.slow
@settings(max_examples=500)
@given(watches(), texts())
@example(Repetition(4, 8, 2, 1), [1] * 8)
@example(Repetition(3, 4, 2, 1), [1, 2] * 4)
@example(Repetition(3, 3, 2, 1), [1, 2] * 4)
def test_a_look_finds_exactly_the_loops(watch, tokens):
    period = loop_at_end(tokens[-watch.reach :], watch)
    assert (period is not None) == loops(tokens, watch)
    if period is not None:
        tail = tokens[-max(watch.least, watch.times * period) :]
        assert tail[period:] == tail[:-period]
        assert period <= watch.longest


def play(watch, texts, portions, leap=False):
    """Feed traces in portions; return the length at which each was ended, None for those never ended."""
    observe = watch.begin(len(texts))
    traces = [Trace(str) for _ in texts]
    ends = [None] * len(texts)
    looked = 0
    while True:
        running = [i for i, t in enumerate(texts) if ends[i] is None and len(traces[i].tokens) < len(t)]
        if not running:
            return ends, looked
        many = observe.leap(traces) if leap else portions()
        for i in running:
            done = len(traces[i].tokens)
            traces[i].tokens += texts[i][done : done + many]
        decision = observe(traces, running)
        looked += 1
        for i in decision.abort if decision else ():
            assert ends[i] is None
            assert loops(traces[i].tokens, watch), "it ends nothing but loops"
            ends[i] = len(traces[i].tokens)
        for i in running:
            if ends[i] is not None or len(traces[i].tokens) == len(texts[i]):
                traces[i].candidate = "ended"


@pytest.mark.slow
@given(watches(), st.lists(texts(), min_size=1, max_size=4), st.integers(1, 7))
def test_only_loops_are_ended_and_every_one_at_the_next_look(watch, texts, portion):
    ends, _ = play(watch, texts, lambda: portion)
    for tokens, end in zip(texts, ends, strict=True):
        # Looks are at the first portion from each multiple of the stride on.
        lengths = [*range(portion, len(tokens), portion), len(tokens)]
        looks, due = [], watch.stride
        for length in lengths:
            if length >= due:
                looks.append(length)
                due = (length // watch.stride + 1) * watch.stride
        assert end == next((length for length in looks if loops(tokens[:length], watch)), None)


@pytest.mark.slow
@given(watches(), texts())
def test_a_loop_that_goes_on_is_ended_within_a_stride(watch, start):
    unit = [7] * watch.longest
    unit[0] = 8
    tokens = start + unit * (watch.times + 1) + unit * -(-(watch.least + watch.stride) // watch.longest)
    (end,), _ = play(watch, [tokens], lambda: 1)
    assert end is not None
    first = next(n for n in range(len(tokens) + 1) if n and loops(tokens[:n], watch))
    assert end >= first
    assert end <= max(n for n in range(len(tokens) + 1) if loops(tokens[:n], watch))


@pytest.mark.slow
@given(st.lists(texts(), min_size=1, max_size=4), st.integers(1, 40))
def test_in_virtual_time_the_same_is_ended_with_few_looks(texts, least):
    watch = Repetition(1, 20, 3, least)
    straight, _ = play(watch, texts, lambda: 1)
    leaping, looked = play(watch, texts, None, leap=True)
    assert leaping == straight
    # One at every multiple of the stride, and one where a text ends.
    assert looked <= max(map(len, texts)) // watch.stride + len(texts)


def test_what_has_ended_asks_for_no_more_looks(kit):
    observe = Repetition(longest=4, least=16).begin(2)
    traces = [Trace(str), Trace(str)]
    assert observe.leap(traces) == 1
    for trace in traces:
        trace.candidate = kit.cand(0)
    assert observe.leap(traces) is None
    traces[0].tokens = [1] * 99
    assert observe(traces, [0]) is None


def test_the_reason_names_the_period():
    observe = Repetition(longest=4, times=3, least=12).begin(3)
    traces = [Trace(str) for _ in range(3)]
    traces[0].tokens = [5, 6, 7] * 8
    traces[1].tokens = list(range(24))
    traces[2].tokens = [9] * 24
    reason = "a loop: the same 3 tokens or the same token again and again"
    assert observe(traces, [0, 1, 2]) == Decision(abort=(0, 2), reason=reason)
    traces[1].tokens += [1, 2] * 8
    assert observe(traces, [1]).reason == "a loop: the same 2 tokens again and again"


@pytest.mark.slow
def test_a_token_costs_the_same_however_long_a_trace_is(monkeypatch):
    """Tokens that looks have read, of a text that makes them work hardest, are at most 17 a token."""
    from ttsflow.strategies import repetition

    read = []
    plain = repetition.loop_at_end
    monkeypatch.setattr(repetition, "loop_at_end", lambda t, w: read.append(len(t)) or plain(t, w))
    watch = Repetition()
    tokens = ([1] * 100 + [2]) * 300
    rng = random.Random(0)
    text = [token + 3 * (rng.random() < 0.02) for token in tokens]
    start = time.process_time()
    play(watch, [text], lambda: 1)
    assert sum(read) <= 17 * len(text)
    assert time.process_time() - start < 30


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"shortest": 0}, "shortest"),
        ({"shortest": 9, "longest": 8}, "longest"),
        ({"longest": 10**6}, "longest"),
        ({"times": 1}, "times"),
        ({"times": 10**6}, "times"),
        ({"least": 0}, "least"),
        ({"least": 10**9}, "least"),
    ],
)
def test_settings_without_sense_are_refused(wrong, field):
    with pytest.raises(ConfigError) as caught:
        Repetition(**wrong)
    assert caught.value.path == field


class Looping(FakeEngine):
    """A fake engine whose every second sample says "ab" from its 20th token on."""

    def step(self):
        news = super().step()
        return [item._replace(tokens=self._bent(item)) for item in news]

    def submit(self, request):
        super().submit(request)
        known = getattr(self, "lengths", {})
        self.lengths = {**known, request.id: [0, len(known) % 2]}

    def _bent(self, item):
        length, bent = self.lengths[item.id]
        self.lengths[item.id][0] += len(item.tokens)
        places = range(length, length + len(item.tokens))
        return tuple(97 + p % 2 if bent and p >= 20 else t for p, t in zip(places, item.tokens, strict=True))


def test_in_a_strategy_loops_are_aborted_and_others_answer():
    mapping = {
        "use": "sequence",
        "stages": {
            "sample": {"use": "generate", "n": 8, "watch": {"use": "repetition", "longest": 4, "least": 24}},
            "answer": {"use": "aggregate"},
        },
    }
    registry = plugins.load()
    stage = build("stage", mapping, "strategy", registry)
    assert build("stage", explain(stage, registry), "strategy", registry) == stage
    watch = stage.stages["sample"].watch
    assert watch == Repetition(longest=4, least=24)
    problems = [Problem("3 + 4 = ?", id=str(i), gold="7") for i in range(6)]
    plain = run_fake(GenerateStage(8), problems, engine=FakeEngine(), sampling=Sampling(max_tokens=200))
    ended = run_fake(stage, problems, engine=Looping(), sampling=Sampling(max_tokens=200))
    assert all(result.outcome != "failed" for result in ended.values()), ended
    assert sum(result.usage.aborted for result in plain.values()) == 0
    stopped = [result for result in ended.values() if result.usage.aborted]
    assert stopped
    assert {result.stopped for result in stopped} == {"a loop: the same 2 tokens again and again"}
