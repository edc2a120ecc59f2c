"""Why a plan is as it is, and why there is none, in sentences with the numbers."""

from __future__ import annotations

from ttsflow.costs.plan import GIB, Moved, Plan, Sharing
from ttsflow.costs.plan_costs import kv_bytes
from ttsflow.errors import ConfigError

__all__ = ["reasons", "refused"]

_MOVED = {"none": "nothing moved", "kv": "the KV caches moved", "weights": "KV caches and weights moved"}


def reasons(sharing: Sharing, plan: Plan) -> tuple[str, ...]:
    """Return what a plan rests on, what it says, and what else was looked at."""
    load = sharing.load
    told = [_memory(sharing)]
    if load.shared and sharing.generator.keep:
        own = f"of which {load.own:.0f} are its own in the generator's cache"
    else:
        own = "all of which it has for itself in the generator's cache"
    told.append(
        f"A round asks for {load.n} steps of {load.step:.0f} tokens behind {load.prompt:.0f} of a prompt and "
        f"{load.path:.0f} decoded before; a candidate has {load.size:.0f} in the end, {own}."
    )
    told.append(
        f"The generator needs {kv_bytes(sharing.generator, load).each / GIB:.4f} GiB for each, decodes "
        f"{_batches(plan.generator.batch, load.n)} in {plan.decoding:.2f} s and has room for "
        f"{plan.generator.blocks * sharing.generator.block:,} tokens."
    )
    if sharing.verifier is None or plan.verifier is None:
        return (*told, "No verifier has a model, so all of the memory is the generator's.")
    told.append(
        f"The verifier needs {kv_bytes(sharing.verifier, load).each / GIB:.4f} GiB for each, reads "
        f"{_batches(plan.verifier.batch, load.n)} in {plan.reading:.2f} s and has room for "
        f"{plan.verifier.blocks * sharing.verifier.block:,} tokens."
    )
    half = plan.compared.get("half")
    told.append(
        "Half of the KV memory each would be too little for one of them."
        if half is None
        else f"With half of the KV memory each, a round would take {half:.2f} s, not {plan.seconds:.2f}."
    )
    return (*told, *_moving(sharing, plan))


def _batches(size: int, n: int) -> str:
    waves = -(-n // size)
    return f"all {n} at once" if waves == 1 else f"{waves} batches of up to {size}"


def _memory(sharing: Sharing) -> str:
    ours, theirs = (size / GIB for size in sharing.weights)
    weights = (
        f"weights take {ours:.1f} of them" if not theirs else f"weights take {ours:.1f} and {theirs:.1f}"
    )
    left = sharing.memory / GIB - ours - theirs
    rest = f"{left:.2f} are left for KV caches" if left > 0 else "nothing is left for KV caches"
    return f"Of {sharing.memory / GIB:.1f} GiB for both models {weights}, {rest}."


def _moving(sharing: Sharing, plan: Plan) -> list[str]:
    """Say what moving things to the host would change."""
    if not sharing.offload:
        return ["Nothing is moved to the host: two models on this platform stay where they are."]
    told = []
    for moved in sharing.offload:
        seconds = plan.compared.get(moved)
        if moved in ("none", plan.offload):
            continue
        told.append(
            f"With {_MOVED[moved]} in turns neither would have room for one candidate."
            if seconds is None
            else f"With {_MOVED[moved]} at every change of turns a round would take {seconds:.2f} s."
        )
    if plan.offload != "none":
        alone = plan.compared.get("none")
        why = (
            "both at once do not fit"
            if alone is None
            else f"both at once, with less room, would take {alone:.2f} s"
        )
        told.append(
            f"At every change of turns, {_MOVED[plan.offload]} to the host and back: {plan.moving:.2f} s of "
            f"a round, and {why}."
        )
    return told


def refused(sharing: Sharing) -> ConfigError:
    """Return what to raise when no split works, with the numbers and what to do."""
    ours = kv_bytes(sharing.generator, sharing.load).of(1) / GIB
    generator, verifier = (size / GIB for size in sharing.weights)
    needs = f"the generator has {generator:.2f} GiB of weights and needs {ours:.2f} of KV"
    if sharing.verifier is not None:
        theirs = kv_bytes(sharing.verifier, sharing.load).of(1) / GIB
        needs += f", the verifier {verifier:.2f} and {theirs:.2f}"
        longest = f"{sharing.generator.longest} and {sharing.verifier.longest} tokens"
    else:
        longest = f"{sharing.generator.longest} tokens"
    tried = _tried(sharing.offload) if sharing.verifier is not None else ""
    return ConfigError(
        f"{sharing.memory / GIB:.2f} GiB of the device are too little: {needs} for one sequence of up to "
        f"{longest}{tried}. Take smaller models, fewer weight_bits, a shorter context, a larger memory.share "
        "or another device.",
        "memory",
    )


def _tried(offload: tuple[Moved, ...]) -> str:
    return ", even in turns" if any(moved != "none" for moved in offload) else ""
