"""Recursive least squares: the batch solution, step by step, and sane for ever."""

import json
import math

import numpy as np
import pytest

from ttsflow.costs.recursive import RecursiveLeastSquares
from ttsflow.errors import ConfigError

FORGETTING = (0.9, 0.95, 0.98, 0.99, 0.999)


def stream(seed, steps, size=4):
    """Return points and observations of a line with noise."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(steps, size))
    return points, points @ random.normal(size=size) * 3 + random.normal(size=steps)


def batch(points, values, forgetting, variance, start):
    """Return the coefficients that weighted least squares with the decayed prior as further rows give."""
    steps, size = points.shape
    weights = np.sqrt(forgetting ** np.arange(steps - 1, -1, -1.0))
    prior = np.sqrt(forgetting**steps / variance)
    rows = np.vstack([points * weights[:, None], prior * np.eye(size)])
    return np.linalg.lstsq(rows, np.concatenate([values * weights, prior * np.asarray(start)]))[0]


@pytest.mark.parametrize("forgetting", [*FORGETTING, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_the_batch_solution_after_every_step(forgetting, seed):
    points, values = stream(seed, 200)
    start = (1.0, -2.0, 0.5, 3.0)
    model = RecursiveLeastSquares(4, forgetting, 50.0, 1e9, start=start)
    assert model.theta == start
    for step, (phi, y) in enumerate(zip(points, values, strict=True), 1):
        model.update(phi, y)
        if step < 10 or not step % 20:
            exact = batch(points[:step], values[:step], forgetting, 50.0, start)
            assert np.linalg.norm(model.theta - exact) <= 1e-9 * np.linalg.norm(exact)


@pytest.mark.parametrize("forgetting", [0.9, 0.98, 1.0])
def test_the_covariance_is_the_inverse_of_the_information(forgetting):
    points, values = stream(7, 100)
    model = RecursiveLeastSquares(4, forgetting, 50.0, 1e9)
    information = np.eye(4) / 50.0
    for phi, y in zip(points, values, strict=True):
        model.update(phi, y)
        information = forgetting * information + np.outer(phi, phi)
    assert model.covariance == pytest.approx(np.linalg.inv(information), rel=1e-9, abs=1e-12)
    phi = points[0]
    sigma = math.sqrt(model.noise * (1 + phi @ model.covariance @ phi))
    assert model.predict(phi) == (pytest.approx(phi @ model.theta), pytest.approx(sigma))


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.1, 1.0, 30.0])
def test_the_noise_is_found(deviation):
    found = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        model = RecursiveLeastSquares(3, 0.98)
        for phi in random.normal(size=(300, 3)):
            model.update(phi, phi @ (5.0, -3.0, 1.0) + deviation * random.normal())
        found.append(model.noise)
    # About 50 observations each have a say.
    assert np.mean(found) == pytest.approx(deviation**2, rel=0.1)


def test_a_guess_of_the_noise_counts_as_one_observation():
    assert RecursiveLeastSquares(1).noise == math.inf
    assert RecursiveLeastSquares(1).predict([1.0]) == (0.0, math.inf)
    model = RecursiveLeastSquares(1, 1.0, 1.0, 1.0, noise=4.0)
    assert model.predict([0.0]) == (0.0, 2.0)
    # At phi = 0 an observation tells of nothing but the noise.
    model.update([0.0], 4.0)
    assert model.noise == (4.0 + 16.0) / 2


def sane(model, phi):
    """Check that all numbers are finite and the variances positive."""
    mean, sigma = model.predict(phi)
    variances = np.linalg.eigvalsh(model.covariance)
    assert math.isfinite(mean)
    assert math.isfinite(sigma)
    assert sigma >= 0
    assert variances.min() > 0
    assert np.trace(model.covariance) <= model.trace_cap * (1 + 1e-9)
    assert model.predict([1.0, 0.3, 0.9, 0.2]).sigma >= sigma * 0.999


@pytest.mark.parametrize(
    ("forgetting", "steps"),
    [
        *((forgetting, 3000) for forgetting in FORGETTING),
        *(pytest.param(forgetting, 100_000, marks=pytest.mark.slow) for forgetting in (0.9, 0.999)),
    ],
)
def test_constant_input_leaves_it_sane_and_as_quick_to_follow(forgetting, steps):
    model, phi = RecursiveLeastSquares(4, forgetting), (1.0, 0.25, 0.0, 0.0)
    random = np.random.default_rng(0)
    for step in range(steps):
        model.update(phi, 100.0 + random.normal())
        if not step % 1000:
            sane(model, phi)
    sane(model, phi)
    assert model.predict(phi).mean == pytest.approx(100, abs=1.5)
    # The direction that is observed never got stiff: it follows a change within its memory.
    for _ in range(math.ceil(3 / (1 - forgetting))):
        model.update(phi, 200.0)
    assert model.predict(phi).mean == pytest.approx(200, abs=100 * math.exp(-2.9))
    # And one never seen before is learned at once.
    for _ in range(20):
        model.update((1.0, 0.25, 1.0, 0.25), 500.0)
    assert model.predict((1.0, 0.25, 1.0, 0.25)).mean == pytest.approx(500, rel=0.05)
    sane(model, phi)


@pytest.mark.parametrize(
    ("steps", "value"), [(2000, 0.0), (2000, 7.0), pytest.param(100_000, 7.0, marks=pytest.mark.slow)]
)
def test_observations_without_any_noise_leave_it_sane(steps, value):
    model, phi = RecursiveLeastSquares(4, 0.9), (1.0, 0.5, 0.5, 0.25)
    for _ in range(steps):
        model.update(phi, value)
    sane(model, phi)
    assert model.predict(phi).mean == pytest.approx(value)


def test_the_cap_lowers_the_largest_variances_alone():
    model = RecursiveLeastSquares(3, 0.5, 10.0, 60.0)
    for _ in range(50):
        model.update((1.0, 0.0, 0.0), 1.0)
    # p = p / (lambda + p) rests at 1 - lambda; the other two share the rest.
    assert model.covariance == pytest.approx(np.diag([0.5, 29.75, 29.75]), rel=1e-9)


@pytest.mark.parametrize("forgetting", [0.9, 0.98, 1.0])
def test_a_state_that_was_saved_goes_on_as_if_nothing_had_been(forgetting):
    points, values = stream(3, 80)
    model = RecursiveLeastSquares(4, forgetting, noise=2.0)
    for phi, y in zip(points[:40], values[:40], strict=True):
        model.update(phi, y)
    other = RecursiveLeastSquares.from_state(json.loads(json.dumps(model.state(), allow_nan=False)))
    assert other.state() == model.state()
    for phi, y in zip(points[40:], values[40:], strict=True):
        model.update(phi, y)
        other.update(phi, y)
    assert other.state() == model.state()
    assert other.predict(points[0]) == model.predict(points[0])


def test_a_state_before_the_first_update_is_one_too():
    model = RecursiveLeastSquares(2)
    other = RecursiveLeastSquares.from_state(model.state())
    assert other.state() == model.state()
    assert other.noise == math.inf


@pytest.mark.parametrize(
    "change",
    [
        {"size": 0},
        {"size": 3},
        {"size": "two"},
        {"forgetting": 0},
        {"trace_cap": math.nan},
        {"theta": [1.0, math.nan]},
        {"root": [[1.0, 0.0]]},
        {"root": [[1.0, 0.0], [0.0, math.inf]]},
        {"root": None},
        {"squares": -1.0},
        {"weight": math.nan},
        {"weight": None},
    ],
)
def test_a_state_that_is_none_is_refused(change):
    with pytest.raises(ValueError):
        RecursiveLeastSquares.from_state({**RecursiveLeastSquares(2).state(), **change})
    with pytest.raises(ValueError, match="no saved state"):
        RecursiveLeastSquares.from_state({})


@pytest.mark.parametrize(
    ("phi", "y", "match"),
    [
        ((1.0, math.nan), 1.0, "phi has finite numbers"),
        ((1.0, math.inf), 1.0, "phi has finite numbers"),
        ((1.0,), 1.0, "phi has 2 numbers"),
        ((1.0, 1.0), math.nan, "a finite number, got nan"),
        ((1.0, 1.0), -math.inf, "a finite number, got -inf"),
        ((1.0, 1e300), 1.0, "too large to take in"),
        ((1.0, 1.0), 1e200, "too large to take in"),
    ],
)
def test_numbers_that_are_refused_change_nothing(phi, y, match):
    model = RecursiveLeastSquares(2)
    model.update((1.0, 0.5), 3.0)
    before = model.state()
    with pytest.raises(ValueError, match=match):
        model.update(phi, y)
    assert model.state() == before


def test_what_cannot_be_predicted_is_refused():
    model = RecursiveLeastSquares(2, start=(1e200, -1e200))
    for phi in ((math.nan, 1.0), (1e300, 1e300)):
        with pytest.raises(ValueError, match="phi"):
            model.predict(phi)
    with pytest.raises(ValueError, match="start has 2 numbers"):
        RecursiveLeastSquares(2, start=(1.0,))


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"size": 0}, "size"),
        ({"forgetting": 0}, "forgetting"),
        ({"forgetting": 1.01}, "forgetting"),
        ({"forgetting": math.nan}, "forgetting"),
        ({"variance": 0}, "variance"),
        ({"variance": math.inf}, "variance"),
        ({"trace_cap": 399}, "trace_cap"),
        ({"trace_cap": math.inf}, "trace_cap"),
        ({"noise": -1.0}, "noise"),
        ({"noise": math.nan}, "noise"),
    ],
)
def test_settings_that_make_no_sense(words, field):
    with pytest.raises(ConfigError) as caught:
        RecursiveLeastSquares(**{"size": 4, **words})
    assert caught.value.path == field
