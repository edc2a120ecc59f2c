import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.strategies.select import Select

quick = settings(deadline=None, max_examples=50)


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


@pytest.mark.slow
@quick
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
    assert driver.note() == {"by": "score", "answered": False, "kept": [(1,), (2,)], "dropped": [(0,)]}


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
        ({"keep": 1, "share": 0.5}, "keep", "exactly one"),
        ({"share": 0}, "share", "above 0"),
        ({"share": 1.1}, "share", "up to 1"),
        ({"keep": 1, "answered": True, "least_tokens": -1}, "least_tokens", "negative"),
        ({"keep": 1, "least_tokens": 1}, "least_tokens", "answered: true"),
        ({"into": 4, "ties": "all"}, "ties", "keeps its width"),
    ],
)
def test_settings_that_make_no_sense(settings, field, hint):
    with pytest.raises(ConfigError, match=hint) as caught:
        Select(**settings)
    assert caught.value.path == field


def test_only_scores_need_a_verifier():
    assert Select(keep=1).needs == {"scores"}
    assert not Select(by="tokens", keep=1).needs


@pytest.mark.parametrize(
    ("share", "size", "kept"),
    [
        (0.5, 4, 2),
        (0.5, 5, 3),
        (0.1, 4, 1),
        (0.1, 30, 3),
        (0.07, 100, 7),
        (0.29, 100, 29),
        (1, 3, 3),
        (1e-9, 3, 1),
    ],
)
def test_a_share_is_rounded_up_and_is_the_decimal_that_was_written(share, size, kept, kit):
    pool = [kit.cand(i, score=float(i)) for i in range(size)]
    assert keep(kit, *pool, share=share) == [(i,) for i in range(size)][::-1][:kept]


def test_a_share_of_those_with_an_answer(kit):
    pool = [kit.cand(i, "A" if i % 2 else None, score=1.0) for i in range(8)]
    assert keep(kit, *pool, share=0.5, answered=True) == [(1,), (3,)]
    assert keep(kit, kit.cand(0), share=0.5, answered=True) == [(0,)]


def test_all_that_equal_the_last_one_kept_may_stay(kit):
    pool = [kit.cand(i, "A", length=n) for i, n in enumerate([3, 2, 3, 1, 3, 4])]
    assert keep(kit, *pool, by="tokens", keep=3) == [(3,), (1,), (0,)]
    assert keep(kit, *pool, by="tokens", keep=3, ties="all") == [(3,), (1,), (0,), (2,), (4,)]
    assert keep(kit, *pool, by="tokens", keep=2, ties="all") == [(3,), (1,)]
    assert keep(kit, *pool, by="tokens", share=0.5, ties="all") == [(3,), (1,), (0,), (2,), (4,)]
    assert keep(kit, *pool, by="tokens", keep=1, prefer="most", ties="all") == [(5,)]
    assert keep(kit, by="tokens", keep=2, ties="all") == []


def test_all_without_a_score_are_equal(kit):
    pool = [kit.cand(0), kit.cand(1, score=0.5), kit.cand(2)]
    assert keep(kit, *pool, keep=2, ties="all") == [(1,), (0,), (2,)]


def test_by_order_takes_the_first_or_the_last_samples(kit):
    pool = [kit.cand(i) for i in (10, 2, 1, 9)]
    assert keep(kit, *pool, by="order", keep=2) == [(1,), (2,)]
    assert keep(kit, *pool, by="order", prefer="most", keep=2) == [(10,), (9,)]


def test_those_too_short_are_left_out_unless_all_are(kit):
    pool = [kit.cand(i, "A", length=n) for i, n in enumerate([2, 5, 9])]
    settings = {"by": "tokens", "keep": 3, "answered": True}
    assert keep(kit, *pool, least_tokens=5, **settings) == [(1,), (2,)]
    assert keep(kit, *pool, least_tokens=10, **settings) == [(0,), (1,), (2,)]


def test_by_thinking_takes_those_whose_thinking_ended_first(kit):
    pool = [
        kit.cand(0, "A", length=9, extra={"thought": 4}),
        kit.cand(1, "B", length=5, extra={"thought": 5}),
        kit.cand(2, None, length=9, extra={"thought": 3}),
        kit.cand(3, "C", length=4),
        kit.cand(4, None, length=1),
        kit.cand(5, "D", length=1, finish="aborted"),
        kit.cand(6, None, length=7, finish="length", extra={"thought": 6}),
    ]
    assert keep(kit, *pool, by="thinking", keep=9) == [(2,), (0,), (3,), (1,), (6,)]
    assert keep(kit, *pool, by="thinking", keep=9, answered=True) == [(0,), (3,), (1,)]
    assert keep(kit, *pool, by="thinking", keep=1, prefer="most") == [(6,)]
    assert not Select(by="thinking", keep=1).needs


def test_a_search_reads_no_answers():
    with pytest.raises(ConfigError, match="only `keep` or `share` reads it"):
        Select(into=4, answered=True)
