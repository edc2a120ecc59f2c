"""Rounds out of an equal share of the funds."""

import pytest

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.control import Asking, UnderWay
from ttsflow.controllers.prices import Prices
from ttsflow.controllers.shares import Shares
from ttsflow.errors import ConfigError
from ttsflow.session import Session

#: A step costs 10, and nothing is added to a price.
TEN = Prices(prior=(0.0, 10.0, 0.0, 0.0), beta=0.0)


def asking(samples, *, left, ahead=0, first=False, begun=1, gone=0.0, spent=0.0, load=0.0):
    return Asking(samples, first, left, 1000.0, ahead, load, under_way=lambda: UnderWay(begun, gone, spent))


def refused(prices=TEN, **words):
    controller = Shares(prices=prices).open("tokens")
    controller.begin(10, 1000.0)
    return controller.offer(asking(**words)).refused


def test_a_round_and_a_completion_fit_into_an_equal_share():
    # 4 steps and a completion are 50; of 500 for ten questions that is a share.
    assert refused(samples=4, left=500, ahead=10, first=True) is None
    told = refused(samples=4, left=499, ahead=10, first=True)
    assert told == (
        "4 steps would cost up to 40 tokens and completing one 10, and 49.9 of the question's share are left"
    )


def test_what_a_question_has_spent_is_part_of_its_share():
    # Ten questions share 500: of the 50 for this one 20 are gone, so that 3 steps more and a completion fit.
    assert refused(samples=2, left=480, ahead=9, gone=20.0, spent=20.0) is None
    assert refused(samples=3, left=480, ahead=9, gone=20.0, spent=20.0) is not None


def test_questions_under_way_have_shares_too():
    alone = {"samples": 4, "left": 500, "ahead": 5, "first": True}
    assert refused(**alone) is None
    assert refused(**alone, begun=6) is None
    assert refused(**alone, begun=7) is not None
    # ... of what they have spent already as well.
    assert refused(**alone, begun=7, gone=100.0) is None


def test_a_single_sample_is_granted_as_long_as_there_are_funds():
    assert refused(samples=1, left=10, ahead=100, first=True) is None
    assert refused(samples=1, left=9, ahead=1) == "1 more would cost up to 10 tokens, and 9 are left"
    assert refused(samples=4, left=39, ahead=0) == "4 more would cost up to 40 tokens, and 39 are left"


def test_before_anything_was_measured_all_is_granted():
    controller = Shares().open("tokens")
    offer = controller.offer(asking(16, left=0.1, ahead=100, first=True))
    assert (offer.price, offer.refused) == (None, None)


def test_completions_and_rounds_have_prices_of_their_own():
    controller = Shares(prices=Prices(beta=0.0)).open("tokens")
    for _ in range(20):
        controller.observe(16, 0.0, 160.0)
        controller.observe(1, 0.0, 80.0)
    assert controller.offer(asking(16, left=1e6)).price == pytest.approx(160, rel=0.02)
    assert controller.offer(asking(1, left=1e6)).price == pytest.approx(80, rel=0.02)
    assert controller.state()["prices"]["seen"] == 40


WORDS = ["engine=fake", "verifier=fake", "task.size=20", "strategy.n=8"]


def results(*words, strategy="atest_beam", tokens=1500):
    setup = assemble(compose([*WORDS, f"strategy={strategy}", f"budget.run.tokens={tokens}", *words]))
    with Session(setup) as session:
        return {result.id: result for result in session.run(list(setup.task.problems()))}


def key(found):
    return [(name, r.answer, r.usage.decoded, r.candidates) for name, r in sorted(found.items())]


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4])
def test_with_funds_for_all_it_is_beam_search(concurrency):
    words = [f"concurrency={concurrency}"]
    plenty = results(*words, tokens=10**9)
    assert key(plenty) == key(results(*words, strategy="beam_search", tokens=10**9))


@pytest.mark.slow
@pytest.mark.parametrize("concurrency", [1, 4])
@pytest.mark.parametrize("tokens", [150, 400, 1000, 2000])
def test_the_budget_is_kept_and_every_question_gets_something(concurrency, tokens):
    found = results(f"concurrency={concurrency}", tokens=tokens)
    assert sum(result.usage.decoded for result in found.values()) < tokens + 64
    if tokens >= 1000:
        assert {result.outcome for result in found.values()} == {"answered"}
        plain = results(f"concurrency={concurrency}", strategy="beam_search", tokens=tokens)
        assert sum(result.outcome == "deferred" for result in plain.values()) > 0
    if tokens >= 400:
        assert any("of the question's share are left" in (r.stopped or "") for r in found.values())


@pytest.mark.slow
def test_a_second_run_decides_the_same():
    assert key(results("concurrency=3")) == key(results("concurrency=3"))


@pytest.mark.slow
def test_subtrees_buy_their_rounds_too():
    stage = (
        "{price: {use: round_check, n: 2, controller: {use: shares}}, score: {use: verify}, "
        "keep: {use: select, into: 2, copies: 2}, step: {use: generate, unit: step}}"
    )
    words = ["strategy.width=2", f"strategy.stages.subtrees.stages.search.stages={stage}"]
    found = results(*words, strategy="dvts", tokens=2000)
    assert sum(result.usage.decoded for result in found.values()) < 2000 + 64
    assert any("steps would cost up to" in (r.stopped or "") for r in found.values())


PRICE = "strategy.stages.search.stages.price"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ([], "budget.run"),
        (
            ["budget.run.tokens=500", "budget.run.seconds=9"],
            f"{PRICE}.controller.unit",
        ),
        (
            ["budget.run.tokens=500", "strategy.unit=token"],
            f"{PRICE}.controller.unit",
        ),
        (["budget.run.tokens=500", "strategy.worth=-1"], f"{PRICE}.worth"),
        (
            ["budget.run.tokens=500", "strategy.prior=[1,2]"],
            f"{PRICE}.controller.prices.prior",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(words, path):
    with pytest.raises(ConfigError) as caught:
        assemble(compose([*WORDS, "strategy=atest_beam", *words]))
    assert caught.value.path == path


def test_where_nothing_makes_steps_there_are_no_rounds_to_buy():
    strategy = {
        "use": "sequence",
        "stages": {
            "price": {"use": "round_check", "controller": {"use": "shares"}},
            "sample": {"use": "generate", "n": 2},
        },
    }
    mapping = {**compose([*WORDS, "budget.run.tokens=500"]), "strategy": strategy}
    with pytest.raises(ConfigError, match="unit: step"):
        assemble(mapping)
