"""Puts around an engine what makes a run faster."""

from __future__ import annotations

from ttsflow.acceleration import Acceleration
from ttsflow.engines.prefix_ordered import PrefixOrdered
from ttsflow.engines.speculative import Speculative
from ttsflow.protocols import Engine

__all__ = ["accelerated"]


def accelerated(engine: Engine, wanted: Acceleration, *, budget: bool = False) -> Engine:
    """Return the engine with what is wanted around it.

    With a ``budget`` nothing is decoded early: what is dropped would spend the funds that answers depend on.
    """
    if wanted.prefix_order:
        engine = PrefixOrdered(engine)
    speculation = wanted.speculates
    if speculation is not None and not budget:
        engine = Speculative(engine, curve=speculation.curve)
    return engine
