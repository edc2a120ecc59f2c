"""Random schedules: whatever an engine does when, a strategy has to come to the same.

A schedule draws seats, preemptions, problems in flight, a verifier that takes its time, and what is switched
on to make a run faster, a pool of samples among it. Results, samples and books are compared with those of a
plain engine.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ttsflow.acceleration import Acceleration, Speculation
from ttsflow.engines.pooled import Pooled
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import Texts
from ttsflow.further import engines_of
from ttsflow.ops import EngineRequest, Progress, Verdict
from ttsflow.protocols import Stage
from ttsflow.testing.drive import run_fake
from ttsflow.testing.fake import FakeEngine
from ttsflow.testing.heard import Heard
from ttsflow.testing.parts import FakeTask, FakeVerifierPart
from ttsflow.types import Candidate, Problem, Result, Sampling

__all__ = ["Booked", "Schedule", "SlowVerifier", "draw", "play", "same"]

SAMPLING = Sampling(max_tokens=60, max_step_tokens=12)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Seats, share of steps that send a sequence back, problems in flight, steps a verdict takes at most.

    With ``pooled`` it uses the pool of samples that it is played with, if there is one.
    """

    number: int
    seats: int
    preempt: float
    concurrency: int
    delay: int
    acceleration: Acceleration
    pooled: bool = False


def draw(number: int) -> Schedule:
    """Return the schedule of a number."""
    rng = random.Random(number)  # noqa: S311 - a schedule, not a secret
    speculation = Speculation(
        depth=rng.randint(1, 4),
        tiers=rng.randint(1, 4),
        curve=rng.random() < 0.2,
        verify=rng.random() < 0.5,
    )
    return Schedule(
        number,
        seats=rng.choice((1, 2, 3, 5, 8, 16, 64)),
        preempt=rng.choice((0.0, 0.1, 0.4)),
        concurrency=rng.choice((1, 2, 3, 8)),
        delay=rng.choice((0, 0, 1, 5)),
        acceleration=Acceleration(
            prefix_order=rng.random() < 0.5,
            speculation=speculation if rng.random() < 0.8 else False,
            eager_verify=rng.random() < 0.7,
        ),
        pooled=rng.random() < 0.5,
    )


class Booked(FakeEngine):
    """A fake engine that notes which requests it was given, and refuses to be asked for one twice."""

    def __init__(self, schedule: Schedule | None = None) -> None:
        made = schedule or draw(0)
        super().__init__(
            capacity=made.seats if schedule else 64,
            preempt=made.preempt if schedule else 0.0,
            schedule_seed=made.number,
        )
        self.pooled: Pooled | None = None
        #: The further engines that the strategy names.
        self.further: dict[str, Booked] = {}
        self.given: set[str] = set()
        self.ended: set[str] = set()
        self.aborted: set[str] = set()

    def submit(self, request: EngineRequest) -> None:
        """Queue a request."""
        assert request.id not in self.given, "every request has a name of its own"
        self.given.add(request.id)
        super().submit(request)

    def abort(self, ids: Sequence[str]) -> None:
        """Forget requests."""
        self.aborted |= set(ids) & self.given
        super().abort(ids)

    def step(self) -> list[Progress]:
        """Decode one token for every running sequence."""
        news = super().step()
        ended = {item.id for item in news if item.finish is not None}
        assert not ended & (self.ended | self.aborted), "a request ends once"
        self.ended |= ended
        return news


class SlowVerifier:
    """Gives the verdicts of the fake verifier after up to ``delay`` steps, in any order."""

    def __init__(self, delay: int, number: int, *, aside: bool = False) -> None:
        self.aside = aside
        self._inner = FakeVerifierPart().open()
        self._delay = delay
        self._rng = random.Random(number)  # noqa: S311 - a schedule, not a secret
        self._left: dict[str, int] = {}
        self._ready: dict[str, Verdict] = {}

    def submit(self, id: str, problem: Problem, candidate: Candidate) -> None:
        """Queue a candidate."""
        self._inner.submit(id, problem, candidate)
        self._left[id] = self._rng.randint(0, self._delay)

    def step(self) -> list[Verdict]:
        """Return what is due."""
        for verdict in self._inner.step():
            self._ready[verdict.id] = verdict._replace(tokens=1)
        due = [name for name, left in self._left.items() if not left and name in self._ready]
        self._left = {name: left - 1 for name, left in self._left.items() if name not in due}
        return [self._ready.pop(name) for name in due]

    def cancel(self, ids: Sequence[str]) -> None:
        """Forget candidates."""
        self._inner.cancel(ids)
        for name in ids:
            self._left.pop(name, None)
            self._ready.pop(name, None)

    def close(self) -> None:
        """Forget everything."""
        self._inner.close()


def play(
    strategy: Stage,
    schedule: Schedule | None = None,
    *,
    size: int = 3,
    pool: SampleStore | None = None,
    **settings: Any,
) -> tuple[Mapping[str, Result], Heard, Booked]:
    """Run a strategy on a schedule, None for a plain engine; return results, trace and engine."""
    engine, trace = Booked(schedule), Heard()
    engine.further = {name: Booked(schedule) for name in engines_of(strategy)}
    if pool is not None and schedule is not None and schedule.pooled:
        engine.pooled = Pooled(engine, pool, Texts("fake", ""))
    problems = FakeTask(size=size).problems()
    made = schedule or draw(0)
    random.Random(made.number).shuffle(problems)  # noqa: S311 - a schedule, not a secret
    results = run_fake(
        strategy,
        problems,
        engine=engine.pooled or engine,
        engines=engine.further,
        sampling=SAMPLING,
        trace=trace,
        verifier=SlowVerifier(made.delay, made.number, aside=bool(made.number % 2)) if schedule else None,
        concurrency=made.concurrency,
        acceleration=schedule.acceleration if schedule else None,
        **settings,
    )
    for one in (engine, *engine.further.values()):
        assert one.given == one.ended | one.aborted, "nothing is left on the engine"
    return results, trace, engine


def same(
    one: tuple[Mapping[str, Result], Heard, Booked], other: tuple[Mapping[str, Result], Heard, Booked]
) -> bool:
    """Whether two runs came to the same: results, every sample, and every token that was asked for.

    Where a watch ends samples early, how far they had come depends on the seats: then answers, and what had
    to be decoded one after another, are compared. Raises ``AssertionError`` for a token that is in no book.
    """
    for results, _, engine in (one, other):
        booked = sum(result.usage.decoded for result in results.values())
        decoded = engine.decoded + _played(engine, results)
        for name, further in engine.further.items():
            part = sum(result.usage.of(name).decoded for result in results.values())
            assert part == further.decoded, f"{further.decoded} tokens of {name} were decoded, {part} booked"
            booked -= part
        assert booked == decoded, f"{decoded} tokens were decoded, {booked} booked"
        assert all(result.usage.adopted <= result.usage.output for result in results.values())
    watched = any(
        data["finish"] == "aborted" for _, trace, _ in (one, other) for data in trace.of("candidate")
    )
    if watched:
        return _answers(one[0]) == _answers(other[0])
    return _known(*one[:2]) == _known(*other[:2])


def _played(engine: Booked, results: Mapping[str, Result]) -> int:
    """Return how many tokens a pool gave, less those that were decoded for it and are in no book."""
    reused = sum(result.usage.reused for result in results.values())
    if engine.pooled is None:
        assert not reused
        return 0
    counts = engine.pooled.counters()
    assert reused <= counts["pool_tokens"]
    return int(counts["pool_tokens"] - counts["pool_unused_tokens"])


def _answers(results: Mapping[str, Result]) -> list[Any]:
    return [
        (name, result.answer, result.outcome, result.correct, result.text, result.usage.serial)
        for name, result in sorted(results.items())
    ]


def _known(results: Mapping[str, Result], trace: Heard) -> tuple[Any, ...]:
    samples = sorted(
        (problem, data["path"], data["seed"], data["finish"], data["text"], data["tokens_new"])
        for kind, problem, data in trace.events
        if kind == "candidate"
    )
    pruned = sorted((problem, str(data)) for kind, problem, data in trace.events if kind == "select")
    told = [
        replace(result, usage=replace(result.usage, **_OF_TIME), cost={})
        for _, result in sorted(results.items())
    ]
    return samples, pruned, told


#: What a schedule may change of the books.
_OF_TIME: dict[str, Any] = dict.fromkeys(
    ("adopted", "cached", "dropped", "engine_steps", "reused", "verifier"), 0
)
_OF_TIME["seconds"] = 0.0
