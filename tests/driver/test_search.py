"""Search strategies on the fake engine: what equals what, and what may not depend on what."""

from functools import cache

import pytest

from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.plugins import load
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.select import Select
from ttsflow.strategies.until import BestFinished, Finished
from ttsflow.strategies.verify import Verify
from ttsflow.testing import FakeEngine, FakeTask, Heard, run_fake
from ttsflow.types import Sampling
from ttsflow.verifiers.constant import Constant

SEARCHES = ["beam_search", "dvts", "rebase", "dynamic_branching", "varying_granularity", "lookahead"]
TASK = FakeTask(size=6)


@cache
def shipped(name, *more):
    """Return a shipped strategy, built; the tests share it."""
    return build("stage", compose([f"strategy={name}", *more])["strategy"], "strategy", load())


def told(results):
    """Return all that a schedule must not change."""
    return {
        name: (r.answer, r.outcome, r.candidates, r.text, r.usage.decoded, r.usage.serial, r.usage.requests)
        for name, r in results.items()
    }


def answers(results):
    return {name: (result.answer, result.text) for name, result in results.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_seats_order_and_concurrency_change_nothing(name):
    strategy = shipped(name, "strategy.n=8")
    plain = run_fake(strategy, task=TASK, concurrency=1)
    for capacity, concurrency, preempt in ((1, 1, 0.0), (3, 6, 0.3), (64, 3, 0.1)):
        engine = FakeEngine(capacity=capacity, preempt=preempt, schedule_seed=7)
        assert told(run_fake(strategy, task=TASK, engine=engine, concurrency=concurrency)) == told(plain)
    backwards = run_fake(strategy, list(reversed(TASK.problems())), task=TASK, concurrency=4)
    assert told(backwards) == told(plain)


@pytest.mark.parametrize("name", SEARCHES)
def test_every_request_is_counted_and_beams_at_the_depth_limit_are_completed(name):
    engine = FakeEngine()
    results = run_fake(shipped(name, "strategy.n=8", "strategy.depth=2"), task=TASK, engine=engine)
    assert sum(r.usage.decoded for r in results.values()) == engine.decoded
    assert all(r.outcome == "answered" for r in results.values())


@pytest.mark.parametrize("name", SEARCHES)
def test_beams_cut_by_the_limit_are_returned_as_truncated(name):
    results = run_fake(shipped(name, "strategy.n=4"), task=TASK, sampling=Sampling(max_tokens=3))
    cut = [r for r in results.values() if r.outcome == "truncated"]
    assert cut
    assert all(r.truncated for r in cut)


def test_beam_search_as_wide_as_its_pool_is_best_of_n_by_step():
    n = 4
    body = {
        "step": GenerateStage(n, unit="step"),
        "score": Verify(),
        "best": Select(into=n, copies=n),
    }
    by_step = Sequence(
        {
            "search": Repeat(body, 40, Finished(n)),
            "answer": Aggregate("weighted", top=n),
        }
    )
    beam = shipped("beam_search", f"strategy.n={n}", f"strategy.width={n}")
    assert told(run_fake(beam, task=TASK)) == told(run_fake(by_step, task=TASK))


def test_dvts_with_one_subtree_is_greedy_step_search():
    # The best of n next steps, again and again, until nothing beats a trajectory that has finished.
    for n in (2, 4):
        body = {"step": GenerateStage(n, unit="step"), "score": Verify(), "best": Select(into=n, copies=n)}
        greedy = Sequence(
            {"search": Repeat(body, 40, BestFinished()), "answer": Aggregate("weighted", top=n)}
        )
        dvts = shipped("dvts", f"strategy.n={n}", f"strategy.width={n}")
        assert told(run_fake(dvts, task=TASK)) == told(run_fake(greedy, task=TASK))


def first_roots(trace):
    """Return the first four roots of every problem with their texts."""
    return {
        (problem, *data["path"], data["text"])
        for kind, problem, data in trace.events
        if kind == "candidate" and len(data["path"]) == 1 and data["path"][0] < 4
    }


def test_the_first_roots_of_dvts_do_not_depend_on_how_many_follow():
    few, many = Heard(), Heard()
    run_fake(shipped("dvts", "strategy.n=4"), task=TASK, trace=few)
    run_fake(shipped("dvts", "strategy.n=8"), task=TASK, trace=many)
    assert first_roots(few) == first_roots(many)


def test_rebase_when_hot_is_dynamic_branching_with_equal_scores():

    hot = run_fake(
        shipped("rebase", "strategy.n=8", "strategy.temperature=1e9"), task=TASK, verifier=Constant().open()
    )
    even = run_fake(shipped("dynamic_branching", "strategy.n=8"), task=TASK, verifier=Constant().open())
    assert told(hot) == told(even)


def test_a_straggler_does_not_delay_other_problems():
    """Every problem ends after the engine steps it needs alone, whatever the others do."""
    strategy = shipped("dvts", "strategy.n=8")
    problems = TASK.problems()
    alone = {}
    for problem in problems:
        alone |= run_fake(strategy, [problem], task=TASK, engine=FakeEngine(capacity=1000))
    together = run_fake(strategy, problems, task=TASK, engine=FakeEngine(capacity=1000), concurrency=6)
    steps = {name: result.usage.engine_steps for name, result in alone.items()}
    assert {name: result.usage.engine_steps for name, result in together.items()} == steps
    assert len(set(steps.values())) > 1


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["strategy=dvts", "strategy.n=6"], "no multiple of 4; use 4 or 8"),
        (["strategy=dvts", "strategy.n=2"], "no multiple of 4"),
        (["strategy=beam_search", "strategy.n=6"], "do not divide"),
        (["strategy=beam_search", "strategy.n=2"], "n must be at least the width"),
    ],
)
def test_widths_that_do_not_fit_are_refused(words, text):
    with pytest.raises(Exception, match=text):
        build("stage", compose(words)["strategy"], "strategy", load())
