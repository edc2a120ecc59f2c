"""The simulated engine: its settings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ttsflow.costs.hardware import Hardware
from ttsflow.costs.models import ModelShape, shape_of
from ttsflow.costs.roofline import Roofline
from ttsflow.engines.law import Law
from ttsflow.engines.sim_batch import Batch
from ttsflow.engines.sim_cache import Cache
from ttsflow.engines.sim_device import Device
from ttsflow.engines.sim_live import SimEngine
from ttsflow.engines.sim_sequence import Limits
from ttsflow.errors import ConfigError
from ttsflow.paths import PathsPart
from ttsflow.protocols import Capabilities, Task
from ttsflow.types import Sampling

__all__ = ["GIB", "Sim", "blocks_of", "blocks_within", "check_gib", "check_sizes", "taken_gib"]

GIB = 1 << 30
_BITS = (2, 3, 4, 5, 6, 8, 16, 32)


def check_sizes(part: Any) -> None:
    """Raise ``ConfigError`` for sizes of a model on a device that cannot be."""
    for name in ("seats", "batch_tokens", "block_size"):
        if getattr(part, name) < 1:
            raise ConfigError(f"must be at least 1, got {getattr(part, name)}.", name)
    for name in ("weight_bits", "kv_bits"):
        if getattr(part, name) not in _BITS:
            known = ", ".join(map(str, _BITS))
            raise ConfigError(f"a number has {known} bits, got {getattr(part, name)}.", name)
    if not 0 < part.memory_share <= 1:
        raise ConfigError(
            f"a share of the memory lies above 0 and up to 1, got {part.memory_share}.", "memory_share"
        )
    check_gib(part.reserve_gib, "reserve_gib")


def check_gib(size: float, name: str) -> None:
    """Raise ``ConfigError`` for what is no size of a memory."""
    if not 0 <= size <= 1 << 20:
        raise ConfigError(f"must lie between 0 and a million, got {size}.", name)


def taken_gib(part: Any, roofline: Roofline) -> float:
    """Return the GiB that a model takes: its share, or weights, reserve and the KV cache that was set."""
    kv: float | None = getattr(part, "kv_gib", None)
    if kv is None:
        return float(part.memory_share) * roofline.hardware.memory_gib
    return roofline.weight_bytes / GIB + kv + float(part.reserve_gib)


def blocks_of(roofline: Roofline, share: float, reserve: float, block: int, name: str) -> int:
    """Return the blocks of ``block`` tokens that fit beside the weights in a share of the memory.

    ``reserve`` are GiB for everything else. Raises ``ConfigError`` when not one is left.
    """
    weights, memory = roofline.weight_bytes / GIB, roofline.hardware.memory_gib
    left = memory * share - weights - reserve
    blocks = int(left * GIB // (roofline.kv_bytes * block))
    if blocks < 1:
        raise ConfigError(
            f"{name} has {weights:.1f} GiB of weights; {share:.0%} of {memory:g} GiB, less a reserve of "
            f"{reserve:g} GiB, leaves no room for its KV cache. Take fewer `weight_bits`, a larger share or "
            "another device.",
            "memory_share",
        )
    return blocks


def blocks_within(roofline: Roofline, kv_gib: float, reserve: float, block: int) -> int:
    """Return the blocks of ``block`` tokens in a KV cache of ``kv_gib`` on the roofline's device.

    Raises ``ConfigError`` when it does not fit beside weights and ``reserve``, or holds none.
    """
    weights, memory = roofline.weight_bytes / GIB, roofline.hardware.memory_gib
    if weights + kv_gib + reserve > memory:
        raise ConfigError(
            f"{kv_gib:g} GiB beside {weights:.1f} GiB of weights and a reserve of {reserve:g} GiB are more "
            f"than the device's {memory:g} GiB; null takes what is left.",
            "kv_gib",
        )
    blocks = int(kv_gib * GIB // (roofline.kv_bytes * block))
    if blocks < 1:
        raise ConfigError(f"{kv_gib:g} GiB hold no block of {block} tokens.", "kv_gib")
    return blocks


@dataclass(frozen=True, slots=True)
class Sim:
    """A model on a described device, in virtual time: any GPU, thousands of candidates, no weights.

    ``model`` is a shipped description, a ``config.json`` or a folder with one; weights and KV cache have so
    many bits a number. ``memory_share`` of the device is for weights, ``reserve_gib`` and KV cache;
    ``kv_gib`` sets the latter itself. ``seats`` sequences run at once, an iteration has ``batch_tokens`` at
    most, prompts are read in chunks where ``chunked``. The cache has blocks of ``block_size`` tokens and
    keeps prefixes with ``prefix_cache``. A sequence that has to give way reads its tokens again, or with
    ``offload_gib`` has them kept on the host. ``paths`` is where trajectories come from.

    Time is that of a roofline, see ``ttsflow.costs.roofline``; nothing is faster than its floor.
    """

    hardware: Hardware
    model: str = "qwen2.5-math-1.5b"
    paths: PathsPart = field(default_factory=Law)
    weight_bits: int = 16
    kv_bits: int = 16
    seats: int = 256
    batch_tokens: int = 8192
    chunked: bool = True
    block_size: int = 16
    prefix_cache: bool = True
    memory_share: float = 0.9
    reserve_gib: float = 0.5
    kv_gib: float | None = None
    offload_gib: float = 0.0
    context: int | None = None

    virtual: ClassVar[bool] = True
    unpooled: ClassVar[str] = (
        "this engine simulates how long samples take, and played ones take no time; engines with a model "
        "have a pool, such as engine=vllm."
    )

    def __post_init__(self) -> None:
        check_sizes(self)
        if self.context is not None and self.context < 1:
            raise ConfigError(f"must be at least 1, or null, got {self.context}.", "context")
        check_gib(self.offload_gib, "offload_gib")
        if self.kv_gib is not None:
            check_gib(self.kv_gib, "kv_gib")
        _ = self.blocks

    @property
    def shape(self) -> ModelShape:
        """The sizes of the model. Raises ``ConfigError``."""
        return shape_of(self.model)

    @property
    def blocks(self) -> int:
        """Blocks of the KV cache. Raises ``ConfigError`` when not even one is left."""
        roofline = self.roofline()
        if self.kv_gib is None:
            return blocks_of(roofline, self.memory_share, self.reserve_gib, self.block_size, self.model)
        return blocks_within(roofline, self.kv_gib, self.reserve_gib, self.block_size)

    @property
    def capabilities(self) -> Capabilities:
        """Those of the paths."""
        return self.paths.capabilities

    @property
    def source(self) -> tuple[str | None, str] | None:
        """The file the paths come from, where task and verifier must read the same."""
        return getattr(self.paths, "source", None)

    @property
    def most_samples(self) -> int | None:
        """Samples that every problem has, where they are numbered."""
        return getattr(self.paths, "most_samples", None)

    def check(self) -> None:
        """Refuse paths that cannot be read."""
        own = getattr(self.paths, "check", None)
        if own is not None:
            try:
                own()
            except ConfigError as error:
                raise error.below("paths") from error

    def check_task(self, task: Task) -> None:
        """Refuse a task that cannot read these paths."""
        own = getattr(self.paths, "check_task", None)
        if own is not None:
            own(task)

    def check_sampling(self, sampling: Sampling) -> None:
        """Let paths that are known say what limits cut of them."""
        own = getattr(self.paths, "check_limits", None)
        if own is not None:
            own(sampling.max_tokens, self._context)

    @property
    def _context(self) -> int:
        # A sequence that could not be alone in the cache would wait for ever.
        return min(self.context or self.shape.context, self.blocks * self.block_size)

    def roofline(self) -> Roofline:
        """Return how long things take on this device."""
        return Roofline(self.hardware, self.shape, self.weight_bits, self.kv_bits)

    def open(self) -> SimEngine:
        """Return the engine; where the hardware is to be measured, that is done now."""
        blocks = self.blocks
        hardware = self.hardware.measured()
        roofline = replace(self.roofline(), hardware=hardware)
        limits = Limits(self.seats, self.batch_tokens, self.chunked, self.offload_gib * GIB)
        device = Device(hardware, self.memory_share)

        def make() -> Batch:
            return Batch(Cache(blocks, self.block_size, keep=self.prefix_cache), roofline, device, limits)

        return SimEngine(
            self.paths.open_paths(),
            self.capabilities,
            device,
            make,
            context=self._context,
        )
