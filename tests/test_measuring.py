"""What a run is measured and steered by: what cannot be is said before anything is opened."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from ttsflow import plugins
from ttsflow.composing.assemble import assemble
from ttsflow.controllers.online import Online
from ttsflow.controllers.reserve import Reserve
from ttsflow.costs.basic import Tokens
from ttsflow.costs.prices import Joules
from ttsflow.engines import warm
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget
from ttsflow.measuring import check_controllers, check_meter, controllers_of, with_joules
from ttsflow.meters.model import PowerModel
from ttsflow.meters.nvml import NVML
from ttsflow.meters.plain import NoMeter
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.ladder import Ladder
from ttsflow.testing import FakeEnginePart


@pytest.fixture(autouse=True)
def _nothing_is_opened(monkeypatch):
    def refuse(*parts):
        raise AssertionError("opened")

    monkeypatch.setattr(FakeEnginePart, "open", refuse)
    monkeypatch.setattr(PowerModel, "open", refuse)
    monkeypatch.setattr(warm, "acquire_all", refuse)


def climbing(use="online", **controller):
    controller = {"use": use, **controller}
    return {
        "use": "sequence",
        "stages": {"climb": {"use": "ladder", "controller": controller}, "answer": {"use": "aggregate"}},
    }


def config(**changes):
    return {
        "strategy": climbing(),
        "engine": {"use": "fake"},
        "task": {"use": "arithmetic", "size": 2},
        "budget": {"run": {"tokens": 1000}},
        **changes,
    }


AT = "strategy.stages.climb.controller"
MODEL = {"use": "model", "busy_watts": 65.0}

WRONG = [
    ({"budget": {}}, "budget.run", "a controller spends the funds of a run, and this one has none"),
    ({"budget": {"problem": {"tokens": 5}}}, "budget.run", "budget.run.tokens=200000"),
    (
        {"budget": {"run": {"tokens": 5, "seconds": 5}}},
        f"{AT}.unit",
        "the run has budgets in tokens, seconds; say which of them it spends",
    ),
    ({"strategy": climbing(unit="token")}, f"{AT}.unit", "no budget in 'token'. Did you mean 'tokens'"),
    ({"strategy": climbing(unit="joules")}, f"{AT}.unit", "no budget in 'joules'."),
    ({"budget": {"run": {"joules": 5}}}, "budget.run.joules", "no cost model of this run measures 'joules'"),
    (
        {"cost": {"tokens": {"use": "tokens"}, "energy": {"use": "joules"}}},
        "cost.energy",
        "joules are counted by a meter, and this run has none. Choose one with meter=nvml",
    ),
    ({"meter": {"use": "nvml"}}, "meter", "this engine's clock is virtual"),
    ({"meter": {"use": "power"}}, "meter", "meter=model goes with it"),
    ({"meter": {"use": "rapl"}}, "meter", "this engine's clock is virtual"),
    ({"meter": {"use": "nvlm"}}, "meter.use", "Did you mean 'nvml'"),
    ({"meter": {"use": "model", "busy_watts": 0}}, "meter.busy_watts", "above 0"),
    ({"meter": MODEL, "attribution": "occupancy"}, "attribution", "problems run side by side"),
    ({"attribution": "occupancy"}, "attribution", "problems run side by side"),
    ({"meter": MODEL, "attribution": "tokens"}, "attribution", "token_share"),
    (
        {"strategy": {"use": "generate"}, "load": {"use": "trace", "levels": [0.5]}},
        "load",
        "no part of this strategy looks at the load; atest_online does",
    ),
    ({"load": {"use": "trace"}}, "load.levels", "either levels or a path"),
    ({"load": {"use": "trace", "path": "/no/such/loads.csv"}}, "load.path", "/no/such/loads.csv"),
    ({"strategy": climbing("onlin")}, f"{AT}.use", "Did you mean 'online'"),
    ({"strategy": climbing(gain=2)}, f"{AT}.gain", "between 0 and 1"),
    ({"strategy": climbing("reserve", n=17)}, f"{AT}.n", "1 to 16 samples"),
    ({"strategy": climbing("reserve", rungs=[3, 1])}, f"{AT}.rungs", "rise from at least 1"),
    ({"strategy": climbing("reserve", quantile=0)}, f"{AT}.quantile", "above 0 and up to 1"),
    ({"strategy": climbing(prices={"beta": -1})}, f"{AT}.prices.beta", "between 0 and 100"),
    ({"strategy": climbing(prices={"prior": [0, 0, 0, 0]})}, f"{AT}.prices.prior", r"a + b above 0"),
    ({"strategy": climbing(prices={"prior": [1, 2]})}, f"{AT}.prices.prior", ""),
    (
        {"strategy": climbing(prices={"start": "/no/such/prices.json"})},
        f"{AT}.prices.start",
        "/no/such/prices.json: there is no such file; a run with a controller writes learnt.json",
    ),
    (
        {"strategy": {"use": "ladder", "gain": "best"}},
        "strategy.gain",
        "best_rate",
    ),
    ({"strategy": {"use": "ladder", "n": 17, "gain": "planned"}}, "strategy.n", "up to 16 samples"),
    (
        {"strategy": {"use": "ladder", "worth": 0.1, "controller": {"use": "online"}}},
        "strategy.worth",
        "a controller sets the rate itself",
    ),
    (
        {"engine": {"use": "replay"}, "task": {"use": "recorded"}, "strategy": {"use": "ladder", "n": 9}},
        "strategy",
        "set strategy.n=8 or less",
    ),
]


@pytest.mark.timeout(3)
@pytest.mark.parametrize(("changes", "path", "message"), WRONG)
def test_what_cannot_be_is_refused_at_its_place(changes, path, message):
    with pytest.raises(ConfigError) as caught:
        assemble(config(**changes))
    assert caught.value.path == path
    assert message in caught.value.message


def test_prices_of_another_unit_are_refused_at_their_place(tmp_path):
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"unit": "joules", "prices": {}}))
    with pytest.raises(ConfigError, match="has prices in joules, and this run counts tokens") as caught:
        assemble(config(strategy=climbing(prices={"start": str(path)})))
    assert caught.value.path == f"{AT}.prices.start"


def test_what_goes_together_is_let_be():
    setup = assemble(
        config(meter=MODEL, budget={"run": {"joules": 5}}, load={"use": "trace", "levels": [0.5]})
    )
    assert setup.controllers == {Online(): "joules"}
    assert setup.costs["joules"] == Joules()
    occupied = assemble(config(meter=MODEL, attribution="occupancy", concurrency=1))
    assert occupied.attribution == "occupancy"
    # A ladder without a controller needs no funds.
    assert not assemble(config(strategy={"use": "ladder"}, budget={})).controllers
    chosen = config(strategy=climbing(unit="seconds"), budget={"run": {"tokens": 5, "seconds": 5}})
    assert assemble(chosen).controllers == {Online(unit="seconds"): "seconds"}


def test_equal_controllers_are_one_and_different_ones_are_several():
    def two(first, second):
        return Sequence({"a": Ladder(controller=first), "b": Ladder(controller=second), "v": Aggregate()})

    budget = Budget(run={"tokens": 10})
    assert controllers_of(two(Online(), Online()), budget) == {Online(): "tokens"}
    assert controllers_of(two(Online(), Online(gain=0.1)), budget) == dict.fromkeys(
        [Online(), Online(gain=0.1)], "tokens"
    )
    assert len(controllers_of(two(Online(), Reserve()), budget)) == 2
    assert controllers_of(Sequence({"a": Ladder()}), Budget()) == {}
    check_controllers(two(Online(), Reserve()), budget)


def test_a_stage_that_has_a_unit_is_no_controller():
    assert assemble(config(strategy={"use": "generate", "unit": "step"}, budget={})).controllers == {}


def test_joules_are_among_the_costs_where_something_measures_them():
    costs = {"tokens": {"use": "tokens"}}
    assert with_joules(costs, NoMeter()) is costs
    assert with_joules(costs, PowerModel(65.0)) == {**costs, "joules": {"use": "joules"}}
    own = {"joules": {"use": "tokens"}}
    assert with_joules(own, PowerModel(65.0)) == own


@dataclass(frozen=True)
class Absent:
    """A meter of a machine without one."""

    wall: ClassVar[bool] = True

    def check(self):
        raise ConfigError("there is none; choose another.", "devices")

    def open(self):
        raise AssertionError


def test_a_meter_that_is_absent_is_refused_below_its_place():
    class Real:
        pass

    with pytest.raises(ConfigError, match="there is none") as caught:
        check_meter(Absent(), "token_share", {"tokens": Tokens()}, Real(), 8)
    assert caught.value.path == "meter.devices"


def test_a_meter_of_this_machine_does_not_go_with_any_engine_whose_clock_is_virtual():
    virtual = {name for name in plugins.load().entries("engine") if getattr(name.load(), "virtual", False)}
    assert {entry.name for entry in virtual} >= {"fake", "replay", "sim"}
    with pytest.raises(ConfigError, match="watts times its seconds"):
        check_meter(NVML(), "token_share", {}, FakeEnginePart(), 1)


def test_what_a_run_is_steered_by_is_in_its_fingerprint():
    plain = config()
    same, other = (assemble(config(**plain)).fingerprint for _ in range(2))
    assert same == other
    for changes in (
        {"load": {"use": "trace", "levels": [0.5]}},
        {"concurrency": 3},
        {"meter": MODEL},
        {"strategy": climbing(gain=0.1)},
    ):
        assert assemble(config(**changes)).fingerprint != same
    # Without a controller problems in flight change nothing.
    ladder = {"use": "ladder"}
    alone, many = (assemble(config(strategy=ladder, concurrency=c)).fingerprint for c in (1, 8))
    assert alone == many


def test_a_run_that_is_not_checked_may_lack_its_funds():
    assert assemble(config(budget={}), checked=False).strategy
