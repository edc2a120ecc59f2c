"""What further votes are worth: the published tables, brute force, and what must hold for any votes."""

import itertools
import math
import random
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.strategies import urn
from ttsflow.strategies.worth import best_rate, one_rung, prospects, rates, stability

RUNGS = (1, 3, 4, 6, 8)

STABILITY = {
    (1,): ".662",
    (2,): ".908",
    (3,): ".982",
    (2, 1): ".760",
    (1, 1, 1): ".301",
    (4,): ".998",
    (3, 1): ".935",
    (2, 2): ".490",
    (2, 1, 1): ".681",
    (6,): "1.0",
    (4, 2): ".946",
    (3, 3): ".500",
    (3, 2, 1): ".804",
}

BEST = {
    (1,): ".0478",
    (2, 1): ".0346",
    (1, 1, 1): ".269",
    (3, 1): ".0080",
    (2, 2): ".131",
    (2, 1, 1): ".056",
    (3, 3): ".161",
    (3, 2, 1): ".054",
    (3,): ".0016",
}

fast = settings(max_examples=100)
counts = st.lists(st.integers(1, 4), max_size=5).map(tuple).filter(lambda votes: sum(votes) <= 8)
voted = counts.filter(bool)
alphas = st.floats(0.05, 8)
kinds = st.one_of(st.none(), st.integers(5, 12))


def printed(value, digits):
    """Return a number as a table prints it: as many digits as the one that stands there."""
    return f"{value:.{len(digits.partition('.')[2])}f}".lstrip("0" if value < 1 else "")


@pytest.mark.parametrize(("votes", "digits"), STABILITY.items())
def test_the_table_of_stability_is_reproduced(votes, digits):
    assert printed(stability(votes, 8), digits) == digits


@pytest.mark.parametrize(("votes", "digits"), BEST.items())
def test_the_table_of_gains_is_reproduced(votes, digits):
    assert printed(best_rate(votes, RUNGS, 8), digits) == digits


@pytest.mark.parametrize("votes", [(2, 1), (3, 1), (4, 2)])
def test_one_rung_gains_nothing_where_it_cannot_change_the_leader(votes):
    assert one_rung(votes, min(rung for rung in RUNGS if rung > sum(votes)), 8) == pytest.approx(0, abs=1e-15)


def brute(votes, further, alpha, options):
    """Return the win chance of each answer by every single sequence of votes, in fractions."""
    unseen = Fraction(alpha) / options if options else Fraction(0)
    size = options or len(votes) + further
    wins = [Fraction(0)] * size
    for sequence in itertools.product(range(size), repeat=further):
        now, chance = [*votes, *[0] * (size - len(votes))], Fraction(1)
        for answer in sequence:
            # Without options, answers that are new take the next place.
            fresh = options is None and not now[answer]
            if fresh and answer and not now[answer - 1]:
                chance = Fraction(0)
                break
            weight = Fraction(alpha) if fresh else now[answer] + unseen
            chance *= weight / (sum(now) + Fraction(alpha))
            now[answer] += 1
        if chance:
            tied = [place for place in range(size) if now[place] == max(now)]
            for place in tied:
                wins[place] += chance / len(tied)
    return wins


@pytest.mark.parametrize("options", [None, 3, 4])
@pytest.mark.parametrize("alpha", [1, 0.5, 3])
@pytest.mark.parametrize("votes", [(1,), (2, 1), (1, 1), (2, 2, 1), (1, 1, 1)])
def test_stability_is_the_sum_over_all_sequences(votes, alpha, options):
    wins = brute(votes, 3, alpha, options)
    assert stability(votes, sum(votes) + 3, alpha, options) == pytest.approx(float(max(wins)), rel=1e-12)
    assert sum(wins) == 1


@pytest.mark.slow
@fast
@given(counts, st.integers(0, 8), alphas, kinds, st.integers(0, 99))
def test_what_must_hold_for_any_votes(votes, further, alpha, options, seed):
    most = max(1, sum(votes) + further)
    means = prospects(votes, most, alpha, options)
    assert len(means) == most - sum(votes) + 1
    assert all(0 <= mean <= 1 for mean in means)
    # Whoever may still change the leader does not lose by it.
    assert all(later >= sooner - 1e-12 for sooner, later in itertools.pairwise(means))
    shuffled = random.Random(seed).sample([*votes, 0], len(votes) + 1)
    assert prospects(shuffled, most, alpha, options) == means
    assert stability(votes, most, alpha, options) == means[0]
    every = rates(votes, range(most + 3), most, alpha=alpha, options=options)
    assert list(every) == list(range(sum(votes) + 1, most + 1))
    assert min(every.values(), default=0) >= 0
    assert best_rate(votes, range(most + 3), most, alpha=alpha, options=options) == max(
        every.values(), default=0
    )
    for rung, rate in every.items():
        gain = one_rung(votes, rung, most, alpha, options)
        assert gain == pytest.approx(rate * (rung - sum(votes)), abs=1e-15)


@pytest.mark.slow
@fast
@given(voted, st.integers(1, 7), alphas, kinds)
def test_the_chance_of_todays_leader_stays_the_same_on_average(votes, further, alpha, options):
    now = tuple(sorted(votes, reverse=True))
    wins = urn._wins(now, further, alpha, options)
    assert wins[0] == max(wins)
    later = list(urn._next(now, alpha, options))
    assert math.fsum(chance for _, _, chance, _ in later) == pytest.approx(1, rel=1e-12)
    mean = 0.0
    for at, many, chance, after in later:
        then = urn._wins(after, further - 1, alpha, options)
        # The leader stands first among its equals, and the vote goes to any of them.
        mean += chance * (math.fsum(then[at : at + many]) / many if at == 0 and many else then[0])
    assert mean == pytest.approx(wins[0], abs=1e-12)


@pytest.mark.slow
@fast
@given(voted, st.integers(1, 7), alphas, kinds)
def test_a_vote_for_the_leader_never_lowers_its_chance(votes, further, alpha, options):
    now = tuple(sorted(votes, reverse=True))
    more = (now[0] + 1, *now[1:])
    most = sum(votes) + further
    before = stability(now, most, alpha, options)
    assert stability(more, most, alpha, options) >= before - 1e-12
    # With as many votes to come as before.
    assert stability(more, most + 1, alpha, options) >= before - 1e-12


def test_many_options_are_like_any_number_and_few_are_not():
    for votes in STABILITY:
        assert stability(votes, 8, options=10**9) == pytest.approx(stability(votes, 8), abs=1e-8)
    assert stability((3, 3), 8, options=2) == pytest.approx(0.5)
    assert stability((1,), 8, options=1) == 1
    # Of two options the second is named by every vote that is not for the first.
    assert stability((1,), 3, options=2) == pytest.approx(1.5 / 2 * 2.5 / 3 + 2 * (1.5 / 2 * 0.5 / 3))


def test_samples_without_an_answer_leave_fewer_to_come():
    assert stability((2, 1), 8, drawn=5) == stability((2, 1), 6)
    assert stability((2, 1), 8, drawn=8) == stability((2, 1), 8, drawn=20) == 1
    assert stability((2, 2), 8, drawn=8) == 0.5
    assert best_rate((2, 1), RUNGS, 8, drawn=8) == best_rate((2, 1), RUNGS, 8, drawn=9) == 0
    # At 5 drawn the rungs 6 and 8 are one and three samples away.
    assert rates((2, 1), RUNGS, 8, drawn=5) == {
        6: pytest.approx(one_rung((2, 1), 4, 6)),
        8: pytest.approx(one_rung((2, 1), 6, 6) / 3),
    }


def test_without_votes_nobody_leads_and_the_first_vote_is_worth_its_stability():
    assert stability((), 8) == stability((), 8, drawn=8) == 0
    assert one_rung((), 1, 8) == pytest.approx(stability((1,), 8))
    assert one_rung((0, 0), 4, 8, drawn=3) == pytest.approx(stability((1,), 5))
    assert best_rate((), RUNGS, 8, drawn=8) == 0


def test_a_rate_is_by_what_a_rung_costs():
    joules = {3: 80.0, 4: 100.0, 6: 150.0, 8: 190.0}
    found = rates((1,), RUNGS, 8, cost=joules)
    assert found == {rung: pytest.approx(one_rung((1,), rung, 8) / joules[rung]) for rung in joules}
    assert rates((1,), RUNGS, 8, cost=lambda rung: joules[rung]) == found
    assert best_rate((1,), RUNGS, 8, cost=joules) == max(found.values())
    # A step with a large fixed part had better be a large one.
    assert max(found, key=found.get) > max(rates((1,), RUNGS, 8), key=rates((1,), RUNGS, 8).get)


def error(mean):
    """Return the standard error of a simulated chance, at most that of a win or none."""
    return math.sqrt(mean * (1 - mean) / urn.DRAWS)


@pytest.mark.parametrize("votes", STABILITY)
@pytest.mark.parametrize(("alpha", "options"), [(1.0, None), (1.0, 4), (4.0, None), (4.0, 4)])
def test_simulated_and_enumerated_agree(votes, alpha, options):
    exact = urn.enumerated(votes, 8 - sum(votes), alpha, options)
    found = urn.simulated(votes, 8 - sum(votes), alpha, options)
    assert found == urn.simulated.__wrapped__(votes, 8 - sum(votes), alpha, options)
    for one, other in zip(found, exact, strict=True):
        assert abs(one - other) <= 3 * error(min(1.0, other)) + 1e-12


def test_other_seeds_give_other_runs():
    assert urn.simulated((1,), 7, 1.0, None, seed=1) != urn.simulated((1,), 7, 1.0, None, seed=2)


@pytest.mark.parametrize(
    ("votes", "most", "options"), [((1,), 22, None), ((2, 1), 64, None), ((1, 1, 1), 64, 4), ((), 64, None)]
)
def test_many_votes_to_come_are_simulated(votes, most, options, monkeypatch):
    means = prospects(votes, most, options=options)
    assert means == urn.simulated(votes, most - sum(votes), 1.0, options)
    assert all(0 <= mean <= 1 for mean in means)
    assert best_rate(votes, (1, 4, 16, most), most, options=options) >= 0
    if most == 22:
        monkeypatch.setattr(urn, "STATES", 10**5)
        exact = prospects(votes, most)
        assert means == pytest.approx(exact, abs=3 * error(0.5))


@pytest.mark.parametrize(("votes", "further"), [((1,), 7), ((), 8), ((2, 1), 7), ((1, 1, 1), 6), ((3, 2), 9)])
def test_no_more_states_are_enumerated_than_counted(votes, further):
    reached, seen = {votes: 1.0}, 1
    for _ in range(further):
        reached = urn._spread(reached, 1.0, None)
        seen += len(reached)
    assert seen <= urn.states(votes, further) <= urn.STATES


def test_all_votes_up_to_21_are_enumerated():
    assert urn.states((), 21) <= urn.STATES
    assert all(urn.states((1,) * n, 21 - n) <= urn.STATES for n in range(22))


def test_large_numbers_are_decided_at_once_or_refused():
    began = time.process_time()
    assert stability((3000, 2000), 5500) == 1
    assert prospects((10**6, 10**6 - 1), 2 * 10**6) == pytest.approx((0.75, 0.75), abs=0.26)
    with pytest.raises(ValueError, match="can make 3001 answers"):
        stability((2000, 1999), 6998)
    with pytest.raises(ValueError, match="1100 answers"):
        stability((1,) * 1100, 1200)
    with pytest.raises(ValueError, match="`options` null"):
        stability((2, 1), 64, options=5000)
    assert time.process_time() - began < 5


@pytest.mark.parametrize("alpha", [1e-300, 1e300])
def test_an_alpha_at_the_end_of_its_range_is_nothing_special(alpha):
    for most in (8, 64):
        assert all(0 <= mean <= 1 for mean in prospects((2, 1), most, alpha))


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"most": 0}, "most"),
        ({"alpha": 0}, "alpha"),
        ({"alpha": math.nan}, "alpha"),
        ({"alpha": math.inf}, "alpha"),
        ({"options": 0}, "options"),
        ({"cost": {8: 1.0}}, "cost"),
        ({"cost": {3: 1, 4: 1, 6: 1, 8: 0}}, "cost"),
        ({"cost": lambda _: math.nan}, "cost"),
    ],
)
def test_settings_that_make_no_sense(words, field):
    with pytest.raises(ConfigError) as caught:
        best_rate((1,), RUNGS, **{"most": 8, **words})
    assert caught.value.path == field


@pytest.mark.parametrize(
    ("votes", "words", "match"),
    [
        ((2, -1), {}, "counted from 0"),
        ((2, 1), {"drawn": 2}, "3 votes cannot come from 2"),
        ((1, 1, 1), {"options": 2}, "3 different answers"),
    ],
)
def test_counts_that_cannot_be(votes, words, match):
    with pytest.raises(ValueError, match=match):
        stability(votes, 8, **words)


@pytest.mark.parametrize("rung", [2, 3, 9])
def test_a_rung_that_is_none(rung):
    with pytest.raises(ValueError, match="a rung lies above"):
        one_rung((2, 1), rung, 8)


@pytest.mark.slow
def test_a_decision_takes_under_a_millisecond_and_all_of_them_under_fifty():
    every, last = [], {(): 1.0}
    for _ in range(8):
        last = urn._spread(last, 1.0, None)
        # A new answer stands last, so that these are all sets of counts, sorted.
        every += last
    assert len(every) == 1 + 2 + 3 + 5 + 7 + 11 + 15 + 22
    urn.enumerated.cache_clear()
    urn._wins.cache_clear()
    began = time.process_time()
    for votes in every:
        stability(votes, 8)
        best_rate(votes, RUNGS, 8)
    assert time.process_time() - began < 0.05
    began = time.process_time()
    for votes in every:
        stability(votes, 8)
        best_rate(votes, RUNGS, 8)
    assert (time.process_time() - began) / len(every) < 0.001
