"""Whether a KV cache has room for one request more, beside those that run and what is to stay in it."""

from __future__ import annotations

from collections.abc import Sequence

from ttsflow.engines.lengths import Lengths, peak
from ttsflow.engines.occupancy import Occupancy
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine, Leaping, Paged, innermost, leaping

__all__ = ["EarlyRoom", "Room"]

#: Chance above which a request counts as one that comes, as seen in simulation.
_LIKELY = 0.7


class _Running:
    """A request on the engine: its tokens that no other shares, when it began, and what was heard."""

    __slots__ = ("alone", "began", "heard", "most")

    def __init__(self, request: EngineRequest, alone: int, began: int) -> None:
        self.alone = alone
        self.began = began
        self.most = request.max_tokens
        self.heard = 0


class Room:
    """The KV cache of ``engine``, as the requests that have entered fill it.

    There is room for a request when the most has that it and those come to need, by how long others were;
    what they share counts once. An engine that knows nothing of blocks always has room.
    """

    def __init__(self, engine: Engine) -> None:
        core = innermost(engine)
        self._paged: Paged | None = core if isinstance(core, Paged) else None
        self._occupancy = Occupancy(1 if self._paged is None else self._paged.block_size)
        self._lengths = Lengths()
        self._leaping: Leaping | None = leaping(engine)
        self._iteration = 0
        self._entered: dict[str, _Running] = {}
        #: Rest and tokens of those that have entered, as long as the engine is where it is.
        self._rests: list[tuple[float, int]] | None = None
        #: What there was no room for. As long as nobody leaves there is none.
        self._refused: str | None = None

    def has(self, request: EngineRequest) -> bool:
        """Whether there is room for a request besides those that have entered."""
        if self._paged is None:
            return True
        if request.id == self._refused:
            return False
        self._occupancy.know(request)
        if self._rests is None:
            self._rests = [self._rest(one) for one in self._entered.values()]
        shared = self._occupancy.used + self._occupancy.needed(request)
        room = shared + peak([*self._rests, self._rest(self._begun(request))], self._paged.block_size)
        if room <= self._paged.kv_blocks:
            return True
        self._refused = request.id
        return False

    def enter(self, request: EngineRequest) -> None:
        """Count a request."""
        if self._paged is None:
            return
        self._occupancy.know(request)
        self._entered[request.id] = one = self._begun(request)
        self._occupancy.enter(request)
        if self._rests is not None:
            self._rests.append(self._rest(one))

    def leave(self, name: str) -> None:
        """Count a request no more."""
        self._occupancy.leave(name)
        self._entered.pop(name, None)
        self._rests = self._refused = None

    def hear(self, news: Sequence[Progress]) -> None:
        """Take in the news of a step: how long requests become, and which have ended."""
        self._iteration += 1 if self._leaping is None else self._leaping.advanced
        self._rests = None
        for item in news:
            one = self._entered.get(item.id)
            if one is not None:
                one.heard += len(item.tokens)
                if item.finish is not None:
                    self._lengths.observe(one.heard)
                    self.leave(item.id)

    def clear(self) -> None:
        """Forget all requests."""
        self._entered.clear()
        self._occupancy.clear()
        self._rests = self._refused = None

    def _begun(self, request: EngineRequest) -> _Running:
        return _Running(request, self._occupancy.alone(request), self._iteration)

    def _rest(self, one: _Running) -> tuple[float, int]:
        """Return the tokens a request is taken to go on for, and those it has for itself by now.

        Few requests report tokens as they come, but each decodes one in an iteration.
        """
        done = min(self._iteration - one.began, one.most)
        return self._lengths.remaining(done, one.most - done), one.alone + done


class _Places:
    """Blocks that are kept for requests: what they read, shared parts once, and so many tokens behind it."""

    def __init__(self, block: int) -> None:
        self._occupancy = Occupancy(block)
        self._own: dict[str, int] = {}
        self._sum = 0

    def with_one(self, request: EngineRequest, tokens: int) -> int:
        """Return the blocks in all with one request more."""
        self._occupancy.know(request)
        return (
            self._occupancy.used + self._occupancy.needed(request) + self._sum + self._blocks(request, tokens)
        )

    def enter(self, request: EngineRequest, tokens: int) -> None:
        """Keep a place, in the stead of what was kept for this request."""
        self.leave(request.id)
        self._occupancy.know(request)
        self._occupancy.enter(request)
        self._own[request.id] = blocks = self._blocks(request, tokens)
        self._sum += blocks

    def leave(self, name: str) -> None:
        """Keep no place any more."""
        self._occupancy.leave(name)
        self._sum -= self._own.pop(name, 0)

    def clear(self) -> None:
        """Keep nothing."""
        self._occupancy.clear()
        self._own.clear()
        self._sum = 0

    def _blocks(self, request: EngineRequest, tokens: int) -> int:
        return -(-(self._occupancy.alone(request) + tokens) // self._occupancy.block)


class EarlyRoom:
    """What requests that nobody has asked for may take of the KV cache of ``engine``; None: all of it.

    Unlike what runs, they keep their blocks when they have ended, so that all count in full. Those that are
    very likely to be asked for have their place beside what runs and what waits: later they would need it
    anyway. Others must leave the prefixes of all that may be asked for as well, which an engine throws out
    first as the longest unused.
    """

    def __init__(self, engine: Engine | None) -> None:
        core = innermost(engine)
        self._paged: Paged | None = core if isinstance(core, Paged) else None
        self._lengths = Lengths()
        self._heard: dict[str, int] = {}
        block = 1 if self._paged is None else self._paged.block_size
        self._asked, self._expected = _Places(block), _Places(block)

    def has(self, request: EngineRequest, chance: float) -> bool:
        """Whether there is room for a request that will be asked for with this chance."""
        if self._paged is None:
            return True
        places = self._asked if chance > _LIKELY else self._expected
        return places.with_one(request, self._lengths.mean(request.max_tokens)) <= self._paged.kv_blocks

    def enter(self, request: EngineRequest) -> None:
        """Count a request that was asked for or is begun."""
        if self._paged is not None:
            self._heard[request.id] = 0
            for places in (self._asked, self._expected):
                places.enter(request, self._lengths.mean(request.max_tokens))

    def hold(self, request: EngineRequest, tokens: int) -> None:
        """Keep the place of what an expected request reads, and of the ``tokens`` it has decoded."""
        if self._paged is not None:
            self._expected.enter(request, tokens)

    def leave(self, name: str) -> None:
        """Count a request no more, or keep no place of it."""
        self._heard.pop(name, None)
        self._asked.leave(name)
        self._expected.leave(name)

    def hear(self, news: Sequence[Progress]) -> None:
        """Take in the news of a step."""
        for item in news:
            if item.id in self._heard:
                self._heard[item.id] += len(item.tokens)
                if item.finish is not None:
                    self._lengths.observe(self._heard[item.id])
                    self.leave(item.id)

    def clear(self) -> None:
        """Forget all requests."""
        self._heard.clear()
        self._asked.clear()
        self._expected.clear()
