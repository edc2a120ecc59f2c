"""Requests begun early: the same tokens, every request ends once, every token in one book."""

import itertools
import random
from dataclasses import replace

import pytest

from ttsflow.engines.prefix_ordered import PrefixOrdered
from ttsflow.engines.speculative import Speculative
from ttsflow.ops import EngineRequest
from ttsflow.protocols import Expecting
from ttsflow.testing import FakeEngine
from ttsflow.types import Sampling


def request(name, seed, *, prompt=(49, 10), path=(0,), problem="p", most=20, priority=0, stream=False):
    return EngineRequest(
        name,
        prompt,
        Sampling(),
        seed,
        most,
        ("\n",),
        problem=problem,
        path=path,
        priority=priority,
        stream=stream,
    )


def alone(one):
    """Return what a request decodes on an engine of its own, and how it ends."""
    engine = FakeEngine()
    engine.submit(one)
    return heard(engine, {one.id})[one.id]


def heard(engine, names):
    news = {name: ([], None) for name in names}
    for _ in range(500):
        for item in engine.step():
            tokens, end = news[item.id]
            assert end is None
            news[item.id] = ([*tokens, *item.tokens], item.finish and (item.finish, item.stop))
        if all(end for _, end in news.values()):
            return news
    raise AssertionError("a request did not end")


def speculative(capacity=4, *, curve=False, ordered=False, **settings):
    engine = FakeEngine(capacity=capacity, **settings)
    return Speculative(PrefixOrdered(engine) if ordered else engine, curve=curve), engine


def innermost(engine):
    return engine.inner.inner if isinstance(engine.inner, PrefixOrdered) else engine.inner


@pytest.fixture(params=[False, True], ids=["bare", "ordered"])
def ordered(request):
    return request.param


def test_it_says_what_it_is():
    assert isinstance(speculative()[0], Expecting)
    assert not isinstance(FakeEngine(), Expecting)


def test_an_expected_request_runs_on_an_empty_seat_and_goes_on_when_it_is_asked_for(ordered):
    engine, _ = speculative(ordered=ordered)
    engine.submit(request("long", 3, most=40, prompt=(49,)))
    engine.expect(request("s1", 7), 0.5)
    for _ in range(3):
        assert {item.id for item in engine.step()} <= {"long"}
    engine.submit(request("real", 7))
    news = heard(engine, {"real"} if "long" in str(engine) else {"real", "long"})
    assert news["real"] == alone(request("real", 7))
    adopted, dropped = engine.collect("p")
    assert adopted == min(3, len(news["real"][0]))
    assert dropped == 0
    assert engine.collect("p") == (0, 0)


def test_nothing_runs_while_nothing_was_asked_for():
    engine, fake = speculative()
    engine.expect(request("s1", 7), 1.0)
    assert engine.step() == []
    assert fake.steps == 0


def test_what_is_retracted_is_dropped_and_counted():
    engine, fake = speculative()
    engine.submit(request("long", 3, most=40, prompt=(49,)))
    engine.expect(request("s1", 7, most=5), 0.5)
    engine.step()
    engine.step()
    engine.retract(["s1", "unknown"])
    assert engine.collect("p") == (0, 2)
    engine.submit(request("real", 7))
    news = heard(engine, {"real", "long"})
    assert news["real"] == alone(request("real", 7))
    assert fake.decoded == 2 + sum(len(tokens) for tokens, _ in news.values())


@pytest.mark.parametrize(
    "change", [{"prompt": (49, 11)}, {"most": 19}, {"seed": 8}, {"problem": "q"}], ids=str
)
def test_another_request_is_not_served_from_it(change):
    engine, _ = speculative()
    engine.submit(request("long", 3, most=40, prompt=(49,)))
    engine.expect(request("s1", 7), 0.5)
    engine.step()
    asked = request("real", **{"seed": 7, **change})
    engine.submit(asked)
    assert heard(engine, {"real", "long"})["real"] == alone(asked)
    assert engine.collect("p")[0] == 0


def test_real_work_never_waits_behind_what_is_expected(ordered):
    engine, fake = speculative(capacity=4, ordered=ordered)
    engine.submit(request("first", 3, most=40, prompt=(49,)))
    for number in range(6):
        engine.expect(request(f"s{number}", 100 + number, path=(number,)), (number + 1) / 10)
    engine.step()
    assert len(fake._running) == 4
    for number in range(3):
        engine.submit(request(f"r{number}", number, path=(number + 10,), stream=True))
    news = engine.step()
    assert {item.id for item in news if item.tokens} >= {"r0", "r1", "r2"}
    assert len(fake._running) <= 4


def long_seeds(prompt, count):
    """Return seeds whose requests are still running after a few steps."""
    found = (seed for seed in range(1000) if len(alone(request("x", seed, prompt=prompt, most=40))[0]) > 4)
    return list(itertools.islice(found, count))


def test_the_least_likely_gives_way_first():
    engine, fake = speculative(capacity=3)
    low, high = long_seeds((50,), 1)[0], long_seeds((51,), 2)[1]
    engine.submit(request("first", 3, most=40, prompt=(49,)))
    engine.expect(request("low", low, most=40, prompt=(50,)), 0.2)
    engine.expect(request("high", high, most=40, prompt=(51,)), 0.8)
    engine.step()
    engine.submit(request("real", 5, most=40, prompt=(52,)))
    engine.step()
    running = {name.partition(".")[0] for name in fake._running}
    assert running == {"first", "real", "high"}


def test_one_that_ended_early_is_told_at_once_when_asked_for():
    engine, fake = speculative()
    ends = []
    engine.on_end = lambda known, end: ends.append((known.id, end))
    engine.submit(request("long", 3, most=60, prompt=(49,)))
    engine.expect(request("s1", 7, most=3), 0.5)
    for _ in range(4):
        engine.step()
    assert ends[0][0] == "s1"
    before = fake.steps
    engine.submit(request("real", 7, most=3))
    (news,) = [item for item in engine.step() if item.id == "real"]
    assert (list(news.tokens), (news.finish, news.stop)) == alone(request("real", 7, most=3))
    assert news.tokens == ends[0][1].tokens
    assert fake.steps == before + 1


def test_a_name_in_use_is_refused():
    engine, _ = speculative()
    engine.submit(request("one", 1))
    with pytest.raises(ValueError, match="in use"):
        engine.submit(request("one", 2))


def test_by_the_curve_nothing_is_begun_where_it_does_not_pay():
    """On a machine whose steps cost by their batch, and on one where they cost the same."""

    class Slow(FakeEngine):
        each = 1.0
        clock = 0.0

        def now(self):
            return self.clock

        def step(self):
            news = super().step()
            self.clock += 0.01 + self.each * len(self._running)
            return news

    begun = {}
    for each in (1.0, 0.0):
        fake = Slow(capacity=8)
        fake.each = each
        engine = Speculative(fake)
        for number in range(4):
            engine.submit(request(f"r{number}", number, prompt=(48 + number,), most=200))
        for number in range(4):
            engine.expect(request(f"s{number}", 100 + number, path=(number,), most=200), 0.4)
        for _ in range(60):
            engine.step()
            if len(engine._inside) == 0:
                break
        begun[each] = engine._guesses["s0"].begun
    assert begun[1.0] == 0


class Blocks(FakeEngine):
    """A fake whose KV cache has blocks of one token."""

    block_size = 1
    kv_blocks = 0


@pytest.mark.parametrize(
    ("blocks", "chance", "begun"),
    [(62, 0.9, False), (63, 0.9, True), (63, 0.5, False), (92, 0.5, False), (93, 0.5, True)],
)
def test_early_work_leaves_the_cache_to_what_runs_and_the_unlikely_to_what_may_survive(
    blocks, chance, begun, ordered
):
    """What runs needs 1 + 40 blocks, what is expected 2 + 20, and the prefix of another that may come 30."""
    fake = Blocks(capacity=8)
    fake.kv_blocks = blocks
    engine = Speculative(PrefixOrdered(fake) if ordered else fake, curve=False)
    engine.submit(request("long", 3, most=40, prompt=(49,)))
    engine.expect(request("other", 8, prompt=(51,) * 30, problem="r", most=20), 0.1)
    engine.expect(request("s1", 7, prompt=(50, 10), problem="q"), chance)
    engine.step()
    assert any(name.startswith("s1") for name in fake._running) is begun
    assert not any(name.startswith("other") for name in fake._running)


class Player:
    """Does to an engine whatever may be done to one, at random, and remembers what it was told."""

    def __init__(self, number):
        self.rng = random.Random(number)
        self.engine, self.fake = speculative(
            self.rng.randint(1, 6), ordered=self.rng.random() < 0.5, preempt=0.2, schedule_seed=number
        )
        self.wanted, self.asked, self.hopes, self.aborted = {}, {}, {}, set()
        self.told = {}

    def drawn(self, name):
        rng = self.rng
        return request(
            name,
            rng.randrange(1 << 30),
            prompt=(rng.choice((49, 50)), 10),
            path=(rng.randrange(3), rng.randrange(1000)),
            problem=rng.choice("pq"),
            most=rng.randint(1, 12),
            priority=rng.randint(0, 2),
            stream=rng.random() < 0.5,
        )

    def submit(self, name, one):
        self.wanted[name] = self.asked[name] = replace(one, id=name)
        self.engine.submit(self.asked[name])

    def act(self, name):
        choice = self.rng.random()
        if choice < 0.35:
            self.hopes[name] = self.drawn(name)
            self.engine.expect(self.hopes[name], self.rng.random())
        elif choice < 0.6 and self.hopes:
            self.submit(name, self.hopes.pop(self.rng.choice(sorted(self.hopes))))
        elif choice < 0.7 and self.hopes:
            gone = self.rng.choice(sorted(self.hopes))
            del self.hopes[gone]
            self.engine.retract([gone])
        elif choice < 0.75 and self.asked:
            gone = self.rng.choice(sorted(self.asked))
            self.aborted.add(gone)
            del self.asked[gone]
            self.engine.abort([gone])
        elif choice < 0.9:
            self.submit(name, self.drawn(name))

    def step(self):
        for item in self.engine.step() if self.asked else ():
            assert item.id in self.asked, "news of what was not asked for, or has ended"
            self.told.setdefault(item.id, []).append(item)
            if item.finish is not None:
                del self.asked[item.id]

    def play(self):
        for turn in range(90):
            self.act(f"x{turn}")
            self.step()
        while self.asked:
            self.step()
        self.engine.retract(list(self.hopes))


@pytest.mark.slow
def test_random_schedules_lose_nothing_and_change_nothing():
    adopted = 0
    for number in range(150):
        player = Player(number)
        player.play()
        heard_of = 0
        for name, items in player.told.items():
            tokens = [token for item in items for token in item.tokens]
            heard_of += len(tokens)
            if name not in player.aborted:
                assert (tokens, (items[-1].finish, items[-1].stop)) == alone(player.wanted[name])
        assert set(player.told) | player.aborted >= set(player.wanted)
        assert not player.fake._running
        assert not player.fake._waiting
        books = [player.engine.collect(problem) for problem in "pq"]
        adopted += sum(book[0] for book in books)
        # Those that were aborted have decoded more than was told of them.
        assert player.fake.decoded >= heard_of + sum(book[1] for book in books)
        if not player.aborted:
            assert player.fake.decoded == heard_of + sum(book[1] for book in books)
    assert adopted > 500


def test_shared_siblings_begin_with_a_part_of_what_the_first_had():
    """Their kept tokens are counted as reused, and they go on from there under their own seeds."""
    fake = FakeEngine(capacity=4)
    engine = Speculative(fake, curve=False, keep=0.5)
    seed = long_seeds((50,), 1)[0]
    engine.submit(request("long", 3, most=60, prompt=(49,)))
    engine.expect(request("s1", seed, prompt=(50,), most=20, path=(4, 0)), 0.5)
    for _ in range(4):
        engine.step()
    engine.submit(request("first", seed, prompt=(50,), most=20, path=(4, 0)))
    engine.submit(request("second", 77, prompt=(50,), most=20, path=(4, 1)))
    engine.submit(request("other", 78, prompt=(51,), most=20, path=(5, 0)))
    told, reused = {}, {}
    while fake._running or fake._waiting:
        for item in engine.step():
            told.setdefault(item.id, []).extend(item.tokens)
            reused[item.id] = reused.get(item.id, 0) + item.reused
    assert reused == {"first": 0, "second": 2, "other": 0, "long": 0}
    assert told["first"] == alone(request("x", seed, prompt=(50,)))[0]
    assert told["second"][:2] == told["first"][:2]
    rest = alone(request("x", 77, prompt=(50, *told["first"][:2]), most=18))[0]
    assert told["second"][2:] == rest
    assert told["other"] == alone(request("x", 78, prompt=(51,)))[0]
    assert fake.decoded == sum(map(len, told.values())) - 2
