"""How many KV blocks the running requests need, what they share counted once."""

from __future__ import annotations

from collections.abc import Iterator

from ttsflow.lineage import Path
from ttsflow.ops import EngineRequest

__all__ = ["Growth", "Occupancy"]

#: Share of its weight that a length keeps with every later one.
_KEPT = 0.98

Node = tuple[str, Path]


class Growth:
    """How long requests become: mean and deviation of the lengths so far, the newest counting most."""

    def __init__(self) -> None:
        self._weight = self._sum = self._square = 0.0

    def observe(self, tokens: int) -> None:
        """Take in the length of a request that has ended."""
        self._weight = self._weight * _KEPT + 1
        self._sum = self._sum * _KEPT + tokens
        self._square = self._square * _KEPT + tokens * tokens

    def expected(self, most: int) -> int:
        """Return the tokens to have room for, at most ``most``: so many requests seldom need more together.

        Mean and one deviation; before anything has ended, ``most``.
        """
        if not self._weight:
            return most
        mean = self._sum / self._weight
        deviation = max(0.0, self._square / self._weight - mean * mean) ** 0.5
        return max(1, min(most, round(mean + float(deviation))))


class _Used:
    """A part of a lineage that requests read: its blocks, and how many requests."""

    __slots__ = ("blocks", "users")

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.users = 0


class Occupancy:
    """Blocks of ``block`` tokens that running requests need, by the lineage tree they are part of."""

    def __init__(self, block: int) -> None:
        self.block = block
        self.used = 0
        self._ends: dict[Node, int] = {}
        self._users: dict[Node, _Used] = {}
        self._own: dict[str, tuple[int, list[Node]]] = {}

    def know(self, request: EngineRequest) -> None:
        """Take in where a request begins, which is where its parent ends."""
        self._ends[request.problem, request.path[:-1]] = len(request.prompt)

    def needed(self, request: EngineRequest, growth: int) -> int:
        """Return the blocks that a request would need besides those in use."""
        return sum(blocks for _, blocks in self._free(request)) + self._private(request, growth)

    def enter(self, request: EngineRequest, growth: int) -> None:
        """Count a request that begins to run."""
        private = self._private(request, growth)
        nodes = []
        for node, blocks in self._nodes(request):
            known = self._users.get(node)
            if known is None:
                known = self._users[node] = _Used(blocks)
                self.used += blocks
            known.users += 1
            nodes.append(node)
        self.used += private
        self._own[request.id] = (private, nodes)

    def leave(self, name: str) -> None:
        """Count no more what a request needed."""
        private, nodes = self._own.pop(name, (0, []))
        self.used -= private
        for node in nodes:
            known = self._users[node]
            known.users -= 1
            if not known.users:
                del self._users[node]
                self.used -= known.blocks

    def clear(self) -> None:
        """Forget everything."""
        self.used = 0
        for known in (self._ends, self._users, self._own):
            known.clear()

    def _free(self, request: EngineRequest) -> Iterator[tuple[Node, int]]:
        return ((node, blocks) for node, blocks in self._nodes(request) if node not in self._users)

    def _private(self, request: EngineRequest, growth: int) -> int:
        size = len(request.prompt)
        if not request.path:
            # One of no lineage shares nothing that is known of.
            return -(-(size + growth) // self.block)
        return -(-(size + growth) // self.block) - size // self.block

    def _nodes(self, request: EngineRequest) -> Iterator[tuple[Node, int]]:
        """Yield what a request reads, as what each of its ancestors has decoded, with the blocks of each."""
        for depth in range(len(request.path)):
            node = (request.problem, request.path[:depth])
            yield node, self._blocks(node)

    def _blocks(self, node: Node) -> int:
        """Return the blocks of what a node has decoded; that of the root is the prompt."""
        problem, path = node
        end = self._ends.get(node, 0)
        start = self._ends.get((problem, path[:-1]), 0) if path else 0
        return end // self.block - min(start, end) // self.block
