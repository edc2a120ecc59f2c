"""The stage that scores by confidence, and DeepConf's watch against a plain reimplementation."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.ops import Trace
from ttsflow.strategies.aggregate import voters
from ttsflow.strategies.confidence import Confidence, LowConfidence, quantile

quick = settings(deadline=None, max_examples=50)


def entry(confidence):
    """Return the log-probabilities of a token whose confidence is ``confidence``."""
    return {1: -confidence - 0.25, 2: -confidence + 0.25}


def sure(kit, path, answer, *confidences, finish="stop"):
    return kit.cand(
        path, answer, length=len(confidences), finish=finish, logprobs=tuple(map(entry, confidences))
    )


def score(kit, stage, *pool):
    return kit.Driver().run(stage, kit.state(*pool)).pool


@pytest.mark.parametrize(
    ("measure", "expected"),
    [("mean", 3.0), ("lowest_group", 1.5), ("bottom_groups", 1.5), ("tail", 4.5)],
)
def test_every_measure(measure, expected, kit):
    (scored,) = score(kit, Confidence(measure, group=2), sure(kit, 0, "A", 3, 2, 1, 4, 5))
    assert scored.score == pytest.approx(expected)
    assert scored.scores == (scored.score,)


def test_self_certainty_is_the_mean_over_the_tokens(kit):
    (scored,) = score(kit, Confidence("self_certainty"), kit.cand(0, "A", certainties=(2.0, 4.0, 9.0)))
    assert scored.score == pytest.approx(5.0)


def test_what_has_a_score_keeps_it_and_what_failed_or_said_nothing_has_none(kit):
    pool = [
        sure(kit, 0, "A", 5, finish="failed"),
        kit.cand(1, "A"),
        kit.cand(2, "A", scores=(0.5,), score=0.5, logprobs=(entry(9),)),
        sure(kit, 3, None, 7, finish="aborted"),
    ]
    assert [c.score for c in score(kit, Confidence(), *pool)] == [None, None, 0.5, 7.0]


@pytest.mark.parametrize(
    ("measure", "logprobs", "certainty"), [("mean", 20, False), ("self_certainty", 0, True)]
)
def test_what_the_engine_must_give(measure, logprobs, certainty):
    stage = Confidence(measure)
    assert (stage.logprobs, stage.certainty) == (logprobs, certainty)
    assert Confidence(top=5).logprobs == LowConfidence(top=5).logprobs == 5
    assert Confidence.gives == {"scores"}


def test_those_below_the_share_kept_lose_their_vote_but_stay(kit):
    pool = [sure(kit, i, "A", c) for i, c in enumerate([1, 2, 3, 4])]
    kept = score(kit, Confidence(keep=0.5), *pool)
    assert [c.path for c in voters(kept)] == [(2,), (3,)]
    assert len(kept) == 4
    assert all(c.score is not None for c in kept)
    assert kept[0].reason == "not confident enough to vote"
    assert len(voters(score(kit, Confidence(keep=1), *pool))) == 4


@pytest.mark.parametrize(
    ("part", "changes", "field"),
    [
        (Confidence, {"group": 0}, "group"),
        (Confidence, {"top": 0}, "top"),
        (Confidence, {"keep": 0}, "keep"),
        (Confidence, {"keep": 1.1}, "keep"),
        (LowConfidence, {"keep": 0}, "keep"),
        (LowConfidence, {"consensus": 0}, "consensus"),
        (LowConfidence, {"consensus": 1.1}, "consensus"),
        (LowConfidence, {"group": 0}, "group"),
        (LowConfidence, {"top": 0}, "top"),
    ],
)
def test_settings_that_make_no_sense(part, changes, field):
    with pytest.raises(ConfigError) as caught:
        part(**changes)
    assert caught.value.path == field


@pytest.mark.slow
@quick
@given(st.lists(st.floats(0, 20), min_size=1, max_size=30), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values, share):
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), abs=1e-9)


def test_the_quantile_of_nothing_is_below_everything():
    assert quantile([], 0.9) == -math.inf


# --- the watch -------------------------------------------------------------------------------------


def windows(tokens, group):
    return [sum(tokens[i : i + group]) / group for i in range(len(tokens) - group + 1)]


def lowest(tokens, group):
    return min(windows(tokens, group), default=sum(tokens) / len(tokens))


def deepconf(warmup, rest, group, keep, consensus):
    """Return what happens to every trace of ``rest`` in lock-step, written as plainly as can be.

    ``warmup`` and ``rest`` hold (confidences, answer or None). The result is, per trace, the number of
    tokens and whether it may vote.
    """
    least = np.percentile([lowest(tokens, group) for tokens, _ in warmup], 100 * (1 - keep)) - 1e-12
    votes = dict.fromkeys("AB", 0.0)
    for tokens, answer in warmup:
        if answer is not None and lowest(tokens, group) >= least:
            votes[answer] += lowest(tokens, group)
    ends = {}
    for time in range(1, max(len(tokens) for tokens, _ in rest) + 1):
        going = [index for index in range(len(rest)) if index not in ends]
        for index in (i for i in going if len(rest[i][0]) == time):
            tokens, answer = rest[index]
            ends[index] = (time, answer is not None)
            if answer is not None:
                votes[answer] += lowest(tokens, group)
        share = max(votes.values()) / sum(votes.values()) if any(votes.values()) else 0
        done = consensus < 1 and share >= consensus
        for index in going:
            window = rest[index][0][:time][-group:]
            if done or (len(window) == group and sum(window) / group < least):
                ends.setdefault(index, (time, False))
    return [ends[index] for index in range(len(rest))]


def watched(kit, watch, warmup, rest):
    """Run the watch in lock-step on the traces of ``rest``."""
    pool = [sure(kit, i, a, *tokens) for i, (tokens, a) in enumerate(warmup)]
    pool = score(kit, Confidence("lowest_group", watch.group, keep=watch.keep), *pool)
    observe = watch.bind(kit.state(*pool)).begin(len(rest))
    traces = [Trace(str) for _ in rest]
    reasons = []
    while running := [i for i, t in enumerate(traces) if t.candidate is None]:
        for i in running:
            trace, (tokens, answer) = traces[i], rest[i]
            trace.tokens.append(1)
            trace.logprobs.append(entry(tokens[len(trace.tokens) - 1]))
            if len(trace.tokens) == len(tokens):
                trace.candidate = sure(kit, i, answer, *tokens)
        decision = observe(traces, running)
        if decision is not None:
            reasons.append(decision.reason)
            left = [i for i, t in enumerate(traces) if t.candidate is None]
            for i in left if decision.done else decision.abort:
                assert traces[i].candidate is None
                traces[i].candidate = kit.cand(i, finish="aborted")
    return [(len(t.tokens), bool(t.candidate.answer)) for t in traces], reasons


@pytest.mark.slow
@quick
@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.sampled_from([0.1, 0.25, 0.5, 0.9, 1]),
    st.sampled_from([0.6, 0.9, 1]),
)
def test_the_watch_does_what_the_definition_says(kit, seed, group, keep, consensus):
    rng = random.Random(seed)

    def sample():
        tokens = [rng.randint(1, 40) / 4 for _ in range(rng.randint(1, 8))]
        return tokens, rng.choice(["A", "A", "B", None])

    warmup, rest = [sample() for _ in range(rng.randint(1, 5))], [sample() for _ in range(rng.randint(1, 5))]
    watch = LowConfidence(keep, consensus, group)
    assert watched(kit, watch, warmup, rest)[0] == deepconf(warmup, rest, group, keep, consensus)


def test_a_window_that_is_not_full_ends_nothing(kit):
    warmup = [([5, 5, 5], "A")]
    ends, _ = watched(kit, LowConfidence(1, 1, group=3), warmup, [([1, 1], "B"), ([1, 1, 1, 9], "B")])
    assert ends == [(2, True), (3, False)]


def test_the_threshold_is_named(kit):
    warmup = [([5, 5], "A"), ([7, 7], "A")]
    _, reasons = watched(kit, LowConfidence(0.5, 1, group=2), warmup, [([1, 1, 1], "B")])
    assert reasons == ["confidence below 6"]


def test_all_end_when_one_answer_leads_by_confidence(kit):
    warmup = [([5], "A")]
    ends, reasons = watched(kit, LowConfidence(1, 0.75, group=9), warmup, [([9], "A"), ([9] * 5, "B")])
    assert ends == [(1, True), (1, False)]
    assert reasons == ["one answer has 100% of the votes by confidence"]
    ends, reasons = watched(kit, LowConfidence(1, 0.75, group=9), warmup, [([9], "B"), ([9] * 5, "B")])
    assert ends == [(1, True), (5, True)]
    ends, reasons = watched(kit, LowConfidence(1, 1, group=9), warmup, [([9], "A"), ([9] * 5, "A")])
    assert ends == [(1, True), (5, True)]
    assert not reasons


def test_an_unsure_warm_up_gives_the_threshold_and_no_vote(kit):
    warmup = [([1], "B"), ([1], "B"), ([9], "A")]
    # Only the vote of A counts, so that another one for A settles it.
    ends, _ = watched(kit, LowConfidence(0.1, 0.95, group=1), warmup, [([10], "A"), ([10] * 9, "A")])
    assert ends == [(1, True), (1, False)]


def test_without_a_warm_up_nothing_is_unsure(kit):
    ends, _ = watched(kit, LowConfidence(0.1, 1, group=1), [], [([0.1] * 3, "A"), ([9] * 5, "B")])
    assert ends == [(3, True), (5, True)]
    observe = LowConfidence(0.1, 1, group=1).begin(1)
    trace = Trace(str)
    trace.logprobs.append(entry(0.1))
    assert observe([trace], [0]) is None


def test_tokens_that_arrive_together_are_all_looked_at(kit):
    watch = LowConfidence(1, 1, group=2).bind(kit.state(sure(kit, 0, "A", 5, 5)))
    observe = watch.begin(1)
    trace = Trace(str)
    trace.logprobs += map(entry, [9, 9])
    assert observe([trace], [0]) is None
    trace.logprobs += map(entry, [9, 0, 0, 9, 9])
    assert observe([trace], [0]).abort == (0,)


def test_the_vote_of_a_candidate_without_log_probabilities_weighs_nothing(kit):
    watch = LowConfidence(0.5, 0.95, group=2).bind(kit.state(kit.cand(0, "A")))
    assert watch.begin(1)([Trace(str)], [0]) is None
