"""Sizes of a language model, from the ``config.json`` of its checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ttsflow.errors import ConfigError, suggest
from ttsflow.fields import shown
from ttsflow.files import named_path

__all__ = ["ModelShape", "shape_of", "shipped_models"]

_FOLDER = Path(__file__).parent.parent / "data" / "models"
_NEEDED = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "vocab_size")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
#: No model is larger in any number.
_MOST = 100_000_000


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A dense decoder with gated layers: counts, and what follows from them.

    ``heads`` x ``head`` is the width of attention, ``kv_heads`` x ``head`` that of keys and of values.
    """

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head: int
    vocab: int
    tied: bool
    context: int

    @property
    def layer_parameters(self) -> int:
        """Parameters of all layers: queries, keys, values, output and the three matrices of the MLP."""
        width = self.heads * self.head
        attention = self.hidden * (2 * width + 2 * self.kv_heads * self.head)
        return self.layers * (attention + 3 * self.hidden * self.inner)

    @property
    def output_parameters(self) -> int:
        """Parameters of the output layer, which reads every sampled token."""
        return self.hidden * self.vocab

    @property
    def parameters(self) -> int:
        """All of them; the input table counts again where it is not the output layer."""
        return self.layer_parameters + self.output_parameters * (1 if self.tied else 2)

    def kv_bytes(self, bits: int) -> float:
        """Return the bytes of keys and values of one token."""
        return 2 * self.layers * self.kv_heads * self.head * bits / 8

    @property
    def attention_flops(self) -> int:
        """Operations of one token looking at one other: two products, each a multiply and an add."""
        return 4 * self.layers * self.heads * self.head


def shipped_models() -> list[str]:
    """Return the names of the descriptions that come with the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.json"))


def shape_of(model: str, place: str = "model") -> ModelShape:
    """Return the sizes of a model: a shipped name, a ``config.json``, or the folder of a checkpoint.

    Raises ``ConfigError`` for what is not there, is broken, or is no dense decoder.
    """
    named = _FOLDER / f"{model.lower()}.json"
    file = named_path(model, place, ConfigError)
    if "/" not in model and named.is_file():
        return _shape(str(named), place)
    file = file / "config.json" if file.is_dir() else file
    if not file.is_file():
        raise ConfigError(
            f"{model!r} is neither a model of this package, nor a config.json or a folder with one. "
            f"{suggest(model.lower(), shipped_models())}",
            place,
        )
    return _shape(str(file), place)


@cache
def _shape(file: str, place: str) -> ModelShape:
    try:
        data = json.loads(Path(file).read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ConfigError(f"{file} cannot be read: it is nested too deeply", place) from error
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", place) from error
    text = data.get("text_config") if isinstance(data, Mapping) else None
    data = data if text in (None, {}) else text
    if not isinstance(data, Mapping):
        where = "its text_config" if text is not None else "it"
        raise ConfigError(f"{file} is no description of a model: {where} is no mapping", place)
    missing = [name for name in _NEEDED if name not in data]
    if missing:
        raise ConfigError(f"{file} has no {', '.join(missing)}; a dense decoder is wanted", place)
    if any(_count(data, name, file, place, 0, least=0) > 1 for name in _EXPERTS):
        raise ConfigError(f"{file} is a mixture of experts; only dense decoders are described here", place)
    tied = data.get("tie_word_embeddings")
    if not isinstance(tied, bool | None):
        raise ConfigError(f"{file}: tie_word_embeddings must be true or false, found {shown(tied)}", place)
    heads = _count(data, "num_attention_heads", file, place)
    hidden = _count(data, "hidden_size", file, place)
    return ModelShape(
        layers=_count(data, "num_hidden_layers", file, place),
        hidden=hidden,
        inner=_count(data, "intermediate_size", file, place),
        heads=heads,
        kv_heads=_count(data, "num_key_value_heads", file, place, heads),
        head=_count(data, "head_dim", file, place, hidden // heads),
        vocab=_count(data, "vocab_size", file, place),
        tied=bool(tied),
        context=_count(data, "max_position_embeddings", file, place, 4096),
    )


def _count(
    data: Mapping[str, Any],
    name: str,
    file: str,
    place: str,
    default: int | None = None,
    *,
    least: int = 1,
) -> int:
    """Return a number of a model; one that is absent or null is ``default``, where there is one."""
    value = data.get(name)
    value = default if value is None else value
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
        raise ConfigError(
            f"{file}: {name} must be a whole number from {least} to {_MOST:,}, found {shown(value)}", place
        )
    return value
