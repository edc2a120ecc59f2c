import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.costs.basic import Requests, Seconds, Tokens
from ttsflow.costs.prices import Joules
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget, Ledger
from ttsflow.types import Usage

COSTS = {"tokens": Tokens(), "seconds": Seconds(), "requests": Requests()}
COUNTS = st.integers(0, 10**6)


def ledger(**budget):
    return Ledger(COSTS, Budget(**budget))


def spend(book, account, *, samples, tokens):
    """Book samples that have ended."""
    for _ in range(samples):
        account.requests += 1
        account.output += tokens
        book.settle(account, 1)


@pytest.mark.slow
@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_usage_is_additive_and_decoded_is_all_that_was_decoded(output, aborted, dropped, adopted):
    usage = Usage(output=output, aborted=aborted, dropped=dropped, adopted=adopted)
    assert usage.decoded == output + aborted + dropped
    assert (usage + usage).decoded == 2 * usage.decoded
    assert usage + Usage() == usage


def test_tokens_of_running_requests_count_at_once():
    account = ledger().account(1.0)
    account.output, account.running = 5, 3
    assert account.usage(2.5) == Usage(output=8, seconds=1.5)
    assert account.underway() == Usage(output=3)


def test_many_accounts_are_added_up_as_one_after_the_other():
    book = ledger()
    for place in range(1, 6):
        account = book.account(0.5 * place)
        account.output, account.running, account.prompt, account.requests = place, 2 * place, 7, 1
        account.live = place % 2
        account.joules = None if place == 3 else 0.25 * place
        if place == 5:
            account.books("other").output = 3
            account.output += 3
        one = sum((each.usage(9.0) for each in book.open), book.closed)
        assert book.total(9.0) == one
    assert book.total(9.0).engines


def test_what_is_underway_is_looked_up_anew_when_it_has_changed():
    account = ledger().account(0.0)
    assert account.underway() == Usage()
    account.live, account.live_prompt, account.running = 2, 9, 3
    assert account.underway() == Usage(prompt=9, output=3, requests=2)
    account.running = 5
    assert account.underway() == Usage(prompt=9, output=5, requests=2)
    account.live = account.live_prompt = account.running = 0
    assert account.underway() == Usage()


def test_what_is_underway_has_joules_from_when_a_meter_tells():
    account = ledger().account(0.0)
    account.joules, account.live = None, 1
    assert account.underway().joules is None
    account.joules = 3.0
    assert account.underway().joules == 0.0


def test_what_rests_is_spent_and_nothing_of_it_is_looked_at():
    book = ledger()
    first, second = book.account(0.0), book.account(0.0)
    first.output, second.output = 7, 5
    book.quote(first, 1, 0.0, 0.0, known={"tokens": 15.0})
    book.rest(first, 1.0)
    assert book.open == [second]
    assert not first.reserved
    assert book.total(1.0).output == 12
    book.wake(first)
    book.wake(second)
    assert book.open == [second, first]
    assert book.total(3.0) == Usage(output=12, seconds=6.0)
    book.rest(first, 3.0)
    assert book.close(first, 4.0) == Usage(output=7, seconds=4.0)
    assert book.total(4.0) == Usage(output=12, seconds=8.0)


def test_a_closed_account_keeps_its_time_and_stays_in_the_total():
    book = ledger()
    first, second = book.account(0.0), book.account(1.0)
    first.output = 7
    assert book.close(first, 2.0) == Usage(output=7, seconds=2.0)
    assert first.usage(99.0).seconds == 2.0
    second.aborted = 3
    assert book.total(4.0) == Usage(output=7, aborted=3, seconds=5.0)


def test_cost_has_one_entry_per_model():
    assert ledger().cost(Usage(output=5, aborted=1, prompt=9, requests=2, seconds=0.5)) == {
        "tokens": 6,
        "seconds": 0.5,
        "requests": 2.0,
    }


def test_limits_are_reached_not_passed():
    book = ledger(problem={"tokens": 10})
    account = book.account(0.0)
    account.output = 9
    assert book.exceeded(account, 0.0) is None
    account.running = 1
    assert book.exceeded(account, 0.0) == "budget: 10 tokens per problem spent"


def test_what_was_paid_when_it_was_sent_may_end_in_peace():
    book = ledger(problem={"requests": 2}, run={"requests": 2})
    account = book.account(0.0)
    account.requests = 2
    assert book.exceeded(account, 0.0) == "budget: 2 requests per problem spent"
    assert book.run_exceeded(0.0, 0.0) == "budget: 2 requests per run spent"
    assert book.exceeded(account, 0.0, live=True) is None
    assert book.run_exceeded(0.0, 0.0, live=True) is None


def test_seconds_of_a_problem_are_its_own_and_those_of_the_run_are_wall_seconds():
    book = ledger(problem={"seconds": 3}, run={"seconds": 5})
    accounts = [book.account(2.0), book.account(2.0)]
    assert book.exceeded(accounts[0], 4.9) is None
    assert book.exceeded(accounts[0], 5.0) == "budget: 3 seconds per problem spent"
    assert book.run_exceeded(5.5, 1.0) is None
    assert book.run_exceeded(6.0, 1.0) == "budget: 5 seconds per run spent"


def test_a_quotation_without_a_budget_is_empty():
    book = ledger()
    quotation = book.quote(book.account(0.0), 4, 0.0, 0.0)
    assert (quotation.price, quotation.left, quotation.limit) == ({}, {}, {})


def test_a_price_is_the_mean_over_what_has_ended():
    book = ledger(problem={"tokens": 100, "requests": 9})
    account, other = book.account(0.0), book.account(0.0)
    assert book.quote(account, 2, 0.0, 0.0).price == {}
    spend(book, account, samples=1, tokens=10)
    spend(book, other, samples=1, tokens=20)
    # Requests that still run say nothing yet about what a sample costs.
    other.requests, other.live, other.running = 5, 4, 8
    assert book.quote(account, 2, 0.0, 0.0).price == {"tokens": 30.0, "requests": 2.0}
    assert book.quote(account, 0, 0.0, 0.0).price == {}


def test_what_others_have_reserved_is_not_left():
    book = ledger(run={"tokens": 100})
    first, second = book.account(0.0), book.account(0.0)
    spend(book, first, samples=2, tokens=10)
    assert book.quote(first, 4, 0.0, 0.0).left == {"tokens": 80}
    assert book.quote(second, 4, 0.0, 0.0).left == {"tokens": 40}
    # Asking again replaces what was reserved before.
    assert book.quote(first, 1, 0.0, 0.0).left == {"tokens": 40}
    assert book.quote(second, 0, 0.0, 0.0).left == {"tokens": 70}


def test_a_reservation_shrinks_by_what_is_spent_of_it():
    book = ledger(run={"tokens": 100})
    first, second = book.account(0.0), book.account(0.0)
    spend(book, first, samples=1, tokens=10)
    book.quote(first, 4, 0.0, 0.0)
    for ended in range(5):
        assert book.quote(second, 0, 0.0, 0.0).left == {"tokens": 50}
        if ended < 4:
            first.live, first.running = 1, 7
            assert book.quote(second, 0, 0.0, 0.0).left == {"tokens": 50}
            first.live, first.running = 0, 0
            spend(book, first, samples=1, tokens=10)


def test_what_cannot_be_paid_is_not_reserved():
    book = ledger(run={"tokens": 100})
    first, second = book.account(0.0), book.account(0.0)
    spend(book, first, samples=1, tokens=10)
    assert book.quote(first, 10, 0.0, 0.0).left == {"tokens": 90}
    assert book.quote(second, 1, 0.0, 0.0).left == {"tokens": 90}


def test_an_ended_problem_holds_nothing():
    book = ledger(run={"tokens": 100})
    first, second = book.account(0.0), book.account(0.0)
    spend(book, first, samples=1, tokens=10)
    book.quote(first, 4, 0.0, 0.0)
    book.close(first, 0.0)
    assert book.quote(second, 0, 0.0, 0.0).left == {"tokens": 90}


def test_the_tighter_of_two_limits_on_one_unit_is_quoted():
    for problem, run in ((50, 100), (100, 50)):
        book = ledger(problem={"tokens": problem}, run={"tokens": run})
        quotation = book.quote(book.account(0.0), 0, 0.0, 0.0)
        assert (quotation.left, quotation.limit) == ({"tokens": 50}, {"tokens": 50})


@pytest.mark.parametrize("limit", [0, -1, float("nan"), True, "100", None])
@pytest.mark.parametrize("scope", ["problem", "run"])
def test_a_limit_is_a_number_above_zero(limit, scope):
    with pytest.raises(ConfigError) as caught:
        Budget(**{scope: {"tokens": limit}})
    assert caught.value.path == f"{scope}.tokens"


def test_a_unit_that_nothing_measures_is_refused_with_the_nearest_one():
    with pytest.raises(ConfigError, match="Did you mean 'tokens'") as caught:
        ledger(run={"token": 5})
    assert caught.value.path == "budget.run.token"


def test_a_budget_is_true_when_it_limits_something():
    assert not Budget()
    assert Budget(problem={"tokens": 1})
    assert Budget(run={"tokens": 1})


@pytest.mark.parametrize("quoted", [1, 2, 5])
def test_more_samples_may_end_than_were_quoted(quoted):
    book = ledger(problem={"tokens": 1000.0})
    account = book.account(0.0)
    spend(book, account, samples=2, tokens=10)
    assert book.quote(account, quoted, 0.0, 0.0).price["tokens"] == 10 * quoted
    spend(book, account, samples=quoted + 2, tokens=10)
    assert not any(account.reserved.values())


def test_a_price_that_somebody_knows_better_is_the_one_that_is_set_aside():
    book = ledger(run={"tokens": 100})
    first, second = book.account(0.0), book.account(0.0)
    spend(book, first, samples=1, tokens=10)
    assert book.quote(first, 4, 0.0, 0.0, known={"tokens": 25.0}).price == {"tokens": 25.0}
    assert book.quote(second, 0, 0.0, 0.0).left == {"tokens": 65}
    # Before anything was measured it is the only one there is.
    fresh = ledger(run={"tokens": 100})
    one, other = fresh.account(0.0), fresh.account(0.0)
    fresh.quote(one, 4, 0.0, 0.0, known={"tokens": 25.0})
    assert fresh.quote(other, 0, 0.0, 0.0).left == {"tokens": 75}


def test_what_is_left_of_a_run_is_what_others_have_not_set_aside():
    book = ledger(run={"tokens": 100}, problem={"tokens": 20})
    first, second = book.account(0.0), book.account(0.0)
    spend(book, first, samples=1, tokens=5)
    book.quote(first, 1, 0.0, 0.0, known={"tokens": 15.0})
    assert book.funds(first, 0.0, 0.0).left["tokens"] == 95
    assert book.funds(second, 0.0, 0.0).left["tokens"] == 80
    book.quote(second, 0, 0.0, 0.0)
    assert book.funds(second, 0.0, 0.0).left["tokens"] == 80, "asking changes nothing"


def test_with_a_meter_joules_start_at_nothing_and_without_one_they_are_unknown():
    costs = COSTS | {"joules": Joules()}
    plain, metered = Ledger(costs, Budget()), Ledger(costs, Budget(run={"joules": 9}), metered=True)
    assert plain.close(plain.account(0.0), 1.0).joules is None
    account = metered.account(0.0)
    assert metered.nothing.joules == account.usage(1.0).joules == 0.0
    account.live, account.requests = 1, 1
    assert metered.room(0.0) == 1, "nobody knows how many joules a token takes"
    account.joules = 9.0
    assert metered.run_exceeded(0.0, 0.0, live=True) == "budget: 9 joules per run spent"
    assert metered.close(account, 1.0).joules == metered.total(2.0).joules == 9.0
