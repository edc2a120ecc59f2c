"""From the setting ``engine.memory`` to parts: an engine and a verifier with the KV caches of a plan.

Pure but for one thing: a machine that is to be measured is measured. No model is loaded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ttsflow.costs.hardware import Hardware
from ttsflow.costs.plan import Plan, Sharing
from ttsflow.costs.planner import plan
from ttsflow.engines.vllm import VLLM
from ttsflow.engines.vllm_side import vllm_cpu
from ttsflow.errors import ConfigError
from ttsflow.verifiers.simulated import Simulated

__all__ = ["planned"]


def planned(
    engine: Any, verifier: Any, sharing: Sharing, hardware: Hardware | None = None
) -> tuple[Any, Any, Plan]:
    """Return engine and verifier with the KV caches and seats of a plan, and the plan.

    ``sharing`` is what ``sharing_of`` says of them, ``hardware`` that of an engine that has none of its own.
    Raises ``ConfigError`` with the numbers where no plan can work.
    """
    try:
        found = plan(sharing)
    except ConfigError as error:
        raise error.below("engine") from error
    return (*_applied(engine, verifier, found), _told(found, engine, hardware))


def _applied(engine: Any, verifier: Any, found: Plan) -> tuple[Any, Any]:
    """Return the parts with what a plan gives them."""
    ours, theirs = found.generator, found.verifier
    generator = replace(engine, kv_gib=ours.kv_gib, seats=ours.seats)
    if theirs is None:
        return generator, verifier
    if isinstance(verifier, Simulated):
        return generator, replace(verifier, kv_gib=theirs.kv_gib, seats=theirs.seats, offload=found.offload)
    other = replace(verifier.engine, kv_gib=theirs.kv_gib, seats=theirs.seats)
    return generator, replace(verifier, engine=other)


def _told(found: Plan, engine: Any, hardware: Hardware | None) -> Plan:
    """Add to the reasons of a plan what the platform has to do with it."""
    if not isinstance(engine, VLLM) or found.verifier is None:
        return found
    if vllm_cpu(hardware):
        why = "vLLM on CPUs can neither put a model to sleep nor move its KV cache, so both stay in memory."
    else:
        why = (
            "vLLM on CUDA can move things by its own means (sleep mode, args.kv_offloading_size); ttsflow "
            "does not drive them, and nothing of it was tested here, so both stay on the device."
        )
    kept = [reason for reason in found.reasons if not reason.startswith("Nothing is moved")]
    return replace(found, reasons=(*kept, why))
