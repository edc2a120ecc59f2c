"""What an iteration costs by how many sequences are in it, measured while a run goes on."""

from __future__ import annotations

__all__ = ["StepCost"]

#: Share of its weight that an observation keeps with every later one.
_KEPT = 0.98
#: Observations, and spread of batch sizes, below which nothing is said.
_FEWEST = 8
_SPREAD = 0.5
#: Share of the iterations that a head start of one token saves its round, as seen in simulation: the rest
#: is waiting for who had none.
_SAVES = 0.5


class StepCost:
    """Fits seconds = fixed + each x batch by least squares with forgetting."""

    def __init__(self) -> None:
        self._count = 0
        self._weight = self._batch = self._square = self._time = self._product = 0.0

    def observe(self, batch: int, seconds: float) -> None:
        """Take in one iteration of ``batch`` sequences that decoded and read nothing else."""
        self._count += 1
        self._weight = self._weight * _KEPT + 1
        self._batch = self._batch * _KEPT + batch
        self._square = self._square * _KEPT + batch * batch
        self._time = self._time * _KEPT + seconds
        self._product = self._product * _KEPT + batch * seconds

    @property
    def fit(self) -> tuple[float, float] | None:
        """Seconds of an iteration and of each sequence in it; None until batches of several sizes ran."""
        if self._count < _FEWEST:
            return None
        mean = self._batch / self._weight
        spread = self._square / self._weight - mean * mean
        if spread < _SPREAD:
            return None
        each = (self._product / self._weight - mean * self._time / self._weight) / spread
        each = max(0.0, each)
        return max(0.0, self._time / self._weight - each * mean), each

    def pays(self, chance: float, beside: int) -> bool | None:
        """Return whether a token decoded early is worth its time; None when too little is known.

        It costs ``each`` now. With this ``chance`` it saves that later, and brings the round to come, of
        ``beside`` sequences, nearer to its end: a part of an iteration's fixed time, divided among them.
        """
        known = self.fit
        if known is None:
            return None
        fixed, each = known
        return chance * (each + _SAVES * fixed / max(1, beside)) > each
