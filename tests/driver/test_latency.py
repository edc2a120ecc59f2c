"""A latency target: a ladder climbs no rung that is not expected to end in time."""

import pytest

from ttsflow.budget import Budget
from ttsflow.config import compose
from ttsflow.controllers.online import Online
from ttsflow.controllers.reserve import Reserve
from ttsflow.driver.flight import Case
from ttsflow.driver.pacing import Pace
from ttsflow.errors import ConfigError
from ttsflow.ledger import Account
from ttsflow.ops import Generate, Generated, Offer, Quotation, Quote
from ttsflow.run import run_config
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEngine, FakeTask, drive, run_fake
from ttsflow.types import Candidate, Problem, Sampling, State, Usage

TEN = Sampling(max_tokens=10)


def climbing(latency, **settings):
    settings = {"worth": 0.0, "settled": 1.0} | settings
    if "controller" in settings:
        del settings["worth"]
    return Sequence({"climb": Ladder(latency=latency, **settings), "vote": Aggregate()})


def alone(takes, latency, *, spent=0.0, **settings):
    """Climb without an engine; ``takes`` gives the seconds of so many more.

    Return the state, how many samples each query had, and what was asked. A controller has prices at which
    few queries are better than many.
    """
    made, asked = [], []
    free = {} if "controller" in settings else {"worth": 0.0}
    settings = {"settled": 1.0} | free | settings
    stage = Ladder(latency=latency, **settings)

    def answer(op):
        nonlocal spent
        if isinstance(op, Quote):
            counts = (*op.also, op.samples)
            asked.extend((count, op.timed) for count in counts)
            controlled = counts if op.by is not None else ()
            offers = {count: Offer("tokens", 0.2 + 0.001 * count, rate=1.0) for count in controlled}
            return Quotation({}, {}, {}, Usage(seconds=spent), offers, takes(op.timed) if op.timed else None)
        if isinstance(op, Generate):
            first, count = sum(made), len(op.requests)
            made.append(count)
            spent += takes(count) or 0.0
            return Generated(tuple(Candidate((first + i,), ()) for i in range(count)), Usage(seconds=spent))
        return None

    return drive(stage, State(Problem("1 + 1")), answer), made, asked


def test_a_rung_is_climbed_while_it_fits_into_what_is_left():
    state, made, asked = alone(lambda samples: 1.0, 3.0)
    assert made == [1, 2, 1]
    assert state.ended == "latency: 2 more would take up to 1 s, and 0 of 3 s are left"
    assert all(samples == 0 for samples, _ in asked), "nothing is set aside"
    # Just in time is in time.
    assert alone(lambda samples: 1.0, 2.0)[1] == [1, 2]
    assert alone(lambda samples: 1.0, 1.999)[1] == [1]


def test_what_was_spent_before_the_ladder_counts():
    state, made, _ = alone(lambda samples: 1.0, 3.0, spent=1.5)
    assert made == [1]
    assert state.ended == "latency: 2 more would take up to 1 s, and 0.5 of 3 s are left"


def test_the_first_rung_is_climbed_however_late_it_is():
    assert alone(lambda samples: 100.0, 1.0)[1] == [1]
    assert alone(lambda samples: 100.0, 1.0, min_samples=4)[1] == [1], "what is not in time is not granted"


def test_while_nothing_is_known_only_the_first_rung_is_climbed():
    state, made, _ = alone(lambda samples: None, 5.0)
    assert made == [1]
    assert state.ended == "latency: 2 more would take an unknown time, and 5 of 5 s are left"


def test_a_plan_takes_no_rung_that_is_too_late():
    def slow(samples):
        return 1.0 if samples <= 3 else 9.0

    planned = {"gain": "planned", "controller": Online()}
    assert alone(lambda samples: 1.0, 4.0, **planned)[1][0] > 3
    assert alone(slow, 4.0, **planned)[1][0] == 3
    assert alone(slow, 0.5, **planned)[1] == [1]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_questions_end_in_time_at_the_pace_of_the_run(concurrency, tools):
    results = run_fake(
        climbing(0.35),
        FakeTask(size=12).problems(),
        engine=tools.Endless(capacity=64),
        sampling=TEN,
        concurrency=concurrency,
    )
    for result in results.values():
        assert result.usage.seconds <= 0.35
        assert result.stopped.startswith("latency: ")
    # A rung takes 0.1 s and has a margin of a fifth: the third ends at 0.3.
    assert results["fake-11"].usage.requests == 4


@pytest.mark.slow
def test_on_a_busy_engine_fewer_rungs_are_in_time(tools):
    def drawn(concurrency):
        results = run_fake(
            climbing(0.6),
            FakeTask(size=24).problems(),
            engine=tools.Endless(capacity=8),
            sampling=TEN,
            concurrency=concurrency,
        )
        return sum(result.usage.requests for result in results.values())

    assert drawn(12) < drawn(1)


@pytest.mark.slow
@pytest.mark.parametrize("part", [Online(), Reserve()], ids=["online", "reserve"])
@pytest.mark.parametrize("unit", ["tokens", "requests", "seconds"])
def test_it_works_beside_a_budget_in_any_unit(part, unit, tools):
    limit = {"tokens": 2000, "requests": 100, "seconds": 8}[unit]

    def run(latency):
        return run_fake(
            climbing(latency, controller=part, min_samples=8),
            FakeTask(size=12).problems(),
            engine=tools.Endless(capacity=64),
            sampling=TEN,
            budget=Budget(run={unit: limit}),
            concurrency=1,
        )

    late, in_time = run(None), run(0.25)
    assert any(result.usage.seconds > 0.25 for result in late.values())
    assert all(result.usage.seconds <= 0.25 for result in in_time.values())
    assert any((result.stopped or "").startswith("latency: ") for result in in_time.values())


def test_a_target_that_is_never_missed_changes_nothing(tools):
    free, timed = (
        run_fake(climbing(latency), engine=FakeEngine(capacity=64), concurrency=1) for latency in (None, 1e6)
    )
    assert tools.key(free) == tools.key(timed)


def test_a_question_that_has_samples_already_waits_for_a_pace(tools):
    strategy = Sequence(
        {
            "first": GenerateStage(2),
            "climb": Ladder(latency=0.35, worth=0.0, settled=1.0),
            "vote": Aggregate(),
        }
    )
    results = run_fake(strategy, engine=tools.Endless(), sampling=TEN, concurrency=1)
    # Nothing is known when the first question comes to its ladder.
    assert results["fake-0"].usage.requests == 2
    assert "an unknown time" in results["fake-0"].stopped


def test_a_clock_that_stands_still_or_goes_back_breaks_nothing():
    class Still(FakeEngine):
        def now(self):
            return 7.0

    class Back(FakeEngine):
        def now(self):
            return 100.0 - 0.01 * self.steps

    for engine in (Still(), Back()):
        results = run_fake(climbing(1.0), engine=engine)
        assert {result.usage.requests for result in results.values()} == {1}
        assert all("an unknown time" in result.stopped for result in results.values())


def test_samples_that_a_budget_ended_teach_nothing():
    account = Account(0.0)
    case, pace = Case(0, Problem("1 + 1"), account), Pace(lambda problem: 0.0)
    assert pace.takes(case, 2, 0.0) is None
    account.requests, account.stopped = 2, "budget"
    pace.closed(case, 5.0)
    assert pace.takes(Case(1, Problem("2 + 2"), Account(5.0)), 2, 5.0) is None


def test_what_passes_before_samples_are_sent_is_not_theirs():
    account = Account(0.0)
    case, pace = Case(0, Problem("1 + 1"), account), Pace(lambda problem: 0.0)
    pace.takes(case, 2, 0.0)
    pace.launched(case, 50.0)
    account.requests = 2
    pace.closed(case, 51.0)
    assert 1.0 < pace.takes(Case(1, Problem("2 + 2"), Account(51.0)), 2, 51.0) < 1.5


@pytest.mark.parametrize("latency", [0, -1.0, float("inf"), float("nan")])
def test_a_target_is_a_number_of_seconds(latency):
    with pytest.raises(ConfigError, match="seconds above 0") as caught:
        Ladder(latency=latency)
    assert caught.value.path == "latency"


@pytest.mark.parametrize("strategy", ["ladder", "atest_online", "atest_reserve"])
def test_it_is_a_setting_of_the_ladder_strategies(strategy, tmp_path):
    words = [f"strategy={strategy}", "strategy.latency=0.3", "engine=fake", "task.size=8", "concurrency=1"]
    budget = [] if strategy == "ladder" else ["budget.run.tokens=5000"]
    summary = run_config(compose([*words, *budget]), tmp_path / "run")
    assert any(reason.startswith("latency: ") for reason in summary.stopped)
