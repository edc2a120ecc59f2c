"""What a batch of a round costs, in closed form: time, bytes, and which batches are worth a look.

T = max(FLOPs / P, bytes / BW) for every phase, as ``Roofline.span`` has it, with all that does not depend on
the batch worked out beforehand: a plan looks at hundreds of batches in a millisecond.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ttsflow.costs.plan import Load, Side

__all__ = ["Batch", "Bytes", "decoding", "even_batches", "kv_bytes", "reading"]


class Batch(NamedTuple):
    """``waves`` batches, one after the other, of at most ``size`` sequences."""

    waves: int
    size: int


class Bytes(NamedTuple):
    """KV of a batch: ``once`` in all, and ``each`` for every sequence."""

    once: int
    each: int

    def of(self, size: int) -> int:
        """Return the bytes of a batch of ``size``."""
        return self.once + size * self.each

    def most(self, memory: float) -> int:
        """Return the largest batch that fits; below 1 there is none."""
        return int((memory - self.once) // self.each)


def even_batches(n: int) -> list[Batch]:
    """Return the batches that n sequences can be cut into, the smallest first.

    Of all sizes with one number of waves only the smallest: a larger one takes more memory and, as the time
    of a batch grows with it, no less time. That leaves about 2 sqrt(n).
    """
    batches, waves = [], 1
    while True:
        size = math.ceil(n / waves)
        batches.append(Batch(waves, size))
        if size == 1:
            return batches[::-1]
        # The first number of waves in which a batch is smaller.
        waves = math.ceil(n / (size - 1))


def kv_bytes(side: Side, load: Load) -> Bytes:
    """Return what the candidates of a round take in the cache of a model; one of them may be the longest.

    A cache that keeps what it has seen has a prompt, and a path that several go on from, once.
    """
    if load.shared and side.keep:
        each = side.kv(load.own)
        once = load.problems * side.kv(load.prompt) if load.prompt else 0
    else:
        each, once = side.kv(load.size), 0
    return Bytes(once + max(0, side.kv(side.longest) - each), each)


class _Rates(NamedTuple):
    """Seconds that do not depend on a batch, of one model on one device."""

    launch: float
    sequence: float
    weights: float
    """To read all weights once."""
    dense: float
    """Of the products of one token in all layers."""
    output: float
    """Of the products of one sampled token in the output layer."""
    pair: float
    """Of the products of one token that looks at one other."""
    kv: float
    """To read the keys and values of one token."""


def _rates(side: Side) -> _Rates:
    roofline, hardware = side.roofline, side.roofline.hardware
    model, factors = roofline.model, hardware.efficiency
    flops = (hardware.tflops or 0) * 1e12 * factors.compute
    bandwidth = (hardware.bandwidth or 0) * 1e9
    parameters = model.layer_parameters + model.output_parameters
    return _Rates(
        factors.launch,
        factors.sequence,
        parameters * roofline.weight_bits / 8 / (bandwidth * factors.bandwidth),
        2 * model.layer_parameters / flops,
        2 * model.output_parameters / flops,
        model.attention_flops / flops,
        roofline.kv_bytes / (bandwidth * factors.attention),
    )


def decoding(side: Side, load: Load) -> Callable[[int], float]:
    """Return the seconds in which all of a round get their step, as a function of the batch.

    n / size * S_dec * T_roof(size, context), where a token looks at half of its step on average, and at all
    that is before it; never longer in a larger batch. It differs from the paper's in three ways. Batches are
    not rounded up to whole ones, as a seat that gets free is taken at once. A round ends with its longest
    step, for which weights are read again and again: list scheduling takes at most the work through the batch
    and the longest piece (Graham 1966). And what does not fit into the cache beside the others is read again,
    counted by its products.
    """
    rates = _rates(side)
    n, launch, weights = load.n, rates.launch, rates.weights
    token, steps = rates.dense + rates.output, n * load.step
    context = load.prompt + load.path + (load.step - 1) / 2
    each = steps * (rates.sequence + context * max(rates.pair, rates.kv))
    again = n * _products(rates, load.again, load.prompt) if side.keep else 0.0
    end = each + max(0.0, load.tail - load.step) * (launch + weights)

    def seconds(size: int) -> float:
        # In this order even its last bit never grows with the batch.
        return steps * (launch / size + max(token, weights / size)) + again * (1 - size / n) + end

    return seconds


def _products(rates: _Rates, tokens: float, before: float) -> float:
    """Return the seconds of reading ``tokens`` behind ``before``, by the products alone."""
    return tokens * (rates.dense + (before + tokens / 2) * rates.pair)


def reading(side: Side, load: Load, batches: Sequence[Batch]) -> list[float]:
    """Return the seconds in which the verifier reads all of a round, for each way to cut it into batches.

    waves * T_roof(size, S). A batch of more than ``batch_tokens`` goes through the weights several times.
    Where the cache keeps what was read, only what is new is read, and of w batches that take turns in it the
    paths of all but one again.
    """
    rates = _rates(side)
    whole, step, again, limit = load.size, load.step, load.again, side.batch_tokens
    costs = []
    for waves, size in batches:
        read = step + again * (1 - 1 / waves) if side.keep else whole
        passes = max(1.0, size * read / limit)
        dense = size * (read * rates.dense + rates.output)
        pairs = read * (whole - read) + read * (read + 1) / 2
        costs.append(
            waves
            * (
                passes * rates.launch
                + size * rates.sequence
                + max(dense, passes * rates.weights)
                + size * max(pairs * rates.pair, whole * rates.kv)
            )
        )
    return costs
