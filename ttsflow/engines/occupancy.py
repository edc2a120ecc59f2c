"""How many KV blocks the running requests read, what they share counted once."""

from __future__ import annotations

from collections.abc import Iterator

from ttsflow.engines.remembered import Remembered
from ttsflow.lineage import Path
from ttsflow.ops import EngineRequest

__all__ = ["Occupancy"]

Node = tuple[str, Path]


class _Used:
    """A part of a lineage that requests read: its blocks, and how many requests."""

    __slots__ = ("blocks", "users")

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.users = 0


class Occupancy:
    """Whole blocks of ``block`` tokens that running requests read, by the lineage tree they are part of.

    What a request has for itself, the rest of its prompt and what it decodes, is not among them.
    """

    def __init__(self, block: int) -> None:
        self.block = block
        self.used = 0
        self._ends = Remembered()
        self._users: dict[Node, _Used] = {}
        self._own: dict[str, list[Node]] = {}

    def know(self, request: EngineRequest) -> None:
        """Take in where a request begins, which is where its parent ends."""
        self._ends.put(request.problem, request.path[:-1], len(request.prompt))

    def needed(self, request: EngineRequest) -> int:
        """Return the blocks that a request would read besides those in use."""
        return sum(blocks for node, blocks in self._nodes(request) if node not in self._users)

    def alone(self, request: EngineRequest) -> int:
        """Return the tokens of its prompt that a request shares with nothing that is known of."""
        return len(request.prompt) % self.block if request.path else len(request.prompt)

    def enter(self, request: EngineRequest) -> None:
        """Count a request that begins to run."""
        nodes = []
        for node, blocks in self._nodes(request):
            known = self._users.get(node)
            if known is None:
                known = self._users[node] = _Used(blocks)
                self.used += blocks
            known.users += 1
            nodes.append(node)
        self._own[request.id] = nodes

    def leave(self, name: str) -> None:
        """Count no more what a request needed."""
        for node in self._own.pop(name, ()):
            known = self._users[node]
            known.users -= 1
            if not known.users:
                del self._users[node]
                self.used -= known.blocks

    def clear(self) -> None:
        """Forget everything."""
        self.used = 0
        self._ends.clear()
        self._users.clear()
        self._own.clear()

    def _nodes(self, request: EngineRequest) -> Iterator[tuple[Node, int]]:
        """Yield what a request reads, as what each of its ancestors has decoded, with the blocks of each."""
        for depth in range(len(request.path)):
            node = (request.problem, request.path[:depth])
            yield node, self._blocks(node)

    def _blocks(self, node: Node) -> int:
        """Return the blocks of what a node has decoded; that of the root is the prompt."""
        problem, path = node
        end = self._ends.get(problem, path)
        start = self._ends.get(problem, path[:-1]) if path else 0
        return end // self.block - min(start, end) // self.block
