"""Continuous batching in virtual time: who runs, what an iteration reads and decodes, and how long it takes.

The rules are vLLM's: running sequences first, one token each; then prompts, in chunks where the token budget
says so; new sequences by priority and arrival while a seat, tokens and blocks are left for them. When blocks
run out the sequence with the highest number is sent back, and reads its own tokens again later, or has them
brought back from the host. Iterations in which nothing is read are taken together up to the next event.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import replace

from ttsflow.costs.roofline import Reading, Roofline, Span
from ttsflow.engines.sim_cache import Cache
from ttsflow.engines.sim_device import Device
from ttsflow.engines.sim_sequence import Limits, Sequence

__all__ = ["Batch"]


class Batch:
    """The sequences of one engine.

    ``decoded``, ``read``, ``preempted`` and ``swapped`` count tokens decoded, prompt tokens computed,
    sequences sent back, and seconds of transfers.
    """

    def __init__(self, cache: Cache, roofline: Roofline, device: Device, limits: Limits) -> None:
        self.cache = cache
        self.roofline = roofline
        self.device = device
        self.limits = limits
        self.iteration = 0
        self.decoded = self.read = self.preempted = 0
        self.swapped = 0.0
        self._owed = 0.0
        self._hosted = 0
        self._waiting: list[tuple[tuple[int, int], Sequence]] = []
        self._queued = 0
        self._filling: dict[str, Sequence] = {}
        self._decoding: dict[str, Sequence] = {}
        self._ends: list[tuple[int, tuple[int, int], Sequence]] = []
        self._worst: list[tuple[tuple[int, int], Sequence]] = []
        self._shifts = [0] * cache.block
        self._context = 0
        self._arrivals = itertools.count()

    @property
    def running(self) -> int:
        """Sequences on a seat."""
        return len(self._filling) + len(self._decoding)

    @property
    def waiting(self) -> int:
        """Sequences without one."""
        return self._queued

    def add(self, sequence: Sequence, priority: int) -> None:
        """Queue a sequence."""
        sequence.order = (priority, next(self._arrivals))
        self._queue(sequence)

    def drop(self, sequence: Sequence) -> None:
        """Take a sequence out, wherever it is."""
        if sequence.running:
            self._release(sequence)
        elif not sequence.over:
            self._forget(sequence)
            self._queued -= 1
        sequence.over = True

    def done(self, sequence: Sequence) -> int:
        """Return the tokens a sequence has decoded."""
        if sequence.name in self._decoding:
            return min(sequence.length, self.iteration - sequence.origin)
        return sequence.before

    def step(self, leap: int | None) -> list[Sequence]:
        """Advance to the next event, by at most ``leap`` iterations where prompts are not read.

        Return the sequences that have ended; ``iteration`` says how far it went.
        """
        # Who decodes gets its blocks first; new ones start only where nobody had to give way.
        crowded = False
        while self._needed(1) > self.cache.free and self._preempt():
            crowded = True
        self.cache.grow(self._needed(1))
        reading, transfer = self._schedule(full=crowded)
        count = 1 if reading.tokens else self._leap(leap)
        if count:
            self._advance(count, reading, transfer)
        return list(self._ended())

    def resize(self, blocks: int, seats: int) -> None:
        """Go on with a cache of so many blocks and so many seats.

        Sequences give way as long as their blocks are too many; the last one keeps what it has. Those on
        seats that are no more stay until they end.
        """
        while self.cache.capacity - self.cache.free > blocks and self._preempt():
            pass
        self.cache.resize(blocks)
        self.limits = replace(self.limits, seats=seats)

    # --- who runs ----------------------------------------------------------------------------------

    def _queue(self, sequence: Sequence) -> None:
        heapq.heappush(self._waiting, (sequence.order, sequence))
        self._queued += 1

    def _schedule(self, *, full: bool) -> tuple[Reading, float]:
        """Give tokens and seats; return what is read in this iteration, and the seconds of transfers."""
        left = self.limits.tokens - len(self._decoding)
        total, transfer = Reading(), 0.0
        for sequence in self._filling.values():
            if left <= 0:
                break
            total, left = self._read(sequence, total, left)
        while not full and self._waiting and self.running < self.limits.seats and left > 0:
            sequence = self._waiting[0][1]
            if sequence.over or sequence.running:
                heapq.heappop(self._waiting)
                continue
            known = self.cache.found(sequence.anchor or sequence.node)
            found = max(0, min(known, (sequence.size - 1) // self.block))
            # A prompt of no tokens is one that a model begins with.
            todo = max(1, sequence.size - found * self.block)
            if not self.limits.chunked and todo > left and left < self.limits.tokens:
                break
            if not self._seat(sequence):
                break
            heapq.heappop(self._waiting)
            self._queued -= 1
            if sequence.cached is None:
                sequence.cached = found * self.block
            sequence.todo, sequence.computed = todo, max(0, sequence.size - todo)
            sequence.found = known
            if sequence.host:
                # All but the token that is to be decoded next comes back as it was.
                transfer += self.roofline.transfer(max(0, todo - 1))
                sequence.computed, sequence.todo = sequence.size - 1, 1
                self._forget(sequence)
            total, left = self._read(sequence, total, left)
        return total, transfer

    @property
    def block(self) -> int:
        """Tokens of a block."""
        return self.cache.block

    def _seat(self, sequence: Sequence) -> bool:
        anchor = sequence.anchor or sequence.node
        if not self.cache.admit(anchor, -(-sequence.size // self.block)):
            return False
        sequence.anchor = anchor
        sequence.base = 0 if anchor is None or not self.cache.keep else anchor.first + anchor.full
        sequence.running = True
        self._filling[sequence.name] = sequence
        heapq.heappush(self._worst, ((-sequence.order[0], -sequence.order[1]), sequence))
        return True

    def _read(self, sequence: Sequence, total: Reading, left: int) -> tuple[Reading, int]:
        chunk = min(sequence.todo, left) if self.limits.chunked else sequence.todo
        before = sequence.computed
        sequence.todo -= chunk
        sequence.computed += chunk
        total = Reading(
            total.tokens + chunk,
            total.pairs + chunk * before + chunk * (chunk + 1) // 2,
            total.before + before,
            total.sequences + 1,
            total.ended + (sequence.todo == 0),
        )
        return total, left - chunk

    # --- how far -----------------------------------------------------------------------------------

    def _leap(self, leap: int | None) -> int:
        """Return the iterations up to the next event."""
        ends = self._ends
        while ends and not self._is_end(ends[0]):
            heapq.heappop(ends)
        if not ends:
            return 0
        count = ends[0][0] - self.iteration
        if leap is not None:
            count = min(count, max(1, leap))
        behind = self.device.background.seconds
        if behind:
            each = self.roofline.span(len(self._decoding), self._looked_at()).seconds
            count = min(count, max(1, int(behind / each)))
        return min(count, self._room())

    def _looked_at(self) -> int:
        """Return the tokens that all decoding sequences look at in the next iteration."""
        return self._context + len(self._decoding) * self.iteration

    def _needed(self, count: int) -> int:
        """Return the blocks that ``count`` iterations take."""
        block, at = self.block, self.iteration
        rounds, rest = divmod(count, block)
        return rounds * len(self._decoding) + sum(self._shifts[-(at + i) % block] for i in range(rest))

    def _room(self) -> int:
        """Return the iterations for which there are blocks; those of the first one are given already."""
        free = self.cache.free + self._needed(1)
        count = max(1, free // len(self._decoding) * self.block)
        while self._needed(count + 1) <= free:
            count += 1
        return count

    def _preempt(self) -> bool:
        """Send the last sequence back; False when it is the only one."""
        while self._worst and not self._is_worst(self._worst[0][1], self._worst[0][0]):
            heapq.heappop(self._worst)
        if self.running < 2:
            return False
        sequence = heapq.heappop(self._worst)[1]
        self.preempted += 1
        whole = sequence.name in self._decoding
        self._release(sequence)
        if whole and (self._hosted + sequence.size) * self.roofline.kv_bytes <= self.limits.offload:
            self._owed += self.roofline.transfer(sequence.size)
            self._hosted += sequence.size
            sequence.host = True
        self._queue(sequence)
        return True

    def _forget(self, sequence: Sequence) -> None:
        """Free what a sequence has on the host."""
        if sequence.host:
            self._hosted -= sequence.size
            sequence.host = False

    def _is_worst(self, sequence: Sequence, order: tuple[int, int]) -> bool:
        return sequence.running and (-sequence.order[0], -sequence.order[1]) == order

    # --- what it takes -------------------------------------------------------------------------------

    def _advance(self, count: int, reading: Reading, transfer: float) -> None:
        decoding = len(self._decoding)
        needed = self._needed(count) - self._needed(1)
        span = self.roofline.span(decoding, self._looked_at(), count, reading)
        transfer, self._owed = transfer + self._owed, 0.0
        self.swapped += transfer
        if transfer:
            # Neither computes nor reads the memory of the device to speak of.
            self.device.work(Span(transfer, 0.0, 0.0))
        self.device.work(span)
        self.cache.grow(needed)
        self.iteration += count
        self.read += reading.tokens
        self.decoded += count * decoding
        for sequence in [one for one in self._filling.values() if not one.todo]:
            del self._filling[sequence.name]
            self._start(sequence)

    def _start(self, sequence: Sequence) -> None:
        """Let a sequence decode that has been read; its next token came with the end of the reading."""
        before = sequence.before
        sequence.origin = self.iteration - before - 1
        if sequence.length > before:
            self.decoded += 1
        self._decoding[sequence.name] = sequence
        self._context += sequence.prefix - sequence.origin
        self._shifts[self._shift(sequence)] += 1
        sequence.end = sequence.origin + max(before + 1, sequence.length)
        heapq.heappush(self._ends, (sequence.end, sequence.order, sequence))

    def _shift(self, sequence: Sequence) -> int:
        return (sequence.prefix - sequence.origin - 1) % self.block

    def _ended(self) -> Iterator[Sequence]:
        ends = self._ends
        while ends and ends[0][0] <= self.iteration:
            entry = heapq.heappop(ends)
            sequence = entry[2]
            if self._is_end(entry):
                self._release(sequence)
                sequence.over = True
                yield sequence

    def _is_end(self, entry: tuple[int, tuple[int, int], Sequence]) -> bool:
        """Whether a sequence still decodes, and was not sent back since it was to end then."""
        end, _, sequence = entry
        return self._decoding.get(sequence.name) is sequence and sequence.end == end

    def _release(self, sequence: Sequence) -> None:
        """Take a sequence off its seat; what it has decoded stays in the cache while there is room."""
        done = self.done(sequence)
        # The last token of all has not been looked at yet: it is computed with the next one.
        stored = sequence.prefix + max(done - 1, 0)
        if sequence.name in self._filling:
            stored = max(sequence.computed, sequence.found * self.block)
            self.cache.unread(sequence.anchor, stored // self.block)
        blocks = max(-(-sequence.size // self.block), -(-stored // self.block))
        if sequence.name in self._decoding:
            del self._decoding[sequence.name]
            self._context -= sequence.prefix - sequence.origin
            self._shifts[self._shift(sequence)] -= 1
        else:
            del self._filling[sequence.name]
        own = sequence.own
        held = 0
        if own is not None:
            # What follows this one begins where it ends now.
            own.full = (sequence.prefix + done) // self.block - own.first
            held = max(0, min(own.full, stored // self.block - own.first))
        self.cache.leave(sequence.anchor, blocks - sequence.base, own, held)
        sequence.before, sequence.running = done, False
        sequence.anchor = own if done and own is not None and self.cache.keep else sequence.node
