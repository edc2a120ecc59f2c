"""The memory of a simulated device that changes hands: caches of another size, and two models in turns."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.costs.hardware import Hardware
from ttsflow.costs.models import shape_of
from ttsflow.costs.roofline import Roofline
from ttsflow.engines.law import Law
from ttsflow.engines.sim import GIB, Sim
from ttsflow.engines.sim_cache import Cache, Node
from ttsflow.errors import ConfigError
from ttsflow.ops import EngineRequest
from ttsflow.tasks.simulated import SimulatedTask
from ttsflow.types import Candidate, Problem, Sampling
from ttsflow.verifiers.simulated import Simulated

MODEL, KV_BYTES = "smollm2-135m", 23040
FAST = Hardware(80, 100, 1000, 10)


def fixed(tokens):
    return Law(least=0, end=1.0, median=tokens, sigma=0.0, longest=tokens)


def sim(blocks, tokens=40, **changes):
    kv = (blocks + 0.5) * 4 * KV_BYTES / GIB
    return Sim(FAST, MODEL, fixed(tokens), kv_gib=kv, block_size=4, **changes)


def request(name, prompt, seed=0):
    return EngineRequest(name, tuple(prompt), Sampling(), seed, 10**6, problem="p")


def drain(engine):
    news = []
    while engine.batch.running or engine.batch.waiting:
        news += engine.step()
    return news


# --- another size -----------------------------------------------------------------------------------------


def test_a_smaller_cache_throws_out_the_least_recently_used():
    cache = Cache(10, 4)
    nodes = [Node(None, 0, 3) for _ in range(3)]
    for node in nodes:
        cache.admit(node, 3)
        cache.leave(node, 0, None, 0)
    cache.resize(7)
    assert (cache.used, cache.evicted) == (7, 2)
    assert [cache.found(node) for node in nodes] == [1, 3, 3]
    cache.resize(20)
    assert (cache.used, cache.free) == (7, 20)


def test_a_cache_never_holds_less_than_what_runs():
    cache = Cache(10, 4)
    cache.admit(Node(None, 0, 3), 5)
    cache.resize(2)
    assert (cache.capacity, cache.free) == (5, 0)


def test_sequences_give_way_to_a_smaller_cache_and_end_all_the_same():
    engine = sim(60, context=48).open()
    plain = sim(60, context=48).open()
    for one in (engine, plain):
        for number in range(4):
            one.submit(request(f"r{number}", [number + 1], number))
        one.leap = 20
        one.step()
        one.step()
    assert engine.batch.running == 4
    engine.resize(12, 9)
    assert engine.batch.running < 4
    assert engine.batch.preempted == 4 - engine.batch.running
    ended = {news.id: news.finish for news in drain(engine)}
    assert ended == {news.id: news.finish for news in drain(plain)} == dict.fromkeys(ended, "stop")
    assert len(ended) == 4
    assert engine.now() > plain.now()


def test_a_sequence_of_the_whole_context_always_fits():
    engine = sim(60, context=44).open()
    engine.resize(1, 1)
    assert engine.batch.cache.capacity == 11
    engine.submit(request("long", [1, 2, 3, 4]))
    [news] = [news for news in drain(engine) if news.finish]
    assert len(news.tokens) == 40
    engine.reset()
    assert engine.batch.cache.capacity == 60
    assert engine.batch.limits.seats == 256


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(1, 80), st.integers(1, 6), st.integers(1, 30)), max_size=8))
def test_whatever_the_sizes_every_request_ends_once(changes):
    engine = sim(40, tokens=30, context=40, seats=5).open()
    for number in range(7):
        engine.submit(request(f"r{number}", [1 + number % 2] * 5, number))
    news = []
    for blocks, seats, leap in changes:
        engine.leap = leap
        news += engine.step()
        engine.resize(blocks, seats)
        cache = engine.batch.cache
        assert cache.used <= cache.capacity
        assert cache.free >= 0
    engine.leap = None
    news += drain(engine)
    ended = [one.id for one in news if one.finish]
    assert sorted(ended) == [f"r{number}" for number in range(7)]
    assert {len(one.tokens) for one in news if one.finish} == {30}


# --- in turns ---------------------------------------------------------------------------------------------


def read_once(moved, *, keep=False, busy=False):
    """Let a verifier read a candidate of 40 tokens behind what the generator has decoded; return both."""
    engine = sim(60).open()
    engine.submit(request("r", range(1, 9)))
    drain(engine)
    part = Simulated(model=MODEL, block_size=4, kv_gib=0.01, prefix_cache=keep, offload=moved)
    verifier = part.open_beside(engine, SimulatedTask())
    if busy:
        engine.submit(request("other", range(1, 9), 1))
    candidate = Candidate((0,), tuple(range(1, 9)), tuple(range(100, 132)), "right 1", tokens_new=32)
    verifier.submit("v", Problem("?", id="p"), candidate)
    return engine, verifier


def test_moving_takes_the_bytes_over_the_link():
    held = 11 * 4 * KV_BYTES
    weights = Roofline(FAST, shape_of(MODEL)).weight_bytes
    times = {}
    for moved in ("none", "kv", "weights"):
        engine, verifier = read_once(moved)
        assert engine.batch.cache.used == 11
        before = engine.now()
        assert [verdict.id for verdict in verifier.step()] == ["v"]
        times[moved] = engine.now() - before
    assert times["kv"] - times["none"] == pytest.approx(2 * held / 10e9)
    assert times["weights"] - times["none"] == pytest.approx((2 * held + 4 * weights) / 10e9)


def test_what_a_verifier_keeps_is_moved_as_well():
    engine, verifier = read_once("kv", keep=True)
    plain, other = read_once("none", keep=True)
    before, others = engine.now(), plain.now()
    verifier.step()
    other.step()
    ours, theirs = 11 * 4 * KV_BYTES, 10 * 4 * KV_BYTES
    # Out and back for the generator; the verifier had nothing before, and has its candidate after.
    expected = (2 * ours + theirs) / 10e9
    assert (engine.now() - before) - (plain.now() - others) == pytest.approx(expected)


def test_a_change_of_turns_waits_until_the_generator_is_done():
    engine, verifier = read_once("kv", busy=True)
    assert verifier.step() == []
    drain(engine)
    assert [verdict.id for verdict in verifier.step()] == ["v"]
    assert [verdict.id for verdict in read_once("none", busy=True)[1].step()] == ["v"]


def test_sizes_that_are_more_than_the_device_are_refused():
    weights = Roofline(FAST, shape_of("qwen2.5-math-7b")).weight_bytes / GIB
    device = Hardware(weights * 2 + 4, 100, 1000)
    engine = Sim(device, "qwen2.5-math-7b", kv_gib=2.0)
    part = {"model": "qwen2.5-math-7b"}
    Simulated(**part, kv_gib=0.9).check_beside(engine)
    with pytest.raises(ConfigError, match=r"set engine\.kv_gib and verifier\.kv_gib") as caught:
        Simulated(**part, kv_gib=2.0).check_beside(engine)
    assert caught.value.path == "memory_share"
    Simulated(**part, kv_gib=2.0, offload="kv").check_beside(engine)
    small = Hardware(weights + 4, 100, 1000)
    engine = Sim(small, "qwen2.5-math-7b", kv_gib=2.0)
    Simulated(**part, kv_gib=2.9, offload="weights").check_beside(engine)
    with pytest.raises(ConfigError, match="at once"):
        Simulated(**part, kv_gib=1.0, offload="kv").check_beside(engine)
    with pytest.raises(ConfigError, match="hold no block"):
        Simulated(**part, kv_gib=1e-9).check_beside(Sim(device, "qwen2.5-math-7b", kv_gib=2.0))
    with pytest.raises(ConfigError, match="between 0 and a million"):
        Simulated(**part, kv_gib=-1.0)
