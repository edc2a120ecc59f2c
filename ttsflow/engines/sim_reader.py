"""A model that only reads, on the device of a simulated engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ttsflow.costs.plan import Moved
from ttsflow.costs.replan import Replanner
from ttsflow.costs.roofline import Span
from ttsflow.engines.sim_batch import Batch
from ttsflow.engines.sim_cache import Node
from ttsflow.engines.sim_device import Device
from ttsflow.engines.sim_live import SimEngine, owned
from ttsflow.engines.sim_sequence import Sequence
from ttsflow.types import Candidate, Tokens

__all__ = ["SimReader"]


class SimReader:
    """Reads candidates whole: prompt, and everything decoded so far, less what its cache still holds.

    One that waits with another one that is equal, or goes on from it, is read with that.

    In turns it reads all that wait before the generator goes on. ``together`` it reads beside it: a batch
    takes its time in the background, and what comes meanwhile waits for the next one.

    With ``moved`` the two models have the memory one after the other: before it reads, the KV cache of the
    generator goes to the host, with ``weights`` the weights as well, and its own come from there; then back.
    As that takes long, it waits until the generator has nothing left to do.
    """

    def __init__(
        self,
        engine: SimEngine,
        make: Callable[[Device], Batch],
        *,
        context: int,
        together: bool = False,
        moved: Moved = "none",
    ) -> None:
        self.context = context
        self._engine = engine
        self._together = together
        self._moved = moved
        # Where it works beside the generator its own iterations pass on a clock of their own.
        self._own = Device(engine.device.hardware, 0.0) if together else engine.device
        self._batch = make(self._own)
        self._waiting: dict[str, tuple[str, Candidate]] = {}
        self._behind: list[str] = []
        self._read: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._replanner: Replanner | None = None
        self._nodes: dict[int, Node | None] = {}
        self._prompts: dict[tuple[str, Tokens], Node] = {}

    def submit(self, name: str, problem: str, candidate: Candidate) -> None:
        """Queue a candidate of a problem that fits its context."""
        self._waiting[name] = problem, candidate
        self._steps[name] = candidate.tokens_new

    @property
    def computed(self) -> int:
        """Tokens read that were not found in the cache."""
        return self._batch.read

    def cancel(self, name: str) -> None:
        """Forget a candidate."""
        self._waiting.pop(name, None)
        self._steps.pop(name, None)

    def step(self) -> dict[str, int]:
        """Return who has been read by now, and how many tokens each had."""
        return self._beside() if self._together else self._in_turn()

    def _in_turn(self) -> dict[str, int]:
        moves = self._moved != "none"
        if not self._waiting or (moves and self._engine.device.busy):
            return {}
        if moves:
            self._move()
        read = self._all()
        if moves:
            self._move()
        self._replan()
        return read

    def _beside(self) -> dict[str, int]:
        device = self._engine.device
        if self._behind:
            if device.background.seconds and not device.busy:
                device.wait()
            if device.background.seconds:
                return {}
            done, self._behind = self._behind, []
            return {name: self._read.pop(name) for name in done if name in self._read}
        if not self._waiting:
            return {}
        before = self._own.clock, self._own.compute, self._own.memory
        self._read = self._all()
        self._behind = list(self._read)
        # Its iterations differ: a long prompt computes, many short ones read the weights over and over.
        device.background = self._own.since(*before)
        self._replan()
        return {}

    def follow(self, replanner: Replanner) -> None:
        """Share the device from now on as ``replanner`` says; it is told of every turn."""
        self._replanner = replanner

    def _replan(self) -> None:
        steps, self._steps = [*self._steps.values()], {}
        if self._replanner is None:
            return
        batch = self._engine.batch
        new = self._replanner.observe(steps, len(steps) + batch.running + batch.waiting)
        if new is None or new.verifier is None:
            return
        self._engine.resize(new.generator.blocks, new.generator.seats)
        # As in the generator, a candidate as long as its context must fit.
        least = -(-self.context // self._batch.cache.block)
        self._batch.resize(max(new.verifier.blocks, least), new.verifier.seats)
        if not self._together:
            self._moved = new.offload

    def _move(self) -> None:
        """Pass the time in which what one model has on the device goes, and what the other has comes."""
        size = 0.0
        for batch in (self._engine.batch, self._batch):
            size += batch.cache.used * batch.cache.block * batch.roofline.kv_bytes
            size += batch.roofline.weight_bytes if self._moved == "weights" else 0.0
        seconds = size / (self._engine.device.hardware.link * 1e9)
        self._batch.swapped += seconds
        self._engine.device.work(Span(seconds, 0.0, 0.0))

    def _all(self) -> dict[str, int]:
        """Read everything that waits."""
        waiting, self._waiting = self._waiting, {}
        readers = _readers(waiting)
        for name, (problem, candidate) in waiting.items():
            if readers[name] == name:
                node = self._node(problem, candidate) if self._batch.cache.keep else None
                self._batch.add(Sequence(name, _size(candidate), 0, node, None), 0)
        left = len(set(readers.values()))
        while left:
            verifying, done = left, len(self._batch.step(None))
            left -= done
            self._engine.note(verifying)
        return {name: _size(candidate) for name, (_, candidate) in waiting.items()}

    def _node(self, problem: str, candidate: Candidate) -> Node | None:
        """Return the node of a candidate's last token, behind that of its parent."""
        block, prompt, tokens = self._batch.cache.block, candidate.prompt, candidate.tokens
        first = owned(problem, prompt)
        parent = self._prompts.get(first)
        if parent is None and len(prompt) >= block:
            parent = self._prompts[first] = Node(None, 0, len(prompt) // block)
        if not tokens:
            return parent
        if tokens[-1] not in self._nodes:
            start = len(tokens) - candidate.tokens_new
            if start > 0:
                known = self._nodes.get(tokens[start - 1])
                parent, start = (known, start) if known is not None else (parent, 0)
            place = (len(prompt) + start) // block
            end = (len(prompt) + len(tokens)) // block
            self._nodes[tokens[-1]] = Node(parent, place, end - place)
        return self._nodes[tokens[-1]]


def _size(candidate: Candidate) -> int:
    return len(candidate.prompt) + len(candidate.tokens)


def _readers(waiting: Mapping[str, tuple[str, Candidate]]) -> dict[str, str]:
    """Return by which text each is read: its own, or that of one that is equal or goes on from it."""
    readers: dict[str, str] = {}
    ends: dict[tuple[str, Tokens], str] = {}
    for name in sorted(waiting, key=lambda name: -len(waiting[name][1].tokens)):
        problem, candidate = waiting[name]
        tokens = candidate.tokens
        readers[name] = reader = ends.setdefault((problem, tokens), name)
        before = len(tokens) - candidate.tokens_new
        if before > 0:
            ends.setdefault((problem, tokens[:before]), reader)
    return readers
