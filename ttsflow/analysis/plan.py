"""``ttsflow plan``: how a run would share the memory of its device, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from ttsflow.composing.assemble import assemble
from ttsflow.costs.plan import GIB, Plan, Share, Side
from ttsflow.listing import wide_console
from ttsflow.setup import Setup

__all__ = ["plan_of", "show_memory_plan"]


def plan_of(mapping: Mapping[str, Any]) -> Setup:
    """Return the run of a composed config with a plan of its memory; without ``engine.memory`` as if auto.

    No model and no data is loaded. Raises ``ConfigError`` with the path of what is wrong, and with the
    numbers where no plan works.
    """
    wanted = mapping["engine"].get("memory") or "auto"
    return assemble({**mapping, "engine": {**mapping["engine"], "memory": wanted}}, checked=False)


def show_memory_plan(mapping: Mapping[str, Any]) -> None:
    """Print the plan of a composed config, and the settings that carry it out by hand; errors as above."""
    setup = plan_of(mapping)
    sharing, plan = setup.sharing, setup.plan
    if sharing is None or plan is None:
        return
    names = [_name(mapping["engine"]), _name(mapping["verifier"] or {})]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "model", "weights", "KV cache", "tokens", "seats", "batch", "seconds of a round"):
        table.add_column(column, justify="left" if column in ("", "model") else "right", overflow="fold")
    weights = sharing.weights
    table.add_row(
        "generator", Text(names[0]), *_cells(weights[0], plan.generator, sharing.generator, plan.decoding)
    )
    if sharing.verifier is not None and plan.verifier is not None:
        table.add_row(
            "verifier", Text(names[1]), *_cells(weights[1], plan.verifier, sharing.verifier, plan.reading)
        )
    if plan.offload != "none":
        what = "KV caches" if plan.offload == "kv" else "KV caches, weights"
        table.add_row("moved", what, "", "", "", "", "", f"{plan.moving:.2f}")
    console = wide_console()
    console.print(table)
    console.print()
    for reason in plan.reasons:
        console.print(Text(f"- {reason}"))
    console.print(Text(f"\nBy hand: {' '.join(_settings(mapping, plan))}"))


def _cells(weights: float, share: Share, side: Side, seconds: float) -> list[str]:
    return [
        f"{weights / GIB:.2f} GiB",
        f"{share.kv_gib:.2f} GiB",
        f"{share.blocks * side.block:,}",
        str(share.seats),
        str(share.batch),
        f"{seconds:.2f}",
    ]


def _name(part: Mapping[str, Any]) -> str:
    own = part.get("engine")
    settings = own if isinstance(own, Mapping) else part
    return str(settings.get("model") or part.get("use") or "")


def _settings(mapping: Mapping[str, Any], plan: Plan) -> list[str]:
    """Return the settings that a plan stands for, as words of a command line."""
    words = [f"engine.kv_gib={plan.generator.kv_gib:.4f}", f"engine.seats={plan.generator.seats}"]
    if plan.verifier is not None:
        place = "verifier" if (mapping["verifier"] or {}).get("use") == "simulated" else "verifier.engine"
        words += [f"{place}.kv_gib={plan.verifier.kv_gib:.4f}", f"{place}.seats={plan.verifier.seats}"]
    if plan.offload != "none":
        words.append(f"verifier.offload={plan.offload}")
    return words
