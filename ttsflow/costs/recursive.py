"""Least squares that follow a stream: one observation at a time, the latest counting most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ttsflow.errors import ConfigError

__all__ = ["Prediction", "RecursiveLeastSquares"]

Floats = NDArray[np.float64]


class Prediction(NamedTuple):
    """What an observation is expected to be, and its standard deviation; infinite where nothing is known."""

    mean: float
    sigma: float


class RecursiveLeastSquares:
    """A linear model y = phi' theta + noise that weighs an observation of i updates ago by forgetting^i.

    It holds theta and a square root S of P = S S', the covariance of theta over the variance s2 of the noise.
    An update at phi is Potter's (1963; Bierman, Factorization Methods for Discrete Sequential Estimation,
    1977, chapter II), with exponential forgetting lambda::

        f = S' phi    a = lambda + f' f    K = S f / a    theta += K (y - phi' theta)
        S = (S - K f' / (1 + sqrt(lambda / a))) / sqrt(lambda)

    P cannot lose its sign that way, whatever is rounded. It starts as ``variance`` times the identity around
    ``start``, zeros by default: the least squares have a term lambda^n |theta - start|^2 / variance beside
    the n observations.

    What no observation speaks of is forgotten all the same, so that P grows without end while all of them are
    alike. Its trace is held at ``trace_cap`` by lowering its largest eigenvalues to one level; the directions
    that are observed stay as they are, and as quick to follow. Until then, and always for lambda = 1 where P
    never grows, theta is the solution of the batch problem.

    s2 is the weighted mean of squared surprises. One at a leverage h = f' f / a tells of theta rather than of
    the noise, so it counts by 1 - h = lambda / a: s2 = sum w (1 - h)^2 e^2 / sum w (1 - h) with w =
    lambda^i, since E e^2 = s2 / (1 - h). ``noise`` is a guess of s2 that counts as one observation in full;
    without it sigma is infinite before the first update.

    Settings that cannot be raise a ``ConfigError``, numbers that are not finite or that do not fit a
    ``ValueError``; an update that is refused changes nothing. It does no I/O.
    """

    def __init__(
        self,
        size: int,
        forgetting: float = 0.98,
        variance: float = 100.0,
        trace_cap: float = 1000.0,
        *,
        start: Sequence[float] | None = None,
        noise: float | None = None,
    ) -> None:
        if size < 1:
            raise ConfigError(f"at least one feature is needed, got {size}.", "size")
        if not 0 < forgetting <= 1:
            raise ConfigError(f"must lie above 0 and up to 1, got {forgetting}.", "forgetting")
        if not 0 < variance < math.inf:
            raise ConfigError(f"must lie above 0 and be finite, got {variance}.", "variance")
        if not variance * size <= trace_cap < math.inf:
            raise ConfigError(
                f"must be finite and at least size times variance, {variance * size:g}, got {trace_cap}.",
                "trace_cap",
            )
        if noise is not None and not 0 <= noise < math.inf:
            raise ConfigError(f"a variance is at least 0 and finite, got {noise}.", "noise")
        self.size = size
        self.forgetting = forgetting
        self.trace_cap = trace_cap
        self._theta = np.zeros(size) if start is None else _vector(start, size, "start")
        self._root: Floats = math.sqrt(variance) * np.eye(size)
        self._squares, self._weight = (0.0, 0.0) if noise is None else (float(noise), 1.0)
        #: Columns of the root, and the coefficients, as lists.
        self._plain: tuple[list[float], ...] | None = None

    @property
    def theta(self) -> tuple[float, ...]:
        """The coefficients."""
        return tuple(map(float, self._theta))

    @property
    def covariance(self) -> Floats:
        """P, the covariance of the coefficients over the variance of the noise; shape (size, size)."""
        return self._root @ self._root.T

    @property
    def noise(self) -> float:
        """The variance s2 of the noise; infinite where nothing is known."""
        return self._squares / self._weight if self._weight > 0 else math.inf

    def predict(self, phi: Sequence[float]) -> Prediction:
        """Return mean and standard deviation of an observation at ``phi``: sqrt(s2 (1 + phi' P phi))."""
        if len(phi) != self.size or not all(map(math.isfinite, phi)):
            _vector(phi, self.size, "phi")
        # Of so few numbers plain ones are several times as fast as arrays, and a decision asks eight times.
        if self._plain is None:
            self._plain = (*self._root.T.tolist(), self._theta.tolist())
        *spread, mean = (sum(map(mul, row, phi)) for row in self._plain)
        sigma = math.sqrt(self.noise) * math.hypot(1.0, *spread)
        if not math.isfinite(mean) or math.isnan(sigma):
            raise ValueError(f"phi is too large to predict anything: {tuple(phi)}.")
        return Prediction(mean, sigma)

    def update(self, phi: Sequence[float], y: float) -> None:
        """Take in the observation ``y`` at ``phi``."""
        point = _vector(phi, self.size, "phi")
        if not math.isfinite(y):
            raise ValueError(f"an observation is a finite number, got {y}.")
        keep = self.forgetting
        with np.errstate(all="ignore"):
            f = self._root.T @ point
            a = keep + float(f @ f)
            gain = self._root @ f / a
            surprise = float(y - point @ self._theta)
            theta = self._theta + gain * surprise
            root = (self._root - np.outer(gain, f) / (1 + math.sqrt(keep / a))) / math.sqrt(keep)
            free = keep / a
            squares = keep * self._squares + (free * surprise) ** 2 if abs(surprise) < 1e150 else math.inf
        if not (np.isfinite(theta).all() and np.isfinite(root).all() and math.isfinite(squares)):
            raise ValueError(f"the observation {y} at {tuple(phi)} is too large to take in.")
        self._theta, self._root, self._plain = theta, self._capped(root), None
        self._squares, self._weight = squares, keep * self._weight + free

    def _capped(self, root: Floats) -> Floats:
        """Return the root, the largest eigenvalues lowered to one level where the trace is too large."""
        if float(np.vdot(root, root)) <= self.trace_cap:
            return root
        left, values, _ = np.linalg.svd(root)
        squares, room = values**2, self.trace_cap
        # From the smallest up: what is below an even share of the room that is left stays.
        for at in range(self.size - 1, -1, -1):
            level = room / (at + 1)
            if squares[at] > level:
                squares[: at + 1] = level
                break
            room -= squares[at]
        return np.asarray(left * np.sqrt(squares), np.float64)

    def state(self) -> dict[str, Any]:
        """Return all there is to it, as plain numbers and lists that JSON can hold."""
        return {
            "size": self.size,
            "forgetting": self.forgetting,
            "trace_cap": self.trace_cap,
            "theta": self._theta.tolist(),
            "root": self._root.tolist(),
            "squares": self._squares,
            "weight": self._weight,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> RecursiveLeastSquares:
        """Return what ``state`` was taken from, to the last bit. Raises ``ValueError`` for what is none."""
        try:
            size, cap = state["size"], state["trace_cap"]
            # The variance at the start is over, and stands in for none of what is set below.
            model = cls(size, state["forgetting"], cap / size / 2, cap, start=state["theta"])
            root = np.array(state["root"], np.float64)
            squares, weight = float(state["squares"]), float(state["weight"])
        except (KeyError, TypeError, ZeroDivisionError, ConfigError) as error:
            raise ValueError(f"this is no saved state of recursive least squares: {error}.") from error
        if root.shape != (size, size) or not np.isfinite(root).all():
            raise ValueError(f"the root of a saved state is {size} rows of {size} finite numbers.")
        if not (0 <= squares < math.inf and 0 <= weight < math.inf):
            raise ValueError(f"sums of a saved state are finite and not negative, got {squares}, {weight}.")
        model._root, model._squares, model._weight = root, squares, weight
        return model


def _vector(values: Sequence[float], size: int, name: str) -> Floats:
    vector = np.array(values, np.float64)
    if vector.shape != (size,):
        raise ValueError(f"{name} has {size} numbers, got {values}.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} has finite numbers, got {values}.")
    return vector
