"""The working pooling engine on vLLM: texts in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ttsflow.engines.pooler import Pooled
from ttsflow.engines.vllm_core import VLLMCore
from ttsflow.engines.vllm_load import load
from ttsflow.errors import ModelError
from ttsflow.types import Message, Tokens

if TYPE_CHECKING:
    from ttsflow.engines.pooling import Pooling

__all__ = ["VLLMPooler"]

_NO_TEMPLATE = (
    (
        "the verifier's tokenizer has no chat template; set `template` to a plain text, or give one as "
        "engine.chat_template"
    ),
    "template",
)

#: Settings of a model that change its logits after the output layer, which is not read through to the end.
_SCALES = {"final_logit_softcapping": None, "logit_scale": 1.0, "logits_scaling": 1.0}


class _Live(NamedTuple):
    """A text that is being read, and the places in it that are asked for."""

    length: int
    places: tuple[int, ...]
    cached: bool


class VLLMPooler(VLLMCore[_Live, Pooled]):
    """A ``Pooler`` on vLLM's synchronous engine; see ``Pooling`` for the settings.

    The numbers are those of the model's head as they are, before any softmax or sigmoid. ``core`` is a
    vLLM engine that is already loaded with these settings; without it one is loaded.
    """

    def __init__(self, part: Pooling, core: Any = None) -> None:
        super().__init__(core if core is not None else load(part.engine, part), part.engine.chat_template)
        config = self._core.vllm_config
        self._context: int = config.model_config.max_model_len
        #: Tokens of texts that were not found in the prefix cache, since the last reset.
        self.computed = 0
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

    def render(self, turns: Sequence[Message]) -> str:
        """Return the turns as the chat template writes them.

        Raises ``ConfigError`` when the model has no chat template.
        """
        return self._chat(turns, answers=False, missing=_NO_TEMPLATE)

    def tokenize(self, text: str, *, special: bool = False) -> Tokens:
        """Return the token ids of a text; with ``special``, those that the tokenizer puts around one."""
        return self._ids(text, special=special)

    def continuation(self, text: str) -> Tokens:
        """Return the token ids of a text behind another one: no space is put before it."""
        return self._behind(text)

    def decode(self, tokens: Tokens) -> str:
        """Return the text of tokens, special tokens included."""
        return self._text(tokens, special=True)

    def reset(self) -> None:
        """Forget the prefix cache and every text. Raises ``EngineDead`` if that fails."""
        super().reset()
        self.computed = 0

    def submit(self, id: str, tokens: Tokens, places: Sequence[int], *, cached: bool = True) -> None:
        """Queue a text; one that vLLM refuses has its reason at the next step.

        Raises ``ValueError`` for an id in use.
        """
        self._check_new(id)
        from vllm.pooling_params import PoolingParams  # noqa: PLC0415 - loaded by now

        cached = cached and self._caches

        def settings() -> Any:
            reread = not cached
            return PoolingParams(task=self._task, use_activation=False, skip_reading_prefix_cache=reread)

        refused = self._add(id, tokens, settings)
        if refused is not None:
            self._news.append(Pooled(id, {}, f"vLLM refused the text: {refused}"))
            return
        self._live[id] = _Live(len(tokens), tuple(places), cached)

    def step(self) -> list[Pooled]:
        """Advance by one iteration of the batch and return what is done. Raises ``EngineDead``."""
        news, outputs = self._advance()
        for output in outputs:
            live = self._live.pop(output.request_id, None)
            if live is not None:
                self.computed += live.length - (output.num_cached_tokens if live.cached else 0)
                news.append(_pooled(output, live, per_token=self._task == "token_classify"))
        return news


def _task(part: Pooling, core: Any) -> str:
    """Return what vLLM is asked for. Raises ``ModelError`` when the model, as it was loaded, cannot."""
    tasks = core.get_supported_tasks()
    # A head that speaks of every token can be read at the last one.
    wanted = ("token_classify",) if part.per_token else ("classify", "token_classify")
    found = next((task for task in wanted if task in tasks), None)
    config = core.vllm_config.model_config.hf_config
    if found is None:
        raise ModelError(part.misfit(config.architectures or (), tasks, wanted))
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
