"""The simulated engine: trajectories that are known beforehand, on a device that is only described."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Several
from typing import NamedTuple

from ttsflow.engines.playing import Playing
from ttsflow.engines.segments import FIRST_PIECE, PLACE
from ttsflow.engines.sim_batch import Batch
from ttsflow.engines.sim_cache import Node
from ttsflow.engines.sim_device import Device
from ttsflow.engines.sim_sequence import Sequence
from ttsflow.ops import EngineRequest, Progress
from ttsflow.paths import PathSource, Play
from ttsflow.protocols import Capabilities
from ttsflow.runs.timeline import Moment, Timeline
from ttsflow.types import Tokens

__all__ = ["SimEngine", "owned"]


def owned(problem: str, prompt: Tokens) -> tuple[str, Tokens]:
    """Return what says which prompts are equal: its tokens, and whose it is where they do not tell.

    Zeros only say how long a prompt is, so that it shares nothing with those of other problems.
    """
    return problem if prompt and not prompt[0] else "", prompt


class _Run(NamedTuple):
    """A request on the engine."""

    play: Play
    sequence: Sequence


class SimEngine(Playing):
    """Plays trajectories in virtual time; text is the source's, time is the batch's.

    ``device`` holds the clock, which a simulated verifier may share; ``make`` returns an empty batch on it.
    """

    def __init__(
        self,
        paths: PathSource,
        capabilities: Capabilities,
        device: Device,
        make: Callable[[], Batch],
        *,
        context: int,
    ) -> None:
        super().__init__(paths)
        self.capabilities = capabilities
        self.context = context
        self.device = device
        self._make = make
        self._clear()

    @property
    def capacity(self) -> int:
        """Sequences decoded at once."""
        return self.batch.limits.seats

    @property
    def block_size(self) -> int:
        """Tokens of a KV block."""
        return self.batch.cache.block

    @property
    def kv_blocks(self) -> int:
        """Blocks of the KV cache."""
        return self.batch.cache.capacity

    def reset(self) -> None:
        """Forget every request and the cache, and set the clock back."""
        self._paths.reset()
        self.device.reset()
        self._clear()

    def _clear(self) -> None:
        self.batch = self._make()
        self._timeline = Timeline()
        self._known: dict[str, _Run] = {}
        self._streams: dict[str, _Run] = {}
        self._prompts: dict[tuple[str, Tokens], Node | None] = {}
        self._blocks: dict[tuple[int, str, Tokens], Node] = {}
        self._nodes: dict[int, Node] = {}

    def counters(self) -> dict[str, float]:
        """Return iterations, sequences in one on average, and what the KV cache did."""
        batch = self.batch
        return {
            "iterations": batch.iteration,
            "mean_batch": batch.decoded / batch.iteration if batch.iteration else 0.0,
            "read_tokens": batch.read,
            "preempted": batch.preempted,
            "evicted_blocks": batch.cache.evicted,
            "kv_blocks": batch.cache.capacity,
        }

    def close(self) -> None:
        """Forget everything."""
        self._clear()

    def resize(self, blocks: int, seats: int) -> None:
        """Go on with a KV cache of so many blocks, and so many seats; ``reset`` brings the old ones back.

        A sequence as long as its context always fits, since it would wait for ever otherwise.
        """
        self.batch.resize(max(blocks, -(-self.context // self.batch.cache.block)), seats)

    def now(self) -> float:
        """Return virtual seconds."""
        return self.device.clock

    def submit(self, request: EngineRequest) -> None:
        """Queue a request; its id must be new. Raises what the source raises."""
        if request.id in self._known:
            msg = f"request id {request.id!r} is in use"
            raise ValueError(msg)
        play = self._paths.play(request, self.context)
        sequence = self._sequence(request, play)
        self._known[request.id] = run = _Run(play, sequence)
        self.batch.add(sequence, request.priority)
        self.device.busy = True
        if request.stream:
            self._streams[request.id] = run

    def rest(self) -> None:
        """Leave the device to others until the next request: what runs was begun early, and waits."""
        self.device.busy = False

    def abort(self, ids: Several[str]) -> None:
        """Forget requests; what they have decoded stays in the cache."""
        for name in ids:
            run = self._known.pop(name, None)
            if run is not None:
                self._streams.pop(name, None)
                self.batch.drop(run.sequence)
        self.device.busy = bool(self._known)

    def step(self) -> list[Progress]:
        """Jump to what happens next and return the news."""
        batch, before = self.batch, self.batch.iteration
        ended = batch.step(self.leap)
        self.advanced = batch.iteration - before
        news = []
        for sequence in ended:
            run = self._known.pop(sequence.name)
            self._streams.pop(sequence.name, None)
            if sequence.own is not None and run.play.last is not None:
                # Asked for once more, the same tokens are those of the first request.
                self._nodes.setdefault(run.play.last, sequence.own)
            end = run.play.news(run.play.length, ended=True)
            news.append(end._replace(cached=sequence.cached or 0))
        for run in self._streams.values():
            done = batch.done(run.sequence)
            if done > run.sequence.told:
                run.sequence.told = done
                news.append(run.play.news(done, ended=False))
        self.device.busy = bool(self._known)
        self.note()
        return news

    @property
    def timeline(self) -> Timeline:
        """What ran when, up to now."""
        self._timeline.add(self._moment(0))
        return self._timeline

    def note(self, verifying: int = 0) -> None:
        """Add how things stand to the timeline; ``verifying`` candidates wait to be read on this device."""
        if self._timeline.due():
            self._timeline.add(self._moment(verifying))

    def _moment(self, verifying: int) -> Moment:
        batch, cache = self.batch, self.batch.cache
        return Moment(
            round(self.device.clock, 6),
            batch.running,
            batch.waiting,
            cache.pinned + cache.private,
            cache.cached,
            cache.evicted,
            batch.preempted,
            batch.decoded,
            batch.read,
            verifying,
        )

    # --- where a request stands in the cache ---------------------------------------------------------

    def _sequence(self, request: EngineRequest, play: Play) -> Sequence:
        prompt, block = request.prompt, self.batch.cache.block
        if not self.batch.cache.keep:
            return Sequence(request.id, len(prompt), play.length, None, None)
        parent = self._parent(request.problem, prompt)
        return Sequence(request.id, len(prompt), play.length, parent, Node(parent, len(prompt) // block, 0))

    def _parent(self, problem: str, prompt: Tokens) -> Node | None:
        """Return the node of what a request reads: of the prompt, and what was decoded behind it."""
        known = self._nodes.get(prompt[-1]) if prompt else None
        if known is not None:
            return known
        # Words put behind a trajectory, such as those of a probe, are a node of their own.
        size = len(prompt)
        while size and prompt[size - 1] < FIRST_PIECE:
            size -= 1
        known = self._nodes.get(prompt[size - 1]) if size else None
        if known is None and size:
            # A part of a piece; its beginning is where the piece before it ends.
            size -= (prompt[size - 1] & PLACE) + 1
            known = self._nodes.get(prompt[size - 1]) if size > 0 else None
        if known is None:
            return self._prompt(problem, prompt)
        block = self.batch.cache.block
        return Node(known, size // block, len(prompt) // block - size // block)

    def _prompt(self, problem: str, prompt: Tokens) -> Node | None:
        """Return the node of a prompt's last whole block; equal beginnings are one."""
        key = owned(problem, prompt)
        if key in self._prompts:
            return self._prompts[key]
        block = self.batch.cache.block
        node: Node | None = None
        for number in range(len(prompt) // block):
            piece = (id(node), key[0], prompt[number * block : (number + 1) * block])
            found = self._blocks.get(piece)
            if found is None:
                found = self._blocks[piece] = Node(node, number, 1)
            node = found
        self._prompts[key] = node
        return node
