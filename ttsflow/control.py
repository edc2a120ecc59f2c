"""What decides how much to sample across the problems of a run: a controller, and what it is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ttsflow.ops import Offer

__all__ = ["Asking", "Controller", "ControllerPart", "Listening", "UnderWay"]


class UnderWay(NamedTuple):
    """``begun`` questions, the one that asks included, have cost ``gone`` so far, that one ``spent``."""

    begun: int = 1
    gone: float = 0.0
    spent: float = 0.0


class Asking(NamedTuple):
    """More samples of a problem, and what matters for their price.

    ``samples`` more than it has; ``first``: it has none yet. ``left`` of the run's ``limit`` are neither
    spent nor set aside for others, in the controller's unit. ``ahead`` problems have no sample yet, this one
    included where it has none. ``load`` is that of others, between 0 and 1.

    ``held`` questions have samples and wait until no other waits for its first one (``ttsflow.ops.Wait``),
    this one included when it goes on after that. ``under_way`` tells of the questions that have begun and not
    ended; they are added up when it is called.
    """

    samples: int
    first: bool
    left: float
    limit: float
    ahead: int
    load: float
    held: int = 0
    under_way: Callable[[], UnderWay] = UnderWay


@runtime_checkable
class Controller(Protocol):
    """What outlives a problem: prices that are learnt, and the rate at which money turns into samples.

    With choosers (``ttsflow.choice``) all there is in a run by which one problem's answer may depend on
    another one's.
    """

    def begin(self, problems: int, limit: float) -> None:
        """Begin a run of so many problems with funds of ``limit``, in the controller's unit."""
        ...

    def offer(self, asking: Asking) -> Offer:
        """Return price and rate of more samples, or why there are none."""
        ...

    def observe(self, samples: int, load: float, cost: float) -> None:
        """Take in what samples that were drawn together have cost, begun under ``load``."""
        ...

    def closed(self, spent: float) -> None:
        """Take in that a problem is over and what it has cost."""
        ...

    def state(self) -> Mapping[str, Any]:
        """Return what it has learnt, as plain numbers."""
        ...


@runtime_checkable
class Listening(Protocol):
    """A controller that also hears how far the samples of a problem agree (``ttsflow.ops.Tally``)."""

    def agreed(self, drawn: int, more: int, fresh: int) -> None:
        """Take in that ``more`` samples, after ``drawn``, brought ``fresh`` answers not seen before."""
        ...


@runtime_checkable
class ControllerPart(Protocol):
    """Settings of a controller. Stages with equal ones share one controller in a run."""

    @property
    def unit(self) -> str | None:
        """The unit of the budget that it spends; None: the only one that the run has."""
        ...

    def open(self, unit: str) -> Controller:
        """Return the working controller, which counts in ``unit``."""
        ...
