"""What the tokens of a run would take of a model and a machine, whatever decoded them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from ttsflow.costs.hardware import Hardware
from ttsflow.costs.models import ModelShape, shape_of
from ttsflow.costs.roofline import Reading, Roofline
from ttsflow.errors import ConfigError
from ttsflow.types import Usage

__all__ = ["Flops", "RooflineSeconds"]

#: No context is longer.
_MOST = 100_000_000

#: A cost model is asked after every step, a description is read once.
_shape = cache(shape_of)


def _check_context(context: int) -> None:
    if not 0 <= context <= _MOST:
        raise ConfigError(f"a number of tokens from 0 to {_MOST:,} is wanted, got {context}.", "context")


@dataclass(frozen=True, slots=True)
class Flops:
    """Floating-point operations of the generator, from the sizes of its model.

    Two (a multiply and an add) for every parameter that a token passes: those of the layers for each prompt
    token that was not cached and each decoded one, those of the output layer for decoded ones (the 2N of
    Kaplan et al. 2020, arXiv 2001.08361, section 2.1). For attention every such token looks at ``context``
    others on average, 4 x layers x heads x head operations each; 0 leaves that out. What a verifier reads is
    not in it. ``model`` is a shipped description, a ``config.json``, or a folder with one. Additive.
    """

    model: str
    context: int = 0

    unit: ClassVar[str] = "FLOPs"
    #: A token of another model costs something else.
    of_model: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _shape(self.model)
        _check_context(self.context)

    def __call__(self, usage: Usage) -> float:
        """Return the operations for ``usage``."""
        shape: ModelShape = _shape(self.model)
        tokens = usage.prompt - usage.cached + usage.decoded
        layers = tokens * (2 * shape.layer_parameters + self.context * shape.attention_flops)
        return float(layers + usage.decoded * 2 * shape.output_parameters)


@dataclass(frozen=True, slots=True)
class RooflineSeconds:
    """Seconds that the tokens would take one after another on a described machine, without any batch.

    A decoded token takes an iteration of its own that looks at ``context`` tokens. Prompt tokens that were
    not cached are read ``chunk`` at a time, each for its share of such an iteration, with nothing before it.
    Times are those of the roofline (see ``ttsflow.costs.roofline``). It prices strategies by the latency of
    one stream, the same on every machine they were run on. ``hardware`` and ``model`` as of the engine
    ``sim``. Additive.
    """

    hardware: Hardware
    model: str
    context: int = 1024
    chunk: int = 512
    weight_bits: int = 16
    kv_bits: int = 16

    unit: ClassVar[str] = "roofline seconds"
    #: A token of another model costs something else.
    of_model: ClassVar[bool] = True
    advice: ClassVar[dict[str, str]] = {
        "hardware": "Choose a machine with hardware=NAME and refer to it as ${hardware}."
    }

    def __post_init__(self) -> None:
        if self.hardware.probe:
            raise ConfigError(
                "a price is not measured; give tflops and bandwidth as numbers, with probe: false.",
                "hardware.probe",
            )
        _shape(self.model)
        _check_context(self.context)
        if not 1 <= self.chunk <= _MOST:
            raise ConfigError(f"at least one token is read at a time, got {self.chunk}.", "chunk")
        for name in ("weight_bits", "kv_bits"):
            if not 1 <= getattr(self, name) <= 64:
                raise ConfigError(f"a number has 1 to 64 bits, got {getattr(self, name)}.", name)

    def __call__(self, usage: Usage) -> float:
        """Return the seconds of ``usage``."""
        read, decode = _rates(self)
        return (usage.prompt - usage.cached) * read + usage.decoded * decode


@cache
def _rates(part: RooflineSeconds) -> tuple[float, float]:
    """Return the seconds of a prompt token and of a decoded one."""
    roofline = Roofline(part.hardware, _shape(part.model), part.weight_bits, part.kv_bits)
    chunk = part.chunk
    reading = Reading(tokens=chunk, pairs=chunk * (chunk + 1) // 2, sequences=1)
    return (
        roofline.span(0, 0, reading=reading).seconds / chunk,
        roofline.span(1, part.context).seconds,
    )
