"""Whether a KV cache has room for one request more, beside those that run and what is to stay in it."""

from __future__ import annotations

from ttsflow.engines.occupancy import Growth, Occupancy
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine, Paged, innermost

__all__ = ["EarlyRoom", "Room"]

#: Chance above which a request counts as one that comes, as seen in simulation.
_LIKELY = 0.7


class Room:
    """The KV cache of ``engine``, as the requests fill it that have entered; ``in`` and ``len`` are of them.

    What they share counts once, and each has room to grow as long as others did. An engine that knows nothing
    of blocks always has room.
    """

    def __init__(self, engine: Engine | None) -> None:
        core = innermost(engine)
        self._paged: Paged | None = core if isinstance(core, Paged) else None
        self._occupancy = Occupancy(1 if self._paged is None else self._paged.block_size)
        self._growth = Growth()
        self._entered: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entered)

    def __contains__(self, name: str) -> bool:
        return name in self._entered

    def has(self, request: EngineRequest) -> bool:
        """Whether there is room for a request besides those that have entered."""
        if self._paged is None:
            return True
        self._occupancy.know(request)
        growth = self._growth.expected(request.max_tokens)
        return self._occupancy.used + self._occupancy.needed(request, growth) <= self._paged.kv_blocks

    def enter(self, request: EngineRequest) -> None:
        """Count a request."""
        self._entered[request.id] = 0
        if self._paged is not None:
            self._occupancy.know(request)
            self._occupancy.enter(request, self._growth.expected(request.max_tokens))

    def hold(self, request: EngineRequest, tokens: int) -> None:
        """Count what a request reads, and has decoded, though it does not run."""
        self._occupancy.leave(request.id)
        if self._paged is not None:
            self._occupancy.know(request)
            self._occupancy.enter(request, tokens)

    def leave(self, name: str) -> bool:
        """Count a request no more; return whether it had entered."""
        self._occupancy.leave(name)
        return self._entered.pop(name, None) is not None

    def hear(self, item: Progress) -> None:
        """Take in news of a request: how long they become, and whether it has ended."""
        if item.id not in self._entered:
            return
        self._entered[item.id] += len(item.tokens)
        if item.finish is not None:
            self._growth.observe(self._entered[item.id])
            self.leave(item.id)

    def clear(self) -> None:
        """Forget all requests."""
        self._entered.clear()
        self._occupancy.clear()


class EarlyRoom:
    """What requests that nobody has asked for may take of the KV cache of ``engine``; None: all of it.

    Those that are very likely to be asked for have their place beside what runs and what waits: later
    they would need it anyway. Others must leave the prefixes of all that may be asked for as well, which an
    engine throws out first as the longest unused.
    """

    def __init__(self, engine: Engine | None) -> None:
        self._room = Room(engine)
        self._kept = Room(engine)

    def has(self, request: EngineRequest, chance: float) -> bool:
        """Whether there is room for a request that will be asked for with this chance."""
        return (self._room if chance > _LIKELY else self._kept).has(request)

    def enter(self, request: EngineRequest) -> None:
        """Count a request that was asked for or is begun."""
        self._room.enter(request)
        self._kept.enter(request)

    def hold(self, request: EngineRequest, tokens: int) -> None:
        """Keep the place of what an expected request reads, and of the ``tokens`` it has decoded."""
        self._kept.hold(request, tokens)

    def leave(self, name: str) -> None:
        """Count a request no more, or keep no place of it."""
        self._room.leave(name)
        self._kept.leave(name)

    def hear(self, item: Progress) -> None:
        """Take in news of a request."""
        self._room.hear(item)
        self._kept.hear(item)

    def clear(self) -> None:
        """Forget all requests."""
        self._room.clear()
        self._kept.clear()
