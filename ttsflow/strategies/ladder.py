"""The stage that draws one rung of samples after the other, as long as more are worth their price."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ttsflow.control import ControllerPart
from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note, Offer, Op, Quotation, Quote, Request, Tally, Wait
from ttsflow.protocols import Reply
from ttsflow.strategies.aggregate import voters
from ttsflow.strategies.climbing import LARGEST, plan
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.generate import MOST
from ttsflow.strategies.offered import offered, offers
from ttsflow.strategies.rungs import check_rungs, rungs_to
from ttsflow.strategies.worth import rates, stability
from ttsflow.types import State

__all__ = ["Ladder"]

_Word = Generator[Op, Reply, int | str]

#: The concentration of the urn while nobody has learnt of one.
_UNKNOWN = 1.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """Climbs the rungs of a vote (ATEST): each time it draws up to the next of ``rungs``, ``n`` at last.

    It stops when today's leader wins the vote of all ``n`` samples with at least the chance ``settled``, or
    when what more samples add to that chance, the stability, is not worth their cost. By ``gain`` that is
    what the next rung adds (one_rung), or the best rate of all higher ones (best_rate): where one rung alone
    can never change the leader, as at votes 2 to 1, the former stops. ``planned`` weighs every way to go on
    against the price of a query and of each sample in it, and may leave rungs out.

    Without ``controller`` a sample costs 1 and has to add ``worth`` in stability. With one, cost and rate are
    its own, and it may refuse samples; where it refuses the first, the problem is deferred. ``min_samples``
    are drawn whatever they are worth, if they are granted. ``alpha`` and ``options`` are those of the urn
    that foresees further votes (``ttsflow.strategies.worth``): ``options`` is how many answers there can be,
    None for any number. A sample without an answer counts there as one that nobody shares; the urn has as
    many answers as were seen where that is more than ``options``. ``alpha`` None is what the controller has
    learnt of it when a problem begins, and 1 where it learns nothing.

    ``latency`` is a target in seconds from the problem's start: a rung above the first one is climbed only if
    its samples are expected to end by then, at the pace that samples of the run have, with a margin.
    """

    n: int = 8
    rungs: tuple[int, ...] = (1, 3, 4, 6, 8)
    gain: Literal["best_rate", "one_rung", "planned"] = "best_rate"
    worth: float = 0.02
    settled: float = 0.99
    min_samples: int = 1
    alpha: float | None = 1.0
    options: int | None = None
    controller: ControllerPart | None = None
    latency: float | None = None

    def __post_init__(self) -> None:
        check_rungs(self.rungs)
        if not 1 <= self.n <= MOST:
            raise ConfigError(f"between 1 and {MOST:,} samples are drawn, got {self.n:,}.", "n")
        if self.gain == "planned" and self.n > LARGEST:
            raise ConfigError(
                f"plans are made for up to {LARGEST} samples, got {self.n}; "
                "`gain: best_rate` has no such limit.",
                "n",
            )
        if not 0 <= self.worth < 1:
            raise ConfigError(f"stability lies between 0 and 1, got {self.worth}.", "worth")
        if self.controller is not None and self.worth != Ladder.__dataclass_fields__["worth"].default:
            raise ConfigError("a controller sets the rate itself; set it there, or leave it out.", "worth")
        if not 0 < self.settled <= 1:
            raise ConfigError(f"a chance above 0 and up to 1, got {self.settled}.", "settled")
        if not 1 <= self.min_samples <= self.n:
            raise ConfigError(f"between 1 and n={self.n}, got {self.min_samples}.", "min_samples")
        self._check_limits()

    def _check_limits(self) -> None:
        if self.alpha is None and self.controller is None:
            raise ConfigError("a controller learns it, and this stage has none; give a number.", "alpha")
        if self.alpha is not None and not 0 < self.alpha < math.inf:
            raise ConfigError(f"must be above 0 and finite, got {self.alpha}.", "alpha")
        if self.latency is not None and not 0 < self.latency < math.inf:
            raise ConfigError(f"a target is a number of seconds above 0, got {self.latency}.", "latency")
        if self.options is not None and self.options < 2:
            raise ConfigError(f"a vote is between at least 2 answers, got {self.options}.", "options")

    @property
    def demand(self) -> int:
        """New trajectories of a problem that this stage alone may start."""
        return self.n

    def __call__(self, state: State) -> Steps:
        """Draw samples as long as they are worth it."""
        if self.alpha is not None:
            return (yield from self._climb(state, self.alpha))
        # One number for all decisions on a problem, whatever is learnt meanwhile.
        alpha = (yield from offered(self.controller, 1)).alpha or _UNKNOWN
        yield Note("ladder", {"alpha": alpha})
        return (yield from self._climb(state, alpha))

    def _climb(self, state: State, alpha: float) -> Steps:
        while state.stopped is None:
            drawn = len({candidate.path for candidate in state.pool})
            higher = [rung for rung in rungs_to(self.rungs, self.n) if rung > drawn]
            if not higher:
                return state
            votes = self._votes(state, drawn)
            chosen: int | str = self._settled(votes, drawn, alpha) or (
                yield from self._timely(votes, drawn, higher, alpha)
            )
            if isinstance(chosen, str):
                if self.controller is not None:
                    # Nothing stays set aside for samples that are not drawn.
                    yield Quote()
                yield Note("ladder", {"reason": chosen, "samples": drawn})
                return state.with_(ended=chosen) if drawn else state.with_(stopped=chosen)
            got: Generated = yield Generate((Request(),) * (chosen - drawn))
            pool = state.pool + got.candidates
            state = state.with_(pool=pool, spent=got.spent, stopped=got.stopped or state.stopped)
            if self.controller is not None and got.stopped is None:
                fresh = len(self._votes(state, chosen)) - len(votes)
                yield Tally(self.controller, drawn, chosen - drawn, fresh)
        return state

    def _options(self, votes: Sequence[int]) -> int | None:
        return None if self.options is None else max(self.options, len(votes))

    def _votes(self, state: State, drawn: int) -> tuple[int, ...]:
        """Return the votes of each answer; a sample without one stands alone, as an answer nobody shares."""
        votes = Counter(candidate.answer.key for candidate in voters(state.pool) if candidate.answer)
        return (*votes.values(), *(1,) * (drawn - votes.total()))

    def _settled(self, votes: Sequence[int], drawn: int, alpha: float) -> str | None:
        """Return that the vote is settled, if it is."""
        if drawn < self.min_samples:
            return None
        chance = stability(votes, self.n, alpha, self._options(votes))
        if chance < self.settled:
            return None
        return f"settled: the leader wins the vote of {self.n} with a chance of {chance:.3f}"

    def _timely(self, votes: Sequence[int], drawn: int, higher: Sequence[int], alpha: float) -> _Word:
        """Return to which rung to draw of those that can be reached in time, or why to none."""
        if self.latency is None:
            return (yield from self._next(votes, drawn, higher, alpha))
        # Without any sample there would be no answer, late or not.
        reached = [] if drawn else [higher[0]]
        late = ""
        for rung in higher[len(reached) :]:
            timed: Quotation = yield Quote(timed=rung - drawn)
            left = self.latency - timed.spent.seconds
            if timed.takes is not None and timed.takes <= left:
                reached.append(rung)
            elif not late:
                told = "an unknown time" if timed.takes is None else f"up to {timed.takes:.4g} s"
                late = (
                    f"latency: {rung - drawn} more would take {told}, and {max(0.0, left):.4g} of "
                    f"{self.latency:.4g} s are left"
                )
        return (yield from self._next(votes, drawn, reached, alpha)) if reached else late

    def _next(self, votes: Sequence[int], drawn: int, higher: Sequence[int], alpha: float) -> _Word:
        """Return to which rung to draw, or why to none; what that costs is set aside."""
        if self.controller is None:
            costs = {rung: float(rung - drawn) for rung in higher}
            return self._at_most(self._worthy(votes, costs, drawn, self.worth, alpha), higher)
        offers = yield from self._offers(drawn, higher)
        first = offers[higher[0]]
        # Whoever has a target in time does not wait.
        while first.later and self.latency is None:
            yield Quote()
            yield Note("ladder", {"waits": first.refused, "samples": drawn})
            yield Wait(self.controller)
            offers = yield from self._offers(drawn, higher)
            first = offers[higher[0]]
        if first.refused is not None:
            return first.refused
        # A rung that is refused is worth nothing; a plan needs its price all the same.
        counted = [r for r, offer in offers.items() if offer.refused is None or self.gain == "planned"]
        costs = {rung: price for rung in counted if (price := offers[rung].expected)}
        chosen = self._worthy(votes, costs, drawn, first.rate, alpha) if costs else higher[0]
        if isinstance(chosen, str):
            return chosen
        # The highest up to there that is granted. What is asked for last is set aside.
        granted = max(rung for rung, offer in offers.items() if rung <= chosen and offer.refused is None)
        if granted != [*offers][-1]:
            yield from offered(self.controller, granted - drawn)
        return granted

    def _offers(self, drawn: int, higher: Sequence[int]) -> Generator[Op, Reply, dict[int, Offer]]:
        """Return the controller's word on each rung that is weighed."""
        asked = higher if self.gain != "one_rung" else higher[:1]
        found = yield from offers(self.controller, [rung - drawn for rung in asked])
        return {rung: found[rung - drawn] for rung in asked}

    @staticmethod
    def _at_most(chosen: int | str, allowed: Sequence[int]) -> int | str:
        """Return the highest rung that is allowed up to the one that was chosen."""
        return chosen if isinstance(chosen, str) else max(rung for rung in allowed if rung <= chosen)

    def _worthy(
        self, votes: Sequence[int], costs: Mapping[int, float], drawn: int, rate: float, alpha: float
    ) -> int | str:
        """Return to which rung it is worth to draw at these costs, or that it is not."""
        needed = drawn < self.min_samples
        if self.gain == "planned":
            low, high = min(costs), max(costs)
            each = (costs[high] - costs[low]) / (high - low) if high > low else costs[low] / (low - drawn)
            fixed = max(0.0, costs[low] - each * (low - drawn))
            rung, _ = plan(
                votes,
                rungs_to(self.rungs, self.n),
                fixed=fixed * rate,
                each=each * rate,
                alpha=alpha,
                options=self._options(votes),
            )
            if rung is not None or needed:
                return max(rung or 0, low)
            return (
                f"not worth it: no number of samples adds more stability than {rate:.3g} for a unit of cost"
            )
        options = self._options(votes)
        found = rates(votes, costs, self.n, cost=costs, alpha=alpha, options=options)
        gained = found[min(found)] if self.gain == "one_rung" else max(found.values())
        if needed or gained >= rate:
            return min(costs)
        return f"not worth it: {gained:.3g} stability for a unit of cost, where {rate:.3g} is asked"
