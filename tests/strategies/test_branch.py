import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.strategies.branch import Branch, largest_remainder, rebase

SCORES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@pytest.mark.slow
@given(SCORES, st.integers(1, 40), st.floats(0.01, 10))
def test_rebase_shares_out_the_whole_width(scores, width, temperature):
    counts = rebase(scores, width, temperature)
    assert sum(counts) == width
    ranked = sorted(zip(scores, counts, strict=True), key=lambda pair: -pair[0])
    assert all(a >= b for (x, a), (y, b) in itertools.pairwise(ranked) if x > y)
    assert counts[scores.index(max(scores))] >= 1


@pytest.mark.slow
@given(SCORES, st.integers(1, 40))
def test_the_largest_remainder_is_within_one_of_the_exact_share(scores, width):
    counts = largest_remainder(scores, width)
    assert sum(counts) == width
    weights = [score - min(scores) + 1e-6 for score in scores]
    for count, weight in zip(counts, weights, strict=True):
        assert abs(count - width * weight / math.fsum(weights)) <= 1 + 1e-9


@pytest.mark.slow
@given(st.integers(1, 12), st.integers(1, 40), st.floats(0, 1))
def test_equal_scores_share_alike_in_both(count, width, score):
    hot = rebase([score] * count, width, 1e9)
    assert hot == rebase([score] * count, width, 0.2) == largest_remainder([score] * count, width)
    assert max(hot) - min(hot) <= 1


def test_rebase_by_hand():
    # softmax(score / .2) of .9, .5, .1 is .8668, .1173, .0159: of 8 the first takes 7, rounded up.
    assert rebase([0.1, 0.9, 0.5], 8, 0.2) == [0, 7, 1]
    assert rebase([0.5, 0.5], 3, 0.2) == [2, 1]


def pool_of(kit, *scores):
    return [kit.cand((i,), score=score, finish="step") for i, score in enumerate(scores)]


def test_finished_ones_stay_and_take_a_place_each(kit):
    done = kit.cand((9,), "A", score=0.1)
    state = kit.Driver().run(Branch(4), kit.state(done, *pool_of(kit, 0.9, 0.1)))
    assert state.pool[0] == done
    assert len(state.pool) == 4
    assert [c.path for c in state.pool[1:]] == [(0,)] * 3


def test_when_all_places_are_taken_the_best_still_lives_on(kit):
    done = [kit.cand((i,), "A") for i in range(5, 9)]
    state = kit.Driver().run(Branch(4), kit.state(*done, *pool_of(kit, 0.2, 0.9)))
    assert [c.path for c in state.pool if c.active] == [(1,)]


def test_a_missing_score_is_worth_the_lowest(kit):
    state = kit.Driver().run(Branch(4, "proportional"), kit.state(*pool_of(kit, 0.8, None, 0.2)))
    assert [c.path for c in state.pool] == [(0,)] * 4


def test_the_trace_hears_who_got_how_many(kit):
    driver = kit.Driver()
    driver.run(Branch(4), kit.state(*pool_of(kit, 0.9, 0.1, 0.88)))
    assert driver.note() == {"by": "rebase", "kept": [(0,), (2,)], "dropped": [(1,)], "copies": [3, 1]}


def test_without_active_ones_nothing_happens(kit):
    state = kit.state(kit.cand(0, "A"))
    assert kit.Driver().run(Branch(4), state) == state


@pytest.mark.parametrize(
    ("settings", "field"), [({"into": 0}, "into"), ({"into": 1, "temperature": 0}, "temperature")]
)
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        Branch(**settings)
    assert caught.value.path == field


def test_a_temperature_that_nothing_reads_is_refused():
    with pytest.raises(ConfigError, match="only `how: rebase` reads it"):
        Branch(4, "proportional", temperature=0.5)
