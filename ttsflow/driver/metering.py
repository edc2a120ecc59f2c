"""The driver's side of an energy meter: whose joules they are, and when it is read."""

from __future__ import annotations

from collections.abc import Iterable

from ttsflow.errors import MeterDead
from ttsflow.ledger import Account
from ttsflow.meters.attribution import Attribution, How
from ttsflow.sensors import EnergyMeter

__all__ = ["Metering"]


class Metering:
    """Reads a meter as often as it is refreshed, and puts the joules into the accounts of problems.

    A window is shared by the tokens decoded in it, and by those alone: prompt tokens are read many at once.
    ``dead`` is why the meter stopped answering; it is not asked again.
    """

    def __init__(self, meter: EnergyMeter, how: How, now: float) -> None:
        self.dead: str | None = None
        self._meter = meter
        self._shares: Attribution[Account] = Attribution(how, meter.window)
        self._shares.begin(meter.read(now), now)
        self._decoded: dict[Account, int] = {}

    @property
    def idle(self) -> float:
        """Joules of windows in which nobody decoded."""
        return self._shares.idle

    @property
    def total(self) -> float:
        """All joules since the beginning."""
        return self._shares.total

    def look(self, accounts: Iterable[Account], now: float) -> None:
        """Take in a step of the engine, and read the meter where that is due."""
        self._step(accounts)
        if self._shares.due(now):
            self._read(now)

    def settle(self, accounts: Iterable[Account], now: float) -> None:
        """Read the meter, due or not, so that every problem has all of its joules."""
        self._step(accounts)
        self._read(now)

    def rest(self, account: Account) -> None:
        """Take in that a problem has nothing under way for long: what is read meanwhile is not its own."""
        self._shares.end(account)

    def end(self, account: Account) -> None:
        """Take in that a problem is over: what is read later is not its own."""
        self._shares.end(account)
        self._decoded.pop(account, None)

    def _step(self, accounts: Iterable[Account]) -> None:
        fresh = {}
        for account in accounts:
            decoded = account.output + account.aborted + account.running
            before = self._decoded.get(account, 0)
            self._decoded[account] = decoded
            if account.live or decoded > before:
                fresh[account] = max(0, decoded - before)
        if fresh:
            self._shares.step(fresh)

    def _read(self, now: float) -> None:
        if self.dead is not None:
            return
        try:
            reading = self._meter.read(now)
        except MeterDead as error:
            self.dead = str(error)
            return
        for account, joules in self._shares.read(reading, now).items():
            account.joules = (account.joules or 0.0) + joules
