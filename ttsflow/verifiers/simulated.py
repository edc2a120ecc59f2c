"""A verifier of a set quality, whose reading takes time on a simulated device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from ttsflow.costs.models import shape_of
from ttsflow.costs.plan import Moved
from ttsflow.costs.replan import Replanner
from ttsflow.costs.roofline import Roofline
from ttsflow.engines.sim import GIB, Sim, blocks_of, blocks_within, check_gib, check_sizes, taken_gib
from ttsflow.engines.sim_batch import Batch
from ttsflow.engines.sim_cache import Cache
from ttsflow.engines.sim_device import Device
from ttsflow.engines.sim_live import SimEngine
from ttsflow.engines.sim_reader import SimReader
from ttsflow.engines.sim_sequence import Limits
from ttsflow.errors import ConfigError
from ttsflow.lineage import derive
from ttsflow.ops import Verdict
from ttsflow.protocols import EnginePart, Task, Verifier, VerifierPart
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.batch import Batched, steps_of
from ttsflow.verifiers.served import opened, served

__all__ = ["Simulated", "TimedVerifier"]

#: Settings that say something of scores, not of the time that reading takes.
_WITHOUT_MODEL = frozenset({"quality", "scores", "model"})


@dataclass(frozen=True, slots=True)
class Simulated:
    """Scores the steps that a law has written: right and wrong ones are ``quality`` apart.

    The score of a step is the sigmoid of a normal number of standard deviation 1, with mean ``quality`` / 2
    where the trajectory is right so far and -``quality`` / 2 where it is not: 0 tells nothing, 4 nearly all.
    It is a pure function of the text. With ``scores`` another verifier gives the scores.

    With ``model`` reading takes time on the device of engine ``sim``: each candidate is read whole, but for
    what ``prefix_cache`` still holds. ``memory_share`` of the device is the verifier's, or its KV cache has
    ``kv_gib``. The two models take turns, or run ``together``. In turns what the other one has may leave the
    device meanwhile: with ``offload: kv`` its KV cache, with ``weights`` everything. The other settings are
    those of the engine.
    """

    quality: float = 0.5
    scores: VerifierPart | None = None
    model: str | None = None
    weight_bits: int = 16
    kv_bits: int = 16
    seats: int = 256
    batch_tokens: int = 8192
    block_size: int = 16
    prefix_cache: bool = False
    memory_share: float = 0.4
    reserve_gib: float = 0.5
    kv_gib: float | None = None
    together: bool = False
    offload: Moved = "none"

    def __post_init__(self) -> None:
        if not 0 <= self.quality <= 100:
            raise ConfigError(f"must lie between 0 and 100, got {self.quality}.", "quality")
        check_sizes(self)
        if self.kv_gib is not None:
            check_gib(self.kv_gib, "kv_gib")
        if self.together and self.offload != "none":
            raise ConfigError("two models that run together are both on the device; set none.", "offload")
        if served(self.scores) is not None:
            raise ConfigError("a verifier that needs engines of its own cannot be simulated.", "scores")
        if self.model is not None:
            shape_of(self.model)

    def check_beside(self, engine: EnginePart) -> None:
        """Refuse an engine without a device, and shares of its memory that do not add up."""
        if self.scores is None and not isinstance(engine, Sim):
            raise ConfigError("it reads the marks that engine=sim writes; another engine writes none.", "use")
        if self.model is None:
            self._check_idle()
            return
        if not isinstance(engine, Sim):
            raise ConfigError("a verifier that takes simulated time needs engine=sim.", "model")
        if self.offload != "none":
            self._check_moved(engine)
            return
        roofline, memory = self._roofline(engine), engine.hardware.memory_gib
        wanted = taken_gib(engine, engine.roofline()) + taken_gib(self, roofline)
        if wanted > memory * (1 + 1e-9):
            shares = "engine.memory_share" if engine.kv_gib is None else "engine.kv_gib"
            own = "verifier.memory_share" if self.kv_gib is None else "verifier.kv_gib"
            raise ConfigError(
                f"engine and verifier together want {wanted / memory:.0%} of the device's memory "
                f"({wanted:.1f} of {memory:g} GiB); set {shares} and {own}.",
                "memory_share",
            )
        self._blocks(roofline)

    def _check_idle(self) -> None:
        """Refuse settings of a model where there is none."""
        for item in fields(self):
            if item.name not in _WITHOUT_MODEL and getattr(self, item.name) != item.default:
                raise ConfigError(
                    "does nothing, as reading takes no time; set verifier.model, such as math-shepherd-7b.",
                    item.name,
                )

    def _check_moved(self, engine: Sim) -> None:
        """Refuse two models of which more than the device holds would be on it at once."""
        ours, theirs = self._roofline(engine), engine.roofline()
        weights = [roofline.weight_bytes / GIB for roofline in (theirs, ours)]
        caches = [engine.blocks * engine.block_size * theirs.kv_bytes / GIB]
        caches.append(self._blocks(ours) * self.block_size * ours.kv_bytes / GIB)
        wanted = (
            {
                "kv": sum(weights) + max(caches),
                "weights": max(map(sum, zip(weights, caches, strict=True))),
            }[self.offload]
            + self.reserve_gib
            + engine.reserve_gib
        )
        if wanted > engine.hardware.memory_gib * (1 + 1e-9):
            raise ConfigError(
                f"weights of {weights[0]:.1f} and {weights[1]:.1f} GiB and KV caches of {caches[0]:.1f} and "
                f"{caches[1]:.1f} GiB and reserves take {wanted:.1f} GiB at once; the device has "
                f"{engine.hardware.memory_gib:g}. Set engine.kv_gib and verifier.kv_gib.",
                "kv_gib",
            )

    def open(self) -> Verifier:
        """Return the scores alone, without their time. Raises ``ConfigError`` where time was asked for."""
        if self.model is not None:
            raise ConfigError("a verifier that takes simulated time needs the run's engine.", "model")
        return Batched(self._score)

    def open_beside(self, engine: Any, task: Task) -> Verifier:
        """Return the working verifier beside the opened engine of the run."""
        verifier = Batched(self._score) if self.scores is None else opened(self.scores, task)
        if self.model is None:
            return verifier
        if not isinstance(engine, SimEngine):
            raise ConfigError("a verifier that takes simulated time needs engine=sim.", "model")
        roofline = Roofline(engine.device.hardware, shape_of(self.model), self.weight_bits, self.kv_bits)
        blocks, limits = self._blocks(roofline), Limits(self.seats, self.batch_tokens)

        def make(device: Device) -> Batch:
            return Batch(Cache(blocks, self.block_size, keep=self.prefix_cache), roofline, device, limits)

        context = blocks * self.block_size
        reader = SimReader(engine, make, context=context, together=self.together, moved=self.offload)
        return TimedVerifier(verifier, reader)

    def _roofline(self, engine: Sim) -> Roofline:
        return replace(
            engine.roofline(),
            model=shape_of(self.model or ""),
            weight_bits=self.weight_bits,
            kv_bits=self.kv_bits,
        )

    def _blocks(self, roofline: Roofline) -> int:
        if self.kv_gib is not None:
            return blocks_within(roofline, self.kv_gib, self.reserve_gib, self.block_size)
        return blocks_of(roofline, self.memory_share, self.reserve_gib, self.block_size, self.model or "")

    def _score(self, batch: Sequence[tuple[Problem, Candidate]]) -> list[list[float | None]]:
        return [
            [_score_of(step, self.quality) for step in steps_of(candidate.text, "\n\n")]
            for _, candidate in batch
        ]


@lru_cache(maxsize=1 << 18)
def _score_of(step: str, quality: float) -> float | None:
    """Return the score of a step as the law writes it, None for any other text."""
    mark, _, code = step.strip().partition(" ")
    if mark not in {"right", "wrong"} or not code:
        return None
    noise = NormalDist().inv_cdf((derive("verifier", code) + 0.5) / 2**63)
    return 1 / (1 + math.exp(-noise - (quality if mark == "right" else -quality) / 2))


class TimedVerifier:
    """Gives the verdicts of ``inner`` when ``reader`` has read the candidates."""

    def __init__(self, inner: Verifier, reader: SimReader) -> None:
        self._inner = inner
        self._reader = reader
        self._verdicts: dict[str, Verdict] = {}
        self._read: dict[str, int] = {}
        self._given = 0

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate under a new id."""
        size = len(candidate.prompt) + len(candidate.tokens)
        if size > self._reader.context:
            reason = f"{size} tokens are more than the {self._reader.context} that the verifier's cache holds"
            self._verdicts[id], self._read[id] = Verdict(id, (), reason=reason), 0
            return
        self._given += size
        self._inner.submit(id, problem, candidate)
        self._reader.submit(id, problem.id, candidate)

    def follow(self, replanner: Replanner) -> None:
        """Share the device as ``replanner`` says, from the next turn on that it finds its plan to be off."""
        self._reader.follow(replanner)

    def step(self) -> list[Verdict]:
        """Advance both and return who has been read and scored."""
        self._read |= self._reader.step()
        for verdict in self._inner.step():
            self._verdicts[verdict.id] = verdict
        ready = [name for name in self._read if name in self._verdicts]
        return [self._verdicts.pop(name)._replace(tokens=self._read.pop(name)) for name in ready]

    def counters(self) -> dict[str, float]:
        """Return the tokens of all candidates that were computed, and that the prefix cache had."""
        computed = self._reader.computed
        return {
            "verifier_computed_tokens": computed,
            "verifier_saved_tokens": max(0, self._given - computed),
        }

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget queued candidates."""
        self._inner.cancel(ids)
        for name in ids:
            self._reader.cancel(name)
            self._verdicts.pop(name, None)
            self._read.pop(name, None)

    def close(self) -> None:
        """Forget everything."""
        self._inner.close()
        self._verdicts.clear()
        self._read.clear()
