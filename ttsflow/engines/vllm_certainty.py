"""Measures, inside vLLM's sampler, how far the distribution of every sampled token is from uniform.

vLLM itself hands out the best log-probabilities only; this needs those of the whole vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from vllm.v1.sample.logits_processor import LogitsProcessor, process_dict_updates
from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as SlotProcessor

__all__ = ["KEY", "Certainties", "CertaintyProcessor", "certainty_of"]

#: Where a request's ``Certainties`` are in the ``extra_args`` of its sampling parameters.
KEY = "ttsflow_certainties"


def certainty_of(logits: torch.Tensor) -> torch.Tensor:
    """Return KL(uniform || softmax(row)) in nats for every row of float32 logits."""
    spread = logits.logsumexp(dim=-1) - logits.mean(dim=-1)
    return (spread - math.log(logits.shape[-1])).clamp(min=0.0)


class Certainties:
    """What was measured for one request, on its way from vLLM's sampler to the engine.

    It travels in the request's sampling parameters; vLLM copies those, and a copy of this is this. A
    value is kept by how many output tokens stand before it: vLLM also samples tokens that it throws
    away, such as those behind a part of a prompt, and their values are written over.
    """

    __slots__ = ("_taken", "_values", "prompt")

    def __init__(self, prompt: int) -> None:
        self.prompt = prompt
        self._taken = 0
        self._values: dict[int, float] = {}

    def __deepcopy__(self, memo: dict[int, Any]) -> Certainties:
        return self

    def put(self, place: int, value: float) -> None:
        """Keep the value of the token that has ``place`` output tokens before it."""
        if place >= self._taken:
            self._values[place] = value

    def take(self, count: int) -> tuple[float, ...]:
        """Return the values of the next ``count`` tokens and forget them."""
        first, self._taken = self._taken, self._taken + count
        return tuple([self._values.pop(place) for place in range(first, self._taken)])


class CertaintyProcessor(LogitsProcessor, SlotProcessor):  # type: ignore[misc]  # both are Any to mypy
    """Measures rows of logits and leaves them as they are; does nothing for requests that do not ask.

    vLLM has two model runners, each with its own idea of a logits processor, and this is both. The older
    one (on CPU) tells by ``update_state`` which rows of the batch are whose. The newer one (on CUDA)
    tells by ``add_request`` who has a slot, and with every step which slots are in the batch.
    """

    def __init__(self, *given: Any) -> None:
        del given  # each runner has something else to say
        # By row: what to fill, and the output tokens so far. By slot: what to fill.
        self._rows: dict[int, tuple[Certainties, list[int]]] = {}
        self._slots: dict[int, Certainties] = {}

    def is_argmax_invariant(self) -> bool:
        """Say no: those that are run late, after temperature, and not at all in greedy decoding."""
        return False

    def update_state(self, batch_update: Any) -> None:
        """Keep track of the rows of the batch."""
        if batch_update is not None:
            process_dict_updates(self._rows, batch_update, _row)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Take note of who has a slot, and say whether it is to be measured."""
        wanted = _wanted(sampling_params)
        if wanted is None:
            self._slots.pop(req_idx, None)
            return False
        self._slots[req_idx] = wanted
        return True

    def apply(self, logits: torch.Tensor, context: Any = None) -> torch.Tensor:
        """Measure the rows that are asked for; return the logits unchanged."""
        if not (self._rows or self._slots):
            return logits
        found = self._by_row() if context is None else self._by_slot(context)
        places = sorted(found, key=lambda entry: entry[0])
        if places:
            rows = [row for row, _, _ in places]
            measured = certainty_of(logits if len(rows) == len(logits) else logits[rows]).tolist()
            for (_, place, wanted), value in zip(places, measured, strict=True):
                wanted.put(place, value)
        return logits

    def _by_row(self) -> Iterator[tuple[int, int, Certainties]]:
        """Return row, place and where it goes, as the older runner has it."""
        for row, (wanted, output) in self._rows.items():
            yield row, len(output), wanted

    def _by_slot(self, context: Any) -> Iterator[tuple[int, int, Certainties]]:
        """Return the same as the newer runner has it, without parts of prompts."""
        # Lengths are padded to the size of a graph. Both arrays are on the host.
        slots, lengths = context.idx_mapping_np.tolist(), context.seq_lens_upper_bound_np.tolist()
        for row, (slot, length) in enumerate(zip(slots, lengths, strict=False)):
            wanted = self._slots.get(slot)
            if wanted is not None and length >= wanted.prompt:
                yield row, length - wanted.prompt, wanted


def _wanted(params: Any) -> Certainties | None:
    wanted: Certainties | None = (params.extra_args or {}).get(KEY)
    return wanted


def _row(params: Any, prompt: Any, output: list[int]) -> tuple[Certainties, list[int]] | None:
    """Return what is kept of a request that the older runner puts into a row."""
    del prompt
    wanted = _wanted(params)
    return None if wanted is None else (wanted, output)
