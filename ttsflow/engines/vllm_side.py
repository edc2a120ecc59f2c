"""What the memory planner has to know of a model on vLLM, read from its checkpoint without importing vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ttsflow.costs.hardware import Hardware
from ttsflow.costs.models import shape_of
from ttsflow.costs.plan import Side
from ttsflow.costs.roofline import Roofline
from ttsflow.engines.demo_model import DEMO_CONTEXT, DEMO_NAMES
from ttsflow.engines.vllm import VLLM
from ttsflow.engines.vllm_check import installed, local_folder
from ttsflow.errors import ConfigError, MissingExtra

__all__ = ["vllm_cpu", "vllm_side"]

#: The demo model by the name of its description.
_DEMO = "smollm2-135m"
#: Its context on vLLM when none is asked for.
_DEMO_USED = 2048

_BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "half": 16, "bfloat": 16, "float": 32}


def vllm_cpu(hardware: Hardware | None) -> bool:
    """Return whether vLLM runs on the CPUs; where it is not installed, whether the machine is this one."""
    try:
        return installed()[1]
    except MissingExtra:
        return hardware is not None and hardware.probe


def vllm_side(part: VLLM, hardware: Hardware, path: str, verifier: Any = None) -> Side:
    """Return a model on vLLM as the planner sees it; ``path`` is where it stands in the config.

    vLLM wants room for one sequence of the whole context, so the context is what must fit. Raises
    ``ConfigError`` where the sizes of the model cannot be read.
    """
    cpu = vllm_cpu(hardware)
    config = _config(part, f"{path}.model")
    shape = shape_of(_DEMO if config is None else str(config), f"{path}.model")
    context = part.context or (_DEMO_USED if config is None else shape.context)
    bits = _bits(part, config, cpu=cpu)
    seats = part.seats
    tokens = part.args.get("max_num_batched_tokens")
    if not isinstance(tokens, int) or tokens < 1:
        # What ttsflow sets on CPU, and vLLM on CUDA for an engine in a program.
        tokens = max(2048, context + seats) if cpu else 2048
    kv_bits = 8 if str(part.args.get("kv_cache_dtype", "auto")).startswith("fp8") else bits
    return Side(
        Roofline(hardware, shape, _weight_bits(config, bits), kv_bits),
        longest=min(context, DEMO_CONTEXT) if config is None else context,
        block=part.block_size or (32 if cpu else 16),
        batch_tokens=tokens,
        keep=bool(getattr(verifier, "cache", True)),
        seats=seats,
    )


def _config(part: VLLM, path: str) -> Path | None:
    """Return the ``config.json`` of a model, None for the demo model."""
    if part.model in DEMO_NAMES:
        return None
    folder = local_folder(part.model)
    if folder is not None:
        return folder / "config.json"
    found = _cached(part.model)
    if found is None:
        raise ConfigError(
            f"the sizes of {part.model!r} are not known: its config.json is not on this machine yet. Load "
            f"the model once (`hf download {part.model} config.json` is enough), or name a folder.",
            path,
        )
    return found


def _cached(model: str) -> Path | None:
    """Return where the hub's client keeps the config of a model, None when it was never loaded."""
    try:
        from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - comes with vLLM
    except ImportError:
        return None
    found = try_to_load_from_cache(model, "config.json")
    return Path(found) if isinstance(found, str) else None


def _told(config: Path | None) -> dict[str, Any]:
    """Return a config as it is; what is wrong with it is said where its sizes are read."""
    if config is None:
        return {}
    try:
        data = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


def _bits(part: VLLM, config: Path | None, *, cpu: bool) -> int:
    """Return the bits of a number in computation, and in the KV cache."""
    if part.dtype != "auto":
        return _BITS[part.dtype]
    if cpu:
        from ttsflow.engines.vllm_load import _fast_bfloat16  # noqa: PLC0415 - reads a file

        if not _fast_bfloat16():
            return 32
    data = _told(config)
    name = str(data.get("dtype") or data.get("torch_dtype") or "bfloat16")
    # vLLM's `auto` takes a checkpoint in float32 down to float16.
    return min(16, _BITS.get(name.removeprefix("torch."), 16))


def _weight_bits(config: Path | None, bits: int) -> int:
    """Return the bits of a weight: fewer where the checkpoint is quantized."""
    quantized = _told(config).get("quantization_config")
    said = quantized.get("bits") if isinstance(quantized, dict) else None
    return said if isinstance(said, int) and 1 < said < bits else bits
