"""The working pooling engine on vLLM: texts in, numbers out."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ttsflow.engines.pooler import Pooled
from ttsflow.engines.vllm_load import load
from ttsflow.engines.vllm_translate import template
from ttsflow.errors import ConfigError, EngineDead, ModelError
from ttsflow.types import Message, Tokens

if TYPE_CHECKING:
    from ttsflow.engines.pooling import Pooling

__all__ = ["VLLMPooler"]

#: A text that no tokenizer with a space of its own merges with what follows.
_ANCHOR = "\n"

#: Settings of a model that change its logits after the output layer, which is not read through to the end.
_SCALES = {"final_logit_softcapping": None, "logit_scale": 1.0, "logits_scaling": 1.0}


class _Live(NamedTuple):
    """A text that is being read, and the places in it that are asked for."""

    length: int
    places: tuple[int, ...]
    cached: bool


class VLLMPooler:
    """A ``Pooler`` on vLLM's synchronous engine; see ``Pooling`` for the settings.

    The numbers are those of the model's head as they are, before any softmax or sigmoid. ``dead`` is set
    once vLLM has failed: everything but ``close`` is then over. ``core`` is a vLLM engine that is already
    loaded with these settings; without it one is loaded.
    """

    def __init__(self, part: Pooling, core: Any = None) -> None:
        self.dead = False
        self.closed = False
        self._live: dict[str, _Live] = {}
        self._news: list[Pooled] = []
        self._arrivals = itertools.count()
        self._core: Any = core if core is not None else load(part.engine, part)
        self._tokenizer: Any = self._core.get_tokenizer()
        self._template = template(part.engine.chat_template)
        config = self._core.vllm_config
        self._context: int = config.model_config.max_model_len
        # Models that look both ways have none: what they say of a beginning depends on the rest.
        self._caches = part.cache and bool(config.cache_config.enable_prefix_caching)
        try:
            self._task = _task(part, self._core)
        except ModelError:
            self.close()
            raise

    @property
    def context(self) -> int:
        """Most tokens of a text."""
        return self._context

    @property
    def caches(self) -> bool:
        """Whether it finds the beginnings of texts that it has read before."""
        return self._caches

    @property
    def bos(self) -> str:
        """The text of the token that begins a document, empty when the model has none."""
        return self._tokenizer.bos_token or ""

    # --- text and tokens ----------------------------------------------------------------------------

    def render(self, turns: Sequence[Message]) -> str:
        """Return the turns as the chat template writes them.

        Raises ``ConfigError`` when the model has no chat template.
        """
        if not (self._template or self._tokenizer.chat_template):
            raise ConfigError(
                "the verifier's tokenizer has no chat template; set `template` to a plain text, or give one "
                "as engine.chat_template",
                "template",
            )
        text = self._tokenizer.apply_chat_template(
            [{"role": turn.role, "content": turn.content} for turn in turns],
            chat_template=self._template,
            add_generation_prompt=False,
            tokenize=False,
        )
        return str(text)

    def tokenize(self, text: str, *, special: bool = False) -> Tokens:
        """Return the token ids of a text; with ``special``, those that the tokenizer puts around one."""
        return tuple(self._tokenizer(text, add_special_tokens=special).input_ids)

    def continuation(self, text: str) -> Tokens:
        """Return the token ids of a text behind another one: no space is put before it."""
        tokens, anchor = self.tokenize(text), self.tokenize(_ANCHOR)
        if self.decode((*anchor, *tokens)) == _ANCHOR + text:
            return tokens
        # SentencePiece takes every text for the start of one.
        both = self.tokenize(_ANCHOR + text)
        return both[len(anchor) :] if both[: len(anchor)] == anchor else tokens

    def decode(self, tokens: Tokens) -> str:
        """Return the text of tokens, special tokens included."""
        return str(self._tokenizer.decode(list(tokens), clean_up_tokenization_spaces=False))

    # --- requests -----------------------------------------------------------------------------------

    def submit(self, id: str, tokens: Tokens, places: Sequence[int], *, cached: bool = True) -> None:
        """Queue a text; one that vLLM refuses has its reason at the next step.

        Raises ``ValueError`` for an id in use.
        """
        if id in self._live or any(news.id == id for news in self._news):
            raise ValueError(f"id in use: {id}")
        from vllm.inputs import tokens_input  # noqa: PLC0415 - loaded by now
        from vllm.pooling_params import PoolingParams  # noqa: PLC0415 - loaded by now

        cached = cached and self._caches
        try:
            self._core.add_request(
                id,
                tokens_input(list(tokens)),
                PoolingParams(task=self._task, use_activation=False, skip_reading_prefix_cache=not cached),
                arrival_time=float(next(self._arrivals)),
            )
        except Exception as error:  # noqa: BLE001 - vLLM's refusals have no common base; one text is lost
            self._core.abort_request([id])
            self._news.append(Pooled(id, {}, f"vLLM refused the text: {error}".splitlines()[0]))
            return
        self._live[id] = _Live(len(tokens), tuple(places), cached)

    def abort(self, ids: Sequence[str]) -> None:
        """Forget texts; no news of them follows."""
        gone = set(ids)
        self._news = [news for news in self._news if news.id not in gone]
        live = [name for name in dict.fromkeys(ids) if self._live.pop(name, None)]
        if live and not (self.dead or self.closed):
            self._core.abort_request(live)

    def step(self) -> list[Pooled]:
        """Advance by one iteration of the batch and return what is done. Raises ``EngineDead``."""
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
                live = self._live.pop(output.request_id, None)
                if live is not None:
                    news.append(_pooled(output, live, per_token=self._task == "token_classify"))
        return news

    # --- life ---------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget the prefix cache, and whatever is left. Raises ``EngineDead`` if that fails."""
        if self.dead or self.closed:
            raise EngineDead("the vLLM engine is closed or died earlier")
        self.abort([*self._live, *(news.id for news in self._news)])
        self._arrivals = itertools.count()
        if not self._core.reset_prefix_cache():
            self.dead = True
            raise EngineDead("vLLM could not reset its prefix cache")

    def close(self) -> None:
        """Free the model and its memory."""
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


def _task(part: Pooling, core: Any) -> str:
    """Return what vLLM is asked for. Raises ``ModelError`` when the model, as it was loaded, cannot."""
    tasks = core.get_supported_tasks()
    # A head that speaks of every token can be read at the last one.
    wanted = ("token_classify",) if part.per_token else ("classify", "token_classify")
    found = next((task for task in wanted if task in tasks), None)
    config = core.vllm_config.model_config.hf_config
    if found is None:
        raise ModelError(
            f"vLLM loaded {part.engine.model!r} ({', '.join(config.architectures or ())}) as a model for "
            f"{', '.join(sorted(tasks)) or 'nothing'}; scores need {' or '.join(wanted)}. Set `read` to the "
            "kind of model it is, or `architecture` to the class of its base model."
        )
    scales = [name for name, neutral in _SCALES.items() if getattr(config, name, neutral) != neutral]
    if part.words and scales:
        raise ModelError(
            f"{part.engine.model!r} changes its logits after the output layer ({scales[0]}), which would be "
            "left out; a model like that cannot be read at a tag."
        )
    return found


def _pooled(output: Any, live: _Live, *, per_token: bool) -> Pooled:
    """Return the news in a vLLM output, or what is wrong with its shape."""
    if getattr(output, "error", None):
        return Pooled(output.request_id, {}, f"vLLM ended the text: {output.error}")
    data = output.outputs.data
    shape = tuple(data.shape)
    if not per_token:
        if data.dim() > 1:
            return Pooled(
                output.request_id, {}, f"the model gave numbers of shape {shape} instead of one row"
            )
        row = tuple(data.reshape(-1).tolist())
        return Pooled(output.request_id, dict.fromkeys(live.places, row))
    if data.dim() == 1:
        data = data.unsqueeze(-1)
    first = live.length - shape[0]
    # Tokens found in the prefix cache are not computed again; the rows are those of the last ones.
    if data.dim() != 2 or first < 0 or (first and not live.cached):
        return Pooled(
            output.request_id,
            {},
            f"the model gave numbers of shape {shape} instead of a row for each of {live.length} tokens",
        )
    places = [place for place in live.places if place >= first]
    rows = data[[place - first for place in places]].tolist() if places else []
    return Pooled(output.request_id, {place: tuple(row) for place, row in zip(places, rows, strict=True)})
