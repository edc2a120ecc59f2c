import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.ops import Decision, Trace
from ttsflow.strategies.watches import FirstFinished

SAMPLES = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=8)


def play(kit, watch, samples, pace, more=()):
    """Run traces of (length, valid) that advance as ``pace`` says; return them and the decisions.

    ``more`` are the traces a watch may launch. ``pace(running)`` chooses who advances in a step.
    """
    observe = watch.begin(len(samples))
    plan, spare = list(samples), list(more)
    traces = [Trace(str) for _ in plan]
    decisions = []
    while running := [i for i, t in enumerate(traces) if t.candidate is None]:
        changed = sorted(pace(running))
        for index in changed:
            length, valid = plan[index]
            traces[index].tokens.append(1)
            if len(traces[index].tokens) == length:
                traces[index].candidate = kit.cand(index, "A" if valid else None, length=length)
        decision = observe(traces, changed)
        if decision is None:
            continue
        decisions.append(decision)
        for index in decision.abort:
            assert traces[index].candidate is None
            traces[index].candidate = kit.cand(index, finish="aborted")
        for _ in range(decision.launch):
            plan.append(spare.pop(0))
            traces.append(Trace(str))
    return traces, decisions


def voters(traces, k):
    ended = [(len(t.tokens), i) for i, t in enumerate(traces) if t.candidate.finished and t.candidate.answer]
    return sorted(ended)[:k]


@given(SAMPLES, st.integers(1, 8))
def test_in_lock_step_exactly_what_is_needed_is_decoded(kit, samples, k):
    traces, decisions = play(kit, FirstFinished(k), samples, lambda running: running)
    valid = sorted(n for n, ok in samples if ok)
    cut = valid[k - 1] if len(valid) >= k else 9
    assert [len(t.tokens) for t in traces] == [min(n, cut) for n, _ in samples]
    if len(valid) >= k:
        assert decisions[-1].cut == cut
    else:
        assert not decisions


@given(SAMPLES, st.integers(1, 8), st.randoms(use_true_random=False))
def test_the_voters_do_not_depend_on_who_advances_when(kit, samples, k, rng):
    straight, _ = play(kit, FirstFinished(k), samples, lambda running: running)
    any_pace, decisions = play(
        kit, FirstFinished(k), samples, lambda running: rng.sample(running, rng.randint(1, len(running)))
    )
    assert voters(any_pace, k) == voters(straight, k)
    valid = sorted(n for n, ok in samples if ok)
    if len(valid) >= k:
        assert decisions[-1].cut == valid[k - 1]


def test_a_trace_longer_than_the_cut_is_ended_even_when_it_is_far_ahead(kit):
    order = iter([[0], [0], [0], [0], [1], [1]])
    traces, decisions = play(kit, FirstFinished(1), [(9, True), (2, True)], lambda running: next(order))
    assert [len(t.tokens) for t in traces] == [4, 2]
    assert decisions == [Decision(abort=(0,), cut=2, reason="first 1 finished after 2 tokens")]


def test_refill_launches_as_many_as_are_missing(kit):
    more = [(1, False), (1, True), (1, True)]
    traces, decisions = play(
        kit, FirstFinished(2, refill=3), [(1, False), (3, True), (3, False)], lambda running: running, more
    )
    assert [d.launch for d in decisions] == [1, 1, 0]
    assert len(traces) == 5
    assert len(voters(traces, 2)) == 2


def test_refill_has_an_end(kit):
    traces, decisions = play(
        kit, FirstFinished(2, refill=3), [(1, False)] * 2, lambda running: running, [(1, False)] * 3
    )
    assert [d.launch for d in decisions] == [2, 1]
    assert len(traces) == 5


def test_no_refill_while_others_may_still_finish(kit):
    _, decisions = play(kit, FirstFinished(1, refill=1), [(1, False), (5, True)], lambda running: running)
    assert sum(d.launch for d in decisions) == 0


def test_observers_of_two_operations_share_nothing(kit):
    watch = FirstFinished(1)
    first, _ = play(kit, watch, [(2, True), (5, True)], lambda running: running)
    again, _ = play(kit, watch, [(4, True), (5, True)], lambda running: running)
    assert [len(t.tokens) for t in first] == [2, 2]
    assert [len(t.tokens) for t in again] == [4, 4]


@pytest.mark.parametrize(("settings", "field"), [({"k": 0}, "k"), ({"refill": -1}, "refill")])
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        FirstFinished(**settings)
    assert caught.value.path == field


def test_more_than_are_launched_can_never_finish():
    FirstFinished(4).check(4)
    with pytest.raises(ConfigError, match="use k <= n"):
        FirstFinished(5).check(4)
