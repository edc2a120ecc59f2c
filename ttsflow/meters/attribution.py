"""Whose joules they are: windows of a meter shared between the problems that ran in them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Generic, Literal, TypeVar, get_args

from ttsflow.errors import ConfigError, suggest

__all__ = ["Attribution", "How", "check_attribution"]

How = Literal["token_share", "occupancy"]

K = TypeVar("K", bound=Hashable)


def check_attribution(how: str, concurrency: int) -> None:
    """Refuse an unknown way to share, and ``occupancy`` where problems run side by side.

    Raises ``ConfigError`` with the path "attribution".
    """
    if how not in get_args(How):
        raise ConfigError(
            f"there is no way to share called '{how}'. {suggest(how, get_args(How))}", "attribution"
        )
    if how == "occupancy" and concurrency > 1:
        raise ConfigError(
            f"with concurrency={concurrency} problems run side by side, and nobody has a window of the meter "
            "to himself. Use concurrency=1, or attribution=token_share.",
            "attribution",
        )


class Attribution(Generic[K]):
    """Shares out the energy of a run, window by window, so that it adds up to what was metered.

    A window lasts from one reading to the next that moved. With ``token_share`` its joules are shared by the
    tokens that each problem decoded in it; continuous batching lets nothing finer be measured. With
    ``occupancy`` all of them are those of the one problem that ran, tokens or not (the way of papers that
    work on one question at a time). A window without any is the run's own: ``idle``.

    It knows no meter and no clock but what it is told: readings are cumulative joules, times are seconds
    since anything. A reading that is no number, or lower than one before, adds nothing and is never negative.

    ``window`` is that of the meter. ``joules`` holds what every problem has so far, ``idle`` what none has,
    ``total`` what was metered: at any time total = idle + all that was shared out, up to rounding.
    """

    def __init__(self, how: How = "token_share", window: float = 0.0) -> None:
        check_attribution(how, 1)
        if not 0 <= window < math.inf:
            raise ValueError(f"a window has at least 0 seconds and an end, got {window}")
        self.how = how
        self.window = window
        self.joules: dict[K, float] = {}
        self.idle = 0.0
        self.total = 0.0
        self._tokens: dict[K, float] = {}
        self._reading: float | None = None
        self._since = 0.0

    def begin(self, reading: float, now: float) -> None:
        """Begin the first window: what the meter said before belongs to nobody here."""
        self._reading = reading if math.isfinite(reading) else None
        self._since = now

    def step(self, shares: Mapping[K, float]) -> None:
        """Note the tokens that an engine step decoded for each problem; the key of a problem is the caller's.

        A problem with 0 of them ran without tokens, which counts with ``occupancy`` alone. Raises
        ``ValueError`` for a number below 0, and with ``occupancy`` for a second problem in one window.
        """
        for key, tokens in shares.items():
            if not 0 <= tokens < math.inf:
                raise ValueError(f"tokens are at least 0, got {tokens} for {key!r}")
        known = self._tokens
        if self.how == "occupancy" and len(known.keys() | shares.keys()) > 1:
            raise ValueError(
                f"with occupancy one problem runs in a window, got {[*known.keys() | shares.keys()]}"
            )
        for key, tokens in shares.items():
            known[key] = known.get(key, 0) + tokens

    def due(self, now: float) -> bool:
        """Whether the window is long enough to be read; it is when the clock has gone back as well."""
        return not 0 <= now - self._since < self.window

    def read(self, reading: float, now: float) -> dict[K, float]:
        """Close the window with the meter's reading and return the joules of each problem in it.

        To be called when it is ``due``, and whatever its length before a problem ends and at the end of the
        run. A reading that did not move closes nothing: what was used since then is still to come.
        """
        last = self._reading
        if last is None:
            self.begin(reading, now)
            return {}
        if not math.isfinite(reading):
            return {}
        self._since = now
        if reading <= last:
            return {}
        self._reading = reading
        gained = reading - last
        self.total += gained
        shares = self._shares(gained)
        self._tokens.clear()
        for key, joules in shares.items():
            self.joules[key] = self.joules.get(key, 0.0) + joules
        if not shares:
            self.idle += gained
        return shares

    def end(self, key: K) -> float:
        """Forget a problem that has ended and return its joules.

        What the meter tells later belongs to whoever else ran, or to nobody.
        """
        self._tokens.pop(key, None)
        return self.joules.pop(key, 0.0)

    def _shares(self, gained: float) -> dict[K, float]:
        if self.how == "occupancy":
            return dict.fromkeys(self._tokens, gained)
        # By the largest first, so that many tokens do not overflow.
        most = max(self._tokens.values(), default=0)
        if not most:
            return {}
        weights = {key: tokens / most for key, tokens in self._tokens.items() if tokens}
        whole = math.fsum(weights.values())
        return {key: gained * (weight / whole) for key, weight in weights.items()}
