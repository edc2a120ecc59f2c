import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Quote
from ttsflow.strategies.budget_check import BudgetCheck
from ttsflow.strategies.generate import GenerateStage


@pytest.mark.parametrize(
    ("left", "price", "settings", "reason"),
    [
        ({}, {"tokens": 9.0}, {"reserve": 0.9, "samples": 9}, None),
        ({"tokens": 10.0}, {}, {"reserve": 0.1}, None),
        ({"tokens": 9.0}, {}, {"reserve": 0.1}, "funds low: 9 of 100 tokens left"),
        ({"tokens": 1.0}, {}, {}, None),
        ({"tokens": 0.0}, {}, {}, "funds low: 0 of 100 tokens left"),
        ({"tokens": -3.0}, {}, {}, "funds low: 0 of 100 tokens left"),
        ({"tokens": 40.0}, {"tokens": 40.0}, {"samples": 4}, None),
        ({"tokens": 39.0}, {"tokens": 40.0}, {"samples": 4}, "funds low: 4 samples cost 40 tokens, 39 left"),
        ({"tokens": 90.0, "seconds": 5.0}, {}, {"reserve": 0.1}, "funds low: 5 of 100 seconds left"),
    ],
)
def test_when_funds_are_low(left, price, settings, reason, kit):
    driver = kit.Driver(quotation=kit.quotation(left, price=price))
    end = driver.run(BudgetCheck(**settings), kit.state())
    assert end.stopped == reason
    assert [op.samples for op in driver.of(Quote)] == [settings.get("samples", 0)]


def test_a_cheaper_branch_runs_instead_of_the_stop(kit):
    stage = BudgetCheck(0.5, otherwise=GenerateStage(1))
    driver = kit.Driver(quotation=kit.quotation({"tokens": 10.0}))
    end = driver.run(stage, kit.state())
    assert end.stopped is None
    assert len(end.pool) == 1
    driver = kit.Driver(quotation=kit.quotation({"tokens": 60.0}))
    assert driver.run(stage, kit.state()).pool == ()
    assert not driver.of(Generate)


@pytest.mark.parametrize(
    ("settings", "field"),
    [({"reserve": -0.1}, "reserve"), ({"reserve": 1}, "reserve"), ({"samples": -1}, "samples")],
)
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        BudgetCheck(**settings)
    assert caught.value.path == field
