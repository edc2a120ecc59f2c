"""What the memory planner is asked: engine and verifier of a run as two models, and the tokens expected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ttsflow import plugins
from ttsflow.build import walk
from ttsflow.costs.hardware import Hardware
from ttsflow.costs.models import shape_of
from ttsflow.costs.plan import GIB, Load, Moved, Sharing, Side
from ttsflow.engines.law import Law
from ttsflow.engines.sim import Sim
from ttsflow.engines.vllm import VLLM
from ttsflow.engines.vllm_side import vllm_side
from ttsflow.errors import ConfigError
from ttsflow.memory import Memory
from ttsflow.types import Sampling
from ttsflow.verifiers.simulated import Simulated

__all__ = ["Asked", "asked", "second_model", "sharing_of"]

#: Tokens of a prompt when nobody says how many.
_PROMPT = 256
#: GiB kept free for everything else beside a model on vLLM.
_RESERVE = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """What a strategy asks for at once: ``n`` trajectories of a problem, ``copies`` of each survivor.

    ``steps``: whether it extends trajectories step by step, or draws whole ones.
    """

    n: int = 1
    copies: int = 1
    steps: bool = False


def asked(strategy: Any) -> Asked:
    """Return what a strategy asks for, as far as its parts say."""
    parts = [part for _, part in walk(strategy)]
    counts = [getattr(part, "demand", None) or getattr(part, "into", None) for part in parts]
    return Asked(
        max([count for count in counts if isinstance(count, int)], default=1),
        max((getattr(part, "copies", 1) for part in parts), default=1),
        any(getattr(part, "unit", None) == "step" for part in parts),
    )


def sharing_of(
    engine: Any,
    verifier: Any,
    memory: Memory,
    *,
    n: int | None,
    hardware: Hardware | None = None,
    sampling: Sampling | None = None,
    prompt: int | None = None,
    copies: int = 1,
    steps: bool = True,
    problems: int = 1,
) -> Sharing:
    """Return what the planner is asked; a ``Replanner`` starts from it.

    ``n`` candidates of each of ``problems`` are at work at once (None: as many as the engine has seats), with
    ``copies`` of each survivor; ``steps``: whether they grow step by step. ``prompt`` are the tokens of a
    typical prompt. ``hardware`` is that of an engine that has none of its own. Raises ``ConfigError``.
    """
    sampling = sampling or Sampling()
    load = _load(engine, memory, sampling, n=n, prompt=prompt, copies=copies, steps=steps, problems=problems)
    # Prompts differ; one that is no more than twice as long as the typical one must still fit.
    longest = 2 * int(load.prompt) + sampling.max_tokens
    if isinstance(engine, Sim):
        device = engine.hardware.measured()
        generator = _sim_side(engine, device, min(longest, engine.context or engine.shape.context))
        # It is given nothing that is longer than what the generator can write.
        second = _sim_second(engine, verifier, device, generator.longest)
        moves: tuple[Moved, ...] = () if getattr(verifier, "together", False) else ("kv", "weights")
        reserves = [engine.reserve_gib] + ([verifier.reserve_gib] if second is not None else [])
    elif isinstance(engine, VLLM):
        if hardware is None:
            raise ConfigError(
                "a plan needs to know the machine: choose one with hardware=NAME (see `ttsflow list "
                "hardware`), or measure this one with hardware=cpu.",
                "engine.memory",
            )
        device, moves = hardware.measured(), ()
        generator = vllm_side(engine, device, "engine")
        other = second_model(engine, verifier)
        second = None if other is None else vllm_side(other, device, "verifier.engine", verifier)
        reserves = [_RESERVE] * (1 if second is None else 2)
    else:
        raise ConfigError(
            f"`{_called(engine)}` has no KV cache that could be planned; engine=sim and engine=vllm have "
            "one. Leave engine.memory null.",
            "engine.memory",
        )
    size = (device.memory_gib * memory.share - sum(reserves)) * GIB
    return Sharing(generator, second, size, load, memory.method, moves if memory.offload == "auto" else ())


def _load(
    engine: Any,
    memory: Memory,
    sampling: Sampling,
    *,
    n: int | None,
    prompt: int | None,
    copies: int,
    steps: bool,
    problems: int,
) -> Load:
    """Return what a round is expected to ask for."""
    law = getattr(engine, "paths", None)
    if n is None:
        n, problems = engine.seats if isinstance(engine, Sim | VLLM) else 1, 1
    if isinstance(law, Law):
        step, count = law.mean_step, law.mean_steps
        whole = min(float(sampling.max_tokens), step * count)
        tail = law.longest_of(n * problems)
    else:
        # Nobody knows, so half of what is allowed; one of many comes near all of it.
        step, whole, tail = sampling.max_step_tokens / 2, sampling.max_tokens / 2, sampling.max_step_tokens
    # In the middle of a search half of a path is there, less half of the step that comes.
    path = max(0.0, (whole - step) / 2) if steps else 0.0
    if not steps:
        step, tail = whole, float(sampling.max_tokens)
    else:
        step = min(step, whole)
    if memory.step is not None:
        step, tail = memory.step, tail * memory.step / step
    given = prompt if memory.prompt is None else memory.prompt
    return Load(
        n=n * problems,
        prompt=_PROMPT if given is None else given,
        path=path if memory.path is None else memory.path,
        step=max(1.0, step),
        tail=tail,
        copies=copies,
        problems=problems,
        shared=memory.shared,
    )


def second_model(engine: Any, verifier: Any) -> Any:
    """Return the part that holds a second model beside the engine's, None when there is none."""
    if isinstance(engine, Sim):
        return verifier if isinstance(verifier, Simulated) and verifier.model is not None else None
    other = getattr(verifier, "engine", None)
    # A judge with the settings of the run's engine asks that one.
    return other if isinstance(other, VLLM) and engine not in verifier.engines else None


def _called(engine: Any) -> str:
    entry = plugins.load().entry_of(type(engine))
    return entry.name if entry else type(engine).__name__


def _sim_side(part: Any, device: Hardware, longest: int) -> Side:
    roofline = replace(part.roofline(), hardware=device)
    return Side(roofline, longest, part.block_size, part.batch_tokens, part.prefix_cache, part.seats)


def _sim_second(engine: Sim, verifier: Any, device: Hardware, longest: int) -> Side | None:
    if second_model(engine, verifier) is None:
        return None
    roofline = replace(
        engine.roofline(),
        hardware=device,
        model=shape_of(verifier.model),
        weight_bits=verifier.weight_bits,
        kv_bits=verifier.kv_bits,
    )
    return Side(
        roofline,
        longest,
        verifier.block_size,
        verifier.batch_tokens,
        verifier.prefix_cache,
        verifier.seats,
    )
