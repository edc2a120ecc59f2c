"""What the memory planner is asked and what it answers: two models, a round of search, a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ttsflow.costs.roofline import Roofline
from ttsflow.errors import ConfigError
from ttsflow.memory import Method

__all__ = ["GIB", "Load", "Moved", "Plan", "Share", "Sharing", "Side"]

GIB = 1 << 30

#: What leaves the device for the host while the other model works: nothing, its KV cache, or all it has.
Moved = Literal["none", "kv", "weights"]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the models on a device.

    Its KV cache has blocks of ``block`` tokens and must hold one sequence of ``longest``; an iteration reads
    ``batch_tokens`` at most. With ``keep`` what was read once is found again while its KV is there. ``seats``
    are those it has anyway.
    """

    roofline: Roofline
    longest: int
    block: int = 16
    batch_tokens: int = 8192
    keep: bool = True
    seats: int = 1

    def __post_init__(self) -> None:
        for name in ("longest", "block", "batch_tokens", "seats"):
            if getattr(self, name) < 1:
                raise ConfigError(f"must be at least 1, got {getattr(self, name)}.", name)
        for name in ("tflops", "bandwidth"):
            if getattr(self.roofline.hardware, name) is None:
                raise ConfigError(
                    "is not known, and without it nobody can say how long a batch takes; give a number, or "
                    "measure this machine with hardware=cpu.",
                    f"hardware.{name}",
                )

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return math.ceil(self.block * self.roofline.kv_bytes)

    def kv(self, tokens: float) -> int:
        """Return the bytes that so many tokens of one sequence take, in whole blocks and at least one."""
        return max(1, math.ceil(tokens / self.block)) * self.block_bytes


@dataclass(frozen=True, slots=True)
class Load:
    """What one round of a search asks for, in tokens of a typical candidate.

    ``n`` candidates of ``problems`` problems, with a prompt of ``prompt`` tokens and ``path`` decoded
    behind it, get a step of ``step`` more, the longest of them one of ``tail``, and are read by the verifier.
    ``copies`` of them go on from one path. With ``shared`` a prompt, and a path that several go on from, is
    in a cache once.
    """

    n: int
    prompt: float
    path: float
    step: float
    tail: float = 0.0
    copies: int = 1
    problems: int = 1
    shared: bool = True

    def __post_init__(self) -> None:
        for name in ("n", "copies", "problems"):
            if getattr(self, name) < 1:
                raise ConfigError(f"must be at least 1, got {getattr(self, name)}.", name)
        for name, least in (("prompt", 0), ("path", 0), ("step", 1), ("tail", 0)):
            if not least <= getattr(self, name) < 1e9:
                raise ConfigError(f"must be at least {least} tokens, got {getattr(self, name)}.", name)

    @property
    def size(self) -> float:
        """Tokens of a candidate at the end of the round."""
        return self.prompt + self.path + self.step

    @property
    def own(self) -> float:
        """Tokens that a candidate has for itself in a cache which keeps what several share."""
        return self.path / self.copies + self.step if self.shared else self.size

    @property
    def again(self) -> float:
        """Tokens before the step that are read again for a candidate when they left such a cache.

        A prompt is used all the time and stays. Of a path the last step is that of ``copies`` candidates, and
        what is before that of as many again.
        """
        if not self.shared:
            return self.prompt + self.path
        last = min(self.step, self.path)
        return (last + (self.path - last) / self.copies) / self.copies


@dataclass(frozen=True, slots=True)
class Sharing:
    """Two models, or a generator alone, that share ``memory`` bytes for weights and KV caches.

    ``offload`` are the ways in which the platform can move one model's things out while the other works;
    two models that work at the same time have none.
    """

    generator: Side
    verifier: Side | None
    memory: float
    load: Load
    method: Method = "linear"
    offload: tuple[Moved, ...] = ()

    @property
    def weights(self) -> tuple[float, float]:
        """Bytes of the weights of both, 0 for a verifier that is none."""
        verifier = 0.0 if self.verifier is None else self.verifier.roofline.weight_bytes
        return self.generator.roofline.weight_bytes, verifier

    def limits(self, moved: Moved) -> tuple[float, float]:
        """Return the bytes of KV that each may have, on condition that nothing is shared in ``none``."""
        ours, theirs = self.weights
        if moved == "weights":
            return self.memory - ours, self.memory - theirs
        left = self.memory - ours - theirs
        return left, left


@dataclass(frozen=True, slots=True)
class Share:
    """What a plan gives one model: its KV cache, and sequences at once.

    ``batch`` of them is what the search found: so many wait for each other in a round.
    """

    blocks: int
    kv_bytes: int
    seats: int
    batch: int

    @property
    def kv_gib(self) -> float:
        """The size of the KV cache, as the setting of an engine."""
        return self.kv_bytes / GIB


@dataclass(frozen=True, slots=True)
class Plan:
    """How two models share a device, and what a round takes then.

    ``seconds`` of a round are those of ``decoding``, ``reading`` and ``moving``; ``reasons`` say for a person
    how it came about. ``compared`` are the seconds that other splits would take, by their names.
    """

    generator: Share
    verifier: Share | None
    offload: Moved
    decoding: float
    reading: float
    moving: float
    reasons: tuple[str, ...] = ()
    compared: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Seconds of a round."""
        return self.decoding + self.reading + self.moving
