"""The driver's side of controllers: they are asked, and told what came of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from ttsflow.control import Asking, Controller, ControllerPart, Listening, UnderWay
from ttsflow.driver.flight import Case
from ttsflow.driver.pacing import Begun
from ttsflow.driver.queries import FIRST, Queries
from ttsflow.errors import PluginError, TtsflowError
from ttsflow.ledger import Ledger
from ttsflow.ops import Offer, Quotation, Quote, Tally

__all__ = ["Controlling"]


class _Open(NamedTuple):
    """What a problem was last quoted: by whom, and when."""

    by: ControllerPart
    begun: Begun


class Controlling:
    """The controllers of a run, by their parts.

    ``settle`` brings the books up to date before they are read, ``load`` gives that of others for a
    problem that asks. Samples that a budget ended midway tell nothing of a price, and are left out. The
    others are told in the order in which they began: those that end first are short. Until the first queries
    are known a controller has nothing to go by, or what was known of other questions; till then it is asked
    for single first samples, and for larger first queries of as many questions as have to be known. Seconds
    are counted as the run pays for them: problems side by side share each of them.
    """

    def __init__(
        self,
        ledger: Ledger,
        parts: Mapping[ControllerPart, str],
        *,
        settle: Callable[[], None],
        load: Callable[[int], float],
    ) -> None:
        self._ledger = ledger
        self._units = parts
        self._settle = settle
        self._load = load
        self._controllers: dict[ControllerPart, Controller] = {
            part: part.open(unit) for part, unit in parts.items()
        }
        self._open: dict[Case, _Open] = {}
        #: All that were asked in a problem; each hears of its end.
        self._asked: dict[Case, dict[ControllerPart, None]] = {}
        self._queries: dict[ControllerPart, Queries[Case, tuple[int, float, float]]] = {
            part: Queries() for part in parts
        }
        #: Problems that wait until more is known of prices.
        self._waiting: set[Case] = set()
        #: Those that wait until all others have had a sample, and those that have waited.
        self._held: set[Case] = set()
        self._waited: set[Case] = set()
        self._ahead = 0

    def begin(self, problems: int) -> None:
        """Begin a run of so many problems."""
        self._ahead = problems
        for part, controller in self._controllers.items():
            controller.begin(problems, self._ledger.budget.run[self._units[part]])

    def quote(self, case: Case, op: Quote, now: float, started: float) -> Quotation | None:
        """Return price and funds of more samples as the controller of ``op`` sees them, and reserve them.

        None where the problem has to wait until more is known of prices; it asks again then.
        """
        part, account = op.by, case.account
        assert part is not None
        if case not in self._waiting or self._runs_elsewhere(case, part):
            self._settle()
            self.observe(case)
            self._drop(case, keep=part)
        counts = *op.also, op.samples
        if self._waits(case, part, counts[0]):
            self._waiting.add(case)
            return None
        if case in self._waiting:
            self._waiting.remove(case)
            self._settle()
        unit, load = self._units[part], self._load(case.index)
        funds, limit = self._ledger.funds(account, now, started), self._ledger.budget.run[unit]
        first = not account.requests
        if case not in self._open:
            # Granted or not, it is no longer one of those that wait for their first sample.
            self._ahead -= 1
        self._asked.setdefault(case, {})[part] = None
        asking = Asking(
            op.samples,
            first,
            funds.left[unit],
            limit,
            self._ahead + first,
            load,
            len(self._held) + (case in self._waited),
            lambda: self._under_way(case, unit),
        )
        offers = {
            samples: self._offer(case, part, asking._replace(samples=samples), now) for samples in counts
        }
        offer = offers[op.samples]
        # What is refused is not set aside.
        expected = offer.expected if offer.refused is None else None
        known = {} if expected is None else {unit: expected}
        samples = op.samples if offer.refused is None else 0
        quotation = self._ledger.quote(account, samples, now, started, known=known, funds=funds)
        if any(each.refused is None for each in offers.values()):
            self._queries[part].begin(case)
        if case not in self._open or not case.live:
            # What runs of other branches is observed with what comes of this.
            self._open[case] = _Open(part, Begun(load, account.own()))
        return replace(quotation, offers=offers)

    def _offer(self, case: Case, part: ControllerPart, asking: Asking, now: float) -> Offer:
        """Return the controller's word, less what the problem itself does not allow."""
        offer = _checked(part, self._controllers[part].offer(asking))
        if not asking.first and offer.refused is None:
            offer = self._own(case, self._units[part], asking.samples, offer, now)
        if offer.later and not self._may_wait(case):
            offer = offer._replace(later=False)
        return offer

    def _under_way(self, case: Case, unit: str) -> UnderWay:
        """Return what the problems that have asked, and this one, have spent."""
        model = self._ledger.costs[unit]
        spent = {one: model(one.account.own()) for one in {**self._open, case: None}}
        return UnderWay(len(spent), sum(spent.values()), spent[case])

    def _may_wait(self, case: Case) -> bool:
        """Return whether a problem may wait for the others: once, with no clock that runs meanwhile."""
        return case not in self._waited and "seconds" not in self._ledger.budget.problem

    @property
    def settled(self) -> bool:
        """Whether no problem waits for its first sample any more."""
        return self._ahead <= 0

    def hold(self, case: Case) -> None:
        """Take in that a problem waits for the others."""
        self.observe(case)
        self._drop(case)
        self._held.add(case)

    def wake(self, case: Case) -> None:
        """Take in that a problem goes on; it does not wait a second time."""
        self._held.discard(case)
        self._waited.add(case)

    def agreed(self, op: Tally) -> None:
        """Tell a controller how far samples of a problem agree, if it wants to hear."""
        controller = self._controllers[op.by]
        if isinstance(controller, Listening):
            controller.agreed(op.drawn, op.more, op.fresh)

    @property
    def ended(self) -> int:
        """Queries that nobody waits for any more."""
        return sum(queries.ended for queries in self._queries.values())

    def _waits(self, case: Case, part: ControllerPart, samples: int) -> bool:
        """Return whether others that run have to end before this one is answered."""
        queries = self._queries[part]
        if queries.known >= FIRST or queries.runs(case):
            return False
        # Whoever begins before any has ended belongs to the first ones.
        begins = not case.account.requests and not queries.ended and (samples == 1 or queries.running < FIRST)
        return queries.running > 0 and not begins

    def _own(self, case: Case, unit: str, samples: int, offer: Offer, now: float) -> Offer:
        """Refuse what the problem's own budget would end midway, where it has one."""
        limit, price = self._ledger.budget.problem.get(unit), offer.expected
        if limit is None or price is None:
            return offer
        left = max(0.0, limit - self._ledger.costs[unit](case.account.usage(now)))
        if price <= left:
            return offer
        told = f"{samples} more would cost up to {price:.4g} {unit}, and {left:.4g} are left to the problem"
        return offer._replace(refused=told)

    def observe(self, case: Case) -> None:
        """Tell the controller what the samples since the last quotation have cost, once all have ended."""
        quoted = self._open.get(case)
        if quoted is None:
            return
        usage, begun = case.account.own(), quoted.begun
        samples = begun.drawn(case, usage)
        if samples:
            model = self._ledger.costs[self._units[quoted.by]]
            self._tell(case, quoted.by, (samples, begun.load, model(usage) - model(begun.before)))
            self._open[case] = quoted._replace(begun=begun._replace(before=usage))

    def _tell(self, case: Case, part: ControllerPart, told: tuple[int, float, float] | None) -> None:
        for query in self._queries[part].end(case, told):
            _told(part, self._controllers[part].observe, *query)

    def _runs_elsewhere(self, case: Case, part: ControllerPart) -> bool:
        """Return whether controllers beside this one still wait for what a problem costs."""
        return any(other != part and self._queries[other].runs(case) for other in self._asked.get(case, ()))

    def _drop(self, case: Case, keep: ControllerPart | None = None) -> None:
        """Let nobody but ``keep`` wait for samples that were granted to a problem and not drawn."""
        if not case.live:
            for part in self._asked.get(case, ()):
                if part != keep:
                    self._tell(case, part, None)

    def closed(self, case: Case) -> None:
        """Take in that a problem is over."""
        quoted = self._open.get(case)
        if quoted is None:
            self._ahead -= 1
            return
        self.observe(case)
        for part in self._asked[case]:
            self._tell(case, part, None)
        for cases in (self._waiting, self._held, self._waited):
            cases.discard(case)
        del self._open[case]
        for part in self._asked.pop(case):
            model = self._ledger.costs[self._units[part]]
            _told(part, self._controllers[part].closed, model(case.account.own()))

    def expect(self, problems: int) -> None:
        """Take in that so many problems, which had been deferred, are asked once more."""
        self._ahead += problems

    def asks_again(self, case: Case) -> bool:
        """Return whether a problem that was deferred is to be asked once more."""
        quoted = self._open.get(case)
        again: bool = quoted is not None and getattr(quoted.by, "retry", False)
        return again

    def state(self) -> list[Mapping[str, Any]]:
        """Return what the controllers have learnt, in the order of their stages."""
        return [controller.state() for controller in self._controllers.values()]


def _checked(part: ControllerPart, offer: Offer) -> Offer:
    """Return an offer, if it can be one. Raises ``ValueError``, which fails the problem that asked."""
    for name in ("price", "margin", "rate"):
        value = getattr(offer, name)
        if not (value is None and name == "price") and not 0 <= value < math.inf:
            raise ValueError(
                f"the controller {type(part).__name__} offered {name} {value}: finite, from 0 up."
            )
    if offer.alpha is not None and not 0 < offer.alpha < math.inf:
        raise ValueError(
            f"the controller {type(part).__name__} offered alpha {offer.alpha}: finite, above 0."
        )
    return offer


def _told(part: ControllerPart, hears: Callable[..., None], *words: float) -> None:
    """Tell a controller something. Raises ``PluginError`` where it fails: all that follows would be wrong."""
    try:
        hears(*words)
    except TtsflowError:
        raise
    except Exception as error:
        raise PluginError(
            f"the controller {type(part).__name__} failed in {hears.__name__}{words}: {error!r}."
        ) from error
