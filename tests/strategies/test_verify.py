import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.ops import Score, Verdict
from ttsflow.strategies.reduce import reduce_scores
from ttsflow.strategies.verify import Verify

HOWS = ["last", "min", "mean", "prod", "geometric"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [("last", 0.5), ("min", 0.2), ("mean", 0.5), ("prod", 0.08), ("geometric", 0.08 ** (1 / 3))],
)
def test_reductions(how, expected):
    assert reduce_scores([0.8, 0.2, 0.5], how) == pytest.approx(expected)
    assert reduce_scores([0.8, None, 0.2, 0.5, None], how) == pytest.approx(expected)


@pytest.mark.parametrize("how", HOWS)
def test_without_any_score_the_result_is_missing(how):
    assert reduce_scores([], how) is None
    assert reduce_scores([None, None], how) is None


@pytest.mark.slow
@given(st.lists(st.none() | st.floats(0, 1), max_size=400), st.sampled_from(HOWS))
def test_probabilities_reduce_to_a_probability(scores, how):
    found = reduce_scores(scores, how)
    known = [score for score in scores if score is not None]
    assert (found is None) == (not known)
    if found is not None:
        assert math.isfinite(found)
        assert 0 <= found <= 1
        if how in {"mean", "geometric"}:
            assert min(known) * (1 - 1e-9) <= found <= max(known) * (1 + 1e-9)


def test_the_product_punishes_length_and_the_geometric_mean_does_not():
    long, short = [0.9] * 10, [0.8] * 2
    assert reduce_scores(long, "prod") < reduce_scores(short, "prod")
    assert reduce_scores(long, "geometric") > reduce_scores(short, "geometric")


def test_the_geometric_mean_of_a_very_long_chain_does_not_vanish():
    assert reduce_scores([0.1] * 1000, "geometric") == pytest.approx(0.1)


@pytest.mark.parametrize("how", ["prod", "geometric"])
def test_products_of_negative_scores_are_an_error(how):
    with pytest.raises(ValueError, match="needs step scores >= 0"):
        reduce_scores([0.5, -0.1], how)


@pytest.mark.parametrize("how", ["last", "min", "mean"])
def test_other_reductions_take_negative_scores(how):
    assert reduce_scores([-1.0, -1.0], how) == -1.0


def test_scores_are_stored_with_their_reduction(kit):
    driver = kit.Driver(scores={(0,): Verdict("", (0.4, 0.2)), (1,): Verdict("", (None,))})
    end = driver.run(Verify("min"), kit.state(kit.cand(0), kit.cand(1)))
    assert [(c.scores, c.score) for c in end.pool] == [((0.4, 0.2), 0.2), ((None,), None)]
    assert end.spent.verifier == 2


def test_only_those_without_scores_are_asked_about_and_copies_once(kit):
    copy = kit.cand(0, finish="step")
    scored = kit.cand(1, scores=(0.1,), score=0.1)
    pool = [
        copy,
        copy,
        scored,
        kit.cand(2, finish="aborted"),
        kit.cand(3, finish="failed"),
        kit.cand(4, length=0),
        kit.cand(5, finish="length"),
    ]
    driver = kit.Driver()
    end = driver.run(Verify(), kit.state(*pool))
    (op,) = driver.of(Score)
    assert [c.path for c in op.candidates] == [(0,), (5,)]
    assert end.pool[0] == end.pool[1]
    assert end.pool[0].score == 0.5
    assert [c.score for c in end.pool[2:]] == [0.1, None, None, None, 0.5]


def test_with_nothing_to_score_nothing_is_asked(kit):
    driver = kit.Driver()
    start = kit.state(kit.cand(0, scores=(0.1,), score=0.1))
    assert driver.run(Verify(), start) is start
    assert not driver.ops


def test_a_candidate_that_could_not_be_scored_is_failed_and_has_no_vote(kit):
    driver = kit.Driver(scores={(0,): Verdict("", (), reason="boom")})
    first, second = driver.run(Verify(), kit.state(kit.cand(0, "A"), kit.cand(1, "B"))).pool
    assert (first.finish, first.answer, first.reason) == ("failed", None, "boom")
    assert (second.finish, second.answer.key) == ("stop", "B")


def test_it_needs_a_verifier():
    assert Verify().needs == {"verifier"}


def test_a_product_with_a_negative_score_fails_its_candidate_alone(kit):
    driver = kit.Driver(scores={(0,): Verdict("", (0.5, -0.1)), (1,): Verdict("", (0.5, 0.4))})
    end = driver.run(Verify("prod"), kit.state(kit.cand(0, "A"), kit.cand(1, "B")))
    assert [c.finish for c in end.pool] == ["failed", "stop"]
    assert "needs step scores >= 0" in end.pool[0].reason
    assert end.pool[1].score == pytest.approx(0.2)
