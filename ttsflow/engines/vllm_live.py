"""The working vLLM engine: requests in, tokens out, every decoded token accounted for."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ttsflow.engines.vllm_check import unmeasured
from ttsflow.engines.vllm_load import PROCESSOR, load
from ttsflow.engines.vllm_translate import params, progress, template
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.ops import EngineRequest, Progress
from ttsflow.types import Prompt, Tokens

if TYPE_CHECKING:
    from ttsflow.engines.vllm import VLLM
    from ttsflow.engines.vllm_certainty import Certainties

__all__ = ["Load", "VLLMEngine"]

#: A text that no tokenizer with a space of its own merges with what follows.
_ANCHOR = "\n"


class Load(NamedTuple):
    """What the engine is busy with: sequences decoding and queued, and the used share of the KV cache."""

    running: int
    waiting: int
    kv: float


class _Live(NamedTuple):
    """A request that runs, and what is measured for it if it asked."""

    request: EngineRequest
    certainties: Certainties | None


class VLLMEngine:
    """An ``Engine`` on vLLM's synchronous engine; see ``VLLM`` for the settings.

    Log-probabilities are those of the model's own distribution, before temperature and truncation.
    ``dead`` is set once vLLM has failed: everything but ``close`` is then over. ``core`` is a vLLM engine
    that is already loaded with these settings; without it one is loaded.
    """

    def __init__(self, part: VLLM, core: Any = None) -> None:
        self.capacity = part.seats
        self.dead = False
        self.closed = False
        self._live: dict[str, _Live] = {}
        self._news: list[Progress] = []
        self._arrivals = itertools.count()
        self._core: Any = core if core is not None else load(part)
        self._tokenizer: Any = self._core.get_tokenizer()
        self._template = template(part.chat_template)
        model = self._core.vllm_config.model_config
        self.context: int = model.max_model_len
        self._unmeasured = unmeasured(part)
        if self._unmeasured is None and PROCESSOR not in (model.logits_processors or ()):
            self._unmeasured = f"vLLM was loaded without {PROCESSOR}"
        self.capabilities = replace(part.capabilities, certainty=self._unmeasured is None)

    # --- text and tokens ----------------------------------------------------------------------------

    def encode(self, prompt: Prompt) -> Tokens:
        """Return a prompt's token ids: a text with the tokenizer's own special tokens, a chat templated.

        Raises ``ConfigError`` for a chat when the model has no chat template.
        """
        if isinstance(prompt, str):
            return tuple(self._tokenizer(prompt).input_ids)
        if not (self._template or self._tokenizer.chat_template):
            raise ConfigError(
                "the model's tokenizer has no chat template and the prompt is a chat; give one here, or use "
                "plain text prompts",
                "chat_template",
            )
        text = self._tokenizer.apply_chat_template(
            [{"role": turn.role, "content": turn.content} for turn in prompt],
            chat_template=self._template,
            add_generation_prompt=True,
            tokenize=False,
        )
        # The template has written the special tokens; a second set would be a different prompt.
        return self._plain(text)

    def tokenize(self, text: str) -> Tokens:
        """Return the token ids of ``text`` as a continuation: no special tokens, no space before it.

        It is tokenized apart from the text that it will follow.
        """
        tokens, anchor = self._plain(text), self._plain(_ANCHOR)
        if self._tokenizer.decode([*anchor, *tokens], clean_up_tokenization_spaces=False) == _ANCHOR + text:
            return tokens
        # SentencePiece takes every text for the start of one and puts a space before it.
        both = self._plain(_ANCHOR + text)
        return both[len(anchor) :] if both[: len(anchor)] == anchor else tokens

    def decode(self, tokens: Tokens) -> str:
        """Return the text of ``tokens``, special tokens left out."""
        return str(
            self._tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )

    def _plain(self, text: str) -> Tokens:
        return tuple(self._tokenizer(text, add_special_tokens=False).input_ids)

    # --- requests -----------------------------------------------------------------------------------

    def submit(self, request: EngineRequest) -> None:
        """Queue a request.

        One without room for a token ends as length at the next step, one that vLLM refuses as failed.
        ``max_tokens`` is cut to what the context leaves. Raises ``ValueError`` for an id in use.
        """
        if request.id in self._live or any(news.id == request.id for news in self._news):
            raise ValueError(f"request id in use: {request.id}")
        room = min(request.max_tokens, self.context - len(request.prompt))
        if room < 1:
            self._news.append(Progress(request.id, finish="length"))
            return
        if request.certainty and self._unmeasured:
            reason = f"the certainty of tokens cannot be measured: {self._unmeasured}"
            self._news.append(Progress(request.id, finish="failed", reason=reason))
            return
        from vllm.inputs import tokens_input  # noqa: PLC0415 - loaded by now

        from ttsflow.engines.vllm_certainty import Certainties  # noqa: PLC0415 - loaded by now

        certainties = Certainties(len(request.prompt)) if request.certainty else None
        try:
            self._core.add_request(
                request.id,
                tokens_input(list(request.prompt)),
                params(request, room, certainties),
                # vLLM breaks ties of priority by arrival; a count keeps the order of submission.
                arrival_time=float(next(self._arrivals)),
                priority=request.priority,
            )
        except Exception as error:  # noqa: BLE001 - vLLM's refusals have no common base; one request is lost
            self._core.abort_request([request.id])
            reason = f"vLLM refused the request: {error}".splitlines()[0]
            self._news.append(Progress(request.id, finish="failed", reason=reason))
            return
        self._live[request.id] = _Live(request, certainties)

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now; no news of them follows, and what they held is free at once."""
        gone = set(ids)
        self._news = [news for news in self._news if news.id not in gone]
        live = [known for known in dict.fromkeys(ids) if self._live.pop(known, None)]
        if live:
            self._core.abort_request(live)

    def step(self) -> list[Progress]:
        """Run one iteration of the batch and return the news. Raises ``EngineDead``."""
        if self.dead or self.closed:
            raise EngineDead("the vLLM engine is closed" if self.closed else "the vLLM engine died earlier")
        news, self._news = self._news, []
        if self._live:
            try:
                outputs = self._core.step()
            except BaseException as error:
                # Also when interrupted: a half-made step leaves the batch in no known state.
                self.dead = True
                if not isinstance(error, Exception):
                    raise
                raise EngineDead(f"vLLM stopped: {type(error).__name__}: {error}") from error
            for output in outputs:
                if live := self._live.get(output.request_id):
                    news.append(progress(output, *live))
                    if output.finished:
                        del self._live[output.request_id]
        return news

    # --- life ---------------------------------------------------------------------------------------

    def now(self) -> float:
        """Return seconds on a clock that never goes back."""
        return time.perf_counter()

    def load(self) -> Load:
        """Return what the engine is busy with right now."""
        scheduler = self._core.engine_core.engine_core.scheduler
        running, waiting = scheduler.get_request_counts()
        return Load(running, waiting, scheduler.get_kv_cache_usage())

    def reset(self) -> None:
        """Forget the prefix cache, and abort whatever is left. Raises ``EngineDead`` if that fails."""
        if self.dead or self.closed:
            raise EngineDead("the vLLM engine is closed or died earlier")
        self.abort([*self._live, *(news.id for news in self._news)])
        self._arrivals = itertools.count()
        if not self._core.reset_prefix_cache():
            self.dead = True
            raise EngineDead("vLLM could not reset its prefix cache")

    def close(self) -> None:
        """Free the model and its memory, so that another engine can be opened in this process."""
        if self.closed:
            return
        self.closed = True
        self._live.clear()
        self._news.clear()
        core, self._core = self._core, None
        core.engine_core.shutdown()
        core.renderer.shutdown()
        del core
        gc.collect()
