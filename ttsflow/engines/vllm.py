"""vLLM as an engine: its settings. Nothing here imports torch or vllm; ``open`` does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ttsflow.errors import ConfigError, suggest
from ttsflow.protocols import Capabilities

if TYPE_CHECKING:
    from ttsflow.engines.vllm_live import VLLMEngine

__all__ = ["VLLM"]

DTYPES = ("auto", "float32", "bfloat16", "float16")

#: Engine arguments that ttsflow sets itself, and what to do instead.
RESERVED: Mapping[str, str] = {
    "model": "set `model`",
    "dtype": "set `dtype`",
    "max_num_seqs": "set `seats`",
    "max_model_len": "set `context`",
    "kv_cache_memory_bytes": "set `kv_gib`",
    "block_size": "set `block_size`",
    "scheduling_policy": "requests carry priorities, so it is always `priority`",
    "scheduler_cls": "the scheduler stays vLLM's own",
    "async_scheduling": "it decodes tokens nobody sees, which would be missing in the books",
    "stream_interval": "it hides tokens from the budget",
    "skip_tokenizer_init": "stop strings and prompts need the tokenizer",
    "runner": "an engine that a run is made on generates, one of a reward model reads",
}

#: Engine arguments with which partly filled blocks can be kept: one device, its own cache, no other store.
ALONE: Mapping[str, Any] = {
    "enable_prefix_caching": True,
    "tensor_parallel_size": 1,
    "pipeline_parallel_size": 1,
    "data_parallel_size": 1,
    "kv_transfer_config": None,
    "kv_offloading_size": None,
}


@dataclass(frozen=True, slots=True)
class VLLM:
    """A model served by vLLM inside this process; runs on CUDA, or on CPU with the CPU build.

    ``model`` is a local folder, a hub id, or ``demo`` (SmolLM2-135M-Instruct, see ``demo_model``).
    ``dtype`` auto is the checkpoint's own type, on CPUs without bfloat16 instructions float32.
    ``seats`` sequences are decoded at once. ``context`` is the most tokens of prompt and output
    together (None: what the model was trained for; the demo model 2048). ``kv_gib`` is the memory of
    the KV cache in GiB (None: 1 on CPU, vLLM's share of the GPU on CUDA). ``block_size`` is the
    number of tokens per KV block (None: 32 on CPU, vLLM's choice on CUDA). ``partial_blocks`` is how many
    partly filled blocks are kept besides, for texts that go on from them (0: none); each takes the memory
    of a block. ``chat_template`` is a Jinja text, or the path of a file with one, in place of the
    tokenizer's. ``args`` are further arguments of vLLM, by their names in ``EngineArgs``; they win over
    ttsflow's defaults.
    """

    model: str
    dtype: str = "auto"
    seats: int = 64
    context: int | None = None
    kv_gib: float | None = None
    block_size: int | None = None
    partial_blocks: int = 0
    chat_template: str | None = None
    args: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ConfigError("a model is needed: a folder, a hub id, or `demo`", "model")
        if self.dtype not in DTYPES:
            raise ConfigError(f"no such type: {self.dtype!r}. {suggest(self.dtype, DTYPES)}", "dtype")
        if self.seats < 1:
            raise ConfigError(f"at least 1 sequence must fit, got {self.seats}", "seats")
        if self.context is not None and self.context < 2:
            raise ConfigError(f"at least 2 (a prompt and a token), got {self.context}", "context")
        if self.kv_gib is not None and not self.kv_gib > 0:
            raise ConfigError(f"the KV cache needs memory, got {self.kv_gib} GiB", "kv_gib")
        if self.block_size is not None and self.block_size < 1:
            raise ConfigError(f"at least 1 token per block, got {self.block_size}", "block_size")
        _check_partial(self.partial_blocks, self.args)
        for name in self.args:
            if name in RESERVED:
                raise ConfigError(f"cannot be set here: {RESERVED[name]}", f"args.{name}")
        # A copy, so that nobody changes the settings of an open engine from outside.
        object.__setattr__(self, "args", dict(self.args))

    @property
    def capabilities(self) -> Capabilities:
        """What the engine will be able to do, within the limits vLLM sets."""
        from ttsflow.engines.vllm_check import unmeasured  # noqa: PLC0415 - only when asked

        return Capabilities(
            logprobs=self.args.get("max_logprobs", 20),
            temperature=2.0,
            certainty=unmeasured(self) is None,
        )

    def text_settings(self) -> dict[str, Any]:
        """Return what may change a text, files or commit of the model among it, once the engine is open."""
        from ttsflow.engines.vllm_texts import text_settings  # noqa: PLC0415 - only when asked

        return text_settings(self)

    def check(self) -> None:
        """Raise what would make ``open`` fail, as far as it shows without importing torch or vllm.

        Raises ``MissingExtra`` or ``ConfigError``. Takes well under a second.
        """
        from ttsflow.engines.vllm_check import check  # noqa: PLC0415 - only when asked

        check(self)

    def open(self) -> VLLMEngine:
        """Load the model and return the engine. Raises ``MissingExtra``, ``ConfigError``, ``ModelError``."""
        self.check()
        from ttsflow.engines.vllm_live import VLLMEngine  # noqa: PLC0415 - imports torch and vllm

        return VLLMEngine(self)


def _check_partial(blocks: int, args: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for a number that is none, and for arguments that leave nothing to keep."""
    if blocks < 0:
        raise ConfigError(f"at least 0 (none are kept), got {blocks}", "partial_blocks")
    for name, alone in ALONE.items() if blocks else ():
        if args.get(name, alone) != alone:
            problem = f"{args[name]!r} and `partial_blocks` exclude each other; leave one of them out"
            raise ConfigError(problem, f"args.{name}")
