"""Each part is held to the contract of its kind; what it adds to that is tested by hand."""

import pytest
from ttsflow_example.carbon import Carbon
from ttsflow_example.outliers import DropOutliers
from ttsflow_example.variety import Variety

from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.plugins import load, problems
from ttsflow.run import run_config
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.testing.contracts import CostContract, StageContract, VerifierContract
from ttsflow.types import Candidate, Problem, State, Usage


class TestDropOutliers(StageContract):
    @pytest.fixture
    def part(self):
        return Sequence({"sample": GenerateStage(6), "trim": DropOutliers(1.5), "vote": Aggregate()})


class TestVariety(VerifierContract):
    @pytest.fixture
    def part(self):
        return Variety()


class TestCarbon(CostContract):
    @pytest.fixture
    def part(self):
        return Carbon(400)


def finished(number, length, finish="stop"):
    return Candidate((number,), (), (1,) * length, finish=finish)


def test_the_long_go_and_what_has_not_finished_stays():
    pool = (finished(0, 4), finished(1, 5), finished(2, 50), finished(3, 99, "length"))
    assert [c.path for c in DropOutliers()(State(Problem("?"), pool=pool)).pool] == [(0,), (1,), (3,)]
    nobody = State(Problem("?"), pool=pool[3:])
    assert DropOutliers()(nobody) is nobody


def test_a_kilowatt_hour_costs_its_grams():
    assert Carbon(400)(Usage(joules=3.6e6)) == 400


@pytest.mark.parametrize("make", [lambda: DropOutliers(0.5), lambda: Carbon(-1)])
def test_settings_are_refused(make):
    with pytest.raises(ConfigError):
        make()


def test_everything_is_found():
    assert problems() == []
    found = {(e.kind, e.name) for e in load().choices() if e.provider == "ttsflow-example"}
    assert found == {
        ("stage", "drop_outliers"),
        ("verifier", "variety"),
        ("cost", "carbon"),
        ("strategy", "trimmed_majority"),
    }


@pytest.mark.parametrize(
    "settings",
    [
        ["strategy=trimmed_majority", "strategy.factor=1.5"],
        ["strategy=best_of_n", "verifier=variety", "strategy.n=3"],
        ["cost=carbon", "meter=model", "meter.busy_watts=65", "strategy.n=2"],
    ],
)
def test_it_runs(settings, tmp_path):
    summary = run_config(compose([*settings, "engine=fake", "limit=2"]), tmp_path / "run")
    assert (summary.status, summary.failed) == ("complete", 0)
    assert ("carbon" in summary.cost) == ("cost=carbon" in settings)
