"""A pool of samples around an engine: whoever uses it hears what he would hear without."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.acceleration import Acceleration, Speculation
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.engines.accelerated import accelerated, counted
from ttsflow.engines.decorated import Decorated
from ttsflow.engines.pooled import Pooled
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import Texts
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ops import EngineRequest, Progress
from ttsflow.plugins import load
from ttsflow.protocols import Engine, Leaping, leaping
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Sampling

TEXTS = Texts("fake", "{}")
ONE = {"id": "a", "prompt": (7, 7), "sampling": Sampling(), "seed": 13, "max_tokens": 40}


@pytest.fixture
def store(tmp_path):
    store = SampleStore(tmp_path / "samples.pool")
    yield store
    store.close()


def request(**changes):
    return EngineRequest(**{**ONE, **changes})


def around(store, engine=None, texts=TEXTS):
    return Pooled(engine or FakeEngine(), store, texts)


def played(engine, *requests, steps=500):
    """Return all news of requests, by id."""
    for one in requests:
        engine.submit(one)
    heard = {one.id: [] for one in requests}
    for _ in range(steps):
        for item in engine.step():
            heard[item.id].append(item)
    return heard


def told(items):
    """Return what the news of one request come to, whatever portions they came in."""
    last = items[-1]
    return (
        tuple(token for item in items for token in item.tokens),
        last.finish,
        last.stop,
        tuple(entry for item in items for entry in item.logprobs),
        tuple(value for item in items for value in item.certainties),
    )


def reused(items):
    return sum(item.played for item in items)


# --- one request --------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("extra", [{}, {"logprobs": 3, "certainty": True}, {"stop": ("\n",)}])
def test_what_was_decoded_is_played_the_same(store, stream, extra):
    asked = request(stream=stream, **extra)
    plain = told(played(FakeEngine(), asked)["a"])
    first, second = FakeEngine(), FakeEngine()
    assert told(played(around(store, first), asked)["a"]) == plain
    again = played(around(store, second), replace(asked, id="b"))["b"]
    assert told(again) == plain
    assert (first.decoded, second.decoded, second.steps) == (len(plain[0]), 0, 0)
    assert reused(again) == len(plain[0])
    assert len(again) == 1, "it leaps to the end"


def test_a_leap_ends_where_the_driver_has_to_look(store):
    played(around(store), request())
    engine = around(store)
    engine.submit(request(stream=True))
    grown = []
    for engine.leap in (1, 3, 2, None):
        (item,) = engine.step()
        grown.append((len(item.tokens), engine.advanced, item.finish))
    assert [one[:2] for one in grown[:3]] == [(1, 1), (3, 3), (2, 2)]
    assert grown[3][0] == grown[3][1] > 0
    assert [finish for _, _, finish in grown] == [None, None, None, "stop"]
    assert engine.step() == []
    assert engine.advanced == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 6},
        {"prompt": (7, 8)},
        {"stop": ("\n",)},
        {"sampling": Sampling(temperature=0.5)},
        {"sampling": Sampling(top_p=0.5)},
        {"sampling": Sampling(top_k=3)},
        {"sampling": Sampling(min_p=0.1)},
        {"logprobs": 2},
        {"certainty": True},
    ],
    ids=str,
)
def test_another_request_is_decoded(store, changes):
    played(around(store), request())
    engine = FakeEngine()
    played(around(store, engine), request(**changes))
    assert engine.decoded > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"priority": 3},
        {"stream": True},
        {"problem": "q", "path": (1, 2)},
        {"aside": "probe"},
        {"sampling": Sampling(max_tokens=9, max_step_tokens=2)},
        {"max_tokens": 400},
        {"logprobs": 2},
        {"logprobs": 0, "certainty": False},
    ],
    ids=str,
)
def test_what_changes_no_token_does_not_matter(store, changes):
    rich = {"logprobs": 5, "certainty": True}
    played(around(store), request(**rich))
    engine = FakeEngine()
    asked = request(**{**rich, **changes})
    assert told(played(around(store, engine), asked)["a"]) == told(played(FakeEngine(), asked)["a"])
    assert engine.decoded == 0


def test_the_texts_of_another_engine_are_others(store):
    played(around(store), request())
    engine = FakeEngine()
    played(around(store, engine, Texts("fake", '{"dtype": "float16"}')), request())
    assert engine.decoded > 0


def test_a_lower_limit_cuts_a_whole_sample(store):
    whole = played(around(store), request())["a"][-1]
    engine, length = FakeEngine(), len(whole.tokens)
    for most, finish in ((length - 2, "length"), (length, "stop"), (length + 1, "stop")):
        (item,) = played(around(store, engine), request(max_tokens=most))["a"]
        assert (item.tokens, item.finish) == (whole.tokens[:most], finish)
    assert engine.decoded == 0


def test_a_beginning_serves_up_to_its_length_and_a_longer_one_replaces_it(store):
    whole = played(FakeEngine(), request())["a"][-1].tokens
    for most, decoded in ((4, 4), (3, 0), (4, 0), (6, 6), (5, 0), (400, len(whole)), (6, 0), (90, 0)):
        engine = FakeEngine()
        (item,) = played(around(store, engine), request(max_tokens=most))["a"]
        assert (item.tokens, engine.decoded) == (whole[:most], decoded), most
    assert store.connection.execute("SELECT count(*) FROM samples").fetchone() == (1,)


def test_a_beginning_is_played_while_somebody_may_end_it_and_decoded_again_when_more_is_wanted(store):
    asked = request(stream=True)
    engine = around(store)
    engine.submit(asked)
    begun = [engine.step() for _ in range(4)]
    engine.abort(["a"])
    assert [len(news) for news in begun] == [1, 1, 1, 1]

    inner = FakeEngine()
    engine = around(store, inner)
    engine.submit(asked)
    engine.leap = 1
    for _ in range(4):
        engine.step()
    engine.abort(["a"])
    assert inner.steps == 0, "ended again where it was ended before"

    other = request(id="other", seed=77, stream=True)
    heard = played(engine, asked, other)
    for name, one in (("a", asked), ("other", other)):
        assert told(heard[name]) == told(played(FakeEngine(), one)[name])
    assert reused(heard["a"]) == 4
    assert engine.counters()["pool_decoded_again"] == 1
    assert engine.counters()["pool_unused_tokens"] == 4
    played(around(store, FakeEngine(dies_after=0)), asked)


def test_nobody_else_grows_while_a_beginning_is_decoded_again(store):
    """Otherwise a watch would see another sample ahead of where it would be."""
    asked, other = request(stream=True), request(id="other", seed=78, stream=True)
    engine = around(store)
    engine.submit(asked)
    [engine.step() for _ in range(5)]
    engine.abort(["a"])
    engine = around(store)
    engine.submit(asked)
    engine.submit(other)
    lengths = {"a": 0, "other": 0}
    for _ in range(16):
        for item in engine.step():
            lengths[item.id] += len(item.tokens)
        assert lengths["a"] == lengths["other"]
    assert engine.counters()["pool_decoded_again"] == 1
    assert lengths["a"] > 5


def test_samples_with_more_log_probabilities_replace_those_with_fewer(store):
    """Fewer log-probabilities stand beside more of them, and what comes further is taken."""
    rows = "SELECT top, whole, length FROM samples ORDER BY top"
    played(around(store), request(max_tokens=3, logprobs=4))
    played(around(store), request())
    played(around(store), request(max_tokens=5, logprobs=4))
    assert store.connection.execute(rows).fetchall() == [(0, 1, 23), (4, 0, 5)]
    engine = FakeEngine()
    played(around(store, engine), request(max_tokens=5, logprobs=4), request(id="b"))
    assert engine.decoded == 0
    played(around(store), request(logprobs=2))
    played(around(store), request(logprobs=9))
    assert store.connection.execute(rows).fetchall() == [(9, 1, 23)]


def test_an_engine_that_decodes_something_else_is_gone_on_with(store):
    """On a real model another batch may change a token that was nearly a draw."""

    class Another(FakeEngine):
        def seed_of(self, request):
            return request.seed + 1

    engine = around(store)
    asked = request(stream=True)
    engine.submit(asked)
    [engine.step() for _ in range(6)]
    engine.abort(["a"])
    inner = Another()
    engine = around(store, inner)
    tokens, finish, *_ = told(played(engine, asked)["a"])
    known = store.connection.execute("SELECT length, whole FROM samples").fetchall()
    assert tokens[:6] == told(played(FakeEngine(), asked)["a"])[0][:6]
    behind = request(id="b", prompt=(*ONE["prompt"], *tokens[:6]))
    assert tokens[6:] == told(played(Another(), behind)["b"])[0]
    assert finish == "stop"
    counts = engine.counters()
    assert counts["pool_parted"] == 1
    assert len(tokens) == inner.decoded - counts["pool_unused_tokens"] + counts["pool_tokens"]
    assert known[0][0] >= 6


def test_without_room_for_a_token_it_ends_as_it_does_without_a_pool(store):
    short = {"context": 2}
    plain = played(FakeEngine(**short), request())["a"]
    assert [tuple(item) for item in played(around(store, FakeEngine(**short)), request())["a"]] == [
        tuple(item) for item in plain
    ]
    assert store.connection.execute("SELECT count(*) FROM samples").fetchone() == (0,)


def test_seats_are_given_by_priority_and_then_arrival(store):
    asked = [request(id=str(i), seed=i, priority=-i, stream=True) for i in range(6)]
    for _ in range(2):
        order = []
        engine = around(store, FakeEngine(capacity=2))
        engine.leap = 1
        for one in asked:
            engine.submit(one)
        for _ in range(200):
            order += [item.id for item in engine.step() if item.id not in order]
        assert order == ["5", "4", "3", "2", "1", "0"]


def test_what_is_decoded_several_tokens_at_once_is_told_at_once(store):
    class Pairs(Decorated):
        def step(self):
            both = [*self.inner.step(), *self.inner.step()]
            return [
                Progress(name, told(items)[0], items[-1].finish)
                for name in dict.fromkeys(item.id for item in both)
                for items in [[item for item in both if item.id == name]]
            ]

    engine = around(store, Pairs(FakeEngine()))
    engine.submit(request(stream=True))
    assert [len(item.tokens) for _ in range(12) for item in engine.step()] == [2] * 11 + [1]


def test_ids_are_refused_while_in_use_and_unknown_ones_ignored(store):
    engine = around(store)
    engine.submit(request())
    with pytest.raises(ValueError, match="in use"):
        engine.submit(request())
    engine.abort(["nobody", "a"])
    assert engine.step() == []
    assert [item.finish for item in played(engine, request())["a"]] == ["stop"]


def test_what_was_begun_is_kept_when_the_engine_dies(store):
    engine = around(store, FakeEngine(dies_after=5))
    engine.submit(request(stream=True))
    for _ in range(5):
        engine.step()
    with pytest.raises(EngineDead):
        engine.step()
    assert store.connection.execute("SELECT length, whole FROM samples").fetchall() == [(5, 0)]


def test_a_reset_forgets_requests_and_not_samples(store):
    engine = around(store)
    played(engine, request())
    engine.submit(request(id="b"))
    engine.reset()
    assert engine.step() == []
    played(engine, request(id="b"))
    assert engine.counters()["pool_found"] == 1


def test_it_is_an_engine_that_leaps_whatever_is_inside(store):
    engine = around(store)
    assert isinstance(engine, Engine)
    assert isinstance(engine, Leaping)
    wanted = Acceleration(prefix_order=True, speculation=True)
    outside = accelerated(FakeEngine(), wanted, pool=(store, TEXTS))
    found = leaping(outside)
    assert isinstance(found, Pooled)
    assert leaping(FakeEngine()) is None
    assert counted(outside)["pool_found"] == 0


def test_shared_speculation_and_a_pool_exclude_each_other():
    with pytest.raises(ConfigError, match="leave one of them out") as caught:
        Acceleration(pool="a", speculation=Speculation(mode="shared"))
    assert caught.value.path == "pool"


# --- anything at any time -----------------------------------------------------------------------------

#: Of one request: which it is, its limit, whether it is looked at midway, after how many tokens it is ended.
ASKED = st.tuples(
    st.integers(0, 5),
    st.integers(1, 30),
    st.booleans(),
    st.none() | st.integers(1, 25),
    st.sampled_from([(0, False), (3, False), (3, True), (5, True)]),
)
ROUNDS = st.lists(
    st.tuples(st.lists(ASKED, min_size=1, max_size=6), st.sampled_from([1, 2, 16])), min_size=2, max_size=4
)


def heard_of(engine, asked, leap=None):
    """Run requests; end each that is looked at at its length. Return what was heard, by request."""
    heard, ends = {}, {}
    for number, (which, most, stream, end, (top, certain)) in enumerate(asked):
        name = f"r{number}"
        heard[name] = []
        ends[name] = end if stream else None
        engine.submit(
            request(
                id=name,
                seed=which % 3,
                stop=("5",) if which > 2 else (),
                max_tokens=most,
                stream=stream,
                logprobs=top,
                certainty=certain,
                priority=which,
            )
        )
    running = set(heard)
    for _ in range(2000):
        if not running:
            return {name: told(items) for name, items in heard.items()}, heard
        if isinstance(engine, Leaping):
            left = [e - sum(len(i.tokens) for i in heard[n]) for n, e in ends.items() if n in running and e]
            engine.leap = 1 if leap else min(left, default=None)
        for item in engine.step():
            heard[item.id].append(item)
            length = sum(len(one.tokens) for one in heard[item.id])
            assert length <= (ends[item.id] or math.inf)
            if item.finish is not None:
                running.discard(item.id)
            elif ends[item.id] == length:
                engine.abort([item.id])
                running.discard(item.id)
    raise AssertionError("it does not end")


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(rounds=ROUNDS, leap=st.booleans())
def test_any_requests_hear_what_they_would_without_a_pool(tmp_path_factory, rounds, leap):
    compared(tmp_path_factory, rounds, leap)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(rounds=ROUNDS, leap=st.booleans())
def test_many_requests_hear_what_they_would_without_a_pool(tmp_path_factory, rounds, leap):
    compared(tmp_path_factory, rounds, leap)


def compared(tmp_path_factory, rounds, leap):
    """Hold requests of some rounds, one pool for all of them, to a fake engine without one."""
    store = SampleStore(tmp_path_factory.mktemp("pool") / "samples.pool")
    for asked, seats in rounds:
        twin, inner = FakeEngine(capacity=seats), FakeEngine(capacity=seats)
        engine = around(store, inner)
        plain, _ = heard_of(twin, asked)
        mine, items = heard_of(engine, asked, leap)
        assert mine == plain
        counts = engine.counters()
        told_of = sum(len(item.tokens) for one in items.values() for item in one)
        assert told_of == inner.decoded - counts["pool_unused_tokens"] + counts["pool_tokens"]
        assert counts["pool_tokens"] == sum(reused(one) for one in items.values())
        assert engine.step() == []
    counts = store.connection.execute("SELECT count(*), count(DISTINCT key) FROM samples").fetchone()
    assert store.broken is None
    assert counts[0] <= 4 * counts[1]
    store.close()


# --- whole strategies ---------------------------------------------------------------------------------

NAMES = ("majority", "best_of_n", "ffs", "lfs", "weighted_majority", "self_consistency", "beam_search", "esc")


def strategy(name, n):
    k = [f"strategy.k={max(1, n // 2)}"] if name in {"ffs", "lfs"} else []
    words = [f"strategy={name}", f"strategy.n={n}", *k]
    return build("stage", compose(words)["strategy"], "strategy", load())


def books(results):
    """Return results without what a pool may change: time, and where tokens came from."""
    time = {"seconds": 0.0, "engine_steps": 0, "reused": 0}
    return {n: replace(one, usage=replace(one.usage, **time), cost={}) for n, one in results.items()}


@pytest.mark.parametrize(
    ("names", "sizes", "seats"),
    [
        (("ffs", "majority"), (4, 8), 4),
        *(pytest.param(NAMES, (8, 4, 16), seats, marks=pytest.mark.slow) for seats in (4, 64)),
    ],
)
def test_all_strategies_come_from_one_pool_with_the_books_of_their_twins(store, names, sizes, seats):
    wanted, tokens = Sampling(max_tokens=60, max_step_tokens=12), {}
    for n in sizes:
        for name in names:
            runs = {}
            for way in ("plain", "pool"):
                inner = FakeEngine(capacity=seats)
                engine = inner if way == "plain" else around(store, inner)
                stage, problems = strategy(name, n), FakeTask(size=5).problems()
                runs[way] = run_fake(stage, problems, engine=engine, sampling=wanted, concurrency=3)
                tokens[way] = tokens.get(way, 0) + inner.decoded
            assert books(runs["pool"]) == books(runs["plain"]), (name, n)
            usage = [one.usage for one in runs["pool"].values()]
            assert all(one.reused <= one.output + one.aborted for one in usage)
    assert tokens["pool"] < tokens["plain"] * 0.7


@pytest.mark.slow
def test_a_run_again_decodes_nothing(store):
    for _ in range(2):
        inner = FakeEngine()
        results = run_fake(strategy("ffs", 8), engine=around(store, inner), sampling=Sampling(max_tokens=60))
        store.commit()
    assert inner.decoded == 0
    usage = [one.usage for one in results.values()]
    assert sum(one.reused for one in usage) == sum(one.output + one.aborted for one in usage) > 0
    assert sum(one.aborted for one in usage) > 0
