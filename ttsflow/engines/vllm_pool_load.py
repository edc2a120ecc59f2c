"""How vLLM is told to read a model: its head, and the weights that are called otherwise."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vllm.config import PoolerConfig
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader

from ttsflow.errors import ConfigError

if TYPE_CHECKING:
    from vllm.engine.arg_utils import EngineArgs

    from ttsflow.engines.pooling import Pooling

__all__ = ["RenamingLoader", "finish", "renamed"]

#: The load format under which vLLM finds the loader below.
_FORMAT = "ttsflow_renamed"

_RENAME = "ttsflow_rename"


def finish(arguments: EngineArgs, pooling: Pooling) -> None:
    """Add to vLLM's arguments how the model is read. Raises ``ConfigError``.

    A causal language model becomes a classifier whose head has the rows of the words in the output layer, so
    that of a whole vocabulary only their logits are computed.
    """
    overrides: dict[str, Any] = dict(arguments.hf_overrides or {})
    if pooling.architecture is not None:
        overrides["architectures"] = [pooling.architecture]
    if pooling.labels is not None:
        overrides["num_labels"] = pooling.labels
    if pooling.words:
        overrides |= {"method": "no_post_processing", "classifier_from_token": _pieces(arguments, pooling)}
    arguments.hf_overrides = overrides
    if pooling.words or pooling.architecture is not None:
        arguments.convert = "classify"
    if pooling.per_token:
        # Those of vLLM's own that pick steps count places from the start of the whole text, which are
        # wrong when a part of it comes from the prefix cache.
        arguments.pooler_config = PoolerConfig(tok_pooling_type="ALL")
    if pooling.rename:
        extra = arguments.model_loader_extra_config
        arguments.load_format = _FORMAT
        arguments.model_loader_extra_config = {**(extra or {}), _RENAME: dict(pooling.rename)}


def _pieces(arguments: EngineArgs, pooling: Pooling) -> list[str]:
    """Return the entries of the vocabulary that the words are."""
    from vllm.tokenizers import get_tokenizer  # noqa: PLC0415 - only for models that need it

    tokenizer: Any = get_tokenizer(
        arguments.tokenizer or arguments.model,
        tokenizer_mode=arguments.tokenizer_mode,
        revision=arguments.tokenizer_revision,
        trust_remote_code=arguments.trust_remote_code,
    )
    pieces = []
    for name, text in pooling.words.items():
        # The last one: SentencePiece puts a space before every text, sometimes as a token of its own.
        token = tokenizer(text, add_special_tokens=False).input_ids[-1]
        if tokenizer.decode([token]).strip() != text.strip():
            raise ConfigError(f"{text!r} is no single token of this model; give the text of one", name)
        pieces.append(tokenizer.convert_ids_to_tokens(token))
    if len(set(pieces)) < len(pieces):
        raise ConfigError(f"{' and '.join(pooling.words)} are the same token {pieces[0]!r}", "good")
    return pieces


def renamed(name: str, rename: Mapping[str, str]) -> str:
    """Return a weight's name with the first beginning that fits replaced."""
    for old, new in rename.items():
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name


class RenamingLoader(DefaultModelLoader):  # type: ignore[misc]  # Any to mypy
    """vLLM's own loader of weights, which are called otherwise."""

    def __init__(self, load_config: Any) -> None:
        extra = dict(load_config.model_loader_extra_config)
        self._rename: Mapping[str, str] = extra.pop(_RENAME)
        plain = dataclasses.replace(load_config, load_format="auto", model_loader_extra_config=extra)
        super().__init__(plain)

    def get_all_weights(self, model_config: Any, model: Any) -> Iterator[tuple[str, Any]]:
        """Yield all weights by their new names."""
        for name, weight in super().get_all_weights(model_config, model):
            yield renamed(name, self._rename), weight


register_model_loader(_FORMAT)(RenamingLoader)
