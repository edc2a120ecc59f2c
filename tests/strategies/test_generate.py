import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.watches import FirstFinished


def requests(driver):
    (op,) = driver.of(Generate)
    return op.requests


def test_new_trajectories_are_added_to_the_pool(kit):
    driver = kit.Driver()
    end = driver.run(GenerateStage(3), kit.state(kit.cand(0)))
    assert [(r.parent, r.unit) for r in requests(driver)] == [(None, "whole")] * 3
    assert [c.path for c in end.pool] == [(0,), (101,), (102,), (103,)]
    assert end.spent.output == 3


@pytest.mark.parametrize(("there", "asked"), [(0, 4), (5, 3), (8, 0), (9, 0)])
def test_no_more_than_fit_under_the_total(there, asked, kit):
    driver = kit.Driver()
    end = driver.run(GenerateStage(4, total=8), kit.state(*map(kit.cand, range(there))))
    assert sum(len(op.requests) for op in driver.of(Generate)) == asked
    assert len(end.pool) == there + asked


def test_steps_start_when_the_pool_is_empty(kit):
    driver = kit.Driver(finish="step")
    end = driver.run(GenerateStage(2, unit="step", separator=";", step_tokens=7), kit.state())
    assert [(r.unit, r.separator, r.step_tokens) for r in requests(driver)] == [("step", ";", 7)] * 2
    assert all(c.active for c in end.pool)


def test_every_active_entry_is_extended_in_its_place_and_copies_get_a_child_each(kit):
    copy, ended = kit.cand(0, finish="step"), kit.cand(1, "A")
    driver = kit.Driver(finish="step")
    end = driver.run(GenerateStage(99, unit="step"), kit.state(copy, ended, copy))
    assert [r.parent for r in requests(driver)] == [copy, copy]
    assert [c.path for c in end.pool] == [(0, 101), (1,), (0, 102)]


def test_with_nothing_to_extend_nothing_is_asked(kit):
    driver = kit.Driver()
    start = kit.state(kit.cand(0, "A"), kit.cand(1, finish="length"))
    assert driver.run(GenerateStage(4, unit="step"), start) is start
    assert not driver.ops


def test_in_the_last_round_steps_run_to_the_end(kit):
    for start in (kit.state(last=True), kit.state(kit.cand(0, finish="step"), last=True)):
        driver = kit.Driver(finish="step")
        end = driver.run(GenerateStage(1, unit="step"), start)
        assert [r.unit for r in requests(driver)] == ["whole"]
        assert end.pool[-1].finished


def test_a_refused_step_keeps_its_parent_so_that_the_best_partial_is_not_lost(kit):
    parents = [kit.cand(i, finish="step") for i in range(3)]
    driver = kit.Driver(finish="step", grant=1, stopped="budget: spent")
    end = driver.run(GenerateStage(3, unit="step"), kit.state(*parents))
    assert [c.path for c in end.pool] == [(0, 101), (1,), (2,)]
    assert end.stopped == "budget: spent"


def test_a_refused_sample_leaves_the_pool_and_an_earlier_reason_is_replaced_by_the_new_one(kit):
    driver = kit.Driver(grant=0, stopped="budget: spent")
    end = driver.run(GenerateStage(3), kit.state(kit.cand(0), stopped="earlier"))
    assert [c.path for c in end.pool] == [(0,)]
    assert end.stopped == "budget: spent"
    assert kit.Driver().run(GenerateStage(1), kit.state(stopped="earlier")).stopped == "earlier"


def test_the_watch_goes_with_the_operation(kit):
    driver = kit.Driver()
    watch = FirstFinished(2)
    driver.run(GenerateStage(3, watch=watch), kit.state())
    assert driver.of(Generate)[0].watch is watch


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"n": 0}, "n"),
        ({"total": 0}, "total"),
        ({"unit": "step", "step_tokens": 0}, "step_tokens"),
        ({"unit": "step", "separator": ""}, "separator"),
        ({"separator": "\n"}, "separator"),
        ({"step_tokens": 9}, "step_tokens"),
        ({"unit": "step", "total": 9}, "total"),
        ({"n": 3, "watch": FirstFinished(4)}, "watch.k"),
        ({"unit": "tokens", "separator": ";"}, "separator"),
        ({"unit": "tokens", "step_tokens": 0}, "step_tokens"),
        ({"unit": "tokens", "total": 9}, "total"),
    ],
)
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        GenerateStage(**settings)
    assert caught.value.path == field


def test_a_watch_without_a_check_of_its_own_is_taken():
    class Watch:
        def begin(self, size):
            return lambda traces, changed: None

    assert GenerateStage(1, watch=Watch()).watch is not None


def test_steps_may_end_by_their_length_alone(kit):
    driver = kit.Driver(finish="step")
    end = driver.run(GenerateStage(2, unit="tokens", step_tokens=7), kit.state())
    assert [(r.unit, r.separator, r.step_tokens) for r in requests(driver)] == [("tokens", None, 7)] * 2
    again = kit.Driver()
    again.run(
        GenerateStage(9, unit="tokens", step_tokens=7), kit.state(kit.cand(0, finish="step"), kit.cand(1))
    )
    assert [(r.parent.path, r.unit) for r in requests(again)] == [((0,), "tokens")]
    assert len(end.pool) == 2


def test_such_steps_run_to_the_end_in_the_last_round(kit):
    driver = kit.Driver()
    stage = GenerateStage(1, unit="tokens", step_tokens=7)
    driver.run(stage, kit.state(kit.cand(0, finish="step"), last=True))
    assert [(r.unit, r.step_tokens) for r in requests(driver)] == [("whole", None)]
    assert stage.needs == {"continuation"}
    assert not GenerateStage(1).needs


@pytest.mark.parametrize(
    ("reason", "before", "after"), [("agreed", None, "agreed"), ("", None, None), ("x", "y", "y")]
)
def test_nothing_is_asked_for_when_a_condition_holds_already(reason, before, after, kit):
    driver = kit.Driver()
    end = driver.run(GenerateStage(3, unless=lambda state: reason), kit.state(stopped=before))
    assert not driver.ops
    assert end.early == after


def test_a_condition_that_does_not_hold_changes_nothing(kit):
    driver = kit.Driver()
    end = driver.run(GenerateStage(3, unless=lambda state: None), kit.state())
    assert len(end.pool) == 3
    assert end.stopped is None


def test_a_watch_may_depend_on_the_pool(kit):
    bound = []

    class Watch:
        def bind(self, state):
            bound.append(state.pool)
            return FirstFinished(1)

        def begin(self, size):
            raise AssertionError

    driver = kit.Driver()
    pool = (kit.cand(0, "A"),)
    driver.run(GenerateStage(2, watch=Watch()), kit.state(*pool))
    assert bound == [pool]
    assert driver.of(Generate)[0].watch == FirstFinished(1)
