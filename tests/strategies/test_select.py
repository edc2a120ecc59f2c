import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.strategies.select import Select


def keep(kit, *pool, **settings):
    return [c.path for c in kit.Driver().run(Select(**settings), kit.state(*pool)).pool]


def test_keeps_the_highest_scores(kit):
    pool = [kit.cand(i, score=s) for i, s in enumerate([0.1, 0.9, 0.5])]
    assert keep(kit, *pool, keep=2) == [(1,), (2,)]
    assert keep(kit, *pool, keep=2, prefer="least") == [(0,), (2,)]


def test_keeps_the_shortest(kit):
    pool = [kit.cand(i, length=n) for i, n in enumerate([5, 2, 9])]
    assert keep(kit, *pool, by="tokens", keep=2) == [(1,), (0,)]
    assert keep(kit, *pool, by="tokens", keep=2, prefer="most") == [(2,), (0,)]


@pytest.mark.parametrize("prefer", ["most", "least"])
def test_a_missing_score_is_worse_than_any(prefer, kit):
    pool = [kit.cand(0), kit.cand(1, score=0.0), kit.cand(2, score=1.0)]
    assert set(keep(kit, *pool, keep=2, prefer=prefer)) == {(1,), (2,)}
    assert keep(kit, *pool, keep=3, prefer=prefer)[-1] == (0,)


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=9), st.integers(1, 9), st.randoms(use_true_random=False)
)
def test_exactly_k_are_kept_and_equal_ones_are_taken_in_sample_order(kit, lengths, k, rng):
    pool = [kit.cand(i, "A", length=n) for i, n in enumerate(lengths)]
    expected = [(i,) for _, i in sorted((n, i) for i, n in enumerate(lengths))][:k]
    assert keep(kit, *rng.sample(pool, len(pool)), by="tokens", keep=k) == expected


def test_only_finished_ones_with_an_answer_are_eligible_when_asked(kit):
    pool = [
        kit.cand(0, length=1),
        kit.cand(1, "A", length=2, finish="length"),
        kit.cand(2, "A", length=9),
        kit.cand(3, "B", length=8),
    ]
    assert keep(kit, *pool, by="tokens", keep=3, answered=True) == [(3,), (2,)]
    assert keep(kit, *pool, by="tokens", keep=2) == [(0,), (1,)]


def test_a_search_keeps_the_best_active_and_copies_them(kit):
    pool = [kit.cand(i, score=s, finish="step") for i, s in enumerate([0.1, 0.4, 0.3, 0.2])]
    assert keep(kit, *pool, into=4, copies=2) == [(1,), (1,), (2,), (2,)]


def test_ended_candidates_stay_aside_and_take_no_place(kit):
    pool = [
        kit.cand(0, "A", score=0.0),
        kit.cand(1, finish="step", score=0.5),
        kit.cand(2, finish="length", score=0.1),
        kit.cand(3, finish="step", score=0.6),
        kit.cand(4, finish="failed"),
    ]
    assert keep(kit, *pool, into=2, copies=2) == [(0,), (2,), (4,), (3,), (3,)]


def test_copies_of_the_same_candidate_compete_as_one_place_each(kit):
    twice = kit.cand(0, finish="step", score=0.9)
    pool = [twice, kit.cand(1, finish="step", score=0.5)]
    assert keep(kit, *pool, into=2) == [(0,), (1,)]


def test_fewer_than_wanted_are_all_kept(kit):
    pool = [kit.cand(0, finish="step", score=0.1)]
    assert keep(kit, *pool, into=8, copies=4) == [(0,)] * 4
    assert keep(kit, *pool, keep=9) == [(0,)]


def test_without_active_candidates_a_search_changes_nothing_and_says_nothing(kit):
    driver = kit.Driver()
    start = kit.state(kit.cand(0, "A"), kit.cand(1, finish="length"))
    assert driver.run(Select(into=4), start) is start
    assert not driver.ops


def test_the_trace_hears_who_was_kept_and_dropped(kit):
    driver = kit.Driver()
    pool = [kit.cand(i, score=s, finish="step") for i, s in enumerate([0.1, 0.9, 0.5])]
    driver.run(Select(into=4, copies=2), kit.state(*pool))
    assert driver.note() == {"by": "score", "kept": [(1,), (2,)], "dropped": [(0,)]}


@pytest.mark.parametrize(
    ("settings", "field", "hint"),
    [
        ({}, "keep", "exactly one"),
        ({"keep": 1, "into": 1}, "keep", "exactly one"),
        ({"keep": 0}, "keep", "at least one"),
        ({"into": 4, "copies": 0}, "copies", "at least once"),
        ({"keep": 4, "copies": 2}, "copies", "only `into`"),
        ({"into": 2, "copies": 4}, "into", "n must be at least the width"),
        ({"into": 10, "copies": 4}, "into", "use 8 or 12"),
        ({"into": 0}, "into", "at least the width"),
    ],
)
def test_settings_that_make_no_sense(settings, field, hint):
    with pytest.raises(ConfigError, match=hint) as caught:
        Select(**settings)
    assert caught.value.path == field


def test_only_scores_need_a_verifier():
    assert Select(keep=1).needs == {"scores"}
    assert not Select(by="tokens", keep=1).needs
