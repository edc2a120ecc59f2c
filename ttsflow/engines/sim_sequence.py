"""What a simulated engine batches: a sequence, and how much of it goes into one iteration."""

from __future__ import annotations

from dataclasses import dataclass

from ttsflow.engines.sim_cache import Node

__all__ = ["Limits", "Sequence"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Sequences at once, tokens of one iteration, whether prompts are read in chunks, bytes to swap to."""

    seats: int
    tokens: int
    chunked: bool = True
    offload: float = 0.0


class Sequence:
    """One request: ``prefix`` tokens are read, then ``length`` are decoded, of which ``before`` so far.

    ``node`` is the end of what it reads in the cache, ``own`` the node of what it decodes.
    """

    __slots__ = (
        "anchor", "base", "before", "cached", "computed", "end", "found", "host", "length", "name", "node",
        "order", "origin", "over", "own", "prefix", "running", "todo", "told",
    )  # fmt: skip

    def __init__(self, name: str, prefix: int, length: int, node: Node | None, own: Node | None) -> None:
        self.name = name
        self.prefix = prefix
        self.length = length
        self.node = node
        self.own = own
        self.order = (0, 0)
        self.before = self.base = self.origin = self.end = self.told = 0
        self.todo = self.computed = self.found = 0
        self.cached: int | None = None
        self.anchor: Node | None = None
        self.host = self.running = self.over = False

    @property
    def size(self) -> int:
        """Tokens to be in the cache before the next one is decoded."""
        return self.prefix + self.before
