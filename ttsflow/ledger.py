"""The one place where tokens, steps and seconds are counted, and where budgets are held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ttsflow.account import Account, added
from ttsflow.budget import Budget
from ttsflow.ops import Quotation
from ttsflow.protocols import CostModel
from ttsflow.types import EngineTokens, Usage

__all__ = ["Account", "Budget", "Funds", "Ledger"]

_FAR = 1 << 20
_GOING_ON = Usage(output=1, serial=1, engine_steps=1, seconds=1.0, joules=1.0)
"""What a running request adds to at every step."""


class Funds(NamedTuple):
    """What a run has spent, and by unit what is neither spent nor set aside for other problems than one."""

    spent: Usage
    left: Mapping[str, float]


class Ledger:
    """Accounts of all problems of a run, its cost models and its budget; ``metered``: joules are counted."""

    def __init__(self, costs: Mapping[str, CostModel], budget: Budget, *, metered: bool = False) -> None:
        budget.check(costs)
        self.costs = costs
        self.budget = budget
        self.metered = metered
        self.open: list[Account] = []
        #: What those at rest have spent, which is in ``closed`` meanwhile.
        self._resting: dict[Account, Usage] = {}
        self.nothing = Usage(joules=0.0 if metered else None)
        self.closed = self.nothing
        #: What passes while a sequence grows, and nobody knows beforehand.
        self._passing = Usage(seconds=1.0, joules=1.0 if metered else None)
        self._samples = 0
        #: What problems have cost that had the strategy, and how many these are.
        self._whole, self._wholes = self.nothing, 0

    def account(self, now: float) -> Account:
        """Open an account for a problem that starts now."""
        account = Account(now, self.nothing.joules)
        self.open.append(account)
        return account

    def rest(self, account: Account, now: float) -> None:
        """Take a problem that waits for long, and has nothing under way, out of what is looked at."""
        account.reserved.clear()
        account.quoted = 0
        self.open.remove(account)
        self._resting[account] = account.usage(now)
        self.closed = self.closed + self._resting[account]

    def wake(self, account: Account) -> None:
        """Take a problem in again, if it was at rest."""
        if account in self._resting:
            self.closed = self.closed.less(self._resting.pop(account))
            self.open.append(account)

    def close(self, account: Account, now: float) -> Usage:
        """Close an account and return its usage."""
        self.wake(account)
        account.ended = now
        account.reserved.clear()
        usage = account.usage(now)
        if account.requests and not account.fallen:
            self._whole, self._wholes = self._whole + account.own(), self._wholes + 1
        self.open.remove(account)
        self.closed = self.closed + usage
        return usage

    def total(self, now: float) -> Usage:
        """Return the usage of the whole run by now (``seconds`` is a sum over problems)."""
        return added(self.closed, self.open, now)

    def settle(self, account: Account, samples: int) -> None:
        """Count samples that have ended; what was reserved for them is now spent."""
        self._samples += samples
        left = max(0, account.quoted - samples)
        share = left / account.quoted if left else 0.0
        account.reserved = {unit: price * share for unit, price in account.reserved.items() if left}
        account.quoted = left

    def passed(self, seconds: float, busy: Sequence[Account]) -> None:
        """Share seconds of the run out between ``busy`` accounts, or all that are open if there are none."""
        paying = busy or self.open
        for account in paying if seconds > 0 else ():
            account.share += seconds / len(paying)

    def cost(self, usage: Usage) -> dict[str, float]:
        """Return the cost of ``usage`` by every cost model."""
        return {name: model(usage) for name, model in self.costs.items()}

    def exceeded(self, account: Account, now: float, *, live: bool = False) -> str | None:
        """Return which limit of a problem is reached, if one is.

        With ``live`` only a limit counts that running requests would exceed further by going on: those
        that were paid for when they were sent (the unit requests) may end in peace.
        """
        if not self.budget.problem:
            return None
        growth = _growth([account]) if live else None
        return self._reached("problem", self.budget.problem, account.usage(now), growth)

    def run_exceeded(self, now: float, started: float, *, live: bool = False) -> str | None:
        """Return which limit of the run is reached, as ``exceeded``. A run's seconds are wall seconds."""
        if not self.budget.run:
            return None
        growth = _growth(self.open) if live else None
        return self._reached("run", self.budget.run, self._run_usage(now, started), growth)

    def passes(self, unit: str) -> bool:
        """Return whether time alone costs something in ``unit``."""
        model = self.costs[unit]
        return model(self.nothing + self._passing) != model(self.nothing)

    def room(self, now: float) -> int:
        """Return how many tokens all running requests may grow before a limit has to be looked at again.

        A power of two, so that nobody passes a limit in one leap. One where time costs something: how
        long tokens take is the engine's affair.
        """
        scopes = [
            (self.budget.problem, account.usage(now), account.live)
            for account in self.open
            if account.live and self.budget.problem
        ]
        scopes.append((self.budget.run, self.total(now), sum(account.live for account in self.open)))
        return min(self._room(limits, usage, live) for limits, usage, live in scopes)

    def _room(self, limits: Mapping[str, float], usage: Usage, live: int) -> int:
        room = _FAR
        for unit, limit in limits.items():
            model = self.costs[unit]
            if model(usage + self._passing) != model(usage):
                return 1
            while room > 1 and model(usage + Usage(output=room * live, serial=room)) >= limit:
                room //= 2
        return room

    def quote(
        self,
        account: Account,
        samples: int,
        now: float,
        started: float,
        *,
        known: Mapping[str, float] | None = None,
        funds: Funds | None = None,
    ) -> Quotation:
        """Return price and funds for ``samples`` more samples, and reserve their price.

        What other problems have reserved is not left to this one, so that many in flight cannot
        overspend together. ``known`` are prices, by unit, that somebody knows better than this run's mean,
        ``funds`` those of this moment where they were looked up before.
        """
        account.reserved.clear()
        account.quoted = 0
        usage, (total, free) = account.usage(now), funds or self.funds(account, now, started)
        known = known or {}
        missing = {*self.budget.problem, *self.budget.run} - {*known} if samples and self._samples else set()
        price: dict[str, float] = {}
        if missing:
            ended = total.less(sum((other.underway() for other in self.open), self.nothing))
            price = {
                unit: model(ended) / self._samples * samples
                for unit, model in self.costs.items()
                if unit in missing
            }
        price |= known
        left: dict[str, float] = {}
        limits: dict[str, float] = {}
        for unit, limit in self.budget.problem.items():
            left[unit], limits[unit] = limit - self.costs[unit](usage), limit
        for unit, limit in self.budget.run.items():
            if free[unit] < left.get(unit, float("inf")):
                left[unit], limits[unit] = free[unit], limit
        if all(price.get(unit, 0.0) <= amount for unit, amount in left.items()):
            account.reserved.update(price)
            account.quoted = samples
        return Quotation(price, left, limits, usage)

    def funds(self, account: Account, now: float, started: float) -> Funds:
        """Return what the run has spent, and what of its limits is left to this problem."""
        total = self._run_usage(now, started)
        return Funds(total, {unit: self._left(account, unit, total) for unit in self.budget.run})

    def low(self, account: Account, now: float, started: float) -> str | None:
        """Return how little would be left after a problem that begins, where that is less than the reserve.

        Problems under way, and this one, are taken to cost the mean of those that have had the strategy.
        """
        share = self.budget.reserve
        if share is None:
            return None
        total = self._run_usage(now, started)
        for unit, limit in self.budget.run.items():
            model = self.costs[unit]
            mean = model(self._whole) / self._wholes if self._wholes else 0.0
            others = [one for one in self.open if not (one is account or one.fallen)]
            coming = sum(max(0.0, mean - model(one.own())) for one in others)
            left = min(self._left(account, unit, total), limit - model(total) - coming) - mean
            if left < share * limit:
                return f"reserve: {max(0.0, left):.6g} of {limit:.6g} {unit} would be left"
        return None

    def _left(self, account: Account, unit: str, total: Usage) -> float:
        model = self.costs[unit]
        held = sum(
            max(0.0, other.reserved[unit] - model(other.underway()))
            for other in self.open
            if other is not account and unit in other.reserved
        )
        return self.budget.run[unit] - model(total) - held

    def _reached(
        self, scope: str, limits: Mapping[str, float], usage: Usage, growth: Usage | None
    ) -> str | None:
        for unit, limit in limits.items():
            cost = self.costs[unit](usage)
            if cost >= limit and not (growth is not None and self.costs[unit](usage + growth) <= cost):
                return f"budget: {limit:.6g} {unit} per {scope} spent"
        return None

    def _run_usage(self, now: float, started: float) -> Usage:
        total = self.total(now)
        return replace(total, seconds=now - started)


def _growth(accounts: Iterable[Account]) -> Usage:
    """Return what requests add to at every step: a token of every engine that they run on."""
    names: set[str] = set()
    own = False
    for account in accounts:
        busy = {name for name, one in account.further.items() if one.live}
        own = own or account.live > sum(account.further[name].live for name in busy)
        names |= busy
    if not names:
        return _GOING_ON
    engines = tuple(EngineTokens(name, output=1) for name in sorted(names))
    return replace(_GOING_ON, output=len(names) + own, engines=engines)
