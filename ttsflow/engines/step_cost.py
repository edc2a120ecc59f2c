"""What an iteration costs by what is in it, measured while a run goes on, and what is worth its time."""

from __future__ import annotations

__all__ = ["StepCost"]

#: Share of its weight that an observation keeps with every later one.
_KEPT = 0.98
#: Observations, and spread of batch sizes, below which nothing is said.
_FEWEST = 8
_SPREAD = 0.5
#: Tokens that work begun early is taken to be ahead before any was asked for.
_FIRST_AHEAD = 8.0
#: Share of the iterations that a head start of one token saves its round, as seen in simulation: the rest
#: is waiting for who had none.
_SAVES = 0.5


class StepCost:
    """Fits seconds = fixed + each x batch by least squares with forgetting."""

    def __init__(self) -> None:
        self._count = 0
        self._weight = self._batch = self._square = self._time = self._product = 0.0
        self._start: float | None = None
        self._ahead = _FIRST_AHEAD

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

    def began(self, batch: int, fresh: int, seconds: float) -> None:
        """Take in an iteration of ``batch`` sequences, of which ``fresh`` had prompts to read."""
        known = self.fit
        if known is not None and fresh:
            fixed, each = known
            start = max(0.0, seconds - fixed - each * batch) / fresh
            self._start = start if self._start is None else _mixed(self._start, start)

    def came(self, tokens: int) -> None:
        """Take in how far something begun early was when it was asked for, or dropped."""
        self._ahead = _mixed(self._ahead, tokens)

    def pays(self, chance: float, beside: int) -> bool | None:
        """Return whether a request is worth beginning early; None when too little is known.

        Of what is decoded until it is asked for or dropped, d tokens as seen so far, and of reading what is
        not in the cache, nothing is lost if it is asked for, which happens with this ``chance``. It then
        brings the round to come, of ``beside`` sequences, nearer to its end: a part of d iterations' fixed
        time, divided among them.
        """
        known = self.fit
        if known is None or self._start is None:
            return None
        fixed, each = known
        gain = chance * self._ahead * _SAVES * fixed / max(1, beside)
        return gain > (1 - chance) * (self._start + self._ahead * each)


def _mixed(before: float, new: float) -> float:
    return 0.9 * before + 0.1 * new
