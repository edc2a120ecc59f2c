"""The learner: what it believes, what it may pick, and that its state is all there is to it."""

import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.controllers import learner as learning
from ttsflow.controllers.arm_costs import ArmCosts
from ttsflow.controllers.cells import EDGES, cell_of
from ttsflow.controllers.effects import _QUESTION, _REST, Effects
from ttsflow.controllers.learner import Learner
from ttsflow.controllers.price import Funds, Taken, climb, hull
from ttsflow.errors import ConfigError

ARMS = {"single": 1.0, "four": 4.0, "eight": 8.0, "odd": 6.0}
MATHS, WORDS = {"task": "maths"}, {"task": "words"}
TRUE = {
    "maths": {"single": 0.3, "four": 0.5, "eight": 0.55, "odd": 0.2},
    "words": {"single": 0.7, "four": 0.72, "eight": 0.73, "odd": 0.6},
}
COSTS = {"maths": 2.0, "words": 1.0}


def taught(rounds=40, seed=0, learner=None, arms=tuple(ARMS)):
    """Return a learner that was told of every arm on so many questions of both tasks."""
    learner = learner or Learner(ARMS, budget=800.0, questions=100)
    rng = random.Random(seed)
    for _ in range(rounds):
        for features in (MATHS, WORDS):
            task = features["task"]
            for arm in arms:
                cost = ARMS[arm] * COSTS[task] * rng.uniform(0.8, 1.2)
                learner.learn(arm, features, float(rng.random() < TRUE[task][arm]), cost)
    return learner


@pytest.mark.slow
def test_posterior_means_converge_to_the_true_means_and_costs():
    wrong = []
    for rounds in (20, 1200):
        learner = taught(rounds)
        wrong.append(
            max(
                abs(learner.rewards(features)[arm] - TRUE[features["task"]][arm])
                for features in (MATHS, WORDS)
                for arm in ARMS
            )
        )
    assert wrong[1] < min(0.03, wrong[0])
    for features in (MATHS, WORDS):
        true = {arm: ARMS[arm] * COSTS[features["task"]] for arm in ARMS}
        assert learner.costs(features) == pytest.approx(true, rel=0.03)


@pytest.mark.slow
def test_the_posterior_is_that_of_the_model_worked_out_in_full():
    prior, spread, cell_spread = np.array([0.0, 0.04, 0.06]), 0.05, 0.03
    effects = Effects(prior, spread, cell_spread)
    rng, told = random.Random(1), []
    for cell in range(2):
        effects.grow()
        for _ in range(5):
            arms = rng.sample(range(3), rng.randint(1, 3))
            rewards = {arm: rng.random() for arm in arms}
            effects.learn(cell, rewards)
            told.append((cell, rewards))
    # All means t = d + e + i of two cells at once: prior covariance and mean, then every question's.
    ones, eye = np.ones((3, 3)), np.eye(3)
    own = cell_spread**2 * eye + 0.35**2 * ones
    shared = spread**2 * eye
    covariance = np.block([[own + shared, shared], [shared, own + shared]])
    precision, side = np.linalg.inv(covariance), np.linalg.inv(covariance) @ (0.5 + np.tile(prior, 2))
    for cell, rewards in told:
        pick = np.zeros((len(rewards), 6))
        for row, arm in enumerate(rewards):
            pick[row, cell * 3 + arm] = 1
        noise = np.linalg.inv(_REST * np.eye(len(rewards)) + _QUESTION * np.ones((len(rewards),) * 2))
        precision += pick.T @ noise @ pick
        side += pick.T @ noise @ list(rewards.values())
    mean, exact = np.linalg.solve(precision, side), np.linalg.inv(precision)
    assert effects.draw(None)[:2].ravel() == pytest.approx(mean, abs=1e-9)
    draws = np.array([effects.draw(rng)[:2].ravel() for _ in range(1500)])
    assert np.cov(draws.T) == pytest.approx(exact, abs=0.012)


@pytest.mark.slow
def test_a_new_cell_goes_by_what_was_learnt_in_others():
    learner = taught(300)
    means = learner.rewards({"task": "new"})
    assert min(means, key=means.get) == "odd"
    one = learner.rewards(WORDS)
    for reward in (0.0, 0.0, 0.0):
        learner.learn("eight", {"task": "new"}, reward, 8.0)
    after = learner.rewards({"task": "new"})
    # Three failures say that the cell is hard, and little against the arm.
    assert after["single"] < means["single"] - 0.1
    assert after["eight"] - after["single"] == pytest.approx(means["eight"] - means["single"], abs=0.02)
    assert learner.rewards(WORDS) == pytest.approx(one, abs=0.01)


def test_an_arm_that_met_the_hard_cell_is_not_taken_for_a_bad_one():
    learner, rng = Learner({"a": 1.0, "b": 1.0}), random.Random(0)
    for _ in range(400):
        learner.learn("a", MATHS, float(rng.random() < 0.2), 1.0)
        learner.learn("b", WORDS, float(rng.random() < 0.8), 1.0)
    means = learner.rewards(MATHS)
    assert abs(means["a"] - means["b"]) < 0.02


@pytest.mark.slow
def test_arms_told_of_one_question_are_compared_on_it():
    apart, together, rng = Learner(ARMS, boldness=1.0), Learner(ARMS, boldness=1.0), random.Random(3)
    for _ in range(200):
        one = float(rng.random() < 0.5)
        four = one if rng.random() < 0.9 else 1.0
        apart.learn("single", MATHS, one, 1.0)
        apart.learn("four", MATHS, four, 4.0)
        together.learn("four", MATHS, four, 4.0, also={"single": (one, 1.0)})
    assert (together.seen, apart.seen) == (200, 400)

    def spread(learner):
        rng = random.Random(0)
        draws = np.array([learner._effects.draw(rng)[0] for _ in range(300)])
        return np.std(draws[:, 3] - draws[:, 1])

    assert spread(together) < 0.75 * spread(apart)


shares = st.floats(0, 1)


@pytest.mark.slow
@settings(deadline=None)
@given(left=shares, less=shares, to_come=shares, seed=st.integers(0, 999), rounds=st.integers(0, 6))
def test_less_budget_never_gives_a_dearer_arm(left, less, to_come, seed, rounds):
    for learner in (Learner(ARMS, budget=800.0, questions=100), Learner(ARMS, price=0.005)):
        costs = taught(rounds, seed, learner).costs(MATHS)
        low, high = sorted((left, less))
        arms = [learner.choose(MATHS, s, random.Random(seed), questions_left=to_come) for s in (low, high)]
        assert costs[arms[0]] <= costs[arms[1]]


@pytest.mark.slow
@settings(deadline=None)
@given(left=shares, questions=st.integers(1, 100), seed=st.integers(0, 999), rounds=st.integers(1, 6))
def test_no_arm_is_picked_that_is_not_affordable_when_another_is(left, questions, seed, rounds):
    learner = taught(rounds, seed)
    arm = learner.choose(WORDS, left, random.Random(seed), questions_left=questions / 100)
    costs = learner.costs(WORDS)
    # What remains pays for the cheapest on every question after this one, which costs this at the least.
    room = left * 800.0 - (questions - 1) * min(costs.values())
    assert costs[arm] <= room or costs[arm] == min(costs.values())


@pytest.mark.slow
def test_it_degrades_and_ends_with_the_cheapest():
    learner = taught(300)
    spent = []
    for share in (1.0, 0.6, 0.4, 0.3, 0.1, 0.0):
        arms = [learner.choose(MATHS, share, random.Random(s), questions_left=0.5) for s in range(60)]
        spent.append(sum(ARMS[arm] for arm in arms) / 60)
    assert spent == sorted(spent, reverse=True)
    assert spent[0] > 4
    assert spent[-1] == 1.0


def test_spending_tracks_the_budget():
    learner, rng = Learner(ARMS, budget=400.0, questions=200), random.Random(5)
    left = 400.0
    for place in range(200):
        arm = learner.choose(WORDS, max(0.0, left / 400), rng, questions_left=1 - place / 200)
        learner.learn(arm, WORDS, float(rng.random() < TRUE["words"][arm]), ARMS[arm])
        left -= ARMS[arm]
    assert 0 <= left < 20


def test_draws_narrow_as_the_questions_to_come_get_fewer():
    learner = Learner(ARMS, questions=1000)
    for _ in range(3):
        learner.learn("four", MATHS, 1.0, 4.0, also={"single": (1.0, 1.0)})
    means = learner.rewards(MATHS)
    best, seen = max(means, key=means.get), []
    for questions_left in (1.0, 0.01, 0.0):
        picks = [
            learner.choose(MATHS, 1.0, random.Random(s), questions_left=questions_left) for s in range(80)
        ]
        seen.append(picks.count(best))
    assert seen == sorted(seen)
    assert seen[0] < seen[-1]
    # What a draw is narrowed by is the share of questions to come: one to come and three seen is a quarter.
    last = Learner.from_state(learner.state(), questions=1)
    alike = Learner.from_state({**learner.state(), "seen": 0}, questions=1, boldness=learner.boldness / 4)
    for seed in range(40):
        one, other = (of.choose(MATHS, 1.0, random.Random(seed)) for of in (last, alike))
        assert one == other


def out_of_funds(margin, runs, monkeypatch):
    """Return how many questions of so many runs began with less than the cheapest arm then cost."""
    monkeypatch.setattr(learning, "_SURE", margin)
    lost = 0
    for seed in range(runs):
        learner, rng, left = Learner(ARMS, budget=160.0, questions=40), random.Random(seed), 160.0
        for place in range(40):
            arm = learner.choose(MATHS, max(0.0, left / 160), rng, questions_left=1 - place / 40)
            cost = ARMS[arm] * rng.choice((0.4, 0.8, 1.8))
            lost += cost > left
            left -= min(cost, left)
            learner.learn(arm, MATHS, float(rng.random() < TRUE["maths"][arm]), cost)
    return lost


@pytest.mark.slow
def test_the_last_questions_are_not_left_without_funds_where_costs_vary(monkeypatch):
    without, kept = (out_of_funds(margin, 20, monkeypatch) for margin in (0.0, learning._SURE))
    assert kept <= without / 4
    assert without >= 8


def test_funds_cover_a_cost_with_a_margin_for_this_question_and_those_after():
    # 4 for this one and 9 for those after; sqrt(9 + 16) = 5 of margin, times a half.
    assert Funds(15.5, after=9, each=1.0, margin=0.5).cover(4.0)
    assert not Funds(15.4, after=9, each=1.0, margin=0.5).cover(4.0)
    assert Funds(math.inf).cover(1e300)
    assert not Funds(0.0).cover(1e-300)


def test_the_deviation_of_costs_is_a_share_of_what_was_expected():
    costs = ArmCosts(np.array([1.0, 4.0]))
    costs.grow()
    assert costs.deviation(costs.estimate()) == 0.0
    for part in (0.5, 1.5) * 2000:
        for arm, cost in enumerate((10.0, 40.0)):
            costs.learn(0, arm, cost * part)
    assert costs.deviation(costs.estimate()) == pytest.approx(0.5, abs=1e-3)
    again = ArmCosts(np.array([1.0, 4.0]))
    again.load(costs.state(), 1)
    assert again.deviation(again.estimate()) == costs.deviation(costs.estimate())


def test_before_any_cost_a_budget_is_kept_safe():
    learner = Learner(ARMS, budget=1e9, questions=10)
    for _ in range(3):
        assert learner.choose(MATHS, 1.0, random.Random(0)) == "single"
        learner.learn("single", MATHS, 1.0, None)
    learner.learn("single", MATHS, 1.0, 5.0)
    assert learner.costs(WORDS)["eight"] > 5 * learner.costs(WORDS)["single"]
    assert {learner.choose(MATHS, 1.0, random.Random(s)) for s in range(20)} != {"single"}


def test_failed_measurements_are_counted_and_left_out():
    learner = taught(5)
    means, costs = learner.rewards(MATHS), learner.costs(MATHS)
    for cost in (None, math.nan, math.inf, -math.inf, -1.0, 0.0, 1e300):
        learner.learn("four", MATHS, None, cost)
    learner.learn("four", MATHS, math.nan, None)
    assert (learner.ignored, learner.unrewarded) == (8, 8)
    assert (learner.rewards(MATHS), learner.costs(MATHS)) == (means, costs)


def test_an_arm_that_was_never_tried_has_its_prior_and_is_tried():
    learner = taught(60, arms=("single", "four"))
    assert learner.rewards(WORDS)["eight"] > learner.rewards(WORDS)["single"]
    assert learner.costs(MATHS)["eight"] == pytest.approx(16.0, rel=0.15)
    picks = {learner.choose(MATHS, 1.0, random.Random(s), questions_left=0.5) for s in range(200)}
    assert {"eight", "odd"} <= picks


def test_what_cannot_be_is_refused_and_changes_nothing():
    learner = taught(2)
    before = learner.state()
    with pytest.raises(ConfigError, match="Did you mean 'eight'"):
        learner.learn("eigth", MATHS, 1.0, 1.0)
    with pytest.raises(ConfigError, match="no arm 'nine'"):
        learner.learn("eight", MATHS, 1.0, 1.0, also={"nine": (1.0, 1.0)})
    with pytest.raises(ValueError, match="between 0 and 1"):
        learner.learn("eight", {"task": "other"}, 1.5, 1.0)
    with pytest.raises(ValueError, match="shares"):
        learner.choose(MATHS, math.nan, random.Random(0))
    with pytest.raises(ConfigError, match="no edges"):
        learner.choose({"agrement": 0.5}, 1.0, random.Random(0))
    assert learner.state() == before


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"arms": {}}, "arms"),
        ({"arms": {"a": 0.0}}, "arms.a"),
        ({"arms": {"a": math.nan}}, "arms.a"),
        ({"budget": 0.0}, "budget"),
        ({"questions": 0}, "questions"),
        ({"price": -1.0}, "price"),
        ({"gain": math.inf}, "gain"),
        ({"spread": 0.0}, "spread"),
        ({"cell_spread": 0.0}, "cell_spread"),
        ({"boldness": -0.1}, "boldness"),
        ({"edges": {"x": (2.0, 1.0)}}, "edges"),
    ],
)
def test_settings_are_checked(given, path):
    with pytest.raises(ConfigError) as error:
        Learner(**{"arms": ARMS, **given})
    assert error.value.path == path


def test_a_saved_state_makes_the_same_choices():
    learner = taught(7)
    copy = Learner.from_state(json.loads(json.dumps(learner.state())))
    assert copy.state() == learner.state()
    for seed in range(50):
        features, share = (MATHS, WORDS, {"task": "new"})[seed % 3], seed / 50
        arms = [of.choose(features, share, random.Random(seed), questions_left=0.4) for of in (learner, copy)]
        assert arms[0] == arms[1]
        for of in (learner, copy):
            of.learn(arms[0], features, seed % 2, 1.0 + seed, also={"single": (1.0, 1.0)})
    assert copy.state() == learner.state()
    other = Learner.from_state(learner.state(), budget=5.0, questions=9)
    assert (other.budget, other.questions, other.rewards(MATHS)) == (5.0, 9, learner.rewards(MATHS))
    with pytest.raises(ConfigError, match="cannot be set"):
        Learner.from_state(learner.state(), arms={"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0})
    assert Learner.from_state(Learner(ARMS).state()).state() == Learner(ARMS).state()


@pytest.mark.parametrize("missing", ["arms", "cells", "rewards", "costs", "seen"])
def test_what_is_no_state_is_refused(missing):
    state = taught(2).state()
    with pytest.raises(ValueError, match="no saved state"):
        Learner.from_state({name: value for name, value in state.items() if name != missing})
    with pytest.raises(ValueError, match="no saved state"):
        Learner.from_state({**state, "cells": state["cells"][:1] * 2})
    with pytest.raises(ValueError, match="no saved state"):
        Learner.from_state({**state, "arms": {"single": 1.0}})


@pytest.mark.slow
@settings(deadline=None)
@given(order=st.permutations(list(ARMS)), seed=st.integers(0, 99), left=shares)
def test_the_order_of_arms_does_not_matter(order, seed, left):
    plain, mixed = (
        taught(3, seed, Learner({arm: ARMS[arm] for arm in arms}, budget=800.0, questions=100))
        for arms in (list(ARMS), order)
    )
    assert plain.state() == mixed.state()
    chosen = [of.choose(MATHS, left, random.Random(seed), questions_left=0.5) for of in (plain, mixed)]
    assert chosen[0] == chosen[1]


def test_cells_are_cut_from_features():
    cell = cell_of({"task": "a", "prompt_tokens": 64, "agreement": math.nan, "budget_left": 0.05}, EDGES)
    assert dict(cell) == {"task": "=a", "prompt_tokens": "1", "agreement": "unknown", "budget_left": "0"}
    assert cell_of({}, EDGES) == ()


def test_costs_are_a_product_of_cell_and_arm():
    costs = ArmCosts(np.array([1.0, 4.0, 8.0]))
    for cell, scale in enumerate((100.0, 300.0)):
        costs.grow()
        for _ in range(200):
            # The second arm costs half of what was declared; the third is met in one cell only.
            costs.learn(cell, 0, scale)
            costs.learn(cell, 1, 2 * scale)
            if not cell:
                costs.learn(cell, 2, 8 * scale)
    assert costs.estimate()[1] == pytest.approx([300, 600, 2400], rel=0.1)


points = st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 10)), min_size=1, max_size=6)


@pytest.mark.slow
@given(points)
def test_a_hull_is_above_every_arm(arms):
    rewards, costs = zip(*arms, strict=True)
    rungs = hull(rewards, costs)
    assert rungs[0].cost == min(costs)
    slopes = [rung.slope for rung in rungs]
    assert slopes == sorted(slopes, reverse=True)
    assert min(slopes) > 0
    assert len(hull([0.2, 0.4], [1e-323, 1.5e-323])) == 2
    for price in (1e-3, 0.01, 0.1, 1.0):
        best = max(rewards[rung.arm] - price * rung.cost for rung in rungs)
        assert best >= max(r - price * c for r, c in arms) - 1e-9


def test_the_best_rungs_of_all_cells_are_taken_first():
    hulls = [hull([0.3, 0.5, 0.55], [1, 4, 8]), hull([0.7, 0.72], [1, 4])]
    assert climb(hulls, [0.5, 0.5], 0.9, 0.0) == [Taken(0, 0.0), Taken(0, 0.0)]
    assert climb(hulls, [0.5, 0.5], 1.75, 0.0) == [Taken(0, 0.5), Taken(0, 0.0)]
    assert climb(hulls, [0.5, 0.5], 3.5, 0.0) == [Taken(1, 0.5), Taken(0, 0.0)]
    assert climb(hulls, [0.5, 0.5], math.inf, 0.0) == [Taken(2, 0.0), Taken(1, 0.0)]
    assert climb(hulls, [0.5, 0.5], math.inf, 0.01) == [Taken(2, 0.0), Taken(0, 0.0)]
    assert climb(hulls, [0.5, 0.5], math.inf, 0.02) == [Taken(1, 0.0), Taken(0, 0.0)]
