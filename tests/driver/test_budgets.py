"""Hard stops by the driver, soft stops by the strategy, and funds that several problems share."""

import pytest

from ttsflow.ledger import Budget
from ttsflow.ops import Fork, Generate, Request
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.budget_check import BudgetCheck
from ttsflow.strategies.flow import Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Sampling

TEN = Sampling(max_tokens=10)


@pytest.mark.parametrize("name", ["majority", "beam", "subtrees", "ffs"])
def test_a_limit_per_problem_is_overshot_by_one_token_per_running_request_at_most(name, tools):
    engine = FakeEngine(capacity=64)
    results = run_fake(
        getattr(tools.trees, name)(), engine=engine, budget=Budget(problem={"tokens": 100}), concurrency=3
    )
    assert tools.decoded(results) == engine.decoded
    stopped = [r for r in results.values() if r.stopped == "budget: 100 tokens per problem spent"]
    if name != "ffs":
        assert stopped
    for result in results.values():
        assert result.usage.decoded < 100 + 16
    assert all(result.usage.decoded >= 100 for result in stopped)


def test_the_state_keeps_what_there_was_when_the_funds_ended(tools):
    trace = tools.Watcher()
    results = run_fake(tools.trees.majority(16), budget=Budget(problem={"tokens": 150}), trace=trace)
    finishes = {data["finish"] for _, data in trace.of("candidate")}
    assert finishes == {"stop", "aborted"}
    assert all(result.candidates == 16 for result in results.values())
    assert any(result.outcome == "answered" and result.stopped for result in results.values())
    assert all(result.usage.aborted for result in results.values() if result.stopped)


def test_a_limit_in_seconds_is_kept_on_the_clock_of_the_engine(tools):
    results = run_fake(
        tools.trees.majority(8),
        engine=tools.Endless(capacity=64, step_seconds=0.25),
        budget=Budget(problem={"seconds": 2.0}),
        concurrency=2,
    )
    for result in results.values():
        assert result.stopped == "budget: 2 seconds per problem spent"
        assert result.outcome == "truncated"
        assert result.usage.seconds == 2.0
        assert result.usage.decoded == 8 * 8


def test_a_limit_in_requests_refuses_what_comes_after_it():
    loop = Sequence({"r": Repeat({"s": GenerateStage(2)}, at_most=9), "vote": Aggregate()})
    results = run_fake(loop, budget=Budget(problem={"requests": 6}))
    assert {result.usage.requests for result in results.values()} == {6}
    assert {result.stopped for result in results.values()} == {"budget: 6 requests per problem spent"}


@pytest.mark.parametrize("scope", ["problem", "run"])
def test_requests_within_their_limit_are_not_ended_midway(scope, tools):
    trace = tools.Watcher()
    problems = FakeTask(size=2).problems()
    limit = {"problem": 6, "run": 12}[scope]
    loop = Sequence({"r": Repeat({"s": GenerateStage(2)}, at_most=9), "vote": Aggregate()})
    run_fake(loop, problems, budget=Budget(**{scope: {"requests": limit}}), trace=trace)
    samples = trace.samples()
    assert len(samples) == 12
    assert {finish for _, _, finish in samples.values()} == {"stop"}


def test_a_limit_of_the_run_defers_what_has_not_started(tools):
    engine = FakeEngine(capacity=64)
    results = run_fake(
        tools.trees.majority(4),
        FakeTask(size=20).problems(),
        engine=engine,
        concurrency=3,
        budget=Budget(run={"tokens": 500}),
    )
    assert len(results) == 20
    assert tools.decoded(results) == engine.decoded
    assert 500 <= engine.decoded < 500 + 3 * 4
    deferred = [result for result in results.values() if result.outcome == "deferred"]
    assert deferred
    for result in deferred:
        assert result.stopped == "budget: 500 tokens per run spent"
        assert result.usage.decoded == result.usage.requests == 0
        assert result.answer is None
        assert result.correct is False
    cut = [result for result in results.values() if result.outcome != "deferred" and result.stopped]
    assert 1 <= len(cut) <= 3


def test_a_limit_of_the_run_in_seconds_is_wall_time_whatever_the_concurrency(tools):
    for concurrency in (1, 8):
        engine = FakeEngine(capacity=64, step_seconds=0.1)
        run_fake(
            tools.trees.majority(4),
            FakeTask(size=40).problems(),
            engine=engine,
            concurrency=concurrency,
            budget=Budget(run={"seconds": 5.0}),
        )
        assert engine.now() == pytest.approx(5.0)


def test_a_search_that_looks_at_its_funds_stops_before_the_limit(tools):
    strategy = tools.trees.beam(depth=40, funds=BudgetCheck(reserve=0.5))
    results = run_fake(strategy, budget=Budget(problem={"tokens": 400}), engine=FakeEngine(capacity=64))
    soft = [result for result in results.values() if (result.stopped or "").startswith("funds low")]
    assert soft
    assert all(200 < result.usage.decoded < 400 for result in soft)
    assert all(result.candidates for result in soft)


def test_a_cheaper_branch_runs_when_funds_are_low():
    strategy = Sequence(
        {
            "first": GenerateStage(2),
            "funds": BudgetCheck(reserve=0.9, otherwise=GenerateStage(1)),
            "vote": Aggregate(),
        }
    )
    for budget, requests in ((Budget(problem={"tokens": 10_000}), 2), (Budget(problem={"requests": 10}), 3)):
        results = run_fake(strategy, budget=budget, sampling=Sampling(max_tokens=40))
        assert {result.usage.requests for result in results.values()} == {requests}
        assert {result.stopped for result in results.values()} == {None}


@pytest.mark.slow
def test_without_a_budget_a_budget_check_changes_nothing(tools):
    plain = run_fake(tools.trees.beam())
    checked = run_fake(tools.trees.beam(funds=BudgetCheck(reserve=0.5, samples=99)))
    assert tools.key(plain) == tools.key(checked)


def careful(samples):
    return Sequence(
        {
            "first": GenerateStage(1),
            "more": Repeat(
                {"funds": BudgetCheck(samples=samples), "sample": GenerateStage(samples)}, at_most=100
            ),
            "vote": Aggregate(),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("samples", [1, 4])
@pytest.mark.parametrize("seats", [8, 11, 64])
@pytest.mark.parametrize("unit", ["tokens", "requests"])
def test_problems_in_flight_do_not_overspend_together(samples, seats, unit, tools):
    per_sample = {"tokens": 10, "requests": 1}[unit]
    limit = per_sample * (8 + 50) + 1
    results = run_fake(
        careful(samples),
        engine=tools.Endless(capacity=seats),
        sampling=TEN,
        concurrency=8,
        budget=Budget(run={unit: limit}),
    )
    spent = sum(r.usage.decoded if unit == "tokens" else r.usage.requests for r in results.values())
    reasons = {result.stopped.split(":")[0] for result in results.values()}
    assert reasons == {"funds low"}
    assert spent <= limit
    # ... and what is left would not have paid for another batch.
    assert limit - spent < per_sample * samples


def test_a_problem_that_could_not_afford_a_sample_reserves_nothing(tools):
    greedy = Sequence(
        {
            "first": GenerateStage(1),
            "funds": BudgetCheck(samples=1000, otherwise=GenerateStage(1)),
            "vote": Aggregate(),
        }
    )
    results = run_fake(
        greedy, engine=tools.Endless(), sampling=TEN, concurrency=8, budget=Budget(run={"tokens": 1000})
    )
    assert {result.usage.requests for result in results.values()} == {2}


def test_a_stage_hears_of_the_stop_and_cannot_go_on():
    replies = []

    class Stubborn:
        def __call__(self, state):
            while len(replies) < 3:
                reply = yield Generate((Request(),) * 4)
                replies.append(reply)
            return state.with_(pool=replies[-1].candidates)

    results = run_fake(Stubborn(), FakeTask(size=1).problems(), budget=Budget(problem={"tokens": 5}))
    reason = "budget: 5 tokens per problem spent"
    assert [reply.stopped for reply in replies] == [reason] * 3
    assert [len(reply.candidates) for reply in replies] == [4, 0, 0]
    assert {candidate.finish for candidate in replies[0].candidates} <= {"aborted", "stop"}
    assert results["fake-0"].usage.requests == 4


def test_a_branch_starts_nothing_new_beyond_the_limit_while_another_still_runs(tools):
    def long(state):
        got = yield Generate((Request(),))
        return state.with_(pool=got.candidates)

    def busy(state):
        got = None
        for _ in range(20):
            got = yield Generate((Request(None, "step", ";", 2),))
            if got.stopped:
                break
        return state.with_(stopped=got.stopped)

    def both(state):
        first, second = yield Fork(((long, state), (busy, state)))
        return state.with_(pool=first.pool, stopped=second.stopped)

    results = run_fake(
        both,
        FakeTask(size=1).problems(),
        engine=tools.Endless(),
        budget=Budget(problem={"requests": 5}),
        sampling=Sampling(max_tokens=60),
    )
    assert results["fake-0"].usage.requests == 5
    assert results["fake-0"].stopped == "budget: 5 requests per problem spent"
    assert results["fake-0"].truncated == 1  # the long one ran to its own limit
    assert results["fake-0"].usage.decoded == 60 + 4 * 2
