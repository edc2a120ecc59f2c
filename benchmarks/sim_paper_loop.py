"""The loop that FastTTS is compared with, and what it is measured by, on a simulated RTX 4090.

FastTTS's baseline is the beam search of huggingface/search-and-learn on stock vLLM: survivors are repeated as
a whole list (a, b, c, a, b, c, ...) until there are n of them, so that copies are as far apart as can be; the
verifier reads every path from its first token; each model has a fixed share of the memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any, NamedTuple

from pairs import PAIRS

from ttsflow import Pipeline
from ttsflow.engines.sim import GIB, Sim
from ttsflow.session import Session
from ttsflow.strategies.flow import Steps
from ttsflow.strategies.select import Select
from ttsflow.types import State

#: Paths as of AIME. Qwen2.5-Math's answers to problems of MATH have 7 to 8 steps at every level, which get
#: longer with it (means of 101 to 199 characters from level 1 to 5, deviation of logarithms 0.85): two levels
#: on, that are steps of about 115 tokens and a few more of them, 1,150 tokens in all.
AIME = {"use": "law", "least": 6, "end": 0.25, "median": 80.0, "sigma": 0.85}


@dataclass(frozen=True, slots=True)
class Tiled(Select):
    """Survivors in sample order, repeated as a whole list; who survives, and every child, is the same."""

    def __call__(self, state: State) -> Steps:
        """Prune as ever, and put the copies apart."""
        state = yield from Select.__call__(self, state)
        ended = tuple(c for c in state.pool if not c.active)
        kept = sorted({c.path: c for c in state.pool if c.active}.values(), key=lambda c: c.path)
        return state.with_(pool=ended + tuple(kept) * self.copies)


@dataclass(slots=True)
class Lengths:
    """Tokens of every path that came to its end, from the trace."""

    tokens: list[int] = field(default_factory=list)
    enabled: bool = True

    def event(self, kind: str, problem: str, data: Mapping[str, Any]) -> None:
        """Take in one event."""
        del problem
        if kind == "candidate" and data["finish"] == "stop":
            self.tokens.append(data["tokens"])

    def flush(self) -> None:
        """Do nothing."""


class Cell(NamedTuple):
    """Goodput as published: mean tokens of a finished path / mean seconds of a problem.

    ``distinct`` are the distinct tokens of all finished paths per second: what siblings share counts once.
    """

    goodput: float
    distinct: float
    told: list[Any]
    work: Mapping[str, float]


def tiled(strategy: Any) -> Any:
    """Return the strategy ``beam_search`` with the copies of the published baseline."""
    search = strategy.stages["search"]
    keep = search.stages["keep"]
    keep = Tiled(by=keep.by, into=keep.into, copies=keep.copies)
    search = replace(search, stages={**search.stages, "keep": keep})
    return replace(strategy, stages={**strategy.stages, "search": search})


def measure(
    pair: str,
    n: int,
    engine: Mapping[str, Any],
    *,
    cache: bool,
    apart: bool = False,
    problems: int = 2,
    kv_gib: float | None = None,
    flight: int = 1,
) -> Cell:
    """Simulate one pair; ``apart`` are the copies of the baseline, ``kv_gib`` is for both KV caches.

    A plan shares out what both have without one. With several problems in ``flight`` the goodput is a
    throughput: a problem then takes the seconds of all, divided by how many there are, while one by one
    that is its own time.
    """
    generator, verifier, ours, theirs = PAIRS[pair]
    own: dict[str, Any] = {"use": "sim", "model": generator, "memory_share": ours, "paths": AIME, **engine}
    other: dict[str, Any] = {
        "use": "simulated",
        "model": verifier,
        "memory_share": theirs,
        "prefix_cache": cache,
    }
    share = ours + theirs
    if kv_gib is not None:
        own |= {"kv_gib": kv_gib / 2}
        other |= {"kv_gib": kv_gib / 2}
        share = _share(own, kv_gib)
    if own.get("memory"):
        own["memory"] = {"share": share, "offload": "never"}
    pipeline = Pipeline(
        "beam_search",
        engine=own,
        task={"use": "simulated", "size": problems},
        verifier=other,
        hardware="rtx4090",
        n=n,
        concurrency=flight,
    )
    setup = pipeline.setup
    if apart:
        setup = replace(setup, strategy=tiled(setup.strategy))
    lengths = Lengths()
    with Session(setup) as session:
        results = list(session.run(list(setup.task.problems()), trace=lengths))
        work, seconds = session.work, session.wall_seconds
    told = [(r.id, r.answer, r.text, r.usage.output, r.usage.serial) for r in results]
    distinct = sum(result.path_tokens for result in results) / seconds
    return Cell(fmean(lengths.tokens) / (seconds / problems), distinct, told, work)


def _share(own: Mapping[str, Any], kv_gib: float) -> float:
    """Return the share of the device that two models like this one, their reserves and KV caches take."""
    plain = {name: own[name] for name in ("use", "model")}
    part = Pipeline("single", engine=plain, hardware="rtx4090", task="simulated").setup.engine
    assert isinstance(part, Sim)
    weights = part.roofline().weight_bytes / GIB
    return (2 * (weights + part.reserve_gib) + kv_gib) / part.hardware.memory_gib
