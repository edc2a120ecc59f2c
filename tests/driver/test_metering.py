"""Joules in the books of a run: they add up, whatever happens in which order, and no result is lost."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.composing.assemble import assemble
from ttsflow.controllers.online import Online
from ttsflow.controllers.reserve import Reserve
from ttsflow.costs.basic import Requests, Seconds, Tokens
from ttsflow.costs.prices import Joules
from ttsflow.driver.loop import Driver
from ttsflow.driver.metering import Metering
from ttsflow.driver.settle import Rules
from ttsflow.engines import warm
from ttsflow.errors import MeterDead
from ttsflow.ledger import Account, Budget, Ledger
from ttsflow.measuring import controllers_of
from ttsflow.meters.model import PowerModel
from ttsflow.ops import Generate, Request
from ttsflow.results import outcome_of
from ttsflow.run import run_config
from ttsflow.session import Session
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.ladder import Ladder
from ttsflow.strategies.watches import FirstFinished
from ttsflow.testing import FakeEngine, FakeTask, FakeVerifierPart, run_fake
from ttsflow.types import Sampling, State, Usage

NAN = float("nan")


@pytest.fixture(autouse=True)
def _no_engine_is_left_warm():
    yield
    warm.close_all()


class Meter:
    """Counts ``watts`` of the clock it is read by; ``script`` has the last word on a reading."""

    source = "made up"

    def __init__(self, watts=100.0, window=0.0, script=None):
        self.window = window
        self.watts = watts
        self.closed = 0
        self.reads = 0
        self._script = script
        self._start = None

    def read(self, now):
        self.reads += 1
        self._start = now if self._start is None else self._start
        joules = 7.0 + self.watts * (now - self._start)
        return joules if self._script is None else self._script(self.reads, joules)

    def close(self):
        self.closed += 1


def dying(after):
    def script(reads, joules):
        if reads > after:
            raise MeterDead("the meter is out of order.")
        return joules

    return script


def metered(strategy, meter, *, problems=None, engine=None, budget=None, how="token_share", **settings):
    """Run a strategy and return its results and what meters them."""
    engine, budget = engine or FakeEngine(), budget or Budget()
    costs = {"tokens": Tokens(), "seconds": Seconds(), "requests": Requests(), "joules": Joules()}
    metering = Metering(meter, how, engine.now())
    driver = Driver(
        strategy,
        Rules(engine, FakeTask(), Sampling(max_tokens=60, max_step_tokens=12), 0, 0, certainty=False),
        Ledger(costs, budget, metered=True),
        verifier=FakeVerifierPart().open(),
        controllers=controllers_of(strategy, budget),
        metering=metering,
        **settings,
    )
    results = {result.id: result for result in driver.run(problems or FakeTask(size=5).problems())}
    return results, metering, driver


VOTE = Sequence({"sample": GenerateStage(4), "vote": Aggregate()})
STRATEGIES = {
    "vote": VOTE,
    "aborts": Sequence({"sample": GenerateStage(6, watch=FirstFinished(2, 2)), "vote": Aggregate()}),
    "online": Sequence({"climb": Ladder(controller=Online(unit="joules")), "vote": Aggregate()}),
    "reserve": Sequence(
        {"climb": Ladder(controller=Reserve(unit="joules", retry=True), gain="planned"), "vote": Aggregate()}
    ),
}


@pytest.mark.slow
@settings(max_examples=40)
@given(
    st.tuples(
        st.sampled_from([*STRATEGIES]),
        st.integers(0, 10**6),
        st.floats(0.0, 1000.0),
        st.sampled_from([0.0, 0.005, 0.1, 1.0]),
        st.sampled_from([1, 3, 8]),
        st.floats(1.0, 2000.0),
    )
)
def test_the_joules_of_all_problems_and_idle_are_what_was_metered(drawn):
    name, number, watts, window, concurrency, funds = drawn
    rng = random.Random(number)

    def script(reads, joules):
        """Stands still, is none and falls back now and then."""
        kind = rng.randrange(8)
        return {0: NAN, 1: 0.0}.get(kind, joules)

    budget = Budget(run={"joules": funds}) if name in {"online", "reserve"} or number % 2 else None
    results, metering, driver = metered(
        STRATEGIES[name],
        Meter(watts, window, script),
        problems=FakeTask(size=3).problems(),
        engine=FakeEngine(
            capacity=rng.choice((1, 3, 64)), preempt=rng.choice((0.0, 0.3)), schedule_seed=number
        ),
        budget=budget,
        concurrency=concurrency,
    )
    assert len(results) == 3
    whole = sum(result.usage.joules for result in results.values()) + metering.idle
    assert whole == pytest.approx(metering.total, rel=1e-12, abs=1e-9)
    assert driver.ledger.total(0.0).joules == pytest.approx(whole - metering.idle, rel=1e-12, abs=1e-9)
    assert all(result.cost["joules"] == result.usage.joules for result in results.values())
    assert all(result.usage.joules == 0.0 for result in results.values() if not result.usage.requests)


def test_a_steady_meter_gives_all_its_joules_to_those_that_decode():
    engine = FakeEngine()
    results, metering, _ = metered(VOTE, Meter(50.0), engine=engine)
    assert metering.idle == 0.0
    assert sum(result.usage.joules for result in results.values()) == pytest.approx(50.0 * engine.now())


def test_problems_share_a_window_by_what_they_decode():
    engine = FakeEngine(capacity=64)
    results, metering, _ = metered(VOTE, Meter(50.0, window=1e9), engine=engine, concurrency=8)
    # The first window ends with the first problem: before that nobody had a reading.
    assert all(result.usage.joules > 0 for result in results.values())
    assert sum(result.usage.joules for result in results.values()) == pytest.approx(metering.total)


def test_with_occupancy_a_problem_has_all_joules_of_its_time():
    results, metering, _ = metered(VOTE, Meter(50.0), how="occupancy", concurrency=1)
    for result in results.values():
        assert result.usage.joules == pytest.approx(50.0 * result.usage.seconds)
    assert metering.idle == 0.0


def test_a_window_that_no_step_fills_is_idle():
    metering = Metering(Meter(10.0), "token_share", 0.0)
    account = Account(0.0, 0.0)
    metering.look([account], 1.0)
    assert (metering.idle, metering.total, account.joules) == (10.0, 10.0, 0.0)
    account.live, account.running = 1, 3
    metering.look([account], 2.0)
    assert (metering.idle, account.joules) == (10.0, 10.0)
    # What moves from running to output is not decoded twice.
    account.live, account.running, account.output = 0, 0, 3
    metering.look([account], 3.0)
    assert (metering.idle, account.joules) == (20.0, 10.0)


def test_the_meter_is_read_a_window_apart_and_before_a_problem_ends():
    meter, engine = Meter(10.0, window=0.1), FakeEngine()
    results, _, _ = metered(VOTE, meter, engine=engine, concurrency=1)
    # Once to begin with, once for every ten steps and for every problem.
    assert meter.reads <= 1 + engine.steps // 10 + len(results)
    assert all(result.usage.joules > 0 for result in results.values())


def test_deferred_problems_have_used_no_joules():
    results, _, _ = metered(VOTE, Meter(100.0), budget=Budget(run={"joules": 30.0}), concurrency=2)
    deferred = [result for result in results.values() if result.outcome == "deferred"]
    assert deferred
    assert {(result.usage.joules, result.cost["joules"]) for result in deferred} == {(0.0, 0.0)}


def test_without_a_meter_joules_are_unknown():
    results = run_fake(VOTE)
    assert {result.usage.joules for result in results.values()} == {None}
    deferred = run_fake(VOTE, budget=Budget(run={"tokens": 20}), concurrency=1)["fake-7"]
    assert (deferred.outcome, deferred.usage.joules) == ("deferred", None)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_budget_in_joules_ends_a_run_within_one_step(concurrency):
    engine = FakeEngine(capacity=64, step_seconds=0.01)
    results = run_fake(
        VOTE,
        FakeTask(size=20).problems(),
        engine=engine,
        meter=Meter(100.0),
        budget=Budget(run={"joules": 50.5}),
        concurrency=concurrency,
    )
    # A joule a step.
    spent = sum(result.usage.joules for result in results.values())
    assert 50.5 <= spent <= 51.5
    assert spent == pytest.approx(100.0 * engine.now())
    stopped = {result.stopped for result in results.values() if result.stopped}
    assert stopped == {"budget: 50.5 joules per run spent"}


def test_a_budget_in_joules_of_a_problem_ends_it_alone():
    results = run_fake(
        VOTE,
        engine=FakeEngine(capacity=4),
        meter=Meter(100.0),
        budget=Budget(problem={"joules": 8.0}),
        concurrency=1,
    )
    cut = [result for result in results.values() if result.stopped]
    assert cut
    assert all(8.0 <= result.usage.joules < 9.5 for result in cut)
    assert all(result.usage.joules < 9.5 for result in results.values())


def test_a_controller_spends_joules():
    for part in (Online(), Reserve()):
        strategy = Sequence({"climb": Ladder(controller=part), "vote": Aggregate()})
        results = run_fake(strategy, meter=Meter(100.0), budget=Budget(run={"joules": 120.0}), concurrency=1)
        assert sum(result.usage.joules for result in results.values()) <= 121.0
        assert sum(result.usage.requests for result in results.values()) > 4


# --- a meter that fails ---------------------------------------------------------------------------


def test_readings_that_are_none_lose_nothing():
    plain, _, _ = metered(VOTE, Meter())
    results, metering, driver = metered(VOTE, Meter(script=lambda reads, joules: NAN))
    assert {name: r.answer for name, r in results.items()} == {name: r.answer for name, r in plain.items()}
    assert metering.total == 0.0
    assert driver.dead is None


@pytest.mark.parametrize("after", [1, 2, 30, 60])
def test_a_meter_that_dies_leaves_a_result_for_every_problem(after):
    engine = FakeEngine()
    healthy, _, _ = metered(VOTE, Meter(), concurrency=2)
    results, metering, driver = metered(VOTE, Meter(script=dying(after)), engine=engine, concurrency=2)
    assert driver.dead == metering.dead == "the meter is out of order."
    assert len(results) == 5
    failed = [result for result in results.values() if result.outcome == "failed"]
    assert failed
    assert {result.reason for result in failed} == {"the meter is out of order."}
    for name, result in results.items():
        if result.outcome != "failed":
            assert (result.answer, result.usage.output) == (healthy[name].answer, healthy[name].usage.output)
    # Nothing stays on the engine, which is alive.
    assert not engine._running
    assert not engine._waiting
    assert sum(result.usage.decoded for result in results.values()) == engine.decoded


def test_a_meter_that_dies_is_not_asked_again():
    meter = Meter(script=dying(3))
    metered(VOTE, meter)
    assert meter.reads == 4


def config(**changes):
    return {
        "strategy": {
            "use": "sequence",
            "stages": {"s": {"use": "generate", "n": 2}, "a": {"use": "aggregate"}},
        },
        "engine": {"use": "fake"},
        "task": {"use": "arithmetic", "size": 4},
        "meter": {"use": "model", "busy_watts": 100.0},
        "sampling": {"max_tokens": 40},
        **changes,
    }


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def test_a_summary_says_where_joules_come_from(tmp_path):
    run_config(config(), tmp_path / "with")
    found = summary_of(tmp_path / "with")
    assert found["usage"]["joules_source"] == "model"
    assert found["usage"]["joules"] == pytest.approx(found["cost"]["joules"])
    assert found["usage"]["joules"] + found["work"]["idle_joules"] == pytest.approx(
        100.0 * found["usage"]["wall_seconds"]
    )
    run_config(config(meter=None), tmp_path / "without")
    found = summary_of(tmp_path / "without")
    assert (found["usage"]["joules_source"], found["usage"]["joules"]) == ("none", None)
    assert "joules" not in found["cost"]


@pytest.mark.parametrize("window", ["replay", "sim"])
def test_engines_that_take_many_steps_at_once_have_all_joules_shared_out(window, tmp_path):
    device = {"memory_gib": 24, "bandwidth": 1008, "tflops": 165}
    engine = {"replay": {"use": "replay"}, "sim": {"use": "sim", "hardware": device}}[window]
    task = {"replay": {"use": "recorded"}, "sim": {"use": "simulated"}}[window]
    run_config(config(engine=engine, task=task, sampling={}, limit=3, concurrency=2), tmp_path / "run")
    found = summary_of(tmp_path / "run")
    assert found["usage"]["joules"] > 0.9 * 100.0 * found["usage"]["wall_seconds"]
    assert found["usage"]["joules"] + found["work"]["idle_joules"] == pytest.approx(
        100.0 * found["usage"]["wall_seconds"]
    )


def test_a_run_whose_meter_dies_has_failed_with_its_reason_and_keeps_its_results(tmp_path, monkeypatch):
    meter = Meter(script=dying(30))
    monkeypatch.setattr(PowerModel, "open", lambda part: meter)
    run_config(config(concurrency=1), tmp_path / "run")
    found = summary_of(tmp_path / "run")
    assert (found["status"], found["error"]) == ("failed", "the meter is out of order.")
    assert found["usage"]["joules_source"] == "made up"
    lines = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert len(lines) == 4
    assert {line["outcome"] for line in lines} > {"failed"}
    assert meter.closed == 1


def test_a_run_that_ends_with_an_error_still_says_where_its_joules_come_from(tmp_path, monkeypatch):
    from ttsflow import run

    def broken(record):
        if broken.count:
            raise OSError("disk full")
        broken.count += 1
        return record

    broken.count = 0
    monkeypatch.setattr(run, "finite", lambda record: broken(record) if "candidates" in record else record)
    run_config(config(), tmp_path / "run")
    found = summary_of(tmp_path / "run")
    assert found["status"] == "failed"
    assert found["usage"]["joules"] > 0
    assert found["usage"]["joules_source"] == "model"


def test_a_meter_is_closed_when_what_is_opened_after_it_fails(monkeypatch):
    from ttsflow import session

    meter = Meter()
    monkeypatch.setattr(PowerModel, "open", lambda part: meter)

    def broken(*parts):
        raise OSError("no load")

    monkeypatch.setattr(session, "open_load", broken)
    strategy = {"use": "ladder", "controller": {"use": "online", "unit": "tokens"}}
    setup = assemble(config(strategy=strategy, budget={"run": {"tokens": 100}}))
    with Session(setup) as opened, pytest.raises(OSError, match="no load"):
        list(opened.run(list(setup.task.problems())))
    assert meter.closed == 1


def test_a_meter_that_is_dead_from_the_start_is_closed_and_says_so(monkeypatch):
    meter = Meter(script=dying(0))
    monkeypatch.setattr(PowerModel, "open", lambda part: meter)
    setup = assemble(config())
    with Session(setup) as opened, pytest.raises(MeterDead, match="out of order"):
        list(opened.run(list(setup.task.problems())))
    assert meter.closed == 1


def test_a_comparison_with_the_plain_engine_needs_no_meter():
    setup = assemble(config(engine={"use": "fake", "check_exact": 1.0}, budget={"problem": {"joules": 1e6}}))
    with Session(setup) as opened:
        list(opened.run(list(setup.task.problems())))
    assert opened.exact == {"checked": 4, "differ": [], "skipped": 0}


def test_what_was_drawn_and_thrown_away_is_not_deferred():
    def stage(state: State):
        got = yield Generate((Request(),))
        return state.with_(spent=got.spent, stopped="funds low")

    assert run_fake(stage)["fake-0"].outcome == "abstained"
    assert outcome_of(State(FakeTask().problems()[0], stopped="no")) == "deferred"
    assert outcome_of(State(FakeTask().problems()[0], stopped="no", spent=Usage(requests=1))) == "abstained"
