"""Joules of windows shared between problems: they add up, whatever happens in which order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.meters.attribution import Attribution, check_attribution
from ttsflow.meters.counter import Counter

NAN = float("nan")


def test_a_window_is_shared_by_the_tokens_in_it():
    shared = Attribution(window=0.1)
    shared.begin(50.0, 0.0)
    shared.step({"a": 1, "b": 2})
    shared.step({"b": 1})
    assert not shared.due(0.05)
    assert shared.due(0.1)
    assert shared.read(58.0, 0.1) == {"a": 2.0, "b": 6.0}
    shared.step({"a": 5})
    assert shared.read(60.0, 0.2) == {"a": 2.0}
    assert shared.joules == {"a": 4.0, "b": 6.0}
    assert (shared.end("a"), shared.end("a"), shared.end("b")) == (4.0, 0.0, 6.0)
    assert (shared.total, shared.idle) == (10.0, 0.0)


def test_a_window_without_tokens_is_idle():
    shared = Attribution()
    shared.begin(0.0, 0.0)
    assert shared.read(3.0, 1.0) == {}
    shared.step({"a": 0})
    assert shared.read(4.0, 2.0) == {}
    assert (shared.idle, shared.total, shared.joules) == (4.0, 4.0, {})


def test_a_reading_that_has_not_moved_leaves_the_window_open():
    shared = Attribution(window=0.1)
    shared.begin(0.0, 0.0)
    shared.step({"a": 1})
    assert shared.read(0.0, 0.1) == {}
    assert not shared.due(0.15)
    shared.step({"b": 3})
    assert shared.read(4.0, 0.2) == {"a": 1.0, "b": 3.0}


def test_what_comes_late_belongs_to_those_that_still_run():
    shared = Attribution()
    shared.begin(0.0, 0.0)
    shared.step({"a": 1})
    assert shared.end("a") == 0
    shared.step({"b": 1})
    assert shared.read(4.0, 0.2) == {"b": 4.0}
    assert shared.end("b") == 4
    assert shared.read(5.0, 0.3) == {}
    assert shared.idle == 1


@pytest.mark.parametrize("reading", [NAN, float("inf"), 5.0])
def test_readings_that_are_none_or_went_back_change_nothing(reading):
    shared = Attribution()
    shared.begin(10.0, 0.0)
    shared.step({"a": 1})
    assert shared.read(reading, 1.0) == {}
    assert shared.read(12.0, 2.0) == {"a": 2.0}
    assert shared.total == 2


def test_the_first_reading_begins_where_nobody_did():
    shared = Attribution()
    assert shared.read(NAN, 0.0) == {}
    assert shared.read(100.0, 1.0) == {}
    assert shared.read(101.0, 2.0) == {}
    assert shared.idle == shared.total == 1


def test_a_clock_that_goes_back_is_no_reason_to_wait():
    shared = Attribution(window=0.1)
    shared.begin(0.0, 100.0)
    assert shared.due(3.0)
    shared.read(1.0, 3.0)
    assert not shared.due(3.05)


def test_occupancy_gives_all_to_the_one_that_ran_tokens_or_not():
    shared = Attribution("occupancy")
    shared.begin(0.0, 0.0)
    shared.step({"a": 0})
    assert shared.read(3.0, 1.0) == {"a": 3.0}
    shared.step({"b": 7})
    with pytest.raises(ValueError, match="one problem runs in a window"):
        shared.step({"a": 1})
    assert shared.read(5.0, 2.0) == {"b": 2.0}
    assert shared.read(6.0, 3.0) == {}
    assert shared.idle == 1


def test_who_may_use_which():
    check_attribution("token_share", 8)
    check_attribution("occupancy", 1)
    with pytest.raises(ConfigError, match=r"concurrency=8 .*Use concurrency=1, or attribution=token_share"):
        check_attribution("occupancy", 8)
    with pytest.raises(ConfigError, match="Did you mean 'token_share'") as caught:
        check_attribution("token_shares", 1)
    assert caught.value.path == "attribution"
    with pytest.raises(ConfigError):
        Attribution("windows")


@pytest.mark.parametrize("tokens", [-1, NAN, float("inf")])
def test_tokens_that_are_none_are_refused(tokens):
    shared = Attribution()
    with pytest.raises(ValueError, match="tokens are at least 0"):
        shared.step({"a": 1, "b": tokens})
    shared.begin(0.0, 0.0)
    shared.read(1.0, 1.0)
    assert shared.idle == 1, "a step that was refused has left nothing"


@pytest.mark.parametrize("window", [-1.0, NAN, float("inf")])
def test_a_window_without_sense_is_refused(window):
    with pytest.raises(ValueError, match="a window has"):
        Attribution(window=window)


KEYS = st.sampled_from("abcd")
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.dictionaries(KEYS, st.integers(0, 10**9), max_size=4)),
        st.tuples(st.just("power"), st.integers(0, 400)),
        st.tuples(st.just("time"), st.floats(-1, 1)),
        st.tuples(st.just("read"), st.just(0)),
        st.tuples(st.just("nan"), st.just(0)),
        st.tuples(st.just("reset"), st.integers(0, 900)),
        st.tuples(st.just("end"), KEYS),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(EVENTS, st.sampled_from(["token_share", "occupancy"]), st.sampled_from([0.0, 0.3]))
def test_all_that_was_metered_is_somebodys(events, how, window):
    """Keys and idle add up to the meter under any schedule, with wraps, resets and clocks that go back."""
    counter, raw, now = Counter(0.001, 1000), 700, 0.0
    counter.take(raw)
    shared = Attribution(how, window)
    shared.begin(counter.joules, now)
    ended, given_out = 0.0, 0.0
    for what, value in [*events, ("read", 0)]:
        if what == "step":
            shares = value if how == "token_share" else {"a": sum(value.values())}
            shared.step(shares)
        elif what == "power":
            raw = (raw + value) % 1000
        elif what == "reset":
            raw = value
        elif what == "time":
            now += value
        elif what == "end":
            given_out += sum(shared.read(counter.take(raw), now).values())
            ended += shared.end(value)
        elif what == "nan":
            assert shared.read(NAN, now) == {}
        else:
            shares = shared.read(counter.take(raw), now)
            assert all(joules >= 0 for joules in shares.values())
            given_out += sum(shares.values())
        kept = sum(shared.joules.values())
        assert shared.idle >= 0
        assert shared.total == pytest.approx(ended + kept + shared.idle, rel=1e-12, abs=1e-12)
        assert given_out == pytest.approx(ended + kept, rel=1e-12, abs=1e-12)
    assert shared.total == pytest.approx(counter.joules, rel=1e-12, abs=1e-12)


@pytest.mark.slow
@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=8))
def test_any_number_of_tokens_is_shared(tokens):
    shared = Attribution()
    shared.begin(0.0, 0.0)
    shared.step(dict(enumerate(tokens)))
    shares = shared.read(8.0, 1.0)
    assert sum(shares.values()) + shared.idle == pytest.approx(8.0)
