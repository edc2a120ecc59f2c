"""A sample as a pool keeps it: what names it, and how it is packed.

Two requests have one name if the same tokens would be decoded for both, however many are asked for: the same
texts of an engine (``Texts``), prompt, sampling, stop strings and seed.
"""

from __future__ import annotations

import json
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from ttsflow.ops import EngineRequest
from ttsflow.types import Sampling, Tokens

__all__ = [
    "Sample",
    "Texts",
    "key_of",
    "pack",
    "pack_mappings",
    "sampling_of",
    "texts_of",
    "unpack",
    "unpack_mappings",
]

#: What the texts of an engine depend on besides its requests.
_FIELDS = ("temperature", "top_p", "top_k", "min_p")
_SIZE = 16


@dataclass(frozen=True, slots=True)
class Texts:
    """Whose texts they are: the ``name`` to show, and all ``settings`` that may change a text, as JSON."""

    name: str
    settings: str

    @property
    def digest(self) -> bytes:
        """A name for the settings: equal settings, equal digest."""
        return blake2b(self.settings.encode(), digest_size=_SIZE).digest()


def texts_of(part: Any) -> Texts:
    """Return what the texts of an engine depend on, by its settings.

    One that knows says so by ``text_settings()``, a mapping of what can be written as JSON. Of any other
    every setting counts.
    """
    own = getattr(part, "text_settings", None)
    kind = f"{type(part).__module__}.{type(part).__qualname__}"
    settings = own() if own is not None else {name: getattr(part, name) for name in _names(part)}
    text = json.dumps({"engine": kind, **settings}, sort_keys=True, default=repr)
    return Texts(str(getattr(part, "model", "") or type(part).__name__), text)


def _names(part: Any) -> Iterable[str]:
    fields: Mapping[str, Any] = getattr(part, "__dataclass_fields__", {})
    return fields or vars(part)


@dataclass(frozen=True, slots=True)
class Sample:
    """Tokens of one request. ``whole``: they ended by themselves, at ``stop`` or (None) the end of text.

    Any other is a beginning, that was cut or ended early. ``top`` log-probabilities per token are known, the
    certainties where ``certain``.
    """

    tokens: Tokens
    whole: bool
    stop: str | None = None
    top: int = 0
    certain: bool = False
    logprobs: tuple[Mapping[int, float], ...] = ()
    certainties: tuple[float, ...] = ()


def sampling_of(request: EngineRequest) -> str:
    """Return how tokens of a request are drawn, and what ends them, as JSON."""
    return _written(request.sampling, request.stop)


@lru_cache
def _written(sampling: Sampling, stop: tuple[str, ...]) -> str:
    fields = {name: getattr(sampling, name) for name in _FIELDS}
    return json.dumps({**fields, "stop": list(stop)}, sort_keys=True)


def key_of(digest: bytes, request: EngineRequest) -> bytes:
    """Return the name of the sample of a request on the engine whose texts have this digest."""
    name = blake2b(digest, digest_size=_SIZE)
    name.update(f"{request.seed} {sampling_of(request)}".encode())
    name.update(pack("i", request.prompt))
    return name.digest()


def pack(kind: str, values: Sequence[float]) -> bytes:
    """Return numbers as bytes: ``i`` whole ones of 4 bytes, ``d`` floats of 8; on every machine alike."""
    numbers = array(kind, values)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack(kind: str, data: bytes) -> tuple[Any, ...]:
    """Return the numbers that were packed. Raises ``ValueError`` for what is no such thing."""
    numbers: array[Any] = array(kind)
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)


def pack_mappings(mappings: Sequence[Mapping[int, float]]) -> bytes:
    """Return log-probabilities of tokens as bytes: counts, token ids and values, each in its own place."""
    ids = [token for mapping in mappings for token in mapping]
    values = [value for mapping in mappings for value in mapping.values()]
    head = pack("i", [len(mappings), *map(len, mappings), *ids])
    return zlib.compress(head + pack("d", values), 1)


def unpack_mappings(data: bytes, most: int) -> tuple[dict[int, float], ...]:
    """Return the log-probabilities that were packed, the first ``most`` of every token: the best ones."""
    raw = zlib.decompress(data)
    (count,) = unpack("i", raw[:4])
    sizes = unpack("i", raw[4 : 4 + 4 * count])
    middle = 4 + 4 * count + 4 * sum(sizes)
    ids, values = unpack("i", raw[4 + 4 * count : middle]), unpack("d", raw[middle:])
    found, place = [], 0
    for size in sizes:
        end = place + min(size, most)
        found.append(dict(zip(ids[place:end], values[place:end], strict=True)))
        place += size
    return tuple(found)
