"""Puts around an engine what makes a run faster."""

from __future__ import annotations

from collections.abc import Callable

from ttsflow.acceleration import Acceleration
from ttsflow.engines.pooled import Pooled
from ttsflow.engines.prefix_ordered import PrefixOrdered
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import Texts
from ttsflow.engines.speculative import Speculative
from ttsflow.protocols import Engine

__all__ = ["Pool", "accelerated", "counted"]

#: An open pool of samples, and what the texts of the engine depend on.
Pool = tuple[SampleStore, Texts]


def counted(engine: Engine | None) -> dict[str, float]:
    """Return what an engine, and all that stands around it, has counted since the last reset."""
    found: dict[str, float] = {}
    while engine is not None:
        own: Callable[[], dict[str, float]] | None = getattr(engine, "counters", None)
        found = (own() if own is not None else {}) | found
        engine = getattr(engine, "inner", None)
    return found


def accelerated(
    engine: Engine, wanted: Acceleration, *, budget: bool = False, pool: Pool | None = None
) -> Engine:
    """Return the engine with what is wanted around it, and next to it a ``pool`` that is open.

    With a ``budget`` nothing is decoded early: what is dropped would spend the funds that answers depend on.
    """
    if pool is not None:
        engine = Pooled(engine, *pool)
    if wanted.prefix_order:
        engine = PrefixOrdered(engine)
    speculation = wanted.speculates
    if speculation is not None and not budget:
        keep = speculation.keep_ratio if speculation.mode == "shared" else None
        engine = Speculative(engine, curve=speculation.curve, keep=keep)
    return engine
