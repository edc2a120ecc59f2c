from dataclasses import dataclass

import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import Fork, Generate
from ttsflow.strategies.flow import Each, Repeat, Sequence, When, run_stage
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.until import Agreed, AllFinished, PoolSize
from ttsflow.testing import drive
from ttsflow.types import Usage


class Adds:
    """A plain stage: adds a candidate and remembers the states it was given."""

    def __init__(self, kit, **changes):
        self.kit = kit
        self.changes = changes
        self.states = []

    def __call__(self, state):
        self.states.append(state)
        return state.with_(pool=(*state.pool, self.kit.cand(len(state.pool))), **self.changes)


def nothing(op):
    raise AssertionError(op)


def test_a_sequence_passes_the_state_through_in_the_order_of_the_mapping(kit):
    order = []

    def note(name):
        return lambda state: order.append(name) or state

    drive(Sequence({"z": note("z"), "a": note("a"), "m": note("m")}), kit.state(), nothing)
    assert order == ["z", "a", "m"]


def test_plain_stages_and_generators_mix(kit):
    driver = kit.Driver()
    end = driver.run(Sequence({"plain": Adds(kit), "asks": GenerateStage(2)}), kit.state())
    assert len(end.pool) == 3


@pytest.mark.parametrize("made", [None, "text", []])
def test_a_stage_that_returns_no_state_is_named(made, kit):
    class Odd:
        def __call__(self, state):
            return made

    with pytest.raises(TypeError, match="Odd returned"):
        drive(Odd(), kit.state(), nothing)


def test_run_stage_gives_a_generator_for_any_stage(kit):
    steps = run_stage(Adds(kit), kit.state())
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert len(end.value.value.pool) == 1


def test_a_loop_counts_rounds_and_says_which_is_the_last(kit):
    adds = Adds(kit)
    end = drive(Repeat({"s": adds}, at_most=3), kit.state(), nothing)
    assert [(s.round, s.last) for s in adds.states] == [(0, False), (1, False), (2, True)]
    assert (end.round, end.last, end.stopped) == (0, False, None)


def test_loops_nest_and_give_back_the_outer_round(kit):
    inner, outer = Adds(kit), Adds(kit)
    drive(Repeat({"inner": Repeat({"s": inner}, at_most=2), "s": outer}, at_most=2), kit.state(), nothing)
    assert [(s.round, s.last) for s in inner.states] == [(0, False), (1, True)] * 2
    assert [(s.round, s.last) for s in outer.states] == [(0, False), (1, True)]


def test_a_loop_ends_when_its_condition_holds(kit):
    adds = Adds(kit)
    end = drive(Repeat({"s": adds}, at_most=9, until=PoolSize(4)), kit.state(), nothing)
    assert len(adds.states) == 4
    assert end.ended == "pool of 4"
    assert end.stopped is None


def test_a_loop_that_ends_by_its_condition_ends_no_loop_around_it(kit):
    inner, after = Adds(kit), Adds(kit)
    loops = {"inner": Repeat({"s": inner}, at_most=9, until=PoolSize(2)), "after": after}
    end = drive(Repeat(loops, at_most=3), kit.state(), nothing)
    assert len(after.states) == 3
    assert end.early == "pool of 6"


def test_a_stage_that_stops_within_an_inner_loop_ends_the_outer_one_as_well(kit):
    stops, after = Adds(kit, stopped="funds low"), Adds(kit)
    loops = {"inner": Repeat({"s": stops}, at_most=9), "after": after}
    end = drive(Repeat(loops, at_most=3), kit.state(), nothing)
    assert not after.states
    assert end.stopped == "funds low"


def test_the_natural_end_is_not_an_early_stop(kit):
    end = kit.Driver().run(Repeat({"s": GenerateStage(2)}, at_most=9, until=AllFinished()), kit.state())
    assert len(end.pool) == 2
    assert end.stopped is None


def test_a_loop_ends_when_a_round_changes_nothing(kit):
    rounds = []
    end = drive(Repeat({"s": lambda s: rounds.append(1) or s}, at_most=9), kit.state(kit.cand(0)), nothing)
    assert len(rounds) == 1
    assert end.stopped is None


def test_a_stage_that_stops_ends_the_loop_before_the_next_stage(kit):
    stops, after = Adds(kit, stopped="funds low"), Adds(kit)
    end = drive(Repeat({"a": stops, "b": after}, at_most=9), kit.state(), nothing)
    assert len(stops.states) == 1
    assert not after.states
    assert end.stopped == "funds low"


def test_an_earlier_reason_does_not_keep_a_loop_from_running_and_is_kept(kit):
    adds = Adds(kit)
    end = drive(Repeat({"s": adds}, at_most=2), kit.state(stopped="earlier"), nothing)
    assert len(adds.states) == 2
    assert [s.stopped for s in adds.states] == [None, None]
    assert end.stopped == "earlier"


def test_a_sequence_goes_on_after_a_stop_so_that_there_is_an_answer(kit):
    after = Adds(kit)
    end = drive(Sequence({"a": Adds(kit, stopped="why"), "b": after}), kit.state(), nothing)
    assert len(after.states) == 1
    assert end.stopped == "why"


def test_the_last_round_completes_open_steps(kit):
    driver = kit.Driver(finish="step")
    end = driver.run(Repeat({"step": GenerateStage(2, unit="step")}, at_most=3), kit.state())
    assert [op.requests[0].unit for op in driver.of(Generate)] == ["step", "step", "whole"]
    assert [c.finish for c in end.pool] == ["stop", "stop"]
    assert [len(c.path) for c in end.pool] == [3, 3]


def test_when_chooses_one_branch(kit):
    yes, no = Adds(kit), Adds(kit)
    stage = When(PoolSize(1), yes, no)
    drive(stage, kit.state(), nothing)
    assert (len(yes.states), len(no.states)) == (0, 1)
    drive(stage, kit.state(kit.cand(0)), nothing)
    assert (len(yes.states), len(no.states)) == (1, 1)


def test_when_takes_an_empty_reason_as_holding_and_needs_no_else(kit):
    yes = Adds(kit)
    drive(When(AllFinished(), yes), kit.state(kit.cand(0)), nothing)
    assert len(yes.states) == 1
    start = kit.state()
    assert drive(When(Agreed(), yes), start, nothing) is start


@dataclass
class Branches:
    """Plays a driver that runs the branches of a fork one after another."""

    ops: list

    def __call__(self, op):
        assert isinstance(op, Fork)
        self.ops.append(op)
        return tuple(drive(stage, state, self) for stage, state in op.branches)


def test_each_splits_by_subtree_or_candidate_and_joins_in_order(kit):
    pool = [kit.cand(path) for path in ((0, 1), (2, 0), (0, 3), (1,))]
    for by, parts in (
        ("subtree", [[(0, 1), (0, 3)], [(2, 0)], [(1,)]]),
        ("candidate", [[(0, 1)], [(2, 0)], [(0, 3)], [(1,)]]),
    ):
        driver = Branches([])
        end = drive(Each({"s": lambda s: s}, by=by), kit.state(*pool), driver)
        (fork,) = driver.ops
        assert [[c.path for c in state.pool] for _, state in fork.branches] == parts
        assert [c.path for c in end.pool] == [path for part in parts for path in part]


def test_copies_of_one_candidate_get_a_branch_each_by_candidate(kit):
    copy = kit.cand(0, finish="step")
    driver = Branches([])
    drive(Each({"s": lambda s: s}, by="candidate"), kit.state(copy, copy), driver)
    assert len(driver.ops[0].branches) == 2


def test_each_of_nothing_asks_for_nothing(kit):
    start = kit.state()
    assert drive(Each({"s": Adds(kit)}), start, nothing) is start


def test_a_reason_within_a_branch_stops_the_problem_only_when_all_branches_have_one(kit):
    def stops(paths):
        return lambda s: s.with_(stopped="enough" if s.pool[0].path in paths else None)

    pool = kit.state(kit.cand(0), kit.cand(1))
    assert drive(Each({"s": stops({(0,)})}), pool, Branches([])).stopped is None
    assert drive(Each({"s": stops({(0,), (1,)})}), pool, Branches([])).stopped == "enough"


def test_branches_start_without_an_answer_and_the_outer_one_stays(kit):
    from ttsflow.types import Answer

    seen = []
    start = kit.state(kit.cand(0), answer=Answer("1", "1"))
    end = drive(Each({"s": lambda s: seen.append(s.answer) or s}), start, Branches([]))
    assert seen == [None]
    assert end.answer == start.answer


def test_what_was_spent_by_the_last_branch_is_known_after_the_join(kit):
    def spends(state):
        return state.with_(spent=Usage(output=10 * (1 + state.pool[0].path[0])))

    end = drive(Each({"s": spends}), kit.state(kit.cand(1), kit.cand(0)), Branches([]))
    assert end.spent.decoded == 20


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Sequence({}), "stages"),
        (lambda: Repeat({}, at_most=1), "stages"),
        (lambda: Repeat({"s": GenerateStage()}, at_most=0), "at_most"),
        (lambda: Each({}), "stages"),
    ],
)
def test_settings_that_make_no_sense(make, field):
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.path == field
