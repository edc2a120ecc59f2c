"""Answers and books do not depend on the order of work."""

import itertools
import random

import pytest

from ttsflow.ops import Generate
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Each, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.types import Sampling

SAMPLING = Sampling(max_tokens=60, max_step_tokens=16)
SCHEDULES = [
    (seats, concurrency, preempt)
    for seats, concurrency, preempt in itertools.product((4, 16, 64), (1, 8), (0.0, 0.3))
]
NAMES = ["majority", "ffs", "ffs_refill", "self_consistency", "best_of_n", "weighted", "beam", "subtrees"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_schedule_changes_no_result_and_every_token_is_booked(name, tools):
    strategy = getattr(tools.trees, name)()
    problems = FakeTask(size=5).problems()
    found = []
    for number, (seats, concurrency, preempt) in enumerate(SCHEDULES):
        random.Random(number).shuffle(problems)
        engine = FakeEngine(capacity=seats, preempt=preempt, schedule_seed=number)
        results = run_fake(
            strategy, problems, engine=engine, concurrency=concurrency, sampling=SAMPLING, seed=3
        )
        assert tools.decoded(results) == engine.decoded
        found.append(tools.key(results))
    assert len({repr(key) for key in found}) == 1
    assert {result[2] for result in found[0]} <= {"answered", "abstained", "truncated"}
    assert any(result[2] == "answered" for result in found[0])


@pytest.mark.parametrize("name", ["majority", "ffs", "beam", "subtrees"])
def test_the_comparison_notices_an_engine_that_seeds_by_arrival(name, tools):
    strategy = getattr(tools.trees, name)()
    problems = FakeTask(size=5).problems()
    keys = [
        tools.key(run_fake(strategy, order, engine=tools.ByArrival(capacity=seats), concurrency=concurrency))
        for order, seats, concurrency in ((problems, 64, 8), (problems[::-1], 4, 1))
    ]
    assert keys[0] != keys[1]


def test_another_run_seed_gives_other_samples(tools):
    texts = []
    for seed in (0, 0, 1):
        trace = tools.Watcher()
        run_fake(tools.trees.majority(4), seed=seed, trace=trace)
        texts.append([text for _, text, _ in trace.samples().values()])
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


def test_the_first_samples_of_a_larger_majority_are_those_of_a_smaller_one(tools):
    small, large = tools.Watcher(), tools.Watcher()
    run_fake(tools.trees.majority(4), trace=small)
    run_fake(tools.trees.majority(16), trace=large)
    few, many = small.samples(), large.samples()
    assert len(few) == 8 * 4
    assert len(many) == 8 * 16
    assert few == {path: many[path] for path in few}


def test_a_strategy_of_another_kind_shares_the_samples(tools):
    whole, early = tools.Watcher(), tools.Watcher()
    run_fake(tools.trees.majority(16), trace=whole)
    run_fake(tools.trees.ffs(16, 4), trace=early)
    ended = {path: sample for path, sample in early.samples().items() if sample[2] == "stop"}
    assert ended
    assert ended.items() <= whole.samples().items()


def test_a_second_generate_stage_repeats_no_sample(tools):
    trace = tools.Watcher()
    strategy = Sequence({"a": GenerateStage(4), "b": GenerateStage(4), "vote": Aggregate()})
    run_fake(strategy, trace=trace)
    once = tools.Watcher()
    run_fake(tools.trees.majority(8), trace=once)
    assert trace.samples() == once.samples()
    assert len({seed for seed, _, _ in trace.samples().values()}) == 8 * 8


def test_samples_of_a_refused_answer_still_use_up_their_number(tools):
    class Discard:
        def __call__(self, state):
            yield Generate(())
            return state.with_(pool=())

    trace = tools.Watcher()
    strategy = Sequence(
        {"a": GenerateStage(4), "drop": Discard(), "b": GenerateStage(4), "vote": Aggregate()}
    )
    run_fake(strategy, FakeTask(size=1).problems(), trace=trace)
    assert sorted(path for _, path in trace.samples()) == [(number,) for number in range(8)]


def test_two_problems_with_one_prompt_do_not_share_results(tools):
    first, *_ = FakeTask(size=1).problems()
    twin = type(first)(first.prompt, id="twin", gold=first.gold)
    trace = tools.Watcher()
    results = run_fake(tools.trees.majority(4), [first, twin], trace=trace)
    assert set(results) == {"fake-0", "twin"}
    by_problem = {name: {s[1] for (p, _), s in trace.samples().items() if p == name} for name in results}
    assert by_problem["fake-0"] != by_problem["twin"]


def test_a_problem_without_an_id_is_named_by_its_content():
    first, second = FakeTask(size=2).problems()
    assert type(first)(first.prompt).id == type(first)(first.prompt, gold="9").id
    assert type(first)(first.prompt).id != type(first)(second.prompt).id


def test_samples_after_a_fork_repeat_none_of_its_branches(tools):
    trace = tools.Watcher()
    strategy = Sequence(
        {"roots": GenerateStage(2), "each": Each({"more": GenerateStage(2)}), "last": GenerateStage(3)}
    )
    run_fake(strategy, FakeTask(size=1).problems(), trace=trace)
    paths = sorted(data["path"] for _, data in trace.of("candidate"))
    assert paths == [(number,) for number in range(2 + 2 * 2 + 3)]
