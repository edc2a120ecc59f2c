import math
import time
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.metrics import (
    maj_at_k,
    mcnemar,
    mean_at_k,
    paired_bootstrap,
    paired_ratio,
    pass_at_k,
    pass_hat_k,
    rates,
    resampled,
    wilson,
)

RIGHT, WRONG, NONE = ("42", True), ("7", False), (None, False)


@st.composite
def tallies(draw):
    """Return (n, c, k) of one question."""
    n = draw(st.integers(1, 30))
    return n, draw(st.integers(0, n)), draw(st.integers(1, n))


@st.composite
def votes(draw, most=8):
    """Return (counts, correct, abstentions, k) of one question."""
    counts = draw(st.lists(st.integers(1, 4), max_size=4).filter(lambda counts: sum(counts) <= most))
    correct = draw(st.lists(st.booleans(), min_size=len(counts), max_size=len(counts)))
    abstentions = draw(st.integers(0 if counts else 1, most - sum(counts) or 1))
    return counts, correct, abstentions, draw(st.integers(1, sum(counts) + abstentions))


def by_hand(counts, correct, abstentions, k):
    """Return maj@k from its definition: every choice of k samples, one after another."""
    samples = [number for number, count in enumerate(counts) for _ in range(count)] + [None] * abstentions
    total, choices = Fraction(0), 0
    for chosen in combinations(samples, k):
        choices += 1
        cast = [one for one in chosen if one is not None]
        if cast:
            most = max(cast.count(one) for one in cast)
            tied = [one for one in set(cast) if cast.count(one) == most]
            total += Fraction(sum(Fraction(correct[one]) for one in tied), len(tied))
    return float(total / choices)


# --- pass@k and pass^k --------------------------------------------------------------------------------


def test_pass_at_k_is_refused_where_the_samples_do_not_tell():
    """Seen elsewhere: n=2, c=0, k=5 reported as pass@5 = 1."""
    for rate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=r"pass.5 needs 1 <= k <= n, and there are n = 2 samples"):
            rate(2, 0, 5)
        with pytest.raises(ValueError, match="needs 1 <= k"):
            rate(2, 0, 0)
        with pytest.raises(ValueError, match="so 3 of them cannot be right"):
            rate(2, 3, 1)


@pytest.mark.parametrize(
    ("n", "c", "k", "any_right", "all_right"),
    [(8, 0, 4, 0, 0), (8, 8, 4, 1, 1), (8, 2, 1, 0.25, 0.25), (8, 2, 2, 13 / 28, 1 / 28), (8, 7, 2, 1, 0.75)],
)
def test_known_values(n, c, k, any_right, all_right):
    assert pass_at_k(n, c, k) == any_right
    assert pass_hat_k(n, c, k) == all_right


@settings(deadline=None, max_examples=60)
@given(tallies())
def test_pass_rates_are_shares_of_all_choices(tally):
    n, c, k = tally
    assert pass_at_k(n, c, k) == float(1 - Fraction(math.comb(n - c, k), math.comb(n, k)))
    if n <= 9:
        choices = [sum(chosen) for chosen in combinations([1] * c + [0] * (n - c), k)]
        assert pass_at_k(n, c, k) == sum(map(bool, choices)) / len(choices)
        assert pass_hat_k(n, c, k) == sum(number == k for number in choices) / len(choices)


@settings(deadline=None, max_examples=60)
@given(tallies())
def test_pass_hat_is_at_most_the_mean_and_pass_at_least(tally):
    n, c, k = tally
    assert pass_hat_k(n, c, k) <= c / n <= pass_at_k(n, c, k)
    assert pass_hat_k(n, c, 1) == pass_at_k(n, c, 1) == mean_at_k([True] * c + [False] * (n - c))


@settings(deadline=None, max_examples=60)
@given(tallies())
def test_pass_rates_are_monotone(tally):
    n, c, k = tally
    if k < n:
        assert pass_at_k(n, c, k) <= pass_at_k(n, c, k + 1)
        assert pass_hat_k(n, c, k) >= pass_hat_k(n, c, k + 1)
    if c < n:
        assert pass_at_k(n, c, k) <= pass_at_k(n, c + 1, k)


def test_large_numbers_stay_exact():
    assert pass_at_k(10_000, 1, 1) == 1e-4
    assert pass_at_k(2000, 1000, 1000) == 1.0
    assert 0 < pass_hat_k(2000, 1999, 1999) < 1


# --- mean@k -------------------------------------------------------------------------------------------


def test_mean_at_k_takes_the_first_and_counts_what_is_missing_as_wrong():
    correct = [True, None, False, True]
    assert mean_at_k(correct) == mean_at_k(correct, 4) == 0.5
    assert (mean_at_k(correct, 1), mean_at_k(correct, 2)) == (1.0, 0.5)
    for k in (0, 5):
        with pytest.raises(ValueError, match=f"mean@{k} needs"):
            mean_at_k(correct, k)


# --- maj@k --------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(votes())
def test_maj_at_k_is_the_mean_over_all_choices(vote):
    assert maj_at_k(*vote) == by_hand(*vote)


@settings(deadline=None, max_examples=60)
@given(votes(most=12))
def test_maj_at_1_is_the_mean(vote):
    counts, correct, abstentions, _ = vote
    right = sum(count for count, good in zip(counts, correct, strict=True) if good)
    assert maj_at_k(counts, correct, abstentions, 1) == right / (sum(counts) + abstentions)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(votes(most=12), st.randoms(use_true_random=False))
def test_maj_at_k_does_not_depend_on_the_order_of_answers(vote, random):
    counts, correct, abstentions, k = vote
    pairs = list(zip(counts, correct, strict=True))
    random.shuffle(pairs)
    assert maj_at_k([c for c, _ in pairs], [g for _, g in pairs], abstentions, k) == maj_at_k(*vote)


@settings(deadline=None, max_examples=60)
@given(votes())
def test_maj_at_k_is_at_most_pass_at_k(vote):
    counts, correct, abstentions, k = vote
    right = sum(count for count, good in zip(counts, correct, strict=True) if good)
    assert maj_at_k(*vote) <= pass_at_k(sum(counts) + abstentions, right, k)


@pytest.mark.parametrize(
    ("counts", "correct", "abstentions", "k", "rate"),
    [
        ([2, 2], [True, False], 0, 4, 1 / 2),  # a tie of two
        ([1, 1, 1], [True, False, False], 0, 3, 1 / 3),  # a tie of three
        ([1, 1, 1], [True, True, False], 0, 3, 2 / 3),  # two of the tied are right
        ([], [], 4, 2, 0),  # nobody votes
        ([1], [True], 3, 2, 1 / 2),  # who abstains takes a place
        ([3, 5], [True, False], 0, 8, 0),  # the plurality is wrong
        ([3, 2, 2], [True, False, False], 1, 8, 1),  # a plurality is enough
        ([4], [Fraction(1, 4)], 0, 2, 1 / 4),  # one of the four was judged right
    ],
)
def test_votes_worked_out_by_hand(counts, correct, abstentions, k, rate):
    assert maj_at_k(counts, correct, abstentions, k) == rate


def test_votes_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"maj@9 needs 1 <= k <= n, and there are n = 8"):
        maj_at_k([4, 4], [True, False], 0, 9)
    with pytest.raises(ValueError, match="maj@0"):
        maj_at_k([4], [True], 0, 0)
    with pytest.raises(ValueError, match="one entry of correct per answer, got 1 for 2"):
        maj_at_k([4, 4], [True], 0, 1)
    with pytest.raises(ValueError, match="at least 1"):
        maj_at_k([4, 0], [True, False], 0, 1)


@pytest.mark.slow
def test_many_samples_take_seconds_at_most():
    """A bound against another order of complexity, not a measurement: it takes about a second."""
    start = time.perf_counter()
    rate = maj_at_k([13] * 16 + [12] * 4, [True] + [False] * 19, 0, 128)
    assert 0.05 < rate < 0.06
    assert time.perf_counter() - start < 60


# --- over questions -----------------------------------------------------------------------------------


def test_problem_counts_are_not_sample_counts():
    """Seen elsewhere: 50 of 164 questions solved with one sample each reported as pass@10 = 97.7 %."""
    questions = [[RIGHT]] * 50 + [[WRONG]] * 114
    found = rates(questions)
    assert list(found) == [1]
    assert found[1] == dict.fromkeys(("mean@k", "pass@k", "pass^k", "maj@k"), pytest.approx(0.305, abs=5e-4))
    with pytest.raises(ValueError, match=r"10 needs 1 <= k <= n, and there are n = 1 samples per question"):
        rates(questions, [10])


def test_n_is_always_included():
    """Seen elsewhere: of 12 samples only 1, 2, 4 and 8 reported."""
    questions = [[RIGHT] * 6 + [WRONG] * 6]
    assert list(rates(questions)) == [1, 2, 4, 8, 12]
    assert list(rates(questions, [4])) == [4, 12]
    assert list(rates([[RIGHT] * 8])) == [1, 2, 4, 8]


def test_the_four_rates_have_names_of_their_own_and_differ():
    """Seen elsewhere: the mean over 64 repetitions read as the accuracy of voting over 64."""
    found = rates([[RIGHT, RIGHT, WRONG, WRONG, RIGHT, NONE]])[6]
    assert found == {"mean@k": 0.5, "pass@k": 1.0, "pass^k": 0.0, "maj@k": 1.0}
    found = rates([[RIGHT, WRONG, ("8", False), NONE]], [2])[2]
    assert found == {"mean@k": 0.5, "pass@k": 0.5, "pass^k": 0.0, "maj@k": pytest.approx(2 / 6)}


def test_missing_answers_are_wrong_in_every_rate():
    assert rates([[NONE] * 4])[4] == dict.fromkeys(("mean@k", "pass@k", "pass^k", "maj@k"), 0.0)
    assert rates([[(None, None)] * 4])[4] == rates([[NONE] * 4])[4]
    assert rates([[RIGHT, NONE]], [1])[1] == {"mean@k": 1.0, "pass@k": 0.5, "pass^k": 0.5, "maj@k": 0.5}


def test_an_answer_judged_twice_is_as_right_as_its_share():
    assert rates([[("a", True), ("a", False), ("b", False), ("b", False)]])[4]["maj@k"] == 0.25


def test_answers_not_on_record_cannot_vote():
    found = rates([[(None, True), (None, False)], [RIGHT, WRONG]])[2]
    assert found == {"mean@k": 0.5, "pass@k": 1.0, "pass^k": 0.0, "maj@k": None}


def test_what_was_not_graded_is_refused():
    with pytest.raises(ValueError, match="leave out questions that were not graded"):
        rates([[RIGHT], [("3", None)]])
    for questions in ([], [[RIGHT], []]):
        with pytest.raises(ValueError, match="every question needs a sample"):
            rates(questions)


def test_questions_with_different_numbers_of_samples():
    found = rates([[RIGHT, WRONG], [RIGHT] * 4], [1])
    assert list(found) == [1, 2]
    assert found[2]["pass^k"] == 0.5


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.lists(st.sampled_from([RIGHT, WRONG, NONE]), min_size=3, max_size=6), min_size=1, max_size=4)
)
def test_rates_are_means_over_questions_and_in_order(questions):
    for k, found in rates(questions).items():
        assert found["pass^k"] <= found["pass@k"] + 1e-12
        assert found["maj@k"] <= found["pass@k"] + 1e-12
        tallies = [(len(samples), samples.count(RIGHT)) for samples in questions]
        assert found["pass@k"] == pytest.approx(sum(pass_at_k(n, c, k) for n, c in tallies) / len(tallies))


# --- what cannot be -----------------------------------------------------------------------------------


@pytest.mark.parametrize("correct", [[2], [-1], [math.nan], [Fraction(3, 2)]])
def test_an_answer_is_right_from_0_to_1(correct):
    with pytest.raises(ValueError, match="correct says whether an answer is right, from 0 to 1"):
        maj_at_k([2], correct, 0, 1)


def test_successes_are_at_most_the_trials():
    assert wilson(0, 0) == (0.0, 1.0)
    for successes, trials in ((5, 3), (-1, 3), (1, 0), (0, -1)):
        with pytest.raises(ValueError, match=f"there were {trials} trials, so {successes} of them cannot"):
            wilson(successes, trials)


@pytest.mark.parametrize("form", [list, tuple, np.array, lambda values: np.array(values, dtype=bool)])
def test_the_bootstrap_takes_any_sequence(form):
    first, second = [1, 0, 1, 1], [0, 0, 1, 0]
    assert paired_bootstrap(form(first), form(second)) == paired_bootstrap(first, second)


@pytest.mark.parametrize(
    ("first", "second", "settings", "message"),
    [
        ([], [], {}, "one value per question each, got 0 and 0"),
        ([1], [1, 2], {}, "got 1 and 2"),
        ([[1]], [[2]], {}, r"got \(1, 1\) and \(1, 1\)"),
        ([1, None], [1, 1], {}, "question 1 has no finite value"),
        ([1, 1], [math.nan, 1], {}, "question 0 has no finite value"),
        ([1, 1], [0, math.inf], {}, "question 1 has no finite value"),
        ([1], [0], {"draws": 0}, "draws are at least 1 .* got 0"),
        ([1], [0], {"level": 95}, "level lies in"),
    ],
)
def test_what_the_bootstrap_refuses(first, second, settings, message):
    with pytest.raises(ValueError, match=message):
        paired_bootstrap(first, second, **settings)


# --- ratios, draws and McNemar ------------------------------------------------------------------------


def test_draws_are_means_over_questions_drawn_again():
    values = np.array([[1.0, 10.0], [3.0, 30.0], [8.0, 80.0]])
    drawn = resampled(values, draws=1200, seed=3)
    assert drawn.shape == (1200, 2)
    np.testing.assert_allclose(drawn[:, 1], 10 * drawn[:, 0])
    possible = {(a + b + c) / 3 for a in (1, 3, 8) for b in (1, 3, 8) for c in (1, 3, 8)}
    assert {round(value, 9) for value in drawn[:, 0]} == {round(value, 9) for value in possible}


def test_draws_do_not_depend_on_how_many_are_made_at_once():
    values = np.random.default_rng(1).random((7, 2))
    np.testing.assert_array_equal(resampled(values, draws=501)[:500], resampled(values, draws=500))


def test_a_ratio_is_of_the_means_and_paired():
    tokens = [10, 20, 30, 1000]
    assert paired_ratio([2 * one for one in tokens], tokens) == (2.0, 2.0, 2.0)
    ratio, low, high = paired_ratio([30, 10], [10, 10])
    assert (ratio, low, high) == (2.0, 1.0, 3.0)


def test_a_ratio_to_what_was_often_free_has_no_upper_end():
    ratio, _, high = paired_ratio([1, 1], [1, 0])
    assert ratio == 2.0
    assert high == math.inf


@pytest.mark.parametrize(("first", "second"), [([1, -1], [1, 1]), ([1, 1], [0, 0])])
def test_ratios_of_what_is_no_price_are_refused(first, second):
    with pytest.raises(ValueError, match="a ratio needs values of at least 0"):
        paired_ratio(first, second)


@pytest.mark.slow
@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_binomial_test_at_one_half(first, second):
    trials, fewer = first + second, min(first, second)
    tail = sum(Fraction(math.comb(trials, k), 2**trials) for k in range(fewer + 1))
    assert mcnemar(first, second) == float(min(Fraction(1), 2 * tail))
    assert mcnemar(first, second) == mcnemar(second, first)


@pytest.mark.parametrize(
    ("counts", "p"), [((0, 0), 1.0), ((5, 0), 0.0625), ((1, 9), 0.021484375), ((121, 59), 4.43444926e-06)]
)
def test_mcnemar_at_known_places(counts, p):
    assert mcnemar(*counts) == pytest.approx(p, rel=1e-6)


def test_mcnemar_of_many_questions():
    assert 0.04 < mcnemar(5100, 4900) < 0.06
    with pytest.raises(ValueError, match="at least 0"):
        mcnemar(-1, 3)
