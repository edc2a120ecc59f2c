"""The measured cost of an iteration, and what it says of work begun early."""

import random

import pytest

from ttsflow.engines.step_cost import StepCost


def seen(fixed, each, batches, noise=0.0, start=0.0):
    rng, cost = random.Random(1), StepCost()
    for batch in batches:
        cost.observe(batch, (fixed + each * batch) * (1 + noise * rng.gauss(0, 1)))
    cost.began(4, 2, fixed + 4 * each + 2 * start)
    return cost


def test_the_line_is_found():
    fixed, each = seen(0.025, 0.001, [8, 7, 5, 4, 2, 1] * 5).fit
    assert fixed == pytest.approx(0.025)
    assert each == pytest.approx(0.001)


def test_noise_moves_it_little():
    fixed, each = seen(0.025, 0.001, list(range(1, 33)) * 10, noise=0.05).fit
    assert fixed == pytest.approx(0.025, rel=0.1)
    assert each == pytest.approx(0.001, rel=0.1)


def test_nothing_is_said_of_too_little():
    assert StepCost().fit is None
    assert StepCost().pays(1.0, 1) is None
    assert seen(0.02, 0.001, [8] * 100).fit is None


def test_where_a_step_costs_the_same_whatever_is_in_it_anything_pays():
    cost = seen(0.02, 0.0, [1, 4, 8, 16] * 5)
    assert cost.pays(0.01, 8)


def test_where_a_step_costs_by_its_batch_nothing_does_that_is_not_sure():
    cost = seen(0.0, 0.002, [1, 4, 8, 16] * 5)
    assert not cost.pays(0.9, 8)


def test_between_these_it_depends_on_the_chance():
    cost = seen(0.025, 0.001, [1, 4, 8, 16] * 5)
    assert cost.pays(0.6, 8)
    assert not cost.pays(0.2, 8)
    assert not cost.pays(0.6, 64)


def test_reading_a_prompt_in_vain_counts():
    cheap, dear = (seen(0.1, 0.001, [1, 4, 8, 16] * 5, start=start) for start in (0.0, 0.1))
    assert cheap.pays(0.5, 8)
    assert not dear.pays(0.5, 8)
    assert dear.pays(0.95, 8)


def test_the_further_ahead_the_more_a_prompt_is_worth():
    cost = seen(0.1, 0.0, [1, 4, 8, 16] * 5, start=0.1)
    assert not cost.pays(0.5, 8)
    for _ in range(50):
        cost.came(200)
    assert cost.pays(0.5, 8)


def test_it_follows_a_machine_that_becomes_slower():
    cost = seen(0.02, 0.0, [1, 4, 8] * 5)
    for batch in [1, 4, 8] * 150:
        cost.observe(batch, 0.01 * batch)
    assert cost.fit[1] == pytest.approx(0.01, rel=0.02)
