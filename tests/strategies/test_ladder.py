"""Samples in rungs: how far a vote climbs, why it stops, and plans over all ways to go on."""

import itertools
import random
import time
from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Offer, Quotation, Quote, Tally
from ttsflow.results import outcome_of
from ttsflow.strategies.climbing import LARGEST, effort, plan
from ttsflow.strategies.ladder import Ladder
from ttsflow.strategies.worth import stability
from ttsflow.types import Usage

RUNGS = (1, 3, 4, 6, 8)


@dataclass(frozen=True)
class Scripted:
    """Stands for a controller: the driver below answers in its name."""

    unit: str | None = None

    def open(self, unit):
        raise NotImplementedError


BY = Scripted()


@pytest.fixture
def climb(kit):
    """Return a function that climbs with given answers, None for a sample without one.

    ``says`` plays the controller: samples asked for and samples drawn give an offer. The function returns the
    final state, how many samples each query had, and what was asked of the controller.
    """

    def run(stage, answers, says=None, start=(), stopped=None, *, told=None):
        left, queries, asked = iter(answers), [], []

        class Driver(kit.Driver):
            drawn = len(start)

            def __call__(self, op):
                if isinstance(op, Quote) and op.by is not None:
                    assert op.by is BY
                    counts = *op.also, op.samples
                    asked.extend(counts)
                    return Quotation(
                        {}, {}, {}, Usage(), {count: says(count, self.drawn) for count in counts}
                    )
                if isinstance(op, Quote):
                    asked.append(None)
                    return Quotation({}, {}, {}, Usage())
                if isinstance(op, Tally) and told is not None:
                    told.append(op)
                if isinstance(op, Generate):
                    queries.append(len(op.requests))
                    pool = [kit.cand(self.drawn + i, next(left)) for i in range(len(op.requests))]
                    self.drawn += len(pool)
                    return Generated(tuple(pool), Usage(requests=self.drawn), stopped)
                return super().__call__(op)

        state = Driver().run(stage, kit.state(*start))
        return state, queries, asked

    return run


def priced(each, *, fixed=0.0, rate=0.0, most=99):
    """A controller at whose price so many samples at most are granted."""

    def says(samples, drawn):
        refused = f"no more than {most}" if drawn + samples > most else None
        return Offer("tokens", fixed + each * samples, 0.0, rate, refused)

    return says


@pytest.mark.parametrize(
    ("answers", "queries", "why"),
    [
        # .0478 a sample at one vote, and three that agree promise nothing more.
        ("AAA", [1, 2], "not worth it: 0.00"),
        # 2 to 1 is worth .0346, and 3 to 1 .0080.
        ("AABA", [1, 2, 1], "not worth it: 0.00"),
        ("ABCAAA", [1, 2, 1, 2], "settled: "),
        # (3, 3) is worth .161: up to the end, which needs no reason.
        ("ABABABAA", [1, 2, 1, 2, 2], None),
    ],
)
def test_it_climbs_as_long_as_the_best_rate_of_higher_rungs_is_worth_it(answers, queries, why, climb):
    state, made, _ = climb(Ladder(), answers)
    assert made == queries
    assert len(state.pool) == len(answers)
    assert state.stopped is None
    assert state.ended is None if why is None else state.ended.startswith(why)


def test_a_settled_vote_is_not_drawn_further_whatever_samples_cost(climb):
    state, made, _ = climb(Ladder(worth=0.0), "AAAA")
    assert made == [1, 2, 1]
    assert state.ended == "settled: the leader wins the vote of 8 with a chance of 0.998"
    state, made, _ = climb(Ladder(worth=0.0, settled=1.0), "AAAAAA")
    assert made == [1, 2, 1, 2]
    assert state.ended == "settled: the leader wins the vote of 8 with a chance of 1.000"


def test_what_samples_have_to_be_worth_decides_about_the_second_one(climb):
    # The best rate at one vote is .0478.
    assert climb(Ladder(worth=0.047), "AAA")[1][:2] == [1, 2]
    state, made, _ = climb(Ladder(worth=0.049), "A")
    assert made == [1]
    assert state.ended == "not worth it: 0.0478 stability for a unit of cost, where 0.049 is asked"


def test_one_rung_stops_where_no_next_rung_can_change_the_leader(climb):
    assert climb(Ladder(gain="one_rung"), "AAB")[1] == [1, 2]
    assert climb(Ladder(gain="best_rate"), "AABA")[1] == [1, 2, 1]


def test_a_plan_may_leave_rungs_out(climb):
    # A query costs as much as nine samples: the whole vote at once.
    says = priced(0.01, fixed=0.09, rate=1.0)
    _, made, asked = climb(Ladder(gain="planned", controller=BY), "ABABABAB", says)
    assert len(made) < 5
    assert made[0] > 1
    assert asked[:5] == list(RUNGS)
    # Where samples cost next to nothing beside a query, one query for all of them.
    _, made, _ = climb(Ladder(gain="planned", controller=BY), "ABABABAA", priced(1e-6, fixed=0.05, rate=1.0))
    assert made == [8]


def test_samples_without_an_answer_are_drawn_and_counted_as_answers_nobody_shares(climb, kit):
    for none, lone in ((("A", None, None), "ABC"), ((None, None, None), "ABC"), (("A", "A", None), "AAB")):
        end = "AAAAA"
        for stage in (Ladder(), Ladder(gain="one_rung"), Ladder(gain="planned")):
            assert climb(stage, [*none, *end])[1] == climb(stage, [*lone, *end])[1]
    state, made, _ = climb(Ladder(), [None] * 8)
    assert sum(made) == len(state.pool) == 8


@pytest.mark.parametrize("gain", ["best_rate", "one_rung", "planned"])
def test_more_answers_than_options_break_nothing(gain, climb):
    state, _, _ = climb(Ladder(gain=gain, options=2), [None, None, None, "A", "B", "C", "A", "A"])
    assert state.stopped is None


def test_the_least_number_of_samples_is_drawn_whatever_it_is_worth(climb):
    for gain in ("best_rate", "one_rung", "planned"):
        state, made, _ = climb(Ladder(gain=gain, worth=0.9, min_samples=5), "A" * 8)
        assert sum(made) == 6
        assert made[0] == 1
        assert "settled" in state.ended or "not worth it" in state.ended
    # Where it is refused it is not drawn.
    stage = Ladder(min_samples=5, controller=BY)
    state, made, _ = climb(stage, "AAAA", priced(1.0, most=4))
    assert sum(made) == 4
    assert state.ended == "no more than 4"


def test_it_goes_on_from_the_samples_there_are(climb, kit):
    start = (kit.cand(90, "A"), kit.cand(91, "B"))
    _, made, _ = climb(Ladder(), "CABABA", start=start)
    assert made[0] == 1
    full = [kit.cand(i, "A") for i in range(9)]
    state, made, _ = climb(Ladder(), "", start=tuple(full))
    assert (made, state.ended, state.stopped) == ([], None, None)


def test_funds_that_end_midway_stop_it(climb):
    state, made, _ = climb(Ladder(), "A", stopped="budget: 5 tokens per run spent")
    assert made == [1]
    assert state.stopped == "budget: 5 tokens per run spent"
    assert outcome_of(state) == "abstained"


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("gain", ["best_rate", "one_rung"])
def test_it_ends_at_n_and_never_goes_beyond(n, gain, climb):
    stage = Ladder(n=n, gain=gain, worth=0.0, settled=1.0)
    assert stage.demand == n
    state, made, _ = climb(stage, "ABCDEFGH"[:n])
    assert sum(made) == len(state.pool) == n


@pytest.mark.parametrize(
    ("settings", "field", "message"),
    [
        ({"rungs": ()}, "rungs", "rise from at least 1"),
        ({"rungs": (3, 1)}, "rungs", "rise from at least 1"),
        ({"rungs": (0, 1)}, "rungs", "rise from at least 1"),
        ({"rungs": (1, 1)}, "rungs", "rise from at least 1"),
        ({"n": 0}, "n", "between 1 and"),
        ({"n": LARGEST + 1, "gain": "planned"}, "n", "`gain: best_rate` has no such limit"),
        ({"worth": -0.1}, "worth", "between 0 and 1"),
        ({"worth": float("nan")}, "worth", "between 0 and 1"),
        ({"worth": 1.0}, "worth", "between 0 and 1"),
        ({"worth": 0.1, "controller": BY}, "worth", "a controller sets the rate itself"),
        ({"settled": 0.0}, "settled", "above 0 and up to 1"),
        ({"settled": 1.1}, "settled", "above 0 and up to 1"),
        ({"min_samples": 0}, "min_samples", "between 1 and n=8"),
        ({"min_samples": 9}, "min_samples", "between 1 and n=8"),
        ({"alpha": 0.0}, "alpha", "above 0"),
        ({"alpha": None}, "alpha", "a controller learns it"),
        ({"alpha": float("inf")}, "alpha", "finite"),
        ({"options": 1}, "options", "at least 2 answers"),
    ],
)
def test_settings_that_cannot_be_name_their_field(settings, field, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Ladder(**settings)
    assert caught.value.path == field


def test_a_plan_does_not_draw_what_can_change_nothing_even_for_free(climb):
    stage = Ladder(n=2, gain="planned", worth=0.0, settled=1.0)
    assert climb(stage, "A")[1] == [1]


# --- with a controller ----------------------------------------------------------------------------


def test_a_first_sample_that_is_refused_defers_the_problem_with_the_reason(climb):
    state, made, asked = climb(Ladder(controller=BY), "", priced(1.0, most=0))
    assert made == []
    assert (state.stopped, state.ended) == ("no more than 0", None)
    assert outcome_of(state) == "deferred"
    assert asked[-1] is None, "nothing stays set aside"


def test_later_samples_that_are_refused_leave_an_answer_from_what_there_is(climb):
    state, made, asked = climb(Ladder(controller=BY), "A", priced(1.0, most=1))
    assert made == [1]
    assert (state.stopped, state.ended) == (None, "no more than 1")
    assert asked[-1] is None, "nothing stays set aside"


def test_where_a_plan_goes_higher_than_is_granted_the_highest_rung_that_is_granted_is_drawn(climb):
    stage = Ladder(gain="planned", controller=BY)
    _, free, _ = climb(stage, "ABABABAB", priced(0.001, fixed=0.2, rate=1.0))
    assert free[0] > 4
    state, made, asked = climb(stage, "ABAB", priced(0.001, fixed=0.2, rate=1.0, most=4))
    assert made == [4]
    assert asked[: asked.index(4, 4) + 1] == [*RUNGS, 4], "what is drawn is asked for last, to be set aside"
    assert state.ended == "no more than 4"


def test_before_there_is_a_price_the_next_rung_is_drawn(climb):
    def cold(samples, drawn):
        return Offer("tokens", None, rate=9.0) if drawn < 3 else Offer("tokens", samples * 1.0, rate=9.0)

    for gain in ("best_rate", "one_rung", "planned"):
        state, made, _ = climb(Ladder(gain=gain, controller=BY), "ABC", cold)
        assert made == [1, 2]
        assert state.ended.startswith("not worth it")


def test_the_rate_of_the_controller_is_in_its_own_unit(climb):
    stage = Ladder(controller=BY)
    for unit in (1.0, 400.0):
        assert climb(stage, "AAB", priced(unit, rate=0.047 / unit))[1][:2] == [1, 2]
        assert climb(stage, "A", priced(unit, rate=0.049 / unit))[1] == [1]


def test_one_rung_asks_for_the_next_rung_alone(climb):
    _, _, asked = climb(Ladder(gain="one_rung", controller=BY), "AAB", priced(1.0, rate=0.01))
    assert asked == [1, 2, 1, None]


def test_what_is_set_aside_is_what_is_drawn(climb):
    _, made, asked = climb(Ladder(controller=BY), "ABABABAB", priced(1.0))
    ends = list(itertools.accumulate(made))
    expected = []
    for before, after in zip([0, *ends], ends, strict=False):
        expected += [rung - before for rung in RUNGS if rung > before]
        expected += [after - before] if after != RUNGS[-1] else []
    assert asked == expected


# --- plans ----------------------------------------------------------------------------------------


def chances(votes, more, alpha, options):
    """Return the chance of every sequence of further answers of the urn, by the votes after it."""
    found = {tuple(votes): 1.0}
    for _ in range(more):
        after = {}
        for before, chance in found.items():
            whole = sum(before) + alpha
            for place, count in enumerate(before):
                own = alpha / options if options else 0.0
                then = (*before[:place], count + 1, *before[place + 1 :])
                after[then] = after.get(then, 0.0) + chance * (count + own) / whole
            fresh = alpha if options is None else alpha * (options - len(before)) / options
            if fresh > 0:
                after[*before, 1] = after.get((*before, 1), 0.0) + chance * fresh / whole
        found = after
    return found


def policies(votes, rungs):
    """Yield every policy from here on: None to stop, or a rung and a policy for each of the votes there."""
    yield None
    for rung in rungs:
        if rung > sum(votes):
            ends = {shape(then) for then in chances(votes, rung - sum(votes), 1.0, None)}
            for choice in itertools.product(*(list(policies(then, rungs)) for then in sorted(ends))):
                yield rung, dict(zip(sorted(ends), choice, strict=True))


def shape(votes):
    return tuple(sorted(votes, reverse=True))


def value(policy, votes, rungs, prices, urn):
    if policy is None:
        return stability(votes, rungs[-1], *urn) if votes else 0.0
    rung, then = policy
    more = rung - sum(votes)
    mean = sum(
        chance * value(then.get(shape(end)), shape(end), rungs, prices, urn)
        for end, chance in chances(votes, more, *urn).items()
    )
    return mean - prices[0] - prices[1] * more


#: In two digits, as prices are rounded.
PRICES = st.integers(0, 30).map(lambda hundredths: hundredths / 100)


@settings(max_examples=30)
@given(
    st.sampled_from([((), (1, 3)), ((1,), (1, 2, 3)), ((1,), (2, 4)), ((2,), (3, 4)), ((1, 1), (2, 3, 4))]),
    PRICES,
    PRICES,
    st.sampled_from([(1.0, None), (0.5, None), (2.0, 2), (1.0, 4)]),
)
def test_a_plan_is_the_best_of_all_there_are(place, fixed, each, urn):
    votes, rungs = place
    alpha, options = urn
    rung, gained = plan(votes, rungs, fixed=fixed, each=each, alpha=alpha, options=options)
    worth = {
        policy and policy[0]: max(
            value(other, votes, rungs, (fixed, each), urn)
            for other in policies(votes, rungs)
            if (other and other[0]) == (policy and policy[0])
        )
        for policy in policies(votes, rungs)
    }
    here = worth[None]
    assert gained == pytest.approx(max(worth.values()) - here, abs=1e-9)
    assert worth[rung] == pytest.approx(max(worth.values()), abs=1e-9)


@settings(max_examples=25)
@given(PRICES, PRICES, st.floats(1.0, 3.0))
def test_effort_falls_as_prices_rise(fixed, each, factor):
    rungs = (1, 3, 4)
    queries, samples = effort(rungs, fixed, each)
    # Samples are bought less when they are dearer, and queries are made less often when those are.
    assert effort(rungs, fixed, each * factor)[1] <= samples + 1e-9
    assert effort(rungs, fixed * factor, each)[0] <= queries + 1e-9


@settings(max_examples=25)
@given(st.floats(1e-2, 3.0), st.floats(1e-4, 0.3), st.floats(1.0, 5.0))
def test_what_a_question_costs_falls_with_the_rate_that_is_asked(ratio, each, factor):
    """A cost of ``ratio`` samples for a query: what is paid falls when stability is worth less."""

    def paid(each):
        queries, samples = effort((1, 3, 4), ratio * each, each)
        return queries * ratio + samples

    assert paid(each * factor) <= paid(each) + 1e-9


def test_effort_is_what_a_simulation_takes():
    rungs, fixed, each = (1, 3, 4), 0.02, 0.03
    rng = random.Random(0)
    taken = Counter()
    runs = 4000
    plans = {}
    for _ in range(runs):
        votes = []
        while True:
            seen = shape(Counter(votes).values())
            if seen not in plans:
                plans[seen] = plan(seen, rungs, fixed=fixed, each=each)[0]
            rung = plans[seen] or (None if votes else rungs[0])
            if rung is None:
                break
            taken["queries"] += 1
            while len(votes) < rung:
                # A restaurant of strangers: a new table, or that of somebody who sits.
                votes.append(len(votes) if rng.random() * (len(votes) + 1) < 1 else rng.choice(votes))
                taken["samples"] += 1
    queries, samples = effort(rungs, fixed, each)
    assert taken["queries"] / runs == pytest.approx(queries, rel=0.03)
    assert taken["samples"] / runs == pytest.approx(samples, rel=0.03)


def test_free_samples_are_all_drawn_and_dear_ones_never():
    assert plan((2, 1), RUNGS, fixed=1e-9, each=0.0)[0] == 8
    assert plan((2, 1), RUNGS, fixed=1.0, each=0.0) == (None, 0.0)
    assert effort(RUNGS, 1.0, 1.0) == (1.0, 1.0)


def test_plans_are_refused_for_votes_that_are_too_large():
    with pytest.raises(ValueError, match="up to 16, this one has 17"):
        plan((1,), (1, 17), fixed=0.1, each=0.1)


@pytest.mark.slow
def test_a_plan_takes_less_than_a_millisecond():
    """As long as the votes there can be are known: their chances are kept."""
    plan((), RUNGS, fixed=0.01, each=0.01)
    took = []
    for i in range(50):
        started = time.process_time()
        plan((1,), RUNGS, fixed=0.01 + i * 1e-4, each=0.01)
        took.append(time.process_time() - started)
    assert sorted(took)[25] < 1e-3


@pytest.mark.parametrize(("most", "queries"), [(8, [1, 2, 1]), (4, [1, 2])])
def test_a_rung_that_is_refused_is_worth_nothing(climb, most, queries):
    """At votes 2 to 1 one more can change nothing; it is drawn only where more are granted after it."""
    state, made, _ = climb(Ladder(controller=BY), "AABA", priced(1.0, rate=0.02, most=most))
    assert made == queries
    assert state.ended.startswith("not worth it")


@pytest.mark.parametrize("alpha", [0.1, None, 3.0])
def test_the_urn_is_the_one_that_the_controller_has_learnt_when_a_problem_begins(climb, alpha):
    def says(samples, had):
        # What is learnt meanwhile changes nothing.
        return Offer("tokens", 10.0 * samples, rate=0.002, alpha=alpha if not had else 1000.0)

    stage = Ladder(controller=BY, alpha=None, rungs=(1, 3), n=3)
    state, queries, _ = climb(stage, "aaa", says)
    assert sum(queries) == len(state.pool)
    fixed = climb(Ladder(controller=BY, alpha=alpha or 1.0, rungs=(1, 3), n=3), "aaa", says)
    assert queries == fixed[1]


def test_how_far_samples_agree_is_told_after_every_query(climb):
    told = []

    def says(samples, had):
        return Offer("tokens", 10.0 * samples, rate=0.0)

    stage = Ladder(controller=BY, rungs=(1, 3, 6), n=6, settled=1.0)
    state, _, _ = climb(stage, ["a", "b", None, "a", "b", "a"], says, told=told)
    assert len(state.pool) == 6
    assert [(one.drawn, one.more, one.fresh) for one in told] == [(0, 1, 1), (1, 2, 2), (3, 3, 0)]
    assert all(one.by is BY for one in told)
