"""Loads a model into vLLM in this process, quietly and with exact books."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttsflow.engines.demo_model import DEMO_NAMES, demo_model_path
from ttsflow.engines.vllm_check import TESTED, installed, is_local, local_folder, unmeasured
from ttsflow.errors import ConfigError, ModelError, suggest

if TYPE_CHECKING:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    from ttsflow.engines.pooling import Pooling
    from ttsflow.engines.vllm import VLLM

__all__ = ["PROCESSOR", "engine_args", "load"]

#: What measures the certainty of tokens, by the name that vLLM loads it by.
PROCESSOR = "ttsflow.engines.vllm_certainty:CertaintyProcessor"

_GIB = 1 << 30

#: Context of the demo model when none is asked for: its KV cache then holds many sequences in 1 GiB.
_DEMO_CONTEXT = 2048

#: Set unless the user has set them; some are read when torch or vllm is first imported.
_ENVIRONMENT: Mapping[str, str] = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "TQDM_DISABLE": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
    # With the core in this process one step is one iteration, and nothing is decoded unseen.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    # Splitting attention over KV depends on the batch and so changes the last bits of a product.
    "VLLM_CPU_ATTN_SPLIT_KV": "0",
}


def load(part: VLLM, pooling: Pooling | None = None) -> LLMEngine:
    """Return vLLM's engine for ``part``; with ``pooling``, one that reads instead of generating.

    Raises ``ConfigError`` or ``ModelError``.
    """
    arguments = engine_args(part, pooling)
    with warnings.catch_warnings():
        # What vLLM's and torch's own code is told to do differently is nothing the user can act on.
        warnings.simplefilter("ignore")
        try:
            from vllm.v1.engine.llm_engine import LLMEngine  # noqa: PLC0415 - imported with the arguments

            core = LLMEngine.from_engine_args(arguments)
        except Exception as error:
            raise _refused(error, part, pooling) from error
    if part.partial_blocks:
        from ttsflow.engines.vllm_tails import attach  # noqa: PLC0415 - vllm is loaded by now

        try:
            attach(core, part.partial_blocks)
        except Exception as error:
            core.engine_core.shutdown()
            core.renderer.shutdown()
            if isinstance(error, ModelError):
                raise
            # What it is attached to is vLLM's own and may be another in another version.
            raise _refused(error, part, pooling) from error
    return core


def engine_args(part: VLLM, pooling: Pooling | None = None) -> EngineArgs:
    """Return ``part`` as vLLM's own arguments, the process prepared for them; errors as in ``load``."""
    version, cpu = installed()
    if not version.startswith(tuple(f"{minor}." for minor in TESTED)):
        warnings.warn(f"ttsflow was tested with vLLM {' and '.join(TESTED)}; this is {version}", stacklevel=2)
    _prepare(cpu=cpu, offline=is_local(part.model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            arguments_of = _imported(compiles=not cpu or not part.args.get("enforce_eager", True))
        except Exception as error:
            raise ModelError(f"vLLM {version} cannot be imported: {_one_line(error)}") from error
        settings = _settings(part, cpu=cpu, pooling=pooling)
        known = {item.name for item in dataclasses.fields(arguments_of)}
        for name in part.args:
            if name not in known:
                raise ConfigError(
                    f"vLLM {version} has no such argument. {suggest(name, known)}", f"args.{name}"
                )
        try:
            arguments = arguments_of(**settings)
            if pooling is not None:
                from ttsflow.engines.vllm_pool_load import finish  # noqa: PLC0415 - vllm is loaded by now

                finish(arguments, pooling)
            if cpu and "max_num_batched_tokens" not in settings:
                context = part.context or settings.get("max_model_len")
                if context is None:
                    context = arguments.create_model_config().max_model_len
                # Prefills are not split on CPU, so even the longest prompt must fit beside a full batch.
                arguments.max_num_batched_tokens = max(2048, context + part.seats)
        except ConfigError:
            raise
        except Exception as error:
            raise _refused(error, part, pooling) from error
        return arguments


def _imported(*, compiles: bool) -> Any:
    """Import vLLM; return the class of its arguments.

    It compiles two small functions of its sampler even where the model runs eagerly, unless it is told before
    it is imported: 10 s and a C++ compiler on a new machine, 2 s on any, and nothing gets faster on CPU.
    """
    from vllm.platforms import current_platform  # noqa: PLC0415 - seconds to import

    if not compiles:
        current_platform.simple_compile_backend = "eager"
    from vllm.engine.arg_utils import EngineArgs  # noqa: PLC0415 - after what it asks for
    from vllm.v1.engine import llm_engine  # noqa: F401, PLC0415 - fails here rather than later

    return EngineArgs


def _settings(part: VLLM, *, cpu: bool, pooling: Pooling | None = None) -> dict[str, Any]:
    """Return the arguments for ``EngineArgs``."""
    model, context = part.model, part.context
    if model in DEMO_NAMES:
        model, context = str(demo_model_path()), context or _DEMO_CONTEXT
    elif (folder := local_folder(model)) is not None:
        model = str(folder)
    settings: dict[str, Any] = {
        "model": model,
        "dtype": "float32" if part.dtype == "auto" and cpu and not _fast_bfloat16() else part.dtype,
        "max_num_seqs": part.seats,
        "max_model_len": context,
        "scheduling_policy": "priority",
        "async_scheduling": False,
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    kv_gib, block_size = part.kv_gib, part.block_size
    if cpu:
        kv_gib, block_size = kv_gib or 1.0, block_size or 32
        # Compiling costs 90 s and was not faster. A split prefill rewinds the request's generator,
        # which torch's CPU generator refuses: the engine would die.
        settings |= {"enforce_eager": True, "enable_chunked_prefill": False}
    if kv_gib is not None:
        settings["kv_cache_memory_bytes"] = int(kv_gib * _GIB)
    if block_size is not None:
        settings["block_size"] = block_size
    settings |= dict(part.args)
    if pooling is not None:
        return settings | {"runner": "pooling"}
    if unmeasured(part) is None:
        # Idle it costs next to nothing, and a warm engine does not know what the next job will ask for.
        # The first in the list, it sees the logits before any other has changed them.
        settings["logits_processors"] = [PROCESSOR, *(part.args.get("logits_processors") or ())]
    return settings


def _prepare(*, cpu: bool, offline: bool) -> None:
    """Set the environment that torch, vLLM and the hub's client read."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # Said while vLLM's logging is not set up yet, and of no use: this machine has no Triton device.
    logging.getLogger("vllm.triton_utils").setLevel(logging.ERROR)
    if cpu:
        os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
        # Threads that wait by spinning are several times slower as soon as anything else wants a core.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
    if "HF_HUB_OFFLINE" not in os.environ:
        # A local model needs no network; the next model of this process may, and the variable itself is
        # read only once, so the client is told directly.
        constants = importlib.import_module("huggingface_hub.constants")
        vars(constants)["HF_HUB_OFFLINE"] = offline


def _fast_bfloat16() -> bool:
    """Return whether this CPU multiplies bfloat16; where it is emulated, float32 is over twice as fast."""
    try:
        words = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return True
    return not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(words)


def _refused(error: Exception, part: VLLM, pooling: Pooling | None = None) -> ConfigError | ModelError:
    """Return what to raise when vLLM refused to load: whose setting it was, or the cause in one line."""
    # vLLM's settings are pydantic classes; their errors come in a list, each with its place.
    listed = getattr(error, "errors", None)
    details = listed() if callable(listed) else []
    for detail in details:
        field = next((str(name) for name in detail["loc"] if name in part.args), None)
        if field is not None:
            return ConfigError(f"vLLM refused it: {detail['msg']}", f"args.{field}")
    cause = str(details[0]["msg"]) if details else _one_line(error)
    place = "verifier.engine" if pooling is not None else "engine"
    hint = f"`{place}.model` names it" + ("" if pooling else ", or `verifier.engine.model` that of a judge")
    if "KV cache" in cause:
        hint = f"settings of `{place}`: kv_gib, context"
    return ModelError(f"vLLM could not load {part.model!r}: {cause} ({hint})")


def _one_line(error: Exception) -> str:
    """Return the first line that says something, with the kind of the error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
