"""How a stage asks a controller for more samples."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from ttsflow.control import ControllerPart
from ttsflow.ops import Offer, Op, Quotation, Quote
from ttsflow.protocols import Reply

__all__ = ["offered", "offers"]


def offered(controller: ControllerPart | None, samples: int) -> Generator[Op, Reply, Offer]:
    """Ask what so many more samples cost and whether they are granted; what is granted is set aside."""
    return (yield from offers(controller, (samples,)))[samples]


def offers(
    controller: ControllerPart | None, counts: Sequence[int]
) -> Generator[Op, Reply, Mapping[int, Offer]]:
    """Ask about several numbers of more samples at once; the last is set aside, if it is granted."""
    *also, samples = counts
    quotation: Quotation = yield Quote(samples, by=controller, also=tuple(also))
    if {*counts} - {*quotation.offers}:
        msg = "a controller was asked and gave no offer."
        raise RuntimeError(msg)
    return quotation.offers
