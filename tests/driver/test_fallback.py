"""When the funds of a run are low, new problems get one sample, whatever the strategy is."""

import pytest

from ttsflow.budget import Budget
from ttsflow.config import compose
from ttsflow.controllers.reserve import Reserve
from ttsflow.costs.basic import Tokens
from ttsflow.ledger import Ledger
from ttsflow.run import run_config
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Sampling

TEN = Sampling(max_tokens=10)


def budget(limit, reserve=0.25, **more):
    return Budget(run={"tokens": limit}, reserve=reserve, fallback="single", **more)


def test_new_problems_get_one_sample_below_the_reserve(tools):
    trace = tools.Watcher()
    results = run_fake(
        tools.trees.majority(4),
        FakeTask(size=20).problems(),
        engine=tools.Endless(),
        sampling=TEN,
        budget=budget(400),
        concurrency=1,
        trace=trace,
    )
    # 40 tokens a question, as long as 100 are left after it: 7 have had theirs; 10 tokens each from there on.
    drawn = [results[f"fake-{i}"].usage.requests for i in range(20)]
    assert drawn == [4] * 7 + [1] * 12 + [0]
    told = {problem: data["reason"] for problem, data in trace.of("fallback")}
    assert [*told] == [f"fake-{i}" for i in range(7, 19)]
    assert told["fake-7"] == "reserve: 80 of 400 tokens would be left, single in place of the strategy"
    for name, reason in told.items():
        assert results[name].stopped == reason


def test_the_sample_is_the_first_one_of_the_strategy(tools):
    def samples(**settings):
        trace = tools.Watcher()
        problems = FakeTask(size=3).problems()
        run_fake(tools.trees.majority(4), problems, trace=trace, concurrency=1, **settings)
        return trace.samples()

    few, many = samples(budget=budget(10**6, 0.999999)), samples()
    single = {key: sample for key, sample in few.items() if key[0] != "fake-0"}
    assert len(single) == 2
    assert single == {key: many[key] for key in single}


@pytest.mark.parametrize("name", ["majority", "beam", "subtrees", "ffs", "self_consistency"])
@pytest.mark.parametrize("concurrency", [1, 5])
@pytest.mark.parametrize("limit", [150, 900])
def test_the_budget_is_exceeded_by_one_step_at_most(name, concurrency, limit, tools):
    engine = FakeEngine(capacity=64)
    results = run_fake(
        getattr(tools.trees, name)(),
        FakeTask(size=16).problems(),
        engine=engine,
        budget=budget(limit, 0.4),
        concurrency=concurrency,
    )
    assert len(results) == 16
    assert tools.decoded(results) == engine.decoded < limit + 64
    if (limit, concurrency) == (900, 1):
        assert any("in place of the strategy" in (result.stopped or "") for result in results.values())


@pytest.mark.slow
def test_fewer_are_deferred_than_without(tools):
    def deferred(funds):
        results = run_fake(tools.trees.majority(8), FakeTask(size=30).problems(), budget=funds, concurrency=2)
        return tools.outcomes(results)["deferred"]

    assert deferred(budget(1500, 0.4)) < deferred(Budget(run={"tokens": 1500}))


def test_what_others_have_set_aside_is_not_left():
    book = Ledger({"tokens": Tokens()}, budget(100, 0.5))
    first, second = book.account(0.0), book.account(0.0)
    first.output, first.requests = 20, 1
    book.settle(first, 1)
    assert book.low(second, 0.0, 0.0) is None
    book.quote(first, 2, 0.0, 0.0)
    assert book.low(second, 0.0, 0.0) == "reserve: 40 of 100 tokens would be left"


def test_what_others_under_way_are_expected_to_cost_is_not_left():
    book = Ledger({"tokens": Tokens()}, budget(100, 0.25))

    def spent(tokens, *, fallen=False, close=False):
        account = book.account(0.0)
        account.output, account.requests, account.fallen = tokens, 1, fallen
        if close:
            book.close(account, 0.0)

    spent(20, close=True)
    # One that had a single sample, and one that had nothing, are no measure of the strategy.
    spent(2, fallen=True, close=True)
    book.close(book.account(0.0), 0.0)
    spent(5)
    new = book.account(0.0)
    # 27 of 100 are spent, 15 more will be by the one under way, and 20 by this one.
    assert book.low(new, 0.0, 0.0) is None
    spent(1, fallen=True)
    assert book.low(new, 0.0, 0.0) is None, "a single sample is not taken for the strategy"
    spent(0)
    assert book.low(new, 0.0, 0.0) == "reserve: 17 of 100 tokens would be left"


@pytest.mark.parametrize("concurrency", [1, 2, 4])
def test_with_many_in_flight_the_reserve_is_there_for_the_last_ones(concurrency, tools):
    results = run_fake(
        tools.trees.majority(4),
        FakeTask(size=30).problems(),
        engine=tools.Endless(capacity=64),
        sampling=TEN,
        budget=budget(800, 0.25),
        concurrency=concurrency,
    )
    assert tools.outcomes(results)["deferred"] == 0
    assert sum(result.usage.requests == 4 for result in results.values()) == 15
    assert sum(result.usage.requests == 1 for result in results.values()) == 15


def test_it_looks_at_every_unit_that_the_run_has(tools):
    results = run_fake(
        tools.trees.majority(4),
        FakeTask(size=8).problems(),
        budget=Budget(run={"tokens": 10**9, "requests": 20}, reserve=0.5, fallback="single"),
        concurrency=1,
    )
    assert [result.usage.requests for result in results.values()] == [4, 4, 1, 1, 1, 1, 1, 1]


@pytest.mark.slow
def test_a_controller_goes_on_with_the_others(tools):
    strategy = Sequence({"climb": Ladder(controller=Reserve()), "vote": Aggregate()})
    results = run_fake(strategy, FakeTask(size=12).problems(), budget=budget(600, 0.5), concurrency=2)
    assert tools.outcomes(results)["deferred"] == 0
    single = [r for r in results.values() if "in place of the strategy" in (r.stopped or "")]
    assert single
    assert all(result.usage.requests == 1 for result in single)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "limit"), [("majority", 900), ("beam_search", 900), ("atest_online", 900), ("dynasor", 150)]
)
def test_it_needs_nothing_but_the_config(strategy, limit, tmp_path):
    words = [f"strategy={strategy}", "engine=fake", "verifier=fake", "task.size=12", "concurrency=1"]
    summary = run_config(
        compose([*words, f"budget.run.tokens={limit}", "budget.reserve=0.6", "budget.fallback=single"]),
        tmp_path / "run",
    )
    assert summary.status == "complete"
    assert any("single in place of the strategy" in reason for reason in summary.stopped)
