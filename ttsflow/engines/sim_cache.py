"""The KV cache of a simulated engine: blocks, prefixes that are shared, and what is thrown out first.

A tree holds what was ever computed. A node is the part of a sequence that one request decoded, or a block of
a prompt; its blocks are those that become full within it, its first one with the end of its parent's tokens
where that does not fall on a block's border. A block is in memory only while those before it are, which is
so in an engine that throws out the least recently used blocks, the last ones of a sequence first. So counts
are enough, and nothing is done per token.
"""

from __future__ import annotations

import heapq
import itertools

__all__ = ["Cache", "Node"]


class Node:
    """A part of a sequence, with ``full`` blocks from number ``first`` on, of which ``held`` are in memory.

    ``pins`` counts the running requests and pinned nodes that need it, ``kids`` the nodes behind it that
    have something in memory. ``used`` is when it was last let go.
    """

    __slots__ = ("depth", "first", "full", "held", "inside", "kids", "parent", "pins", "used")

    def __init__(self, parent: Node | None, first: int, full: int) -> None:
        self.parent = parent
        self.first = first
        self.full = full
        self.held = self.pins = self.kids = self.used = 0
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.inside = False

    @property
    def ready(self) -> int:
        """Blocks from the beginning of the sequence that are in memory, this node's included."""
        return self.first + (self.full if self.kids else self.held)


class Cache:
    """Counts blocks of ``block`` tokens: ``capacity`` in all.

    ``pinned`` are held by nodes that a running request needs, ``private`` by running requests for what they
    decode, ``cached`` can be thrown out. ``evicted`` counts what was. Without ``keep`` no prefix is shared
    and nothing stays: then all blocks are private.
    """

    def __init__(self, capacity: int, block: int, *, keep: bool = True) -> None:
        self.capacity = capacity
        self.block = block
        self.keep = keep
        self.pinned = self.private = self.cached = self.evicted = 0
        self._clock = 0
        self._idle: list[tuple[int, int, int, Node]] = []
        self._serial = itertools.count()

    @property
    def free(self) -> int:
        """Blocks that a running request could get."""
        return self.capacity - self.pinned - self.private

    @property
    def used(self) -> int:
        """Blocks in memory."""
        return self.pinned + self.private + self.cached

    def found(self, node: Node | None) -> int:
        """Return how many blocks of the sequence that ends with ``node`` are in memory."""
        if not self.keep:
            return 0
        while node is not None:
            if node.inside:
                return node.ready
            node = node.parent
        return 0

    def admit(self, node: Node | None, blocks: int) -> bool:
        """Pin the sequence that ends with ``node``, of ``blocks`` blocks, where there is room for it.

        What is no block of a node is private. A request that was admitted is let go by ``leave``.
        """
        end = 0 if node is None or not self.keep else node.first + node.full
        fresh, idle, one = blocks - end, 0, node
        while self.keep and one is not None and not one.pins:
            idle += one.full
            one = one.parent
        if fresh + idle > self.free:
            return False
        self._pin(node)
        self.private += fresh
        self._make_room()
        return True

    def grow(self, blocks: int) -> None:
        """Give running requests ``blocks`` more; the caller has seen that they are free."""
        self.private += blocks
        self._make_room()

    def resize(self, capacity: int) -> None:
        """Hold ``capacity`` blocks from now on, but never fewer than running requests have.

        What does not fit any more is thrown out, the least recently used first.
        """
        self.capacity = max(capacity, self.pinned + self.private)
        self._make_room()

    def unread(self, node: Node | None, blocks: int) -> None:
        """Take back what a request has pinned and did not come to compute: all behind ``blocks`` blocks.

        New requests start only when those that run have been read, so that it shares none of that.
        """
        while self.keep and node is not None and node.first + node.full > blocks:
            held = max(0, min(node.held, blocks - node.first))
            self.pinned -= node.held - held
            node.held = held
            node = node.parent

    def leave(self, node: Node | None, private: int, own: Node | None, held: int) -> None:
        """Let go of a request that pinned ``node`` and has ``private`` blocks.

        ``held`` of them stay as the blocks of ``own``, the node of what it has decoded.
        """
        self._clock += 1
        self.private -= private
        if self.keep and own is not None and own is not node and held > own.held:
            self.cached += held - own.held
            own.held = held
            own.used = self._clock
            self._enter(own)
            self._offer(own)
        elif self.keep and own is not None and own is node and held > own.held:
            self.pinned += held - own.held
            own.held = held
        self._unpin(node)

    def _pin(self, node: Node | None) -> None:
        while self.keep and node is not None:
            node.pins += 1
            if node.pins > 1:
                return
            self.cached -= node.held
            self.pinned += node.full
            node.held = node.full
            self._enter(node)
            node = node.parent

    def _unpin(self, node: Node | None) -> None:
        while self.keep and node is not None:
            node.pins -= 1
            if node.pins:
                return
            node.used = self._clock
            self.pinned -= node.held
            self.cached += node.held
            self._leave(node)
            self._offer(node)
            node = node.parent

    def _enter(self, node: Node) -> None:
        while not node.inside:
            node.inside = True
            if node.parent is None:
                return
            node = node.parent
            node.kids += 1

    def _leave(self, node: Node) -> None:
        """Take a node out that has nothing in memory, and its parents where it was their last."""
        while node.inside and not (node.pins or node.held or node.kids):
            node.inside = False
            parent = node.parent
            if parent is None:
                return
            parent.kids -= 1
            parent.used = max(parent.used, node.used)
            self._offer(parent)
            node = parent

    def _offer(self, node: Node) -> None:
        if node.held and not node.pins and not node.kids:
            heapq.heappush(self._idle, (node.used, -node.depth, next(self._serial), node))

    def _make_room(self) -> None:
        excess = self.used - self.capacity
        while excess > 0:
            used, _, _, node = heapq.heappop(self._idle)
            if node.pins or node.kids or not node.held or node.used != used:
                continue
            out = min(excess, node.held)
            node.held -= out
            self.cached -= out
            self.evicted += out
            excess -= out
            self._leave(node)
            self._offer(node)
