"""When a plan is made anew, and that it is then what a planner told of it from the start would say."""

import math
from dataclasses import replace

import pytest

from ttsflow.costs.hardware import Efficiency, Hardware
from ttsflow.costs.models import shape_of
from ttsflow.costs.plan import GIB, Load, Sharing, Side
from ttsflow.costs.planner import plan
from ttsflow.costs.replan import Limits, Replanner
from ttsflow.costs.roofline import Roofline
from ttsflow.errors import ConfigError

RTX = Hardware(24, 165.2, 1008, efficiency=Efficiency(0.7, 0.92, 0.7, 0.0008, 1e-5))


def sharing(n=256, step=80):
    sides = [Side(Roofline(RTX, shape_of(name)), 2048) for name in ("qwen2.5-math-7b", "skywork-prm-1.5b")]
    return Sharing(*sides, 19 * GIB, Load(n, 150, 300, step, 400, copies=4))


def tell(replanner, rounds, step, queue):
    """Return the plans that so many equal rounds lead to."""
    return [new for new in (replanner.observe([step] * queue, queue) for _ in range(rounds)) if new]


def test_what_was_assumed_needs_no_new_plan():
    replanner = Replanner(sharing())
    assert replanner.plan == plan(sharing())
    assert tell(replanner, 50, 80, 256) == tell(replanner, 50, 95, 200) == []


@pytest.mark.parametrize(("step", "queue"), [(240, 256), (20, 256), (80, 1024), (80, 32)])
def test_what_stays_away_leads_to_one_new_plan(step, queue):
    replanner = Replanner(sharing())
    plans = tell(replanner, 100, step, queue)
    assert plans
    assert replanner.plan == plans[-1]
    assert replanner.replanned == len(plans) <= 4
    assumed = replanner.assumed
    assert assumed[0] == pytest.approx(step, rel=0.5)
    assert assumed[1] == pytest.approx(queue, rel=0.5)
    # The same as if it had been known.
    load = replanner.sharing.load
    assert plan(sharing(load.n, load.step)).generator.kv_gib == pytest.approx(
        plans[-1].generator.kv_gib, rel=0.3
    )
    assert tell(replanner, 100, step, queue) == []


def test_a_few_odd_rounds_are_none_of_its_business():
    replanner = Replanner(sharing())
    for _ in range(20):
        assert tell(replanner, 1, 200, 256) == []
        assert tell(replanner, 8, 80, 256) == []


def test_the_last_rounds_of_a_problem_are_small_and_change_nothing():
    replanner = Replanner(sharing())
    for _ in range(20):
        for queue in (256, 256, 256, 200, 120, 60, 20, 4):
            assert replanner.observe([80] * queue, queue) is None


def test_between_near_and_away_the_count_stays():
    replanner = Replanner(sharing(), Limits(away=1.5, near=1.2, rounds=3))
    # 256 were assumed. 400 are away, and what 400 falls to, a twentieth a round, is neither away nor back.
    assert [replanner.observe([80], queue) for queue in (400, 1, 1, 1, 420)] == [None] * 5
    assert replanner.observe([80], 440) is not None


def test_steps_with_which_nothing_fits_leave_the_plan_as_it_is():
    replanner = Replanner(sharing())
    assert tell(replanner, 30, 400_000, 256) == []
    assert replanner.plan == plan(sharing())


def test_rounds_without_steps_are_none():
    replanner = Replanner(sharing())
    assert replanner.observe([], 10_000) is None
    assert replanner.measured == (80, 256)


def test_a_change_too_small_to_move_for_is_none():
    easy = replace(sharing(8, 80), memory=23 * GIB)
    replanner = Replanner(easy)
    # All of them fit either way, so nothing is different for the generator.
    assert all(new.offload == "none" for new in tell(replanner, 40, 130, 8))
    assert replanner.replanned <= 1


@pytest.mark.parametrize(
    ("words", "path"), [({"near": 1.0}, "near"), ({"near": 2.0}, "near"), ({"rounds": 0}, "rounds")]
)
def test_limits_that_cannot_be(words, path):
    with pytest.raises(ConfigError) as caught:
        Limits(**words)
    assert caught.value.path == path
    assert math.isfinite(Limits().away)
