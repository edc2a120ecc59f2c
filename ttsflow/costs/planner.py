"""Splits the memory of a device between a generator and a verifier, so that a round takes the least time.

The search of FastTTS (arXiv 2509.00195, asymmetric memory): with N candidates, a verifier that reads S tokens
of each and a generator that decodes S_dec more of each,

    T = ceil(N / B_pre) T_roof(B_pre, S) + N / B_dec * S_dec T_roof(B_dec, S_dec / 2 + what is before)

is looked at for every batch B_pre of the verifier, with B_dec the most that the generator can have in the
memory left. At equal times the larger B_dec wins. ``plan_costs`` says where this differs from the paper.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ttsflow.costs.plan import Moved, Plan, Share, Sharing, Side
from ttsflow.costs.plan_costs import (
    Batch,
    Bytes,
    decoding,
    even_batches,
    kv_bytes,
    reading,
)
from ttsflow.costs.plan_reasons import reasons, refused
from ttsflow.costs.search import SEARCHES

__all__ = ["plan", "split_evenly"]


class _Row(NamedTuple):
    """The batches of the verifier, the smallest first: what each costs, and what it takes."""

    batches: list[Batch]
    sizes: list[int]
    seconds: list[float]
    bytes: Bytes


class _Costs(NamedTuple):
    """What a round costs: the generator by its batch, the verifier by a row of batches, if there is one."""

    n: int
    decoding: Callable[[int], float]
    bytes: Bytes
    row: _Row | None

    def most(self, memory: float) -> int:
        """Return the largest batch of the generator in so much KV memory; 0 where none fits."""
        return max(0, min(self.n, self.bytes.most(memory)))


class _Found(NamedTuple):
    """A way to share the device, and what a round takes. Memory is that of the KV caches."""

    moved: Moved
    decode: int
    read: int
    decoding: float
    reading: float
    moving: float
    ours: float
    theirs: float

    @property
    def seconds(self) -> float:
        return self.decoding + self.reading + self.moving


def plan(sharing: Sharing) -> Plan:
    """Return how the models share the device. Raises ``ConfigError`` with the numbers where they cannot."""
    costs = _costs(sharing)
    ways = [_together(sharing, costs), *(_in_turns(sharing, costs, moved) for moved in _moves(sharing))]
    found = [way for way in ways if way is not None]
    if not found:
        raise refused(sharing)
    # The first of equals, so that nothing is moved for nothing.
    best = min(found, key=lambda way: way.seconds)
    compared: dict[str, float] = {way.moved: way.seconds for way in found}
    even = _half(sharing, costs)
    if even is not None:
        compared["half"] = even
    result = Plan(
        _share(sharing.generator, best.ours, costs.bytes, best.decode, sharing.load.n),
        None if sharing.verifier is None else _read_share(sharing.verifier, best.theirs, best.read),
        best.moved,
        best.decoding,
        best.reading,
        best.moving,
        compared=compared,
    )
    return replace(result, reasons=reasons(sharing, result))


def split_evenly(sharing: Sharing) -> float | None:
    """Return the seconds of a round when each model has half of the KV memory, None where that is too little.

    The same costs, so that a plan and this differ only in the split.
    """
    return _half(sharing, _costs(sharing))


def _half(sharing: Sharing, costs: _Costs) -> float | None:
    if costs.row is None:
        return None
    half = sharing.limits("none")[0] / 2
    size, count = costs.most(half), bisect_right(costs.row.sizes, costs.row.bytes.most(half))
    return costs.decoding(size) + min(costs.row.seconds[:count]) if size and count else None


def _costs(sharing: Sharing) -> _Costs:
    load, ours, theirs = sharing.load, sharing.generator, sharing.verifier
    row = None
    if theirs is not None:
        batches = even_batches(load.n)
        sizes = [batch.size for batch in batches]
        row = _Row(batches, sizes, reading(theirs, load, batches), kv_bytes(theirs, load))
    return _Costs(load.n, decoding(ours, load), kv_bytes(ours, load), row)


def _moves(sharing: Sharing) -> tuple[Moved, ...]:
    wanted = () if sharing.verifier is None else sharing.offload
    return tuple(moved for moved in wanted if moved != "none")


def _together(sharing: Sharing, costs: _Costs) -> _Found | None:
    """Return the best split of the memory with all of it on the device; None where nothing fits."""
    memory, row = sharing.limits("none")[0], costs.row
    if row is None:
        size = costs.most(memory)
        return _Found("none", size, 0, costs.decoding(size), 0.0, 0.0, memory, 0.0) if size else None
    # Less and less is left, so those that leave room for one sequence of the generator come first.
    count = bisect_right(row.sizes, row.bytes.most(memory - costs.bytes.of(1)))
    if not count:
        return None

    def seconds(place: int) -> float:
        return row.seconds[place] + costs.decoding(costs.most(memory - row.bytes.of(row.sizes[place])))

    at = SEARCHES[sharing.method](count, seconds)
    left = memory - row.bytes.of(row.sizes[at])
    size = costs.most(left)
    if sharing.verifier is not None and sharing.verifier.keep:
        # What the generator does not need keeps more of what the verifier has read, as far as there is more.
        needed = costs.bytes.of(max(costs.n, sharing.generator.seats))
        left = min(left, max(needed, memory - row.bytes.of(costs.n)))
    decode, read = costs.decoding(size), row.seconds[at]
    return _Found("none", size, row.sizes[at], decode, read, 0.0, left, memory - left)


def _in_turns(sharing: Sharing, costs: _Costs, moved: Moved) -> _Found | None:
    """Return the best batches where each model has the memory in its turn; None where one does not fit.

    At every change of turns what one has on the device goes and what the other had comes back, so that a
    larger cache costs time as well. A verifier that keeps nothing has nothing to be moved but weights.
    """
    row, verifier = costs.row, sharing.verifier
    assert row is not None and verifier is not None  # noqa: PT018 - asked for only with a verifier
    # There and back, once in a round.
    byte = 2 / (sharing.generator.roofline.hardware.link * 1e9)
    ours, theirs = sharing.limits(moved)
    most, count = costs.most(ours), bisect_right(row.sizes, row.bytes.most(theirs))
    if not most or not count:
        return None

    def seconds(size: int) -> float:
        return costs.decoding(size) + costs.bytes.of(size) * byte

    # Convex: the first batch behind which it rises is the best, or the largest that fits.
    decode = 1 + bisect_left(range(1, most), 1, key=lambda size: seconds(size + 1) > seconds(size))
    kept = byte if verifier.keep else 0.0
    read = min(
        reversed(range(count)), key=lambda place: row.seconds[place] + row.bytes.of(row.sizes[place]) * kept
    )
    size = row.sizes[read]
    caches = costs.bytes.of(decode), row.bytes.of(size)
    weights = sum(sharing.weights) if moved == "weights" else 0.0
    moving = (caches[0] + weights) * byte + caches[1] * kept
    return _Found(moved, decode, size, costs.decoding(decode), row.seconds[read], moving, *caches)


def _share(side: Side, memory: float, bytes_: Bytes, batch: int, n: int) -> Share:
    """Return what the generator gets: all that is left, and no more seats than have room in it."""
    blocks = int(memory // side.block_bytes)
    room = max(batch, bytes_.most(blocks * side.block_bytes))
    return Share(blocks, blocks * side.block_bytes, min(room, max(n, side.seats)), batch)


def _read_share(side: Side, memory: float, batch: int) -> Share:
    """Return what the verifier gets; nothing it reads ever gives way, so it keeps the seats that it has."""
    blocks = int(memory // side.block_bytes)
    return Share(blocks, blocks * side.block_bytes, max(side.seats, batch), batch)
