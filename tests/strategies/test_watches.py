import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.ops import Decision, Trace
from ttsflow.protocols import Predictor
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.select import Select
from ttsflow.strategies.watches import FirstFinished, LastFinished, ThinkingEnded

SAMPLES = st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=8)

quick = settings(deadline=None, max_examples=50)


def play(kit, watch, samples, pace, more=()):
    """Run traces of (length, valid) that advance as ``pace`` says; return them and the decisions.

    ``more`` are the traces a watch may launch. ``pace(running)`` chooses who advances in a step. The
    first token of a trace tells its index.
    """
    observe = watch.begin(len(samples))
    plan, spare = list(samples), list(more)
    traces = [Trace(str) for _ in plan]
    decisions = []
    while running := [i for i, t in enumerate(traces) if t.candidate is None]:
        changed = sorted(pace(running))
        for index in changed:
            length, valid = plan[index]
            traces[index].tokens.append(index)
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


def at_random(seed):
    """Return a pace at which any of those that run may advance."""
    rng = random.Random(seed)
    return lambda running: rng.sample(running, rng.randint(1, len(running)))


def voters(traces, k):
    ended = [(len(t.tokens), i) for i, t in enumerate(traces) if t.candidate.finished and t.candidate.answer]
    return sorted(ended)[:k]


@pytest.mark.slow
@quick
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


@pytest.mark.slow
@quick
@given(SAMPLES, st.integers(1, 8), st.integers(0, 99))
def test_the_voters_do_not_depend_on_who_advances_when(kit, samples, k, seed):
    straight, _ = play(kit, FirstFinished(k), samples, lambda running: running)
    any_pace, decisions = play(kit, FirstFinished(k), samples, at_random(seed))
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


@pytest.mark.parametrize(
    ("watch", "settings", "field"),
    [
        (FirstFinished, {"k": 0}, "k"),
        (FirstFinished, {"refill": -1}, "refill"),
        (FirstFinished, {"marker": ""}, "marker"),
        (FirstFinished, {"marker": "</think>", "refill": 1}, "refill"),
        (LastFinished, {"k": 0, "predictor": ThinkingEnded()}, "k"),
        (ThinkingEnded, {"marker": ""}, "marker"),
        (ThinkingEnded, {"answer_tokens": -1}, "answer_tokens"),
    ],
)
def test_settings_that_make_no_sense(watch, settings, field):
    with pytest.raises(ConfigError) as caught:
        watch(**settings)
    assert caught.value.path == field


@pytest.mark.parametrize("watch", [FirstFinished, lambda k: LastFinished(k, ThinkingEnded())])
def test_more_than_are_launched_can_never_finish(watch):
    watch(4).check(4)
    with pytest.raises(ConfigError, match="use k <= n"):
        watch(5).check(4)


# --- a pool that holds trajectories already --------------------------------------------------------


@pytest.mark.slow
@quick
@given(st.lists(st.integers(1, 9), max_size=4), SAMPLES, st.integers(1, 8))
def test_what_the_pool_holds_counts_and_comes_first(kit, known, samples, k):
    pool = [kit.cand(i, "A", length=n) for i, n in enumerate(known)]
    watch = FirstFinished(k).bind(kit.state(*pool))
    traces, decisions = play(kit, watch, samples, lambda running: running)
    valid = sorted([*known, *(n for n, ok in samples if ok)])
    cut = valid[k - 1] if len(valid) >= k else 9
    assert [len(t.tokens) for t in traces] == [min(n, cut) for n, _ in samples]
    assert all(decision.cut >= cut for decision in decisions)


def test_only_the_valid_ones_of_the_pool_count(kit):
    watch = FirstFinished(1)
    pool = [kit.cand(0, length=2), kit.cand(1, "A", length=2, finish="length"), kit.cand(2, finish="step")]
    assert watch.bind(kit.state(*pool)) is watch.bind(kit.state()) is watch
    bound = watch.bind(kit.state(*pool, kit.cand(3, "A", length=4)))
    traces, _ = play(kit, bound, [(9, True)], lambda running: running)
    assert [len(t.tokens) for t in traces] == [4]


def test_an_equal_length_of_the_pool_wins(kit):
    bound = FirstFinished(1).bind(kit.state(kit.cand(0, "A", length=3)))
    traces, _ = play(kit, bound, [(3, True)], lambda running: running)
    # It has ended by itself at the cut; that it is not chosen is the matter of `select`.
    assert traces[0].candidate.finish == "stop"
    bound = FirstFinished(1).bind(kit.state(kit.cand(0, "A", length=2)))
    traces, _ = play(kit, bound, [(3, True)], lambda running: running)
    assert traces[0].candidate.finish == "aborted"


# --- in virtual time -------------------------------------------------------------------------------


@pytest.mark.slow
@quick
@given(
    st.lists(st.integers(1, 9), max_size=4),
    SAMPLES,
    st.integers(1, 6),
    st.sampled_from(["tokens", "arrival"]),
)
def test_a_leap_passes_over_no_decision(kit, known, samples, k, order):
    pool = [kit.cand(i, "A", length=n) for i, n in enumerate(known)]
    watch = FirstFinished(k, order=order).bind(kit.state(*pool))
    straight, _ = play(kit, watch, samples, lambda running: running)

    observe = watch.begin(len(samples))
    traces = [Trace(str) for _ in samples]
    steps = 0
    while running := [i for i, t in enumerate(traces) if t.candidate is None]:
        steps += 1
        leap = observe.leap(traces)
        event = min(samples[i][0] - len(traces[i].tokens) for i in running)
        for i in running:
            traces[i].tokens += [1] * (event if leap is None else min(leap, event))
            if len(traces[i].tokens) == samples[i][0]:
                traces[i].candidate = kit.cand(i, "A" if samples[i][1] else None, length=samples[i][0])
        decision = observe(traces, running) or Decision()
        for i in decision.abort:
            traces[i].candidate = kit.cand(i, finish="aborted")
    assert [len(t.tokens) for t in traces] == [len(t.tokens) for t in straight]
    assert steps <= 2 * len(samples) + 1


def test_a_marker_must_be_looked_for_at_every_token():
    assert FirstFinished(1, marker="!").begin(1).leap([Trace(str)]) == 1


# --- by arrival ------------------------------------------------------------------------------------


def test_by_arrival_all_others_end_once_k_have_arrived(kit):
    watch = FirstFinished(2, order="arrival")
    order = iter([[0], [0], [1, 2], [1, 2], [1, 2]])
    traces, decisions = play(kit, watch, [(2, True), (3, True), (9, True)], lambda running: next(order))
    assert [t.candidate.finish for t in traces] == ["stop", "stop", "aborted"]
    # The one that was late might have been shorter, so nothing is known of the tokens needed.
    assert [d.cut for d in decisions] == [None]


def test_by_arrival_one_that_ended_without_an_answer_has_not_arrived(kit):
    watch = FirstFinished(1, order="arrival")
    traces, _ = play(kit, watch, [(1, False), (2, True), (3, True)], lambda running: running)
    assert [len(t.tokens) for t in traces] == [1, 2, 2]


def test_by_arrival_nothing_more_is_decoded_when_the_pool_has_enough(kit):
    bound = FirstFinished(1, order="arrival").bind(kit.state(kit.cand(0, "A", length=9)))
    traces, _ = play(kit, bound, [(5, True), (7, True)], lambda running: running)
    assert [len(t.tokens) for t in traces] == [1, 1]


# --- with a marker ---------------------------------------------------------------------------------

PIECES = {1: "x", 2: "</thi", 3: "nk>", 4: "y"}
#: (tokens of thinking or None, tokens of the answer, how it ends): the marker is two tokens of thinking.
THINKING = st.lists(
    st.tuples(st.none() | st.integers(2, 9), st.integers(1, 5), st.sampled_from(["valid", "stop", "length"])),
    min_size=1,
    max_size=6,
)


def text_of(tokens):
    return "".join(PIECES[token] for token in tokens)


def tokens_of(sample):
    thinking, answer, _ = sample
    return [4] * answer if thinking is None else [1] * (thinking - 2) + [2, 3] + [4] * answer


def think(kit, watch, samples, pace):
    """Run traces that think as ``play`` does; return them and the decisions."""
    observe = watch.begin(len(samples))
    plans = [tokens_of(sample) for sample in samples]
    traces = [Trace(text_of) for _ in samples]
    decisions = []
    while running := [i for i, t in enumerate(traces) if t.candidate is None]:
        changed = sorted(pace(running))
        for i in changed:
            trace, plan, end = traces[i], plans[i], samples[i][2]
            trace.tokens.append(plan[len(trace.tokens)])
            if len(trace.tokens) == len(plan):
                finish = "length" if end == "length" else "stop"
                trace.candidate = kit.cand(
                    i, f"{i}" if end == "valid" else None, length=len(plan), finish=finish
                )
        decision = observe(traces, changed)
        if decision is not None:
            decisions.append(decision)
            for i in decision.abort:
                traces[i].candidate = kit.cand(i, finish="aborted", length=len(traces[i].tokens))
    return traces, decisions


def first_to_think(samples, k):
    """Return the samples whose thinking ends first, and when the k-th of them does."""
    places = [
        (len(tokens_of(sample)) if sample[0] is None else sample[0], index)
        for index, sample in enumerate(samples)
        if sample[0] is not None or sample[2] == "valid"
    ]
    return [index for _, index in sorted(places)[:k]], sorted(places)[k - 1][0] if len(places) >= k else None


@pytest.mark.slow
@quick
@given(THINKING, st.integers(1, 4))
def test_with_a_marker_the_thinking_decides_and_the_chosen_write_their_answers(kit, samples, k):
    traces, decisions = think(kit, FirstFinished(k, marker="</think>"), samples, lambda running: running)
    chosen, cut = first_to_think(samples, k)
    full = [len(tokens_of(sample)) for sample in samples]
    expected = [n if cut is None or i in chosen else min(n, cut) for i, n in enumerate(full)]
    assert [len(t.tokens) for t in traces] == expected
    if cut is not None:
        assert decisions[-1].cut == max(expected)
        assert decisions[-1].reason == f"first {k} ended thinking after {cut} tokens"


@pytest.mark.slow
@quick
@given(THINKING, st.integers(1, 4), st.integers(0, 99))
def test_with_a_marker_the_vote_does_not_depend_on_who_advances_when(kit, samples, k, seed):
    ends = []
    paces = [lambda running: running, at_random(seed)]
    for pace in paces:
        traces, decisions = think(kit, FirstFinished(k, marker="</think>"), samples, pace)
        pool = kit.state(*(t.candidate for t in traces))
        kept = kit.Driver().run(Select(by="thinking", keep=k), pool)
        answer = kit.Driver().run(Aggregate(ties="shortest"), kept).answer
        ends.append(([c.path for c in kept.pool], answer, decisions[-1].cut if decisions else None))
    assert ends[0] == ends[1]
    chosen = [(index,) for index in first_to_think(samples, k)[0]]
    # Where nothing is eligible, the pool stays as it is.
    assert ends[0][0] == (chosen or [(index,) for index in range(len(samples))])


def test_what_has_ended_thinking_is_ended_when_another_one_thought_less(kit):
    # With one seat the second starts when the first is writing its answer.
    order = iter([[0]] * 6 + [[1]] * 3)
    traces, decisions = think(
        kit,
        FirstFinished(1, marker="</think>"),
        [(5, 4, "valid"), (2, 1, "valid")],
        lambda running: next(order),
    )
    assert [t.candidate.finish for t in traces] == ["aborted", "stop"]
    assert [d.abort for d in decisions] == [(), (0,), ()]
    assert [d.cut for d in decisions] == [None, None, 3]


# --- last finish -----------------------------------------------------------------------------------


class Knows:
    """Knows the length of every trace that has begun."""

    def __init__(self, lengths):
        self.lengths = lengths

    def __call__(self, trace):
        if not trace.tokens:
            return 0, None
        length = self.lengths[trace.tokens[0]]
        return length, length


@pytest.mark.slow
@quick
@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=8),
    st.integers(1, 8),
    st.integers(0, 99),
    st.booleans(),
)
def test_a_predictor_that_is_right_ends_none_of_the_longest(kit, lengths, k, seed, together):
    watch = LastFinished(k, Knows(lengths))
    traces, _ = play(
        kit,
        watch,
        [(n, True) for n in lengths],
        (lambda running: running) if together else at_random(seed),
    )
    ranked = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    kept = kit.Driver().run(
        Select(by="tokens", prefer="most", keep=k, answered=True), kit.state(*(t.candidate for t in traces))
    )
    assert [c.path[0] for c in kept.pool] == ranked[:k]


def test_last_finish_ends_what_k_others_will_be_longer_than(kit):
    lengths = [9, 3, 9, 5]
    traces, decisions = play(kit, LastFinished(2, Knows(lengths)), [(n, True) for n in lengths], lambda r: r)
    assert [len(t.tokens) for t in traces] == [9, 1, 9, 1]
    assert decisions == [Decision(abort=(1, 3), reason="2 others will have at least 9 tokens")]


@pytest.mark.parametrize(("valid", "finish"), [(True, "aborted"), (False, "stop")])
def test_last_finish_counts_only_the_valid_ones_of_those_that_have_ended(valid, finish, kit):
    order = iter([[0]] * 4 + [[1]] * 6)
    watch = LastFinished(1, Knows([4, 3]))
    traces, _ = play(kit, watch, [(4, valid), (6, True)], lambda running: next(order))
    assert traces[1].candidate.finish == finish


def test_a_trace_that_thinks_will_be_longer_than_one_that_answers():
    predict = ThinkingEnded(answer_tokens=10)
    assert isinstance(predict, Predictor)
    trace = Trace(text_of)
    trace.tokens += [1, 1, 2]
    assert predict(trace) == (13, None)
    trace.tokens += [3, 4]
    assert predict(trace) == (14, 14)
    trace.tokens += [4] * 20
    assert predict(trace) == (25, 25)


def test_the_marker_is_found_where_it_is_complete_and_only_once():
    decoded = []

    def decode(tokens):
        decoded.append(tokens)
        return text_of(tokens)

    trace = Trace(decode)
    trace.tokens += [1, 1, 2]
    assert trace.find("</think>") is None
    trace.tokens += [3, 4, 1, 2, 3]
    assert trace.find("</think>") == 4
    seen = len(decoded)
    assert trace.find("</think>") == 4
    assert len(decoded) == seen
    assert all(len(tokens) <= len("</think>") for tokens in decoded)
    assert trace.find("y") == 5
