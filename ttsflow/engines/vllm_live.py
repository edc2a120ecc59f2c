"""The working vLLM engine: requests in, tokens out, every decoded token accounted for."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ttsflow.engines.utilisation import CPUMeter, Meter, gpu_meter
from ttsflow.engines.vllm_check import unmeasured
from ttsflow.engines.vllm_core import VLLMCore
from ttsflow.engines.vllm_load import PROCESSOR, load
from ttsflow.engines.vllm_tally import tally
from ttsflow.engines.vllm_translate import params, progress
from ttsflow.ops import EngineRequest, Progress
from ttsflow.types import Prompt, Tokens

if TYPE_CHECKING:
    from ttsflow.engines.vllm import VLLM
    from ttsflow.engines.vllm_certainty import Certainties

__all__ = ["Load", "VLLMEngine"]

_NO_TEMPLATE = (
    (
        "the model's tokenizer has no chat template and the prompt is a chat; give one here, or use plain "
        "text prompts"
    ),
    "chat_template",
)


class Load(NamedTuple):
    """What the engine is busy with: sequences decoding and queued, and the used share of the KV cache."""

    running: int
    waiting: int
    kv: float


class _Live(NamedTuple):
    """A request that runs, and what is measured for it if it asked."""

    request: EngineRequest
    certainties: Certainties | None


class VLLMEngine(VLLMCore[_Live, Progress]):
    """An ``Engine`` on vLLM's synchronous engine; see ``VLLM`` for the settings.

    Log-probabilities are those of the model's own distribution, before temperature and truncation.
    ``core`` is a vLLM engine that is already loaded with these settings; without it one is loaded.
    """

    def __init__(self, part: VLLM, core: Any = None) -> None:
        super().__init__(core if core is not None else load(part), part.chat_template)
        self.capacity = part.seats
        self._sequences = 0
        self._tally = tally(self._core)
        model = self._core.vllm_config.model_config
        self.context: int = model.max_model_len
        self._unmeasured = unmeasured(part)
        if self._unmeasured is None and PROCESSOR not in (model.logits_processors or ()):
            self._unmeasured = f"vLLM was loaded without {PROCESSOR}"
        self.capabilities = replace(part.capabilities, certainty=self._unmeasured is None)

    def encode(self, prompt: Prompt) -> Tokens:
        """Return a prompt's token ids: a text with the tokenizer's own special tokens, a chat templated.

        Raises ``ConfigError`` for a chat when the model has no chat template.
        """
        if isinstance(prompt, str):
            return self._ids(prompt, special=True)
        # The template has written the special tokens; a second set would be a different prompt.
        return self._ids(self._chat(prompt, answers=True, missing=_NO_TEMPLATE), special=False)

    def tokenize(self, text: str) -> Tokens:
        """Return the token ids of ``text`` as a continuation: no special tokens, no space before it.

        It is tokenized apart from the text that it will follow.
        """
        return self._behind(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of ``tokens``, special tokens left out."""
        return self._text(tokens, special=False)

    def submit(self, request: EngineRequest) -> None:
        """Queue a request.

        One without room for a token ends as length at the next step, one that vLLM refuses as failed.
        ``max_tokens`` is cut to what the context leaves. Raises ``ValueError`` for an id in use.
        """
        self._check_new(request.id)
        room = min(request.max_tokens, self.context - len(request.prompt))
        if room < 1:
            self._news.append(Progress(request.id, finish="length"))
            return
        if request.certainty and self._unmeasured:
            reason = f"the certainty of tokens cannot be measured: {self._unmeasured}"
            self._news.append(Progress(request.id, finish="failed", reason=reason))
            return
        from ttsflow.engines.vllm_certainty import Certainties  # noqa: PLC0415 - loaded by now

        certainties = Certainties(len(request.prompt)) if request.certainty else None
        refused = self._add(
            request.id,
            request.prompt,
            lambda: params(request, room, certainties),
            request.priority,
        )
        if refused is not None:
            reason = f"vLLM refused the request: {refused}"
            self._news.append(Progress(request.id, finish="failed", reason=reason))
            return
        self._live[request.id] = _Live(request, certainties)

    def step(self) -> list[Progress]:
        """Run one iteration of the batch and return the news. Raises ``EngineDead``."""
        news, outputs = self._advance()
        self._sequences += len(self._live)
        for output in outputs:
            if live := self._live.get(output.request_id):
                news.append(progress(output, *live))
                if output.finished:
                    del self._live[output.request_id]
        return news

    def reset(self) -> None:
        """Forget the prefix cache, and abort whatever is left. Raises ``EngineDead`` if that fails."""
        super().reset()
        self._sequences = 0
        if self._tally is not None:
            self._tally.clear()

    def counters(self) -> dict[str, float]:
        """Return iterations, the size of the KV cache, and what vLLM's scheduler did, see ``Tally``.

        Where the scheduler is in another process only the mean batch is known of that: sequences on the
        engine, as far as there are seats.
        """
        found = {"iterations": self._iterations, "kv_blocks": self.kv_blocks}
        if self._tally is not None:
            return found | self._tally.counters(self._iterations)
        most = self._iterations * self.capacity
        batch = min(self._sequences, most) / self._iterations if self._iterations else 0.0
        return found | {"mean_batch": batch}

    def meter(self) -> Meter | None:
        """Begin to measure how busy the device is; None where the platform does not tell."""
        from vllm.platforms import current_platform as platform  # noqa: PLC0415 - loaded by now

        if platform.is_cpu():
            return CPUMeter()
        if not platform.is_cuda():
            return None
        used = min(self._core.vllm_config.parallel_config.world_size, platform.device_count())
        try:
            return gpu_meter([platform.get_device_uuid(device) for device in range(used)])
        except Exception:  # noqa: BLE001 - machines without NVML, such as Jetson, say so in many ways
            return None

    def close(self) -> None:
        """Free the model and its memory, so that another engine can be opened in this process."""
        self._tally = None
        super().close()

    def now(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.perf_counter()

    @property
    def block_size(self) -> int:
        """Tokens of a KV block."""
        return int(self._core.vllm_config.cache_config.block_size)

    @property
    def kv_blocks(self) -> int:
        """Blocks of the KV cache, less the one that vLLM keeps for padding."""
        return int(self._core.vllm_config.cache_config.num_gpu_blocks) - 1

    def load(self) -> Load:
        """Return what the engine is busy with right now."""
        scheduler = self._core.engine_core.engine_core.scheduler
        running, waiting = scheduler.get_request_counts()
        return Load(running, waiting, scheduler.get_kv_cache_usage())
