"""``ttsflow plan``: how a run would share the memory of its device, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from ttsflow import plugins
from ttsflow.acceleration import Acceleration
from ttsflow.build import build, field_names, fill
from ttsflow.costs.hardware import Hardware
from ttsflow.costs.plan import GIB, Plan, Share, Sharing, Side
from ttsflow.listing import wide_console
from ttsflow.memory import Memory, MemorySetting, memory_of
from ttsflow.planning import planned
from ttsflow.sharing import asked, sharing_of
from ttsflow.types import Sampling

__all__ = ["plan_of", "show_memory_plan"]


@dataclass(frozen=True, slots=True)
class _Group:
    """The key of the group ``engine`` that is read here."""

    memory: MemorySetting = None


def plan_of(mapping: Mapping[str, Any]) -> tuple[Sharing, Plan, Any, Any]:
    """Return what a composed config asks of the planner, the plan, and engine and verifier with it.

    Without a setting ``engine.memory`` as if it were auto. No model and no data is loaded. Raises
    ``ConfigError`` with the path of what is wrong, and with the numbers where no plan works.
    """
    registry = plugins.load()
    around = {"memory", *field_names(Acceleration)}
    settings = {key: value for key, value in mapping["engine"].items() if key not in around}
    group = fill(_Group, {"memory": mapping["engine"].get("memory")}, "engine", registry)
    memory = memory_of(group.memory) or Memory()
    engine = build("engine", settings, "engine", registry)
    verifier = build("verifier", mapping["verifier"], "verifier", registry) if mapping["verifier"] else None
    hardware = fill(Hardware, mapping["hardware"], "hardware", registry) if mapping.get("hardware") else None
    task = build("task", mapping["task"], "task", registry)
    wanted = asked(build("stage", mapping["strategy"], "strategy", registry))
    words: dict[str, Any] = {
        "n": wanted.n,
        "copies": wanted.copies,
        "steps": wanted.steps,
        "hardware": hardware,
        "sampling": fill(Sampling, mapping["sampling"], "sampling", registry),
        "prompt": getattr(task, "prompt_tokens", None),
        "problems": mapping["concurrency"],
    }
    engine_part, verifier_part, plan = planned(engine, verifier, memory, **words)
    return sharing_of(engine, verifier, memory, **words), plan, engine_part, verifier_part


def show_memory_plan(mapping: Mapping[str, Any]) -> None:
    """Print the plan of a composed config, and the settings that carry it out by hand; errors as above."""
    sharing, plan, _, _ = plan_of(mapping)
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
