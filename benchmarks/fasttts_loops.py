"""The loops that a careful user writes on stock vLLM, for `fasttts.py` to compare with.

They make the same search as ttsflow's ``beam_search`` and ``dvts``: the same requests with the same seeds and
limits, the same rules for where a step and a beam end, the same choice. What they lack is all that is between
the lines: everything generates, then everything is scored, then everything is pruned.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ttsflow.engines.vllm_translate import params
from ttsflow.lineage import Lineage, Path, seed_of
from ttsflow.ops import EngineRequest
from ttsflow.setup import Setup
from ttsflow.types import Candidate, Problem, Tokens
from ttsflow.verifiers.pooled import softmax
from ttsflow.verifiers.prm_prompt import Writer

__all__ = ["Found", "Shape", "Stock", "search_all"]


class Shape(NamedTuple):
    """How a search goes: ``groups`` pools of ``size`` beams, each of which keeps its best ``keep``.

    Of beam search that is one pool, of DVTS one per subtree.
    """

    groups: int
    size: int
    keep: int
    rounds: int

    @classmethod
    def of(cls, strategy: str, n: int, width: int, rounds: int) -> Shape:
        """Return the shape of a strategy."""
        if strategy == "dvts":
            return cls(n // width, width, 1, rounds)
        return cls(1, n, n // width, rounds)


class Found(NamedTuple):
    """What a search came to: its answer, and the distinct tokens of its finished beams."""

    id: str
    answer: str | None
    tokens: int


class Ask(NamedTuple):
    """A step that is wanted: of which problem, behind which beam, by which path."""

    problem: Problem
    parent: Candidate
    path: Path
    last: bool


class Stock:
    """Two loaded models called as a plain script calls them: a batch in, all of it back.

    Without ``cached`` the verifier reads every text from its start, as vLLM does by default.
    """

    def __init__(
        self, setup: Setup, engines: tuple[Any, Any], cores: tuple[Any, Any], *, cached: bool
    ) -> None:
        self.setup = setup
        self._engine, pooler = engines
        self._core, self._reader = cores
        self._cached = cached
        self._write = Writer(setup.verifier, pooler, setup.task.separator)
        self._stop = tuple(dict.fromkeys((*setup.task.stop, *setup.sampling.stop)))
        self._names = itertools.count()

    def begin(self, problem: Problem) -> Candidate:
        """Return the beam that has nothing but a prompt."""
        return Candidate((), self._engine.encode(problem.prompt), finish="step")

    def generate(self, asks: Sequence[Ask]) -> list[Candidate]:
        """Return the beams that the steps lead to."""
        names = {}
        for ask in asks:
            name = f"stock-{next(self._names)}"
            names[name] = ask
            settings = self._settings(name, ask)
            self._core.add_request(name, _tokens(ask.parent.prompt + ask.parent.tokens), settings)
        outputs = _drain(self._core)
        return [self._beam(ask, outputs[name]) for name, ask in names.items()]

    def score(self, asks: Sequence[tuple[Problem, Candidate]]) -> list[float]:
        """Return the score of the last step of every beam; it is read at the last token of a text."""
        from vllm.pooling_params import PoolingParams

        names = []
        for problem, beam in asks:
            text = self._write(problem, beam)
            assert text.places[-1] == len(text.tokens) - 1
            names.append(f"stock-{next(self._names)}")
            settings = PoolingParams(
                task="token_classify",
                use_activation=False,
                skip_reading_prefix_cache=not self._cached,
            )
            self._reader.add_request(names[-1], _tokens(text.tokens), settings)
        outputs = _drain(self._reader)
        return [softmax(outputs[name].outputs.data[-1].tolist())[0] for name in names]

    def _settings(self, name: str, ask: Ask) -> Any:
        sampling = self.setup.sampling
        room = sampling.max_tokens - len(ask.parent.tokens)
        limit = room if ask.last else min(room, sampling.max_step_tokens)
        stop = self._stop if ask.last else (*self._stop, self.setup.task.separator)
        seed = seed_of(self.setup.seed, ask.problem.id, ask.path)
        return params(EngineRequest(name, (), sampling, seed, limit, stop), limit)

    def _beam(self, ask: Ask, output: Any) -> Candidate:
        """Return the beam behind a step: its end is looked for in the text of all its tokens."""
        (sample,) = output.outputs
        tokens = (*ask.parent.tokens, *sample.token_ids)
        text = self._engine.decode(tokens)
        reach = max(map(len, self._stop), default=1) - 1
        known = max(0, len(ask.parent.text) - reach)
        found = [(text.find(stop, known), stop) for stop in self._stop]
        places = [(place + len(stop), place) for place, stop in found if place >= 0]
        finish = sample.finish_reason
        if places:
            finish, text = "stop", text[: min(places)[1]]
        elif finish == "stop" and sample.stop_reason == self.setup.task.separator:
            finish = "step"
        elif finish == "length" and not ask.last and len(tokens) < self.setup.sampling.max_tokens:
            # A step that was cut goes on like any other.
            finish = "step"
        return Candidate(ask.path, ask.parent.prompt, tokens, text, finish, tokens_new=len(sample.token_ids))


class _Search:
    """One problem: its pools, round after round."""

    def __init__(self, stock: Stock, problem: Problem, shape: Shape) -> None:
        self.problem = problem
        self._stock = stock
        self._shape = shape
        self._round = 0
        self._tree: dict[Path, int] = {}
        lineage = Lineage()
        root = stock.begin(problem)
        self._root = [lineage.child(()) for _ in range(shape.groups * shape.size)]
        forks = lineage.fork(shape.groups) if shape.groups > 1 else [lineage]
        self._groups = [_Group([root] * shape.size, fork) for fork in forks]

    @property
    def live(self) -> bool:
        """Whether there is anything left to do."""
        return self._round < self._shape.rounds and any(group.beams for group in self._groups)

    def asks(self) -> list[Ask]:
        """Return the steps of this round."""
        last = self._round == self._shape.rounds - 1
        roots = iter(self._root) if self._round == 0 else None
        return [
            Ask(self.problem, beam, next(roots) if roots else group.lineage.child(beam.path), last)
            for group in self._groups
            for beam in group.beams
        ]

    def grow(self, children: Sequence[Candidate]) -> None:
        """Take what the steps of this round have led to."""
        rest = iter(children)
        for group in self._groups:
            group.beams = list(itertools.islice(rest, len(group.beams)))
        self._tree |= {child.path: child.tokens_new for child in children}

    def fresh(self) -> list[Candidate]:
        """Return the beams that have no score yet."""
        return [beam for group in self._groups for beam in group.beams]

    def prune(self, scores: Sequence[float]) -> None:
        """Keep the best of each pool and branch; a pool that is done asks for nothing more."""
        rest = iter(scores)
        shape = self._shape
        for group in self._groups:
            scored = [beam.with_(score=next(rest)) for beam in group.beams]
            group.ended += [beam for beam in scored if not beam.active]
            active = sorted(
                (beam for beam in scored if beam.active), key=lambda b: (-(b.score or 0.0), b.path)
            )
            done = self._done(group.ended, active)
            kept = [] if done else active[: shape.keep]
            group.beams = [beam for beam in kept for _ in range(shape.size // shape.keep)]
        self._round += 1

    def _done(self, ended: Sequence[Candidate], active: Sequence[Candidate]) -> bool:
        finished = [beam.score or 0.0 for beam in ended if beam.finished]
        if self._shape.groups == 1:
            return len(finished) >= self._shape.size
        return bool(finished) and all((beam.score or 0.0) <= max(finished) for beam in active)

    def found(self) -> Found:
        """Return what came of it."""
        finished = [beam for group in self._groups for beam in group.ended if beam.finished]
        nodes = {beam.path[:depth] for beam in finished for depth in range(1, len(beam.path) + 1)}
        tokens = sum(self._tree[node] for node in nodes)
        answers = [(beam, self._stock.setup.task.answer(beam.text, self.problem)) for beam in finished]
        voters = sorted(
            (pair for pair in answers if pair[1]), key=lambda p: (-(p[0].score or 0.0), p[0].path)
        )
        weights: dict[str, list[float]] = defaultdict(list)
        for beam, answer in voters[: self._shape.groups * self._shape.size]:
            weights[answer.key if answer else ""].append(beam.score or 0.0)
        answer = max(weights, key=lambda key: math.fsum(weights[key]), default=None)
        return Found(self.problem.id, answer, tokens)


class _Group:
    """One pool: the beams that go on, and those that have ended."""

    def __init__(self, beams: list[Candidate], lineage: Lineage) -> None:
        self.beams = beams
        self.ended: list[Candidate] = []
        self.lineage = lineage


def search_all(stock: Stock, problems: Sequence[Problem], shape: Shape, in_flight: int) -> list[Found]:
    """Search all problems, ``in_flight`` in lock step: all generate, all are scored, all are pruned."""
    waiting = deque(problems)
    live: list[_Search] = []
    found: list[Found] = []
    while waiting or live:
        while waiting and len(live) < in_flight:
            live.append(_Search(stock, waiting.popleft(), shape))
        wanted = [search.asks() for search in live]
        children = iter(stock.generate([ask for asks in wanted for ask in asks]))
        for search, asks in zip(live, wanted, strict=True):
            search.grow(list(itertools.islice(children, len(asks))))
        fresh = [search.fresh() for search in live]
        scores = iter(
            stock.score([(search.problem, b) for search, new in zip(live, fresh, strict=True) for b in new])
        )
        for search, new in zip(live, fresh, strict=True):
            search.prune(list(itertools.islice(scores, len(new))))
        found += [search.found() for search in live if not search.live]
        live = [search for search in live if search.live]
    return found


def _tokens(tokens: Tokens) -> Any:
    from vllm.inputs import tokens_input

    return tokens_input(list(tokens))


def _drain(core: Any) -> dict[str, Any]:
    """Step an engine until it is idle; return the outputs by id."""
    outputs = {}
    while core.has_unfinished_requests():
        outputs |= {output.request_id: output for output in core.step() if output.finished}
    return outputs
