"""Several engines in one run: who decodes what, who pays, and what is refused."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.acceleration import PLAIN, Acceleration, Speculation
from ttsflow.budget import Budget
from ttsflow.build import build
from ttsflow.config import strategy
from ttsflow.engines.prefix_ordered import PrefixOrdered
from ttsflow.engines.shared import share
from ttsflow.ops import Generate, Request
from ttsflow.plugins import load
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.apart import Apart
from ttsflow.strategies.flow import Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.select import Select
from ttsflow.strategies.until import AllFinished
from ttsflow.strategies.verify import Verify
from ttsflow.strategies.watches import FirstFinished
from ttsflow.testing import FakeEngine, FakeTask, run_fake
from ttsflow.testing.schedules import Booked, Schedule, draw, play, same
from ttsflow.types import Sampling, State

TASK = FakeTask(size=12)


class Other(FakeEngine):
    """Another model: it reads prompts as other tokens, and whatever it answers is 2."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.asked = []
        self.ended = []

    def encode(self, prompt):
        return tuple(reversed(super().encode(prompt)))

    def decode(self, tokens):
        text = super().decode(tokens)
        for digit in "01345":
            text = text.replace(f"Answer: {digit}", "Answer: 2")
        return text

    def submit(self, request):
        self.asked.append(request)
        super().submit(request)

    def abort(self, ids):
        self.ended += ids
        super().abort(ids)


def cascade(**settings):
    return build("stage", strategy("model_cascade", settings), "strategy", load())


def two(n=4, m=3, **further):
    """Return a strategy that asks both engines for whole samples, one after the other."""
    return Sequence(
        {"small": GenerateStage(n), "large": GenerateStage(m, engine="large", **further), "vote": Aggregate()}
    )


def idle(engine):
    return not (engine._running or engine._waiting)


# --- who decodes ------------------------------------------------------------------------------------


def test_the_second_engine_decides_where_the_first_is_not_sure(tools):
    plain = run_fake(tools.trees.majority(8), task=TASK)
    trace, large = tools.Watcher(), Other()
    results = run_fake(cascade(m=2, share=0.5), engines={"large": large}, task=TASK, trace=trace)
    asked = {request.problem for request in large.asked}
    assert 0 < len(asked) < len(results)
    for name, result in results.items():
        if name not in asked:
            assert (result.answer, result.text) == (plain[name].answer, plain[name].text)
        elif result.answer is not None:
            assert result.answer == "2"
    assert any(results[name].answer == "2" != plain[name].answer for name in asked)


def test_with_keep_both_models_vote(tools):
    trace = tools.Watcher()
    run_fake(cascade(keep=True, n=4, m=3), engines={"large": Other()}, task=TASK, trace=trace)
    ended = {}
    for problem, data in trace.of("candidate"):
        ended.setdefault(problem, []).append(data)
    for problem, data in trace.of("aggregate"):
        assert sum(data["weights"].values()) == sum("answer" in one for one in ended[problem])


def test_each_engine_reads_the_prompt_and_writes_the_text_in_its_own_tokens(tools):
    trace, small, large = tools.Watcher(), FakeEngine(), Other()
    run_fake(two(), engine=small, engines={"large": large}, task=TASK, trace=trace)
    prompts = {problem.id: problem.prompt for problem in TASK.problems()}
    assert large.asked
    assert all(request.prompt == large.encode(prompts[request.problem]) for request in large.asked)
    for _, data in trace.of("candidate"):
        assert data.get("engine", "") == ("large" if data["path"][0] >= 4 else "")
    told = [data["answer"] for _, data in trace.of("candidate") if "engine" in data and "answer" in data]
    assert told
    assert {*told} == {"2"}


def test_samples_of_the_engine_of_the_run_stay_what_they_are(tools):
    alone, beside = tools.Watcher(), tools.Watcher()
    run_fake(tools.trees.majority(4), task=TASK, trace=alone)
    run_fake(two(4, 3), engines={"large": Other()}, task=TASK, trace=beside)
    small = [(name, data) for name, data in beside.of("candidate") if "engine" not in data]
    by = lambda item: (item[0], item[1]["path"])  # noqa: E731 - a key
    assert sorted(small, key=by) == sorted(alone.of("candidate"), key=by)


def test_a_search_stays_with_the_engine_that_began_it(tools):
    stages = {"step": GenerateStage(3, unit="step")}
    search = Sequence(
        {
            "roots": GenerateStage(3, unit="step", engine="large"),
            "loop": Repeat(stages, at_most=4, until=AllFinished()),
            "vote": Aggregate(),
        }
    )
    trace, small, large = tools.Watcher(), FakeEngine(), Other()
    results = run_fake(search, engine=small, engines={"large": large}, task=TASK, trace=trace)
    assert any(len(data["path"]) > 1 for _, data in trace.of("candidate"))
    assert {data["engine"] for _, data in trace.of("candidate")} == {"large"}
    assert (small.decoded, small.steps) == (0, 0)
    assert sum(result.usage.decoded for result in results.values()) == large.decoded
    for request in large.asked:
        start = large.encode(f"Question {request.problem.removeprefix('fake-')}\n")
        assert request.prompt[: len(start)] == start


def test_the_context_is_that_of_the_engine_that_decodes():
    engines = {"large": FakeEngine(context=14)}
    results = run_fake(Sequence({"a": GenerateStage(2, engine="large")}), engines=engines)
    assert all(result.usage.of("large").output <= 2 * (14 - 11) for result in results.values())
    assert any(result.truncated for result in results.values())


@given(number=st.integers(0, 10_000))
@settings(max_examples=20)
def test_no_schedule_changes_an_answer_or_loses_a_token(number):
    assert same(play(cascade(n=6), Schedule(0, 64, 0.0, 1, 0, PLAIN)), play(cascade(n=6), draw(number)))


@pytest.mark.parametrize("seats", [1, 4, 64])
@pytest.mark.parametrize("concurrency", [1, 8])
def test_seats_and_concurrency_change_no_answer(seats, concurrency, tools):
    shortest = {
        "sample": GenerateStage(6, engine="large", watch=FirstFinished(2)),
        "keep": Select(by="tokens", keep=2, answered=True),
    }
    first_finished = Sequence({"small": GenerateStage(6), "large": Apart(shortest), "vote": Aggregate()})
    runs = [
        run_fake(
            first_finished,
            engine=FakeEngine(capacity=one),
            engines={"large": Other(capacity=other, preempt=0.2)},
            task=TASK,
            concurrency=side,
        )
        for one, other, side in ((16, 16, 3), (seats, 65 - seats, concurrency))
    ]
    assert tools.key(runs[0]) == tools.key(runs[1])


# --- who pays ---------------------------------------------------------------------------------------


def test_tokens_are_told_apart_as_the_engines_count_them(tools):
    small, large, third = FakeEngine(capacity=3), Booked(), Other()
    stages = {"x": two(4, 6, watch=FirstFinished(2)), "more": GenerateStage(2, engine="third")}
    engines = {"large": large, "third": third}
    results = run_fake(Sequence(stages), engine=small, engines=engines, task=TASK)
    usage = [result.usage for result in results.values()]
    for name, engine in engines.items():
        assert sum(one.of(name).decoded for one in usage) == engine.decoded
    assert sum(one.decoded for one in usage) == small.decoded + large.decoded + third.decoded
    assert sum(one.of("third").prompt for one in usage) == sum(len(asked.prompt) for asked in third.asked)
    assert sum(one.of("third").requests for one in usage) == len(third.asked) == 2 * TASK.size
    assert all(one.requests == 12 for one in usage)
    # What is ended early is ended on its own engine.
    assert large.aborted
    assert sum(one.of("large").aborted for one in usage) == sum(one.aborted for one in usage) > 0
    assert large.given == large.ended | large.aborted
    assert all([part.engine for part in one.engines] == ["large", "third"] for one in usage)


def test_no_engine_is_named_where_none_was_asked():
    alone = run_fake(GenerateStage(2), engines={"large": Other()})
    assert {result.usage.engines for result in alone.values()} == {()}


@pytest.mark.parametrize("around", [lambda one: one, PrefixOrdered, lambda one: share(one)[0]])
def test_the_clock_counts_what_either_engine_takes(around):
    small, large = FakeEngine(), Other(step_seconds=1.0)
    results = run_fake(two(2, 2), engine=around(small), engines={"large": large}, concurrency=1, task=TASK)
    passed = small.steps * 0.01 + large.steps * 1.0
    assert sum(result.usage.seconds for result in results.values()) == pytest.approx(passed)
    assert small.now() == pytest.approx(passed)


def test_a_budget_per_problem_holds_for_both_engines_together():
    budget = Budget(problem={"tokens": 60})
    results = run_fake(two(2, 6), engines={"large": Other()}, budget=budget, task=TASK)
    cut = [one for one in results.values() if one.stopped == "budget: 60 tokens per problem spent"]
    assert any(one.usage.of("large").aborted for one in cut)
    # A token of each of six requests, at most, comes in the step that reaches the limit.
    assert all(one.usage.decoded < 60 + 6 for one in results.values())


def test_a_budget_of_the_run_holds_for_both_engines_together():
    small, large = FakeEngine(), Other()
    results = run_fake(
        two(3, 3), engine=small, engines={"large": large}, budget=Budget(run={"tokens": 300}), task=TASK
    )
    assert 300 <= small.decoded + large.decoded < 300 + 3 * 8
    assert sum(result.usage.decoded for result in results.values()) == small.decoded + large.decoded
    assert any(result.outcome == "deferred" for result in results.values())
    assert idle(small)
    assert idle(large)


# --- what goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("dying", ["small", "large"])
def test_an_engine_that_dies_fails_the_rest(dying):
    small = FakeEngine(dies_after=30 if dying == "small" else None)
    large = Other(dies_after=30 if dying == "large" else None)
    # With a budget every token is reported as it comes.
    results = run_fake(
        two(3, 3),
        engine=small,
        engines={"large": large},
        task=TASK,
        concurrency=4,
        budget=Budget(run={"tokens": 1e6}),
    )
    failed = [result for result in results.values() if result.outcome == "failed"]
    assert failed
    named = "engine `large`: " if dying == "large" else ""
    told = f"{named}the fake engine died after 30 steps, as it was told to."
    assert {result.reason for result in failed} == {told}
    assert sum(result.usage.decoded for result in results.values()) == small.decoded + large.decoded
    assert sum(result.usage.of("large").decoded for result in results.values()) == large.decoded
    assert idle(large if dying == "small" else small), "the other one is left with nothing"


def test_a_prompt_that_one_engine_cannot_read_fails_its_problem_alone():
    class Picky(Other):
        def encode(self, prompt):
            if "3" in prompt:
                raise ValueError("no 3, please")
            return super().encode(prompt)

    results = run_fake(two(), engines={"large": Picky()}, task=FakeTask(size=5))
    assert results["fake-3"].reason == (
        "ValueError: engine `large` cannot encode the prompt: ValueError: no 3, please"
    )
    assert [name for name, one in results.items() if one.outcome == "failed"] == ["fake-3"]


@dataclass(frozen=True)
class Mixing:
    """Goes on with a candidate on another engine than its own, or on one that there is not."""

    begin: str | None
    go_on: str | None

    def __call__(self, state: State):
        got = yield Generate((Request(unit="step", engine=self.begin),))
        got = yield Generate((Request(got.candidates[0], engine=self.go_on),))
        return state.with_(pool=got.candidates)


@pytest.mark.parametrize(
    ("begin", "go_on", "reason"),
    [
        (None, "large", "a candidate of the engine of the run cannot go on with engine `large`"),
        ("large", "", "a candidate of engine `large` cannot go on with the engine of the run"),
        ("large", "third", "a candidate of engine `large` cannot go on with engine `third`"),
        ("larg", None, "no engine 'larg' under `engines`. Did you mean 'large'? Known: large, third."),
    ],
)
def test_no_engine_goes_on_with_the_tokens_of_another(begin, go_on, reason):
    small, large = FakeEngine(), Other()
    results = run_fake(Mixing(begin, go_on), engine=small, engines={"large": large, "third": Other()})
    assert {result.outcome for result in results.values()} == {"failed"}
    assert all(reason in result.reason for result in results.values())
    assert idle(small)
    assert idle(large)


def test_what_is_begun_early_is_never_of_another_engine():
    """The outlook of the first steps shows children that another engine would have to make."""
    loop = {
        "score": Verify(),
        "keep": Select(into=4, copies=2),
        "step": GenerateStage(4, unit="step", engine="large"),
    }
    search = Sequence({"roots": GenerateStage(4, unit="step"), "loop": Repeat(loop, at_most=3)})
    wanted = Acceleration(speculation=Speculation(curve=False), eager_verify=True)
    results = run_fake(search, engines={"large": Other()}, task=TASK, acceleration=wanted)
    (told,) = {result.reason for result in results.values() if result.outcome == "failed"}
    assert (
        "a candidate of the engine of the run cannot go on with engine `large`: their tokens differ." in told
    )
    assert sum(result.usage.dropped for result in results.values()) == 0


def test_a_candidate_goes_on_where_it_began():
    short = Sampling(max_step_tokens=4)
    results = run_fake(Mixing("large", None), engines={"large": Other()}, sampling=short)
    assert all(result.usage.of("large").requests == result.usage.requests == 2 for result in results.values())


def test_apart_lets_another_engine_begin_a_search():
    step = lambda engine: Repeat({"s": GenerateStage(2, unit="step", engine=engine)}, at_most=2)  # noqa: E731
    search = Sequence({"first": step(None), "second": Apart({"s": step("large")}), "vote": Aggregate()})
    results = run_fake(search, engines={"large": Other()}, sampling=Sampling(max_step_tokens=4))
    assert {result.outcome for result in results.values()} <= {"answered", "abstained"}
    assert all(result.candidates == 4 for result in results.values())
