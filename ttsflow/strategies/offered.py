"""How a stage asks a controller for more samples."""

from __future__ import annotations

from collections.abc import Generator

from ttsflow.control import ControllerPart
from ttsflow.ops import Offer, Op, Quotation, Quote
from ttsflow.protocols import Reply

__all__ = ["offered"]


def offered(controller: ControllerPart | None, samples: int) -> Generator[Op, Reply, Offer]:
    """Ask what so many more samples cost and whether they are granted; what is granted is set aside."""
    quotation: Quotation = yield Quote(samples, by=controller)
    if quotation.offer is None:
        msg = "a controller was asked and gave no offer."
        raise RuntimeError(msg)
    return quotation.offer
