"""Prices where engines differ, and what a budget in them does."""

import pytest

from ttsflow.budget import Budget
from ttsflow.costs.by_engine import ByEngine
from ttsflow.costs.prices import Money
from ttsflow.costs.work import Flops
from ttsflow.errors import ConfigError
from ttsflow.ledger import Account, Ledger
from ttsflow.types import EngineTokens, Usage

USED = Usage(
    prompt=30,
    cached=5,
    output=20,
    aborted=4,
    requests=3,
    seconds=7.0,
    engines=(EngineTokens("large", 10, 2, 8, 1, 1),),
)


def test_each_engine_has_its_price():
    price = ByEngine(
        Money(prompt=1.0, cached=0.5, output=2.0, hour=3600.0), {"large": Money(prompt=10.0, output=20.0)}
    )
    small = (30 - 10 - (5 - 2)) * 1.0 + (5 - 2) * 0.5 + (24 - 9) * 2.0
    assert price(USED) * 1e6 == pytest.approx(small + 7e6 + (10 - 2) * 10.0 + 9 * 20.0)
    assert price(USED + USED) == pytest.approx(2 * price(USED))
    assert price.unit == "USD"
    with pytest.raises(ConfigError, match=r"engine 'huge' has no price\. Known: large"):
        price(Usage(output=1, engines=(EngineTokens("huge", output=1),)))


@pytest.mark.parametrize(
    ("engines", "message"),
    [
        ({}, "engines: without further engines"),
        ({"large": Flops("smollm2-135m")}, "engines.large: it counts FLOPs, and `run` counts USD"),
        ({"large": Money(output=1.0, hour=2.0)}, "engines.large: time and energy are those of the run"),
    ],
)
def test_prices_that_do_not_add_up_are_refused(engines, message):
    with pytest.raises(ConfigError, match=message):
        ByEngine(Money(output=1.0), engines)


def test_a_budget_in_money_knows_which_engine_runs():
    """Where tokens of one engine are free, only those of the other drive a problem over its limit."""
    price = ByEngine(Money(hour=1.0), {"large": Money(output=1e6)})
    ledger = Ledger({"money": price}, Budget(problem={"money": 5.0}))
    account = ledger.account(0.0)
    large = account.books("large")
    account.live, large.live = 2, 1
    account.running, large.running = 9, 5
    assert ledger.exceeded(account, 0.0, live=True) == "budget: 5 money per problem spent"
    free = ByEngine(Money(output=1e6), {"large": Money(prompt=1.0)})
    ledger = Ledger({"money": free}, Budget(problem={"money": 5.0}))
    account = ledger.account(0.0)
    large = account.books("large")
    # The engine of the run has ended, and what still runs on the other is free.
    account.output = 5
    account.live = large.live = 1
    assert ledger.exceeded(account, 0.0) == "budget: 5 money per problem spent"
    assert ledger.exceeded(account, 0.0, live=True) is None


def test_usage_adds_up_and_takes_away_by_engine():
    other = Usage(output=3, engines=(EngineTokens("huge", output=3), EngineTokens("large", 1, 0, 2, 0, 1)))
    both = USED + other
    assert [one.engine for one in both.engines] == ["huge", "large"]
    assert both.of("large") == Usage(prompt=11, cached=2, output=10, aborted=1, requests=2)
    assert both.less(other).of("large") == USED.of("large")
    assert both.less(other).of("huge") == Usage()
    assert USED + Usage() == USED == Usage() + USED


def test_an_account_without_further_engines_says_nothing_of_them():
    assert Account(0.0).usage(1.0).engines == Account(0.0).underway().engines == ()
