"""Problems that wait until all others have had a sample."""

from dataclasses import dataclass, field, replace

import pytest

from ttsflow.budget import Breaker
from ttsflow.controllers.prices import Prices
from ttsflow.controllers.reserve import Reserve
from ttsflow.ledger import Budget
from ttsflow.meters.model import PowerModel
from ttsflow.ops import Offer
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Each, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEngine, FakeTask, run_fake


@dataclass(frozen=True)
class Later:
    """Refuses further samples until no question waits for its first one, and remembers what it was asked."""

    unit: str | None = None
    always: bool = False
    log: list = field(default_factory=list, compare=False)

    def open(self, unit):
        return _Later(self)


class _Later:
    def __init__(self, part):
        self._part = part

    def begin(self, problems, limit):
        pass

    def offer(self, asking):
        self._part.log.append(asking)
        waits = not asking.first and (asking.ahead > 0 or self._part.always)
        return Offer("tokens", 1.0, refused="kept" if waits else None, later=waits)

    def observe(self, samples, load, cost):
        self._part.log.append((samples, cost))

    def closed(self, spent):
        self._part.log.append(spent)

    def agreed(self, drawn, more, fresh):
        self._part.log.append(("agreed", drawn, more, fresh))

    def state(self):
        return {}


def climbing(controller, **settings):
    ladder = Ladder(**{"controller": controller, "rungs": (1, 2, 3), "n": 3, "settled": 1.0} | settings)
    return Sequence({"climb": ladder, "vote": Aggregate()})


def run(part, *, size=5, concurrency=1, **words):
    words.setdefault("budget", Budget(run={"tokens": 1e6}))
    strategy = words.pop("strategy", None) or climbing(part)
    return run_fake(strategy, FakeTask(size=size).problems(), concurrency=concurrency, **words)


def asked(part):
    return [one for one in part.log if hasattr(one, "first")]


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_all_have_a_sample_before_any_has_a_second(concurrency):
    part = Later()
    results = run(part, concurrency=concurrency)
    assert min(result.candidates for result in results.values()) >= 2
    granted = [one for one in asked(part) if one.first or not one.ahead]
    firsts = [one.first for one in granted]
    assert firsts == sorted(firsts, reverse=True)
    assert sum(cost for _, cost in (one for one in part.log if isinstance(one, tuple) and len(one) == 2)) == (
        sum(result.usage.decoded for result in results.values())
    )


def test_those_that_wait_are_told_of_and_go_on_in_the_order_of_the_run():
    part = Later()
    results = run(part, size=4)
    # The last one has nobody to wait for.
    assert [one.held for one in asked(part) if not one.first and one.ahead] == [0, 0, 1, 1, 2, 2]
    assert [*results] == ["fake-3", "fake-0", "fake-1", "fake-2"]
    woken = [one.held for one in asked(part) if not one.first and not one.ahead]
    assert sorted({*woken}) == [1, 2, 3]


def test_a_problem_waits_once():
    part = Later(always=True)
    results = run(part)
    assert {result.candidates for result in results.values()} == {1}
    assert {result.stopped for result in results.values()} == {"kept"}


def test_a_clock_that_runs_meanwhile_lets_nobody_wait():
    part = Later()
    budget = Budget(run={"tokens": 1e6}, problem={"seconds": 1e6})
    results = run(part, budget=budget)
    assert [result.candidates for result in results.values()] == [1, 1, 1, 1, 2]


def test_a_target_in_time_lets_nobody_wait():
    part = Later()
    results = run(part, strategy=climbing(part, latency=1e6))
    assert [result.candidates for result in results.values()][:4] == [1, 1, 1, 1]


def test_a_branch_beside_others_does_not_wait():
    part = Later()
    ladder = Ladder(controller=part, rungs=(1, 2, 3), n=3, settled=1.0)
    pairs = Sequence({"two": GenerateStage(2), "each": Each({"climb": ladder}), "vote": Aggregate()})
    results = run(part, strategy=pairs, concurrency=2)
    assert {result.outcome for result in results.values()} <= {"answered", "abstained"}
    assert len(results) == 5


def test_the_books_are_whole_while_problems_rest():
    """What rests is spent all the same: the run ends at its limit to the token of a step."""
    part = Later()
    whole = sum(result.usage.decoded for result in run(Later()).values())
    results = run(part, budget=Budget(run={"tokens": whole - 5}))
    assert whole - 5 <= sum(result.usage.decoded for result in results.values()) <= whole
    assert {result.outcome for result in results.values()} == {"answered"}


def test_what_a_meter_told_stays_with_who_rests():
    meter, engine = PowerModel(busy_watts=100.0).open(), FakeEngine()
    results = run(Later(), engine=engine, meter=meter, budget=Budget(run={"joules": 1e9}))
    told = sum(result.usage.joules for result in results.values())
    assert told == pytest.approx(100.0 * engine.now(), rel=0.01)


def test_a_breaker_leaves_nobody_waiting():
    class Unreadable(FakeEngine):
        def encode(self, prompt):
            if any(f"Question {number}" in prompt for number in (3, 4)):
                raise ValueError("no")
            return super().encode(prompt)

    budget = Budget(run={"tokens": 1e6}, breaker=Breaker(last=2))
    results = run(Later(), size=8, budget=budget, engine=Unreadable())
    assert len(results) == 8
    assert {name: results[name].candidates for name in ("fake-0", "fake-1", "fake-2")} == {
        "fake-0": 1,
        "fake-1": 1,
        "fake-2": 1,
    }
    outcomes = [result.outcome for result in results.values()]
    assert (outcomes.count("failed"), outcomes.count("deferred")) == (2, 3)


def test_an_engine_that_dies_fails_those_that_rest():
    results = run(Later(), size=30, engine=FakeEngine(dies_after=60))
    assert len(results) == 30
    assert {result.outcome for result in results.values()} == {"failed"}


def test_how_far_samples_agree_is_told_as_they_are_drawn():
    part = Later()
    results = run(part, size=2)
    told = [one[1:] for one in part.log if isinstance(one, tuple) and one[0] == "agreed"]
    assert [one[:2] for one in told].count((0, 1)) == 2
    assert sum(more for _, more, _ in told) == sum(result.candidates for result in results.values())
    assert all(fresh == 1 for drawn, _, fresh in told if drawn == 0)


@pytest.mark.parametrize("wait", [True, False])
def test_a_reserve_that_never_was_needed_is_spent_at_the_end(wait):
    """At the worst load all funds are kept; the machine is idle, and nothing of it was needed."""
    prices = Prices(prior=(0.0, 20.0, 0.0, 60.0), beta=0.0)
    part = Reserve(rungs=(1, 2, 3, 4), n=4, prices=prices, loads=(0.0, 1.0), wait=wait)
    ladder = Ladder(controller=part, gain="planned", rungs=(1, 2, 3, 4), n=4, alpha=None)
    strategy = Sequence({"climb": ladder, "vote": Aggregate()})
    results = run_fake(
        strategy, FakeTask(size=20).problems(), budget=Budget(run={"tokens": 1000}), concurrency=1
    )
    drawn = [result.candidates for result in sorted(results.values(), key=lambda one: int(one.id[5:]))]
    assert min(drawn) == 1
    # The first ones have no more than a sample, unless they wait.
    assert (max(drawn[:5]) > 1) == wait


def two_ladders(first, second):
    """Ladders in the branches of a fork and after it, each with a controller that may be its own."""
    within = Each({"climb": Ladder(controller=first, n=4, gain="planned"), "more": GenerateStage(1)})
    climb = Ladder(controller=second, n=8, rungs=(1, 2, 4, 6, 8), gain="planned", alpha=None)
    return [
        Sequence({"a": climb, "b": replace(climb, controller=first), "vote": Aggregate()}),
        Sequence({"two": GenerateStage(2), "each": within, "climb": climb, "vote": Aggregate()}),
    ]


def ends_of(strategy, concurrency, *, tokens, size=30):
    budget = Budget(run={"tokens": tokens})
    results = run(None, size=size, strategy=strategy, concurrency=concurrency, budget=budget)
    assert len(results) == size
    return {result.outcome for result in results.values()}


def test_a_second_controller_lets_nobody_wait_for_what_the_first_one_granted():
    first, second = Reserve(rungs=(1, 2)), Reserve(rungs=(1, 2), quantile=0.5)
    ladder = Ladder(controller=first, rungs=(1, 2), n=2, gain="one_rung")
    strategy = Sequence({"a": ladder, "b": replace(ladder, controller=second), "vote": Aggregate()})
    assert ends_of(strategy, 1, tokens=2000, size=6) <= {"answered", "deferred", "truncated"}


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 2, 8, 64])
@pytest.mark.parametrize("second", [Reserve(), Reserve(quantile=0.5)])
@pytest.mark.parametrize("kind", [0, 1])
def test_nobody_waits_for_samples_that_were_granted_and_not_drawn(kind, second, concurrency):
    for tokens in (200, 300, 2000):
        ends = ends_of(two_ladders(Reserve(), second)[kind], concurrency, tokens=tokens)
        assert ends <= {"answered", "truncated", "deferred"}
