"""The simulated engine: what it plays, who runs when, how long it takes, and the verifier beside it."""

import itertools
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.build import build
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose, strategy
from ttsflow.costs.hardware import Efficiency, Hardware
from ttsflow.costs.models import shape_of
from ttsflow.costs.roofline import Reading, Roofline, Span
from ttsflow.engines.law import Law, LawPaths
from ttsflow.engines.recorded_samples import RecordedSamples
from ttsflow.engines.replay import Replay
from ttsflow.engines.sim import GIB, Sim
from ttsflow.engines.sim_device import Device
from ttsflow.errors import ConfigError, DataError
from ttsflow.ops import EngineRequest
from ttsflow.plugins import load
from ttsflow.protocols import Engine, EnginePart, Leaping
from ttsflow.run import run_config
from ttsflow.tasks.recorded import Recorded
from ttsflow.tasks.simulated import SimulatedTask
from ttsflow.testing import run_fake
from ttsflow.testing.contracts import EngineContract
from ttsflow.types import Candidate, Sampling
from ttsflow.verifiers.simulated import Simulated

MODEL, KV_BYTES = "smollm2-135m", 23040
FAST = Hardware(80, 100, 1000)
SHORT = Law(median=3, sigma=0.5, longest=10, end=0.2)

_ids = itertools.count()


def sim(*, blocks=None, block=16, hardware=FAST, law=SHORT, **settings):
    """Return the settings of a small engine, its KV cache of so many blocks."""
    # Half a block more, so that rounding cannot take one away.
    kv = None if blocks is None else (blocks + 0.5) * block * KV_BYTES / GIB
    return Sim(hardware, MODEL, settings.pop("paths", law), kv_gib=kv, block_size=block, **settings)


def fixed(tokens):
    """Return a law under which every trajectory has so many tokens."""
    return Law(least=0, end=1.0, median=tokens, sigma=0.0, longest=max(tokens, 1))


def request(prompt, *, seed=0, max_tokens=10**6, **changes):
    fields = {"id": f"r{next(_ids)}", "sampling": Sampling(), "problem": "p"}
    return EngineRequest(prompt=tuple(prompt), seed=seed, max_tokens=max_tokens, **{**fields, **changes})


def drain(engine):
    """Step until nothing is left; return (iterations, news) of every step."""
    steps = []
    while engine.batch.running or engine.batch.waiting:
        steps.append((engine.step(), engine.advanced))
    return [(advanced, news) for news, advanced in steps]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"seats": 1},
        {"blocks": 12, "block": 4, "seats": 4},
        {"prefix_cache": False, "batch_tokens": 2, "block": 1},
        {"chunked": False, "batch_tokens": 3, "offload_gib": 1.0, "blocks": 12, "block": 4},
    ],
    ids=["plain", "one-seat", "little-memory", "no-cache", "unchunked"],
)
class TestContract(EngineContract):
    @pytest.fixture
    def engine(self, settings):
        engine = sim(**{"context": 200, **settings}).open()
        yield engine
        engine.close()
        engine.close()


def test_it_keeps_the_protocols():
    assert isinstance(sim(), EnginePart)
    assert isinstance(sim().open(), Engine)
    assert isinstance(sim().open(), Leaping)


# --- who runs when, by hand -------------------------------------------------------------------------------


def test_it_jumps_from_event_to_event_and_the_first_token_comes_with_the_prompt():
    engine = sim(law=fixed(30)).open()
    for seed, most in enumerate((99, 10, 10)):
        engine.submit(request(range(1, 9), seed=seed, max_tokens=most))
    steps = drain(engine)
    assert [advanced for advanced, _ in steps] == [1, 9, 20]
    assert [[len(news.tokens) for news in items] for _, items in steps] == [[], [10, 10], [30]]


def test_a_leap_bounds_the_jump_and_streams_report_what_they_grew():
    engine = sim(law=fixed(9)).open()
    quiet, loud = request((1,), seed=1), request((1,), seed=2, stream=True)
    engine.submit(quiet)
    engine.submit(loud)
    engine.leap = 3
    seen = [
        (advanced, [(news.id == loud.id, len(news.tokens), news.finish) for news in items])
        for advanced, items in drain(engine)
    ]
    assert seen == [
        (1, [(True, 1, None)]),
        (3, [(True, 3, None)]),
        (3, [(True, 3, None)]),
        (2, [(False, 9, "stop"), (True, 2, "stop")]),
    ]


def order_of_ends(engine, requests):
    for one in requests:
        engine.submit(one)
    names = [one.id for one in requests]
    return [[names.index(news.id) for news in items] for _, items in drain(engine) if items]


def test_seats_go_by_priority_then_arrival():
    requests = [request((1,), seed=n, priority=p) for n, p in enumerate([1, 1, 0, 1, 0])]
    assert order_of_ends(sim(law=fixed(5), seats=2).open(), requests) == [[2, 4], [0, 1], [3]]


def test_a_freed_seat_is_taken_at_once():
    engine = sim(law=fixed(20), seats=2).open()
    requests = [request((1,), seed=n, max_tokens=most) for n, most in enumerate((4, 10, 10))]
    for one in requests:
        engine.submit(one)
    assert [advanced for advanced, _ in drain(engine)] == [1, 3, 1, 5, 4]


@pytest.mark.parametrize(("chunked", "reads"), [(True, [8, 8, 4]), (False, [20])])
def test_a_long_prompt_is_read_in_chunks_or_whole(chunked, reads):
    engine = sim(batch_tokens=8, chunked=chunked, law=fixed(3)).open()
    engine.submit(request(range(1, 21)))
    before = 0
    for tokens in reads:
        engine.step()
        assert engine.batch.read - before == tokens
        before = engine.batch.read
    assert [advanced for advanced, _ in drain(engine)] == [2]


def test_what_decodes_comes_before_what_is_read():
    engine = sim(batch_tokens=8, law=fixed(30), prefix_cache=False).open()
    for seed in range(3):
        engine.submit(request((1, 2), seed=seed, max_tokens=6))
    engine.step()
    engine.submit(request(range(1, 17), seed=9, max_tokens=6))
    reads = []
    while engine.batch.running or engine.batch.waiting:
        before = engine.batch.read
        engine.step()
        reads.append(engine.batch.read - before)
    # Three decode, so that five tokens are left for the prompt.
    assert reads[:5] == [5, 5, 5, 1, 0]


def test_a_prompt_that_is_not_cut_waits_for_an_iteration_of_its_own():
    engine = sim(batch_tokens=8, law=fixed(30), chunked=False, prefix_cache=False).open()
    first, long = request((1,), seed=1, max_tokens=5), request(range(1, 21), seed=2, max_tokens=2)
    assert order_of_ends(engine, [first, long]) == [[0], [1]]
    assert engine.batch.read == 21


def test_aborted_requests_free_their_seats_and_stay_silent():
    engine = sim(law=fixed(9), seats=1).open()
    first, second, third = (request((1,), seed=n, stream=True) for n in range(3))
    for one in (first, second, third):
        engine.submit(one)
    engine.leap = 2
    assert [news.id for news in engine.step()] == [first.id]
    engine.abort([first.id, second.id, "unknown"])
    assert (engine.batch.running, engine.batch.waiting) == (0, 1)
    engine.leap = None
    ids = [news.id for _, items in drain(engine) for news in items]
    assert set(ids) == {third.id}
    assert engine.step() == []
    assert engine.advanced == 0


def test_an_id_in_use_is_refused_and_one_that_ended_is_not():
    engine = sim().open()
    engine.submit(request((1,), id="a"))
    with pytest.raises(ValueError, match="in use"):
        engine.submit(request((1,), id="a"))
    engine.abort(["a"])
    engine.submit(request((1,), id="a"))
    drain(engine)
    engine.submit(request((1,), id="a"))
    engine.reset()
    assert engine.step() == []
    assert (engine.now(), engine.batch.read) == (0, 0)


def test_the_context_is_what_the_cache_holds_at_most():
    assert sim().open().context == shape_of(MODEL).context
    assert sim(context=50).open().context == 50
    engine = sim(blocks=3, block=4, law=fixed(100)).open()
    assert engine.context == 12
    engine.submit(request((1, 2, 3)))
    [news] = [news for _, items in drain(engine) for news in items]
    assert (len(news.tokens), news.finish) == (9, "length")


# --- how long it takes, by hand ---------------------------------------------------------------------------


def spans(*steps, hardware=FAST):
    """Add up iterations: (decoding, tokens looked at, chunks read as (tokens, before, ended))."""
    roofline = Roofline(hardware, shape_of(MODEL))
    total = 0.0
    for decoding, context, *chunks in steps:
        pairs = sum(size * before + size * (size + 1) // 2 for size, before, _ in chunks)
        reading = Reading(
            sum(size for size, _, _ in chunks),
            pairs,
            sum(before for _, before, _ in chunks),
            len(chunks),
            sum(ended for _, _, ended in chunks),
        )
        total += roofline.span(decoding, context, 1, reading).seconds
    return total


def test_one_request_takes_its_reading_and_its_steps():
    engine = sim(batch_tokens=8, law=fixed(4)).open()
    engine.submit(request(range(1, 13)))
    drain(engine)
    assert engine.now() == pytest.approx(
        spans((0, 0, (8, 0, 0)), (0, 0, (4, 8, 1)), (1, 13), (1, 14), (1, 15)), rel=1e-12
    )


def test_what_is_cached_is_looked_at_and_not_computed():
    engine = sim(law=fixed(1)).open()
    engine.submit(request(range(1, 21), seed=1))
    drain(engine)
    before = engine.now()
    engine.submit(request(range(1, 21), seed=2))
    drain(engine)
    assert engine.now() - before == pytest.approx(spans((0, 0, (4, 16, 1))), rel=1e-12)


def two_that_do_not_fit(**settings):
    """Both decode 8 tokens behind 4; at token 5 each needs a third block, and there are five."""
    engine = sim(**{"blocks": 5, "block": 4, "law": fixed(8), "prefix_cache": False, **settings}).open()
    assert order_of_ends(engine, [request(range(4 * n, 4 * n + 4), seed=n) for n in (1, 2)]) == [[0], [1]]
    assert (engine.batch.preempted, engine.batch.decoded) == (1, 16)
    return engine


TOGETHER = [(0, 0, (4, 0, 1), (4, 0, 1)), (2, 10), (2, 12), (2, 14), (2, 16)]
FIRST_ALONE = [(1, 9), (1, 10), (1, 11)]


def test_the_last_one_gives_way_and_reads_its_tokens_again():
    engine = two_that_do_not_fit()
    again = [(0, 0, (9, 0, 1)), (1, 10), (1, 11)]
    assert engine.now() == pytest.approx(spans(*TOGETHER, *FIRST_ALONE, *again), rel=1e-12)
    assert engine.batch.read == 4 + 4 + 9
    assert engine.batch.swapped == 0


def test_or_has_them_kept_on_the_host():
    engine = two_that_do_not_fit(offload_gib=1.0)
    back = [(0, 0, (1, 8, 1)), (1, 10), (1, 11)]
    moved = (9 + 8) * KV_BYTES / (FAST.link * 1e9)
    assert engine.batch.swapped == pytest.approx(moved)
    assert engine.now() == pytest.approx(spans(*TOGETHER, *FIRST_ALONE, *back) + moved, rel=1e-12)
    assert engine.batch.read == 4 + 4 + 1


def test_the_host_has_room_again_for_the_next_one():
    engine = two_that_do_not_fit(offload_gib=9.5 * KV_BYTES / GIB)
    swapped = engine.batch.swapped
    assert order_of_ends(engine, [request(range(4 * n, 4 * n + 4), seed=n) for n in (3, 4)]) == [[0], [1]]
    assert engine.batch.swapped == pytest.approx(2 * swapped)


def test_or_finds_most_of_them_in_the_prefix_cache():
    engine = two_that_do_not_fit(prefix_cache=True)
    # Two whole blocks of the four that it had are still there.
    assert engine.batch.read == 4 + 4 + 1
    assert engine.batch.cache.evicted == 0


def test_nobody_starts_in_the_iteration_in_which_another_gives_way():
    engine = sim(blocks=5, block=4, law=fixed(8), prefix_cache=False).open()
    for n in (1, 2):
        engine.submit(request(range(4 * n, 4 * n + 4), seed=n, priority=1))
    engine.leap = 1
    while engine.batch.decoded < 2 * 5:
        engine.step()
    engine.submit(request((99,), seed=3, max_tokens=1))
    assert (engine.step(), engine.batch.preempted, engine.batch.read) == ([], 1, 8)
    [news] = engine.step()
    assert (len(news.tokens), engine.batch.read) == (1, 9)


def test_a_host_that_is_too_small_keeps_nothing():
    engine = two_that_do_not_fit(offload_gib=8.5 * KV_BYTES / GIB)
    assert (engine.batch.swapped, engine.batch.read) == (0, 4 + 4 + 9)


def test_the_lowest_priority_gives_way_first():
    engine = sim(blocks=5, block=4, law=fixed(8), prefix_cache=False).open()
    requests = [request(range(4 * n, 4 * n + 4), seed=n, priority=2 - n) for n in (1, 2)]
    assert order_of_ends(engine, requests) == [[1], [0]]
    assert engine.batch.preempted == 1


def test_one_that_gave_way_is_not_ended_at_its_old_end():
    """Regression: its first end was still in the queue of ends when it decoded again."""
    engine = sim(blocks=12, block=4, law=fixed(40), prefix_cache=False).open()
    requests = [request((n,), seed=n, max_tokens=most) for n, most in ((1, 26), (2, 40))]
    for one in requests:
        engine.submit(one)
    sizes = {news.id: len(news.tokens) for _, items in drain(engine) for news in items}
    assert engine.batch.preempted == 1
    assert [sizes[one.id] for one in requests] == [26, 40]
    assert engine.batch.decoded == 66


# --- at random --------------------------------------------------------------------------------------------

ENGINES = st.fixed_dictionaries(
    {
        "seats": st.integers(1, 6),
        "blocks": st.integers(12, 50),
        "block": st.integers(1, 8),
        "batch_tokens": st.integers(1, 40),
        "chunked": st.booleans(),
        "prefix_cache": st.booleans(),
        "offload_gib": st.sampled_from([0.0, 30 * KV_BYTES / GIB, 1.0]),
        "hardware": st.sampled_from([FAST, Hardware(80, 1e-3, 1000), Hardware(80, 100, 0.5)]),
        "law": st.sampled_from([SHORT, Law(least=2, end=0.3, median=8, sigma=0.6, longest=30)]),
    }
)
REQUESTS = st.fixed_dictionaries(
    {
        "at": st.integers(0, 12),
        "stem": st.integers(0, 2),
        "size": st.integers(0, 40),
        "parent": st.none() | st.integers(0, 9),
        "most": st.integers(1, 60),
        "priority": st.integers(0, 2),
        "stream": st.booleans(),
        "abort": st.none() | st.integers(1, 10),
    }
)
STEMS = [tuple(range(1, 41)), (*range(1, 15), *range(60, 90)), tuple(range(100, 141))]


def used(cache):
    return (cache.pinned, cache.private, cache.cached)


class Played:
    """Plays a plan on an engine, and holds every step to what must be so."""

    def __init__(self, part, plan, leap=None):
        self.engine, self.leap = part.open(), leap
        self.paths = LawPaths(part.paths)
        self.live, self.ended, self.log = {}, {}, []
        self.decoded = 0
        self.plan = sorted(enumerate(plan), key=lambda item: (item[1]["at"], item[0]))
        self.run()

    def run(self):
        engine, step = self.engine, 0
        while self.plan or self.live:
            if not self.live and self.plan[0][1]["at"] > step:
                step = self.plan[0][1]["at"]
            while self.plan and self.plan[0][1]["at"] <= step:
                self.submit(*self.plan.pop(0), step)
            for name in [name for name, one in self.live.items() if one.abort == step]:
                self.abort(name)
            engine.leap = self.leap
            self.step()
            step += 1
            assert step < 5000, "it hangs"
        assert (engine.batch.running, engine.batch.waiting) == (0, 0)
        assert used(engine.batch.cache)[:2] == (0, 0)
        assert engine.batch.decoded == self.decoded
        assert engine.step() == []

    def submit(self, number, wish, step):
        engine, whole = self.engine, list(self.ended.values())
        prompt = STEMS[wish["stem"]][: wish["size"]]
        if wish["parent"] is not None and whole:
            prompt = whole[wish["parent"] % len(whole)]
        if len(prompt) >= engine.context:
            return
        asked = request(
            prompt,
            seed=number,
            max_tokens=wish["most"],
            priority=wish["priority"],
            stream=wish["stream"],
            id=f"n{number}",
        )
        play = self.paths.play(asked, engine.context)
        told = play.news(play.length, ended=True)
        abort = wish["abort"] and step + wish["abort"]
        self.live[asked.id] = SimpleNamespace(asked=asked, told=told, tokens=(), abort=abort)
        engine.submit(asked)

    def abort(self, name):
        engine = self.engine
        self.decoded += engine.batch.done(engine._known[name].sequence)
        del self.live[name]
        engine.abort([name])
        self.look()

    def step(self):
        engine, before, at = self.engine, self.engine.now(), self.engine.batch.iteration
        news = engine.step()
        assert engine.now() >= before
        assert engine.advanced == engine.batch.iteration - at
        assert not self.live or (engine.advanced >= 1 and engine.now() > before)
        assert self.leap is None or engine.advanced <= self.leap
        for item in news:
            one = self.live[item.id]
            one.tokens += item.tokens
            assert one.tokens == one.told.tokens[: len(one.tokens)]
            if item.finish is None:
                assert one.asked.stream
                assert item.tokens
                continue
            assert (one.tokens, item.finish) == (one.told.tokens, one.told.finish)
            assert item.cached % engine.batch.block == 0
            assert 0 <= item.cached <= max(0, len(one.asked.prompt) - 1)
            one.cached, one.seconds = item.cached, engine.now()
            self.decoded += len(one.tokens)
            self.ended[item.id] = one.asked.prompt + one.tokens
            self.log.append(self.live.pop(item.id))
        assert len({item.id for item in news}) == len(news)
        self.look()

    def look(self):
        cache = self.engine.batch.cache
        assert min(used(cache)) >= 0
        assert sum(used(cache)) <= cache.capacity
        assert self.engine.batch.running <= self.engine.capacity
        if not cache.keep:
            assert (cache.pinned, cache.cached, cache.evicted) == (0, 0, 0)

    def floor(self):
        """Return the least seconds for what was decoded and read, whatever the order."""
        batch, shape = self.engine.batch, self.engine.batch.roofline.model
        machine = self.engine.device.hardware
        steps = [len(one.asked.prompt) + done for one in self.log for done in range(1, len(one.tokens))]
        sampled = sum(len(one.tokens) for one in self.log)
        # One that gave way reads its last token again instead of decoding behind it.
        fed = batch.read + len(steps) - batch.preempted
        flops = 2 * shape.layer_parameters * fed + 2 * shape.output_parameters * sampled
        flops += 4 * shape.layers * shape.heads * shape.head * sum(steps)
        moved = 2 * (shape.layer_parameters + shape.output_parameters) * batch.iteration
        moved += KV_BYTES * sum(steps)
        return max(flops / (machine.tflops * 1e12), moved / (machine.bandwidth * 1e9))

    def seen(self):
        batch = self.engine.batch
        counts = (batch.iteration, batch.decoded, batch.read, batch.preempted, batch.cache.evicted)
        return counts, [(one.asked.id, one.cached, one.tokens) for one in self.log]


@pytest.mark.slow
@settings(max_examples=80)
@given(engine=ENGINES, plan=st.lists(REQUESTS, min_size=1, max_size=14), leap=st.none() | st.integers(1, 9))
def test_nothing_is_lost_nothing_hangs_and_nothing_is_faster_than_the_floor(engine, plan, leap):
    part = sim(**engine)
    played = Played(part, plan, leap)
    batch = played.engine.batch
    assert played.engine.now() >= played.floor() * (1 - 1e-9)
    if not batch.preempted and not any(wish["abort"] for wish in plan):
        # Every token of a prompt is computed once, but for those that were found.
        assert batch.read == sum(max(1, len(one.asked.prompt)) - one.cached for one in played.log)
    # To the bit the same once more.
    again = Played(part, plan, leap)
    assert again.seen() == played.seen()
    assert [one.seconds for one in again.log] == [one.seconds for one in played.log]


@pytest.mark.slow
@settings(max_examples=40)
@given(engine=ENGINES, plan=st.lists(REQUESTS, min_size=1, max_size=10), leap=st.none() | st.integers(2, 9))
def test_a_leap_takes_as_long_as_its_iterations_one_by_one(engine, plan, leap):
    # What depends on when it is asked is left out: all is there from the beginning, and nobody is aborted.
    plan = [{**wish, "at": 0, "abort": None, "parent": None} for wish in plan]
    part = sim(**engine)
    single, leaps = Played(part, plan, 1), Played(part, plan, leap)
    assert leaps.seen() == single.seen()
    for one, other in zip(leaps.log, single.log, strict=True):
        assert one.seconds == pytest.approx(other.seconds, rel=1e-9)


CROWD = [
    {"at": n, "stem": n % 2, "size": 12, "parent": n if n > 9 else None, "most": 60, "priority": n % 3}
    | {"stream": False, "abort": 7 if n == 5 else None}
    for n in range(14)
]


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("offload", [0.0, 1.0])
def test_the_properties_above_have_seen_full_memory(keep, offload):
    law = Law(least=2, end=0.3, median=8, sigma=0.6, longest=30)
    part = sim(blocks=16, block=4, seats=6, law=law, prefix_cache=keep, offload_gib=offload, batch_tokens=16)
    batch = Played(part, CROWD).engine.batch
    assert batch.preempted > 3
    assert (batch.cache.evicted > 10) == keep
    assert (batch.swapped > 0) == (offload > 0)


def test_the_floor_is_reached_where_there_is_one_phase_and_nothing_else():
    """Decoding behind an empty prompt, bound by weights: bytes / bandwidth, and not a moment more."""
    engine = sim(hardware=Hardware(80, 1e6, 1e-3), law=fixed(1)).open()
    engine.submit(request((1,)))
    drain(engine)
    shape = shape_of(MODEL)
    weights = 2 * (shape.layer_parameters + shape.output_parameters)
    assert engine.now() == pytest.approx((weights + KV_BYTES) / 1e6)


def test_factors_and_overheads_only_add():
    def seconds(efficiency):
        engine = sim(hardware=replace(FAST, efficiency=efficiency), batch_tokens=8).open()
        for seed in range(5):
            engine.submit(request(range(1, 13), seed=seed))
        drain(engine)
        return engine.now(), engine.batch.iteration

    (floor, count), (launched, same) = seconds(Efficiency()), seconds(Efficiency(launch=0.5))
    assert count == same
    assert launched == pytest.approx(floor + 0.5 * count)
    assert seconds(Efficiency(0.5, 0.5, 0.5))[0] == pytest.approx(2 * floor)


def test_two_that_run_at_once_slow_each_other_down_where_they_want_too_much():
    device = Device(FAST, 0.5)
    device.background = Span(2.0, compute=0.8, memory=0.1)
    device.work(Span(1.0, compute=0.7, memory=0.2))
    assert (device.clock, device.background.seconds) == (1.5, 1.0)
    # The rest of it runs alone.
    device.work(Span(3.0, compute=0.2, memory=0.9))
    assert (device.clock, device.background.seconds) == (1.5 + 1.0 + 2.0, 0.0)
    device.background = Span(2.0, compute=0.1, memory=0.9)
    device.work(Span(1.0, compute=0.2, memory=0.9))
    device.wait()
    assert device.clock == pytest.approx(4.5 + 1.8 + 1.0)
    device.reset()
    assert (device.clock, device.background.seconds, device.busy) == (0.0, 0.0, False)


# --- the verifier on the same device ----------------------------------------------------------------------

READER = "skywork-prm-1.5b"


def beside(**settings):
    engine = sim(law=fixed(200), memory_share=0.4).open()
    verifier = Simulated(model=READER, **settings).open_beside(engine, SimulatedTask())
    return engine, verifier


def candidate(path, prompt, tokens, new=None):
    return Candidate(path, tuple(prompt), tuple(tokens), "right 1\n\n", "step", tokens_new=new or len(tokens))


def reading(*chunks, before=0):
    tokens = sum(chunks)
    pairs = sum(size * before + size * (size + 1) // 2 for size in chunks)
    return Reading(tokens, pairs, before * len(chunks), len(chunks), len(chunks))


def reads(*chunks, before=0):
    return Roofline(FAST, shape_of(READER)).span(0, 0, 1, reading(*chunks, before=before))


PROBLEM = SimulatedTask().problems()[0]
FAR = 1 << 40


def test_in_turns_the_verifier_reads_all_that_waits_before_anyone_goes_on():
    engine, verifier = beside()
    engine.submit(request((1, 2, 3)))
    engine.step()
    before = engine.now()
    for name, size in (("a", 20), ("b", 30)):
        verifier.submit(name, PROBLEM, candidate((0,), (1, 2, 3), range(FAR + size, FAR + 2 * size)))
    verdicts = verifier.step()
    assert {(v.id, len(v.scores)) for v in verdicts} == {("a", 1), ("b", 1)}
    assert engine.now() - before == pytest.approx(reads(23, 33).seconds, rel=1e-12)
    assert verifier.step() == []
    assert engine.now() - before == pytest.approx(reads(23, 33).seconds, rel=1e-12)


@pytest.mark.parametrize("cached", [True, False])
def test_a_verifier_reads_a_candidate_whole_or_what_its_cache_lacks(cached):
    engine, verifier = beside(prefix_cache=cached)
    prompt, tokens = range(1, 41), range(FAR, FAR + 60)
    verifier.submit("a", PROBLEM, candidate((0,), prompt, tokens))
    verifier.step()
    before = engine.now()
    assert before == pytest.approx(reads(100).seconds)
    grown = (*tokens, *range(2 * FAR, 2 * FAR + 20))
    verifier.submit("b", PROBLEM, candidate((0, 0), prompt, grown, 20))
    verifier.step()
    # 96 of 100 tokens are whole blocks.
    expected = reads(24, before=96) if cached else reads(120)
    assert engine.now() - before == pytest.approx(expected.seconds, rel=1e-12)


def test_together_it_reads_beside_the_generator():
    engine, verifier = beside(together=True)
    engine.submit(request((1, 2, 3)))
    engine.step()
    engine.leap = 1
    before = engine.now()
    verifier.submit("a", PROBLEM, candidate((0,), (1, 2, 3), range(FAR, FAR + 4000)))
    steps = 0
    while not (verdicts := verifier.step()):
        assert engine.now() == before or steps
        engine.step()
        steps += 1
        if steps == 2:
            # What comes meanwhile waits for the next batch.
            verifier.submit("b", PROBLEM, candidate((1,), (1, 2, 3), range(2 * FAR, 2 * FAR + 9)))
    assert [v.id for v in verdicts] == ["a"]
    assert steps > 5
    alone = reads(4003)
    roofline = engine.batch.roofline
    own = math.fsum(roofline.span(1, 4 + n).seconds for n in range(steps))
    # Neither is faster than alone, and together they take no longer than one after the other.
    assert max(own, alone.seconds) <= engine.now() - before <= own + alone.seconds
    assert engine.now() - before > own * 1.01
    while not (verdicts := verifier.step()):
        engine.step()
    assert [v.id for v in verdicts] == ["b"]


def together_with(sizes, *, generated=200, **settings):
    """Read candidates of these sizes beside a generator; return engine and verifier when all is done."""
    engine = sim(law=fixed(generated), memory_share=0.4).open()
    part = Simulated(model=READER, together=True, **settings)
    verifier = part.open_beside(engine, SimulatedTask())
    engine.submit(request((1, 2, 3)))
    engine.step()
    for number, size in enumerate(sizes):
        first = FAR * (number + 1)
        verifier.submit(f"v{number}", PROBLEM, candidate((number,), (), range(first, first + size)))
    waiting = len(sizes)
    while waiting or engine.batch.running:
        waiting -= len(verifier.step())
        engine.step()
    return engine, verifier


def busy(engine, verifier):
    """Return the seconds that both models have kept compute and memory busy."""
    devices = engine.device, verifier._reader._own
    return sum(d.compute for d in devices), sum(d.memory for d in devices)


@pytest.mark.parametrize("generated", [200, 4000])
def test_many_short_and_a_long_candidate_take_as_long_in_either_order(generated):
    """Regression: the whole batch took the shares of its last iteration, and was faster than the roofline."""
    clocks = []
    for sizes in ([10] * 60 + [6000], [6000] + [10] * 60):
        engine, verifier = together_with(sizes, generated=generated, seats=1)
        assert max(busy(engine, verifier)) <= engine.now() * (1 + 1e-9)
        clocks.append(engine.now())
    assert clocks[0] == pytest.approx(clocks[1], rel=0.01)


@pytest.mark.slow
@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=12),
    generated=st.integers(2, 600),
    seats=st.integers(1, 8),
    batch_tokens=st.integers(8, 4000),
)
def test_two_models_at_once_are_no_faster_than_what_they_need_together(sizes, generated, seats, batch_tokens):
    engine, verifier = together_with(sizes, generated=generated, seats=seats, batch_tokens=batch_tokens)
    assert max(busy(engine, verifier)) <= engine.now() * (1 + 1e-9)
    alone = verifier._reader._own.clock
    assert engine.now() >= alone * (1 - 1e-9)


def test_while_something_is_moved_to_the_host_it_keeps_nothing_busy():
    """Regression: the shares of the iteration counted for the time of the transfer as well."""
    engine = two_that_do_not_fit(offload_gib=1.0)
    without = two_that_do_not_fit(offload_gib=1.0, hardware=replace(FAST, link=1e9))
    assert engine.batch.swapped > 1e-5 > without.batch.swapped
    assert engine.device.memory == pytest.approx(without.device.memory, rel=1e-9)
    assert engine.device.compute == pytest.approx(without.device.compute, rel=1e-9)


def test_a_jump_ends_where_the_verifier_has_read():
    engine, verifier = beside(together=True)
    engine.submit(request((1, 2, 3)))
    engine.step()
    before = engine.now()
    verifier.submit("a", PROBLEM, candidate((0,), (1, 2, 3), range(FAR, FAR + 800)))
    steps = 0
    while not verifier.step():
        engine.step()
        steps += 1
    assert steps > 1
    assert engine.batch.running == 1
    # At worst all of it was passed at half the rate, and an iteration more.
    iteration = engine.batch.roofline.span(1, 300).seconds
    assert engine.now() - before < 2 * reads(803).seconds + 2 * iteration


def test_together_beside_an_engine_that_rests_it_takes_its_own_time():
    engine, verifier = beside(together=True)
    verifier.submit("a", PROBLEM, candidate((0,), (1, 2, 3), range(FAR, FAR + 97)))
    assert verifier.step() == []
    assert engine.now() == 0
    assert [v.id for v in verifier.step()] == ["a"]
    assert engine.now() == pytest.approx(reads(100).seconds)


def test_an_engine_whose_last_request_was_aborted_rests():
    """Regression: it counted as busy, so the verifier beside it waited for a step that nobody made."""
    engine, verifier = beside(together=True)
    engine.submit(request((1, 2, 3), id="a"))
    engine.step()
    verifier.submit("v", PROBLEM, candidate((0,), (1, 2, 3), range(FAR, FAR + 97)))
    assert verifier.step() == []
    engine.abort(["a"])
    assert [v.id for v in verifier.step()] == ["v"]


def test_an_engine_that_was_asked_something_is_busy_before_its_first_step():
    engine, verifier = beside(together=True)
    verifier.submit("v", PROBLEM, candidate((0,), (1, 2, 3), range(FAR, FAR + 97)))
    verifier.step()
    engine.submit(request((1, 2, 3)))
    assert verifier.step() == []
    assert engine.now() == 0


@pytest.mark.parametrize(("prompt", "shared"), [((0,) * 64, False), (tuple(range(1, 65)), True)])
def test_prompts_of_which_only_the_length_is_known_share_nothing_between_problems(prompt, shared):
    """Regression: recorded prompts are all zeros, so that those of equal length were taken for one."""
    engine, verifier = beside(prefix_cache=True)
    before = 0.0
    for number, problem in enumerate(SimulatedTask().problems()[:2]):
        first = FAR * (number + 1)
        verifier.submit(problem.id, problem, candidate((0,), prompt, range(first, first + 32)))
        verifier.step()
        found = 64 if shared and number else 0
        expected = reads(96 - found, before=found).seconds
        assert engine.now() - before == pytest.approx(expected, rel=1e-9)
        before = engine.now()


def test_a_token_is_not_taken_for_a_prompt_whose_hash_it_is():
    engine, verifier = beside(prefix_cache=True)
    prompt = tuple(range(1, 65))
    first = (*range(FAR, FAR + 95), hash(prompt))
    grown = (*first, *range(2 * FAR, 2 * FAR + 32))
    for number, (tokens, new, found) in enumerate((((), 0, 0), (first, 96, 64), (grown, 32, 160))):
        before = engine.now()
        verifier.submit(f"v{number}", PROBLEM, candidate((0,), prompt, tokens, new))
        verifier.step()
        read = 64 + len(tokens) - found
        assert engine.now() - before == pytest.approx(reads(read, before=found).seconds, rel=1e-9)


@pytest.mark.parametrize("together", [True, False])
def test_cancelled_candidates_are_silent(together):
    engine, verifier = beside(together=together)
    for name in "abc":
        verifier.submit(name, PROBLEM, candidate((0,), (1,), range(FAR, FAR + 9)))
    verifier.cancel(["a", "unknown"])
    if together:
        verifier.step()
        verifier.cancel(["b"])
        assert [v.id for v in verifier.step()] == ["c"]
    else:
        assert [v.id for v in verifier.step()] == ["b", "c"]
    verifier.submit("d", PROBLEM, candidate((0,), (1,), range(FAR, FAR + 9)))
    verifier.close()
    assert engine.now() > 0


def test_what_the_verifier_cannot_hold_gets_a_reason():
    shape = shape_of(READER)
    share = (shape.parameters * 2 / GIB + 0.5 + 2.5 * 16 * shape.kv_bytes(16) / GIB) / 80
    _, verifier = beside(memory_share=share)
    verifier.submit("a", PROBLEM, candidate((0,), (1,), range(FAR, FAR + 32)))
    verifier.submit("b", PROBLEM, candidate((1,), (1,), range(FAR, FAR + 31)))
    verdicts = {v.id: v for v in verifier.step()}
    assert verdicts["a"].scores == ()
    assert "33 tokens are more than the 32 that the verifier's cache holds" in verdicts["a"].reason
    assert (len(verdicts["b"].scores), verdicts["b"].reason) == (1, "")


# --- with the driver --------------------------------------------------------------------------------------

STRATEGIES = {
    "majority": {"n": 8},
    "ffs": {"n": 8, "k": 2},
    "beam_search": {"n": 8, "width": 2},
    "dvts": {"n": 8, "width": 2},
    "self_consistency": {"n": 8, "batch": 3},
}
SMALL = Law(least=2, end=0.5, median=5, sigma=0.5, longest=16, right=0.7)
TASK = SimulatedTask(size=6, prompt_tokens=22)
LIMITS = Sampling(max_tokens=4096, max_step_tokens=2048)
TIGHT = {"blocks": 40, "block": 4, "seats": 8}

#: Settings of the engine, of the verifier, and problems in flight.
VARIANTS = [
    ({"seats": 1, "batch_tokens": 7}, {"model": READER}, 1),
    ({**TIGHT, "batch_tokens": 16}, {"model": READER, "prefix_cache": True}, 6),
    ({**TIGHT, "offload_gib": 1.0, "chunked": False}, {"model": READER, "together": True}, 3),
    ({**TIGHT, "prefix_cache": False, "hardware": Hardware(80, 1e-2, 1.0)}, {}, 4),
    ({"hardware": Hardware(12, 1e3, 1e-2), "block": 1}, {"model": "qwen2.5-math-1.5b", "weight_bits": 4}, 2),
]


def stage(name, mapping):
    return build("stage", strategy(name, mapping), "strategy", load())


def results(name, mapping, engine, verifier, concurrency):
    part = sim(law=SMALL, memory_share=0.4, **engine).open()
    done = run_fake(
        stage(name, mapping),
        engine=part,
        task=TASK,
        verifier=Simulated(quality=2.0, **verifier).open_beside(part, TASK),
        sampling=LIMITS,
        concurrency=concurrency,
    )
    return part.batch, done


def answers(done, *, ffs=False):
    """Return what must not depend on the machine; how much of it first-finish search ends early does."""
    return {
        name: (
            *(
                result.answer,
                result.outcome,
                result.correct,
                result.text,
                result.candidates,
                result.path_tokens,
            ),
            *(result.usage.serial, result.usage.requests, result.usage.prompt),
            ffs or result.usage.decoded,
        )
        for name, result in done.items()
    }


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "dvts")) for name in STRATEGIES]
)
def test_seats_memory_and_machine_change_no_answer(name):
    _, plain = results(name, STRATEGIES[name], {}, {}, 8)
    assert len({result.answer for result in plain.values()}) > 1 or name != "majority"
    preempted = evicted = 0
    for engine, verifier, concurrency in VARIANTS:
        batch, done = results(name, STRATEGIES[name], engine, verifier, concurrency)
        assert answers(done, ffs=name == "ffs") == answers(plain, ffs=name == "ffs")
        if verifier and name in {"beam_search", "dvts"}:
            assert all(result.usage.verifier for result in done.values())
        preempted += batch.preempted
        evicted += batch.cache.evicted
    assert preempted > 0
    assert evicted > 0


@pytest.mark.slow
def test_a_search_takes_the_same_seconds_every_time_and_more_with_a_verifier():
    runs = [
        results("beam_search", STRATEGIES["beam_search"], TIGHT, {"model": model}, 3)
        for model in (READER, READER, None)
    ]
    seconds = [[result.usage.seconds for result in done.values()] for _, done in runs]
    assert seconds[0] == seconds[1]
    assert sum(seconds[2]) < sum(seconds[0])


@pytest.mark.parametrize(
    ("name", "mapping"),
    [("majority", {"n": 8}), ("ffs", {"n": 8, "k": 4}), ("esc", {"n": 8, "window": 4})],
)
def test_recorded_samples_are_those_of_replay(name, mapping):
    task = Recorded(model="R1", dataset="aime2024")
    paths = RecordedSamples()
    engines = [Replay().open()]
    engines += [
        Sim(FAST, paths=paths, context=60_000, **settings).open()
        for settings in ({"seats": 64}, {"seats": 5, "kv_gib": 2.0, "batch_tokens": 64})
    ]
    replay, whole, few = (
        run_fake(
            stage(name, mapping),
            task.problems()[:6],
            engine=engine,
            task=task,
            sampling=Sampling(max_tokens=10**6),
            concurrency=3,
        )
        for engine in engines
    )
    assert answers(whole) == answers(replay)
    # All in flight had a seat: to the token the same was ended early.
    names = ("aborted", "output", "engine_steps")
    for problem, result in replay.items():
        assert [getattr(result.usage, n) for n in names] == [getattr(whole[problem].usage, n) for n in names]
        assert whole[problem].usage.cached == 0
    assert answers(few, ffs=name == "ffs") == answers(replay, ffs=name == "ffs")


# --- what is refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "verifier", "wanted"),
    [
        ({"memory_share": 0.5}, {"memory_share": 0.5}, None),
        ({"memory_share": 0.5}, {"memory_share": 0.6}, r"110% of the device's memory \(26\.4 of 24 GiB\)"),
        # A KV cache of its own counts with weights and reserve, whatever the share says.
        ({"kv_gib": 20, "memory_share": 0.1}, {"memory_share": 0.9}, r"\(45\.0 of 24 GiB\)"),
        ({"kv_gib": 5, "memory_share": 0.9}, {"memory_share": 0.6}, None),
        ({"kv_gib": 5, "reserve_gib": 3}, {"memory_share": 0.6}, r"\(25\.3 of 24 GiB\)"),
    ],
)
def test_two_models_take_no_more_than_the_device_has(engine, verifier, wanted):
    part = Sim(Hardware(24, 165, 1008), **engine)
    reader = Simulated(model="skywork-prm-1.5b", **verifier)
    if wanted is None:
        reader.check_beside(part)
        return
    with pytest.raises(ConfigError, match=wanted) as caught:
        reader.check_beside(part)
    assert caught.value.path == "memory_share"


def test_a_cache_of_its_own_leaves_room_for_the_reserve():
    hardware = Hardware(24, 165, 1008)
    assert Sim(hardware, kv_gib=20.0, reserve_gib=1.0).blocks > 0
    with pytest.raises(
        ConfigError, match=r"20 GiB beside 2\.9 GiB of weights and a reserve of 2 GiB"
    ) as caught:
        Sim(hardware, kv_gib=20.0, reserve_gib=2.0)
    assert caught.value.path == "kv_gib"


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"weight_bits": 7}, "weight_bits", "a number has 2, 3, 4, 5, 6, 8, 16, 32 bits, got 7"),
        ({"kv_bits": 0}, "kv_bits", "bits, got 0"),
        ({"seats": 0}, "seats", "at least 1"),
        ({"batch_tokens": 0}, "batch_tokens", "at least 1"),
        ({"block_size": 0}, "block_size", "at least 1"),
        ({"context": 0}, "context", "or null"),
        ({"memory_share": 0.0}, "memory_share", "share of the memory"),
        ({"memory_share": 1.1}, "memory_share", "share of the memory"),
        ({"reserve_gib": -1}, "reserve_gib", "between 0 and"),
        ({"offload_gib": math.nan}, "offload_gib", "between 0 and"),
        ({"kv_gib": 1e-9}, "kv_gib", "hold no block of 16 tokens"),
        ({"model": "smollm2-135"}, "model", "Did you mean 'smollm2-135m'"),
        (
            {"model": "qwen2.5-math-7b", "hardware": Hardware(15, 1, 1)},
            "memory_share",
            r"14\.2 GiB of weights",
        ),
        ({"reserve_gib": 80}, "memory_share", "no room for its KV cache"),
    ],
)
def test_bad_settings(changes, path, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Sim(**{"hardware": FAST, "model": MODEL, **changes})
    assert caught.value.path == path


def test_the_cache_is_what_the_weights_leave():
    shape = shape_of("qwen2.5-math-1.5b")
    for bits in (16, 8):
        part = Sim(Hardware(24, 1, 1), weight_bits=bits, kv_bits=8, memory_share=0.5, reserve_gib=1.0)
        left = 12 - 1 - shape.parameters * bits / 8 / GIB
        assert part.blocks == int(left * GIB / (16 * shape.kv_bytes(8)))


def refused(*words):
    with pytest.raises(ConfigError) as caught:
        assemble(compose(["engine=sim", "task=simulated", *words]))
    return caught.value.path, str(caught.value)


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        (["engine.weight_bits=7"], "engine.weight_bits", "got 7"),
        (["engine.model=qwen2.5-math-7b", "hardware=rtx3070ti"], "engine.memory_share", "leaves no room"),
        (["engine.paths={use: laws}"], "engine.paths.use", "Did you mean 'law'?"),
        (["engine.paths.end=0"], "engine.paths.end", "above 0"),
        (["hardware.efficiency.compute=2"], "engine.hardware.efficiency.compute", "up to 1"),
        (["engine.paths.right=1e-320"], "engine.paths.right", "by at least 1e-09"),
        (["hardware.memory_gib=1e300"], "engine.hardware.memory_gib", "between 1e-06 and"),
        (["hardware.efficiency.launch=1e300"], "engine.hardware.efficiency.launch", "seconds lie between"),
        (["hardware=none"], "engine.hardware.memory_gib", "Set the machine with hardware=NAME, such as"),
        (
            ["engine.hardware=a100"],
            "engine.hardware",
            r"Set the machine with hardware=a100, without `engine.`",
        ),
        (
            ["engine.hardware.memory_gib=4"],
            "engine.hardware.tflops",
            "number of it with hardware.memory_gib=48",
        ),
        (["hardware.tflops=null"], "engine.hardware.tflops", "to measure it."),
        (["verifier=simulated", "verifier.memory_share=0.5"], "verifier.memory_share", "does nothing"),
        (["verifier=simulated", "verifier.together=true"], "verifier.together", "set verifier.model"),
        (
            ["verifier=recorded", "strategy=best_of_n"],
            "verifier.use",
            "this engine plays none; set engine=replay",
        ),
        (["verifier=simulated", f"verifier.model={READER}"], "verifier.memory_share", "together want 130%"),
        (
            ["verifier=simulated", "verifier.model=math-shepherd-7b", "engine.memory_share=0.5"],
            "verifier.memory_share",
            "leaves no room",
        ),
        (["strategy=self_certainty"], "strategy.stages.score", "needs the certainty"),
        (["strategy=deepconf_online"], "strategy.stages.first", "log-prob"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_what_does_not_go_together_is_refused_before_anything_runs(words, path, message):
    found, text = refused(*words)
    assert found == path
    assert message in text


@pytest.mark.slow
def test_recorded_paths_are_held_to_what_is_recorded(tmp_path):
    words = ["engine=sim", "engine.paths={use: recorded}", "task=recorded", "sampling=recorded"]
    words += ["engine.context=40000"]
    assert assemble(compose([*words, "strategy.n=8"])).engine.most_samples == 8
    with pytest.raises(ConfigError, match=r"has 8 of each; set strategy\.n=8"):
        assemble(compose([*words, "strategy.n=9"]))
    with pytest.raises(ConfigError, match="path and count must be equal") as caught:
        assemble(compose([*words, f"task.path={tmp_path}/other.jsonl", "task.count=tokens"]))
    assert caught.value.path == "task.path"
    with pytest.raises(DataError, match="no file"):
        assemble(
            compose([*words[:1], f"engine.paths={{use: recorded, path: '{tmp_path}/no.jsonl'}}", *words[2:]])
        )
    with pytest.raises(ConfigError, match="continues trajectories"):
        assemble(compose([*words, "strategy=beam_search", "verifier=fake"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["engine.context=9"],
            "3 of 4 recorded samples have more than 9 tokens and will be cut; engine.context=9096 leaves",
        ),
        (
            ["sampling=simulated", "engine.context=9000"],
            "1 of 4 recorded samples have more than 4096 tokens and will be cut; sampling=recorded leaves",
        ),
        (["sampling=simulated"], "4096 tokens and will be cut; sampling=recorded engine.context=9096 leaves"),
        (["engine.context=9000"], None),
    ],
)
def test_samples_that_a_limit_cuts_are_told(tmp_path, words, message):
    samples = [{"pred": "1", "tokens": tokens} for tokens in (9, 10, 4096, 5000)]
    (tmp_path / "a.jsonl").write_text(json.dumps({"problem": "p", "answer": "1", "samples": samples}))
    paths = f"engine.paths={{use: recorded, path: '{tmp_path}/a.jsonl'}}"
    mapping = compose(["engine=sim", paths, "task=recorded", "sampling=recorded", "strategy.n=4", *words])
    if message is None:
        assemble(mapping)
        return
    with pytest.warns(UserWarning, match=message):
        assemble(mapping)


def test_recorded_scores_are_read_where_the_engine_plays_recorded_paths(tmp_path):
    samples = [{"pred": str(n), "tokens": 9, "score": n / 4} for n in range(4)]
    (tmp_path / "a.jsonl").write_text(json.dumps({"problem": "p", "answer": "3", "samples": samples}))
    words = ["engine=sim", f"engine.paths={{use: recorded, path: '{tmp_path}/a.jsonl'}}", "task=recorded"]
    words += ["sampling=recorded", "verifier=recorded", "strategy=best_of_n", "strategy.n=4"]
    summary = run_config(compose(words), tmp_path / "run")
    assert (summary.status, summary.accuracy) == ("complete", 1.0)


@pytest.mark.slow
def test_scores_of_another_file_than_the_engine_plays_are_refused(tmp_path):
    """Regression: those that a simulated verifier takes from another one were looked up in the wrong file."""
    samples = [{"pred": str(n), "tokens": 9, "score": n / 4} for n in range(4)]
    (tmp_path / "a.jsonl").write_text(json.dumps({"problem": "p", "answer": "3", "samples": samples}))
    words = ["engine=sim", f"engine.paths={{use: recorded, path: '{tmp_path}/a.jsonl'}}", "task=recorded"]
    words += ["sampling=recorded", "verifier=simulated", "strategy=best_of_n", "strategy.n=4"]
    words += ["verifier.model=skywork-prm-1.5b", "engine.memory_share=0.5"]
    with pytest.raises(ConfigError, match="path and count must be equal") as caught:
        assemble(compose([*words, "verifier.scores={use: recorded}"]))
    assert caught.value.path == "verifier.scores.path"
    own = f"verifier.scores={{use: recorded, path: '{tmp_path}/a.jsonl'}}"
    assert run_config(compose([*words, own]), tmp_path / "run").accuracy == 1.0


def test_a_probe_measures_when_the_engine_is_opened(monkeypatch):
    from ttsflow.costs import probe

    monkeypatch.setattr(probe, "probed", lambda: (0.5, 20.0))
    part = assemble(compose(["engine=sim", "task=simulated", "hardware=cpu", f"engine.model={MODEL}"])).engine
    assert part.hardware.tflops is None
    with pytest.warns(
        UserWarning, match=r"hardware\.tflops=0\.5 hardware\.bandwidth=20\. Whatever else runs"
    ):
        engine = part.open()
    assert (engine.device.hardware.tflops, engine.device.hardware.bandwidth) == (0.5, 20.0)
    engine.submit(request((1,), max_tokens=2))
    drain(engine)
    assert engine.now() > 0
