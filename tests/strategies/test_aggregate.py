import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.strategies.aggregate import Aggregate, length_of, voters
from ttsflow.types import Answer

quick = settings(deadline=None, max_examples=50)


def vote(kit, *pool, **settings):
    end = kit.Driver().run(Aggregate(**settings), kit.state(*pool))
    assert (end.answer is None) == (end.chosen is None)
    if end.chosen is not None:
        assert end.chosen.answer == end.answer
        assert end.chosen in pool
    return end.answer and end.answer.key


def test_plurality_wins(kit):
    assert vote(kit, *(kit.cand(i, a) for i, a in enumerate("ABBCB"))) == "B"


def test_who_has_a_vote(kit):
    pool = [
        kit.cand(0, "A"),
        kit.cand(1, "B", finish="length"),
        kit.cand(2, "B", finish="aborted"),
        kit.cand(3, "B", finish="failed"),
        kit.cand(4, "B", finish="step"),
        kit.cand(5),
    ]
    assert vote(kit, *pool) == "A"
    assert voters(pool) == [pool[0]]


def test_copies_of_one_candidate_have_one_vote(kit):
    copy = kit.cand(1, "B")
    assert vote(kit, kit.cand(0, "A"), copy, copy, kit.cand(2, "A")) == "A"


def test_votes_are_counted_by_key_and_shown_as_the_first_wrote_it(kit):
    half = [kit.cand(0).with_(answer=Answer("0.5", "1/2")), kit.cand(1).with_(answer=Answer("1/2", "1/2"))]
    end = kit.Driver().run(Aggregate(), kit.state(*half, kit.cand(2, "3")))
    assert end.answer.text == "0.5"


@pytest.mark.parametrize("how", ["majority", "weighted", "best", "first"])
@pytest.mark.parametrize("pool", [[], [None, None]])
def test_when_all_abstain_there_is_no_answer(how, pool, kit):
    assert vote(kit, *(kit.cand(i, a, score=0.9) for i, a in enumerate(pool)), how=how) is None


def test_a_missing_score_is_left_out_and_never_negative(kit):
    pool = [kit.cand(0, "A"), kit.cand(1, "A", score=0.3), kit.cand(2, "B", score=0.2)]
    assert vote(kit, *pool, how="weighted") == "A"
    assert vote(kit, *pool, how="best") == "A"
    pool = [kit.cand(0, "A"), kit.cand(1, "A"), kit.cand(2, "B", score=0.2)]
    assert vote(kit, *pool, how="weighted") == "B"
    assert vote(kit, *pool) == "A"


def test_without_any_score_weighted_and_best_have_no_answer(kit):
    assert vote(kit, kit.cand(0, "A"), how="weighted") is None
    assert vote(kit, kit.cand(0, "A"), how="best") is None


def test_best_of_all_finished_wins_not_the_first_that_finished(kit):
    pool = [kit.cand(i, f"weak{i}", score=0.1) for i in range(3)]
    assert vote(kit, *pool, kit.cand((3, 0, 0), "strong", score=0.9), how="best") == "strong"


def test_weights_are_added_up_per_answer(kit):
    pool = [kit.cand(0, "A", score=0.6), kit.cand(1, "B", score=0.4), kit.cand(2, "B", score=0.4)]
    assert vote(kit, *pool, how="weighted") == "B"
    assert vote(kit, *pool, how="best") == "A"


def test_first_is_the_first_with_an_answer(kit):
    pool = [kit.cand(0), kit.cand(1, "A", finish="length"), kit.cand(2, "B"), kit.cand(3, "C")]
    assert vote(kit, *pool, how="first") == "B"


TIE = [("A", 5, 0.2), ("B", 2, 0.9), ("B", 9, 0.1), ("A", 4, 0.3)]


@pytest.mark.parametrize(("ties", "winner"), [("first", "A"), ("shortest", "B"), ("score", "B")])
def test_ties(ties, winner, kit):
    pool = [kit.cand(i, a, length=n, score=s) for i, (a, n, s) in enumerate(TIE)]
    assert vote(kit, *pool, ties=ties) == winner


def test_first_means_sample_order_also_when_the_pool_was_sorted_by_length(kit):
    long, short = kit.cand(0, "A", length=9), kit.cand(1, "B", length=1)
    assert vote(kit, short, long) == "A"
    assert vote(kit, short, long, how="first") == "A"


def test_sums_that_differ_in_the_last_bit_are_a_tie(kit):
    pool = [kit.cand(0, "A", score=0.3)] + [kit.cand(i, "B", score=s) for i, s in ((1, 0.1), (2, 0.2))]
    assert 0.1 + 0.2 > 0.3
    assert vote(kit, *pool, how="weighted") == "A"


@pytest.mark.slow
@quick
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["A", "B", "C", None]), st.integers(1, 4), st.sampled_from([None, 0.1, 0.2, 0.3])
        ),
        min_size=1,
        max_size=8,
    ),
    st.randoms(use_true_random=False),
    st.sampled_from(["majority", "weighted", "best", "first"]),
    st.sampled_from(["first", "shortest", "score"]),
)
def test_the_order_of_the_pool_decides_nothing(kit, samples, rng, how, ties):
    pool = [kit.cand(i, a, length=n, score=s) for i, (a, n, s) in enumerate(samples)]
    shuffled = rng.sample(pool, len(pool))
    assert vote(kit, *pool, how=how, ties=ties) == vote(kit, *shuffled, how=how, ties=ties)


@quick
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_unanimous_vote_has_all_of_the_weight(kit, scores):
    pool = [kit.cand(i, "A", score=s) for i, s in enumerate(scores)]
    expected = "A" if any(scores) else None
    assert vote(kit, *pool, how="weighted", least=1.0) == expected


@pytest.mark.parametrize(("least", "winner"), [(0.0, "A"), (0.5, "A"), (0.6, "A"), (0.61, None), (1.0, None)])
def test_a_share_may_be_demanded(least, winner, kit):
    pool = [kit.cand(i, a) for i, a in enumerate("AAABC")]
    assert vote(kit, *pool, least=least) == winner


def test_a_share_that_is_missed_is_recorded_unless_something_stopped_before(kit):
    pool = [kit.cand(0, "A"), kit.cand(1, "B")]
    end = kit.Driver().run(Aggregate(least=0.7), kit.state(*pool))
    assert end.early == "leading answer has 50% of the votes, 70% are needed"
    end = kit.Driver().run(Aggregate(least=0.7), kit.state(*pool, stopped="earlier"))
    assert end.early == "earlier"


@pytest.mark.parametrize(
    ("transform", "winner"),
    [("sigmoid", "B"), ("softmax", "A")],
)
def test_scores_that_may_be_negative_are_transformed(transform, winner, kit):
    pool = [kit.cand(0, "A", score=3.0), kit.cand(1, "B", score=-0.1), kit.cand(2, "B", score=1.5)]
    driver = kit.Driver()
    end = driver.run(Aggregate(how="weighted", transform=transform), kit.state(*pool))
    assert end.answer.key == winner
    weights = driver.note()["weights"]
    if transform == "softmax":
        assert sum(weights.values()) == pytest.approx(1)
        assert weights["A"] == pytest.approx(math.exp(3) / (math.exp(3) + math.exp(-0.1) + math.exp(1.5)))
    else:
        assert weights["A"] == pytest.approx(1 / (1 + math.exp(-3)))


@pytest.mark.parametrize("transform", ["sigmoid", "softmax"])
def test_transforms_do_not_overflow(transform, kit):
    pool = [kit.cand(0, "A", score=-1e4), kit.cand(1, "B", score=1e4)]
    assert vote(kit, *pool, how="weighted", transform=transform) == "B"


def test_negative_weights_are_an_error_that_names_the_remedy(kit):
    with pytest.raises(ValueError, match="transform: sigmoid"):
        vote(kit, kit.cand(0, "A", score=-0.5), how="weighted")


def test_the_trace_hears_all_weights(kit):
    driver = kit.Driver()
    driver.run(Aggregate(), kit.state(*(kit.cand(i, a) for i, a in enumerate("ABBA"))))
    assert driver.note() == {"how": "majority", "weights": {"A": 2.0, "B": 2.0}, "tied": True, "chosen": (0,)}


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"least": -0.1}, "least"),
        ({"least": 1.1}, "least"),
        ({"how": "best", "least": 0.5}, "least"),
        ({"how": "first", "least": 0.5}, "least"),
        ({"transform": "softmax"}, "transform"),
        ({"how": "best", "transform": "sigmoid"}, "transform"),
        ({"how": "weighted", "transform": "softmax", "temperature": 0}, "temperature"),
        ({"how": "weighted", "transform": "softmax", "temperature": math.inf}, "temperature"),
        ({"how": "weighted", "transform": "borda", "temperature": 2.0}, "temperature"),
        ({"how": "weighted", "temperature": 2.0}, "temperature"),
        ({"how": "weighted", "transform": "borda", "power": -1}, "power"),
        ({"how": "weighted", "transform": "softmax", "power": 2.0}, "power"),
        ({"power": 2.0}, "power"),
    ],
)
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        Aggregate(**settings)
    assert caught.value.path == field


def test_what_reads_scores_needs_a_verifier():
    assert Aggregate(how="weighted").needs == Aggregate(how="best").needs == {"scores"}
    assert Aggregate(ties="score").needs == {"scores"}
    assert not Aggregate().needs
    assert not Aggregate(how="first").needs


def weights(kit, *pool, **settings):
    driver = kit.Driver()
    driver.run(Aggregate(how="weighted", **settings), kit.state(*pool))
    return driver.note()["weights"]


@pytest.mark.parametrize("power", [0, 0.5, 1.0, 2.0])
def test_borda_weighs_by_rank(power, kit):
    scores = [0.3, 0.9, 0.1, 0.9, 0.5]
    pool = [kit.cand(i, f"{i}", score=s) for i, s in enumerate(scores)]
    # Ranks from 1 on, equal scores in sample order: sample 1, 3, 4, 0, 2.
    expected = {f"{i}": (5 - rank + 1) ** power for rank, i in enumerate((1, 3, 4, 0, 2), 1)}
    assert weights(kit, *pool, transform="borda", power=power) == pytest.approx(expected)


@quick
@given(st.lists(st.tuples(st.sampled_from("AB"), st.integers(-9, 9)), min_size=1, max_size=9))
def test_borda_without_power_is_a_plain_vote_and_only_the_order_of_scores_matters(kit, samples):
    pool = [kit.cand(i, a, score=float(s)) for i, (a, s) in enumerate(samples)]
    plain = vote(kit, *(c.with_(score=None) for c in pool))
    assert (plain, vote(kit, *pool, how="weighted", transform="borda", power=0)) == (plain, plain)
    other = [c.with_(score=math.exp(c.score)) for c in pool]
    assert weights(kit, *pool, transform="borda") == weights(kit, *other, transform="borda")


def test_borda_ranks_only_those_that_vote(kit):
    pool = [
        kit.cand(0, "A", score=0.1),
        kit.cand(1, score=0.9),
        kit.cand(2, "B"),
        kit.cand(3, "C", score=0.5),
    ]
    assert weights(kit, *pool, transform="borda", power=1.0) == {"A": 1.0, "C": 2.0}


def test_softmax_is_taken_over_those_that_vote_at_a_temperature(kit):
    pool = [
        kit.cand(0, "A", score=1.0),
        kit.cand(1, None, score=9.0),
        kit.cand(2, "B", score=9.0, finish="length"),
        kit.cand(3, "B"),
        kit.cand(4, "B", score=2.0),
    ]
    found = weights(kit, *pool, transform="softmax", temperature=0.5)
    assert found == pytest.approx({"A": 1 / (1 + math.exp(2)), "B": 1 / (1 + math.exp(-2))})
    assert weights(kit, *pool, transform="softmax", temperature=1e-9) == {"A": 0.0, "B": 1.0}
    flat = weights(kit, *pool, transform="softmax", temperature=1e9)
    assert flat == pytest.approx({"A": 0.5, "B": 0.5})


def test_cisc_lets_one_that_is_sure_outweigh_two_that_are_not(kit):
    pool = [kit.cand(0, "A", score=5.0), kit.cand(1, "B", score=1.0), kit.cand(2, "B", score=1.0)]
    assert vote(kit, *pool) == "B"
    assert vote(kit, *pool, how="weighted", transform="softmax") == "A"
    assert vote(kit, *pool, how="weighted", transform="softmax", temperature=100.0) == "B"


def test_thousands_of_weights_take_no_time(kit):
    pool = [kit.cand(i, "A", score=float(i)) for i in range(5000)]
    assert sum(weights(kit, *pool, transform="softmax").values()) == pytest.approx(1)


def test_where_a_candidate_counts_as_finished(kit):
    assert length_of(kit.cand(0, "A", length=5)) == 5
    assert length_of(kit.cand(0, "A", length=5, extra={"thought": 3})) == 3
    assert length_of(kit.cand(0, None, length=5, extra={"thought": 3})) == 3
    assert length_of(kit.cand(0, None, length=5)) is None
    assert length_of(kit.cand(0, "A", length=5, finish="aborted")) is None


def test_a_tie_goes_to_the_shortest_thinking_where_a_watch_saw_it_end(kit):
    pool = [kit.cand(0, "A", length=5), kit.cand(1, "B", length=9, extra={"thought": 3})]
    assert vote(kit, *pool, ties="shortest") == "B"


SAMPLES = st.lists(
    st.tuples(st.sampled_from(["A", "a", "B", "b", None]), st.integers(0, 3)), min_size=1, max_size=8
)


@quick
@given(SAMPLES, st.integers(0, 99), st.sampled_from(["shortest", "score"]))
def test_with_a_rule_for_ties_it_does_not_matter_which_sample_is_which(kit, samples, seed, ties):
    # All lengths and scores differ, so that the rule leaves nothing to sample order.
    numbered = [(answer, 10 + place, extra) for place, (answer, extra) in enumerate(samples)]
    winners = set()
    for order in (numbered, random.Random(seed).sample(numbered, len(numbered))):
        pool = [kit.cand(i, a, length=n, score=e + n / 100) for i, (a, n, e) in enumerate(order)]
        for how in ("majority", "weighted"):
            winners.add((how, vote(kit, *pool, how=how, ties=ties)))
    assert len(winners) == 2


@quick
@given(SAMPLES, st.sampled_from(["majority", "weighted"]), st.sampled_from(["first", "shortest", "score"]))
def test_answers_with_one_key_are_one_answer_however_they_are_written(kit, samples, how, ties):
    plain = [kit.cand(i, a and a.upper(), length=3 + e, score=float(e)) for i, (a, e) in enumerate(samples)]
    shown = [
        c.with_(answer=Answer(a, a.upper()) if a else None) for c, (a, _) in zip(plain, samples, strict=True)
    ]
    assert vote(kit, *plain, how=how, ties=ties) == vote(kit, *shown, how=how, ties=ties)
