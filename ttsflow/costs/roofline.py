"""How long one iteration of an engine takes on a machine: per phase the larger of compute and memory time.

T = max(FLOPs / P, bytes / BW) for the dense layers, for attention of tokens being decoded and for attention
of prompts being read (the roofline of Williams et al. 2009, per phase as in FastTTS, arXiv 2509.00195), plus
a launch overhead and a part for every sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ttsflow.costs.hardware import Hardware
from ttsflow.costs.models import ModelShape

__all__ = ["Reading", "Roofline", "Span"]


class Reading(NamedTuple):
    """Prompts read in one iteration: ``tokens`` of ``sequences``, of which ``ended`` are read to the end.

    ``pairs`` counts each token with each one it looks at, ``before`` are tokens whose KV is read for it.
    """

    tokens: int = 0
    pairs: int = 0
    before: int = 0
    sequences: int = 0
    ended: int = 0


class Span(NamedTuple):
    """Seconds of one or more iterations, and how much of them compute and memory are busy."""

    seconds: float
    compute: float
    memory: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """Times of one model on one machine; weights and KV cache with so many bits a number."""

    hardware: Hardware
    model: ModelShape
    weight_bits: int = 16
    kv_bits: int = 16

    @property
    def weight_bytes(self) -> float:
        """Bytes that the weights take."""
        return self.model.parameters * self.weight_bits / 8

    @property
    def kv_bytes(self) -> float:
        """Bytes of the KV cache for one token."""
        return self.model.kv_bytes(self.kv_bits)

    def span(self, decoding: int, context: int, iterations: int = 1, reading: Reading | None = None) -> Span:
        """Return the time of ``iterations`` in which ``decoding`` sequences grow by a token each.

        ``context`` are all tokens they look at in the first of them; ``reading`` goes along in every one.
        """
        read = reading or Reading()
        model, factors = self.model, self.hardware.efficiency
        flops = (self.hardware.tflops or 0) * 1e12 * factors.compute
        bandwidth = (self.hardware.bandwidth or 0) * 1e9
        # Each iteration looks at one token more of each sequence.
        seen = iterations * context + decoding * iterations * (iterations - 1) // 2
        tokens, sampled = decoding + read.tokens, decoding + read.ended
        dense = iterations * (2 * model.layer_parameters * tokens + 2 * model.output_parameters * sampled)
        weights = iterations * (model.layer_parameters + model.output_parameters) * self.weight_bits / 8
        phases = (
            (dense / flops, weights / (bandwidth * factors.bandwidth)),
            (
                seen * model.attention_flops / flops,
                seen * self.kv_bytes / (bandwidth * factors.attention),
            ),
            (
                iterations * read.pairs * model.attention_flops / flops,
                iterations * (read.before + read.tokens) * self.kv_bytes / (bandwidth * factors.attention),
            ),
        )
        sequences = decoding + read.sequences
        fixed = iterations * (factors.launch + factors.sequence * sequences)
        seconds = fixed + sum(max(phase) for phase in phases)
        if not seconds:
            return Span(0.0, 0.0, 0.0)
        return Span(
            seconds,
            sum(compute for compute, _ in phases) / seconds,
            sum(memory for _, memory in phases) / seconds,
        )

    def transfer(self, tokens: int) -> float:
        """Return the seconds that the KV cache of ``tokens`` takes to or from the host."""
        return tokens * self.kv_bytes / (self.hardware.link * 1e9)
