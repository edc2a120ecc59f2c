"""Contract classes: inherit one in your tests, give it your part, and pytest runs the rest.

Example::

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def engine(self):
            engine = MyEngine().open()
            yield engine
            engine.close()
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from ttsflow.ops import EngineRequest, Progress, Trace
from ttsflow.protocols import CostModel, Engine, Stage, Task, Verifier, VerifierPart, Watch
from ttsflow.sensors import MeterPart
from ttsflow.testing.drive import run_fake
from ttsflow.types import Answer, Candidate, Problem, Sampling, Usage

__all__ = [
    "CostContract",
    "EngineContract",
    "MeterContract",
    "StageContract",
    "TaskContract",
    "VerifierContract",
    "WatchContract",
    "decode_all",
]

_ids = itertools.count()


def decode_all(
    engine: Engine, requests: Mapping[str, EngineRequest], most_steps: int = 5000
) -> dict[str, Any]:
    """Submit requests, step until all have ended, and return (tokens, last news) by name."""
    names = {request.id: name for name, request in requests.items()}
    tokens: dict[str, list[int]] = {name: [] for name in requests}
    ends: dict[str, Any] = {}
    for request in requests.values():
        engine.submit(request)
    for _ in range(most_steps):
        for news in engine.step():
            name = names[news.id]
            assert name not in ends, "news of a request that has ended"
            tokens[name].extend(news.tokens)
            if news.finish is not None:
                ends[name] = news
        if len(ends) == len(requests):
            return {name: (tuple(tokens[name]), ends[name]) for name in requests}
    msg = f"not ended after {most_steps} steps: {sorted(set(requests) - set(ends))}"
    raise AssertionError(msg)


class EngineContract:
    """What the driver relies on. Needs a fixture ``engine``; ``text`` is a prompt it can continue."""

    text = "1 2 3 4 5\n"

    def request(self, engine: Engine, *, seed: int = 0, **changes: Any) -> EngineRequest:
        """Return a small request under a new id."""
        settings: dict[str, Any] = {
            "id": f"contract-{next(_ids)}",
            "prompt": engine.encode(self.text),
            "sampling": Sampling(temperature=1.0, top_p=1.0),
            "seed": seed,
            "max_tokens": 12,
        }
        return EngineRequest(**{**settings, **changes})

    def test_every_request_ends_once_with_a_reason(self, engine: Engine) -> None:
        """No request is lost, none ends twice."""
        requests = {str(i): self.request(engine, seed=i) for i in range(2 * min(engine.capacity, 8) + 1)}
        for tokens, end in decode_all(engine, requests).values():
            assert end.finish in {"stop", "length"}
            assert 1 <= len(tokens) <= 12
            assert (end.finish == "length") == (len(tokens) == 12 and end.finish != "stop")

    def test_seed_decides(self, engine: Engine) -> None:
        """One seed gives one text; another seed another one."""
        requests = {str(i): self.request(engine, seed=i % 2, max_tokens=24) for i in range(4)}
        done = decode_all(engine, requests)
        assert done["0"][0] == done["2"][0]
        assert done["1"][0] == done["3"][0]
        assert done["0"][0] != done["1"][0]

    def test_stream_changes_nothing(self, engine: Engine) -> None:
        """Reporting tokens as they come gives the same tokens as reporting them at the end."""
        requests = {
            str(stream): self.request(engine, seed=5, stream=stream, max_tokens=20)
            for stream in (True, False)
        }
        done = decode_all(engine, requests)
        assert done["True"][0] == done["False"][0]
        assert done["True"][1].finish == done["False"][1].finish

    def test_stop_string_is_named_and_kept(self, engine: Engine) -> None:
        """A stop string ends the text, is named, and its tokens are reported."""
        plain = decode_all(engine, {"a": self.request(engine, seed=3, max_tokens=24)})["a"][0]
        text = engine.decode(plain)
        stop = text[len(text) // 2 :][:1] or text[:1]
        tokens, end = decode_all(engine, {"a": self.request(engine, seed=3, max_tokens=24, stop=(stop,))})[
            "a"
        ]
        assert end.finish == "stop"
        assert end.stop == stop
        assert tokens == plain[: len(tokens)]
        assert stop in engine.decode(tokens)
        assert stop not in engine.decode(tokens[:-1])

    def test_abort_silences(self, engine: Engine) -> None:
        """After an abort no news of a request follows; unknown ids are ignored."""
        doomed = self.request(engine, seed=1, max_tokens=200, stream=True)
        other = self.request(engine, seed=2, max_tokens=8)
        engine.submit(doomed)
        engine.step()
        engine.abort([doomed.id, "no such request"])
        done = decode_all(engine, {"other": other})
        assert done["other"][1].finish in {"stop", "length"}
        engine.abort([doomed.id])

    def test_no_room_is_length_not_an_error(self, engine: Engine) -> None:
        """A prompt as long as the context ends at once, cut by length."""
        prompt = (engine.encode(self.text) * engine.context)[: engine.context]
        tokens, end = decode_all(engine, {"a": self.request(engine, prompt=prompt)})["a"]
        assert end.finish == "length"
        assert tokens == ()

    def test_encode_decode(self, engine: Engine) -> None:
        """Text survives a round trip."""
        assert engine.decode(engine.encode(self.text)) == self.text

    def test_reset_leaves_the_same_engine(self, engine: Engine) -> None:
        """A reset engine gives the same text again."""
        first = decode_all(engine, {"a": self.request(engine, seed=9)})["a"][0]
        engine.reset()
        assert decode_all(engine, {"a": self.request(engine, seed=9)})["a"][0] == first

    @pytest.mark.parametrize("stream", [True, False])
    def test_logprobs_when_claimed(self, engine: Engine, stream: bool) -> None:
        """As many per token as were asked for, best first; of every token."""
        if not engine.capabilities.logprobs:
            pytest.skip("this engine claims no log-probabilities")
        for count in {1, engine.capabilities.logprobs}:
            tokens, news = _hear(engine, self.request(engine, seed=4, logprobs=count, stream=stream))
            logprobs = [entry for item in news for entry in item.logprobs]
            assert [len(entry) for entry in logprobs] == [count] * len(tokens)
            for entry in logprobs:
                values = list(entry.values())
                assert values == sorted(values, reverse=True)
                assert values[0] <= 1e-6

    @pytest.mark.parametrize("stream", [True, False])
    def test_certainty_when_claimed(self, engine: Engine, stream: bool) -> None:
        """One number per token, finite and not negative; and none for a request that does not ask."""
        if not engine.capabilities.certainty:
            pytest.skip("this engine does not claim to measure certainty")
        tokens, news = _hear(engine, self.request(engine, seed=4, certainty=True, stream=stream))
        certainties = [value for item in news for value in item.certainties]
        assert len(certainties) == len(tokens)
        assert all(math.isfinite(value) and value >= 0 for value in certainties)
        _, news = _hear(engine, self.request(engine, seed=4, stream=stream))
        assert not any(item.certainties for item in news)


class PartContract:
    """A part is a frozen dataclass of settings. Needs a fixture ``part``."""

    def test_is_a_frozen_dataclass(self, part: Any) -> None:
        """Settings cannot change under a run, and equal settings are one part."""
        assert is_dataclass(part)
        assert not isinstance(part, type)
        names = [item.name for item in fields(part)]
        # A frozen class with slots and without fields raises TypeError in Python 3.11.
        with pytest.raises((AttributeError, TypeError)):
            setattr(part, names[0] if names else "anything", None)
        assert part == type(part)(**{name: getattr(part, name) for name in names})


class StageContract(PartContract):
    """A stage maps a state to a state. Needs a fixture ``part``: a stage that can run on its own."""

    def test_runs_and_is_deterministic(self, part: Stage) -> None:
        """Seats and concurrency change no answer."""
        from ttsflow.testing.fake import FakeEngine  # noqa: PLC0415 - keeps the public names of this module few

        runs = [
            run_fake(
                part,
                engine=FakeEngine(capacity=capacity),
                concurrency=concurrency,
                logprobs=20,
                certainty=True,
            )
            for capacity, concurrency in ((4, 1), (64, 8))
        ]
        seen = [[(r.answer, r.outcome, r.candidates, r.path_tokens) for r in _sorted(run)] for run in runs]
        assert seen[0] == seen[1]
        assert all(result.outcome != "failed" for result in runs[0].values()), runs[0]


class WatchContract(PartContract):
    """A watch decides on traces. Needs a fixture ``part``."""

    def test_decisions_are_well_formed(self, part: Watch) -> None:
        """It only aborts what exists, launches no negative number, and observers share nothing."""
        for size in (1, 4):
            observers = [part.begin(size), part.begin(size)]
            for step in range(1, 6):
                decisions = []
                for observer in observers:
                    traces = [_trace(index, step) for index in range(size)]
                    decisions.append(observer(traces, list(range(size))))
                assert decisions[0] == decisions[1]
                decision = decisions[0]
                if decision is not None:
                    assert all(0 <= index < size for index in decision.abort)
                    assert decision.launch >= 0


class VerifierContract(PartContract):
    """A verifier answers every candidate once. Needs a fixture ``part``.

    Set ``whole`` for one that scores a candidate as a whole: at most one score instead of one per step.
    """

    whole = False

    def opened(self, part: VerifierPart) -> Verifier:
        """Return the working verifier; one that must know the task is given a fake one."""
        open_for = getattr(part, "open_for", None)
        if open_for is None:
            return part.open()
        from ttsflow.testing.parts import FakeTask  # noqa: PLC0415 - keeps the public names of this module few

        verifier: Verifier = open_for(FakeTask())
        return verifier

    def test_one_score_per_step(self, part: VerifierPart) -> None:
        """One verdict per candidate, one score per non-empty line, each a number or None."""
        verifier = self.opened(part)
        problem = Problem("What is 1 + 2 + 3?", gold="6")
        texts = ["1 + 2 = 3\n3 + 3 = 6\n", "1 + 2 = 4\n\n4 + 3 = 7", "6"]
        for index, text in enumerate(texts):
            tokens = tuple(text.encode())
            verifier.submit(str(index), problem, Candidate((index,), (), tokens, text, finish="stop"))
        verdicts = {}
        for _ in range(1000):
            for verdict in verifier.step():
                assert verdict.id not in verdicts
                verdicts[verdict.id] = verdict
            if len(verdicts) == len(texts):
                break
        assert sorted(verdicts) == ["0", "1", "2"]
        for index, text in enumerate(texts):
            scores = verdicts[str(index)].scores
            steps = sum(bool(line.strip()) for line in text.split("\n"))
            assert len(scores) <= 1 if self.whole else len(scores) == steps
            assert all(score is None or math.isfinite(score) for score in scores)
        verifier.close()
        verifier.close()

    def test_cancelled_is_silent(self, part: VerifierPart) -> None:
        """No verdict of a cancelled candidate follows."""
        verifier = self.opened(part)
        verifier.submit("gone", Problem("?"), Candidate((0,), (), (1,), "1 + 1 = 2", finish="stop"))
        verifier.cancel(["gone", "unknown"])
        assert not verifier.step()
        verifier.close()


class CostContract(PartContract):
    """A cost model prices usage. Needs a fixture ``part``."""

    def test_pure_and_monotone(self, part: CostModel) -> None:
        """Nothing costs nothing, more never costs less, and the same costs the same."""
        small = Usage(prompt=10, output=5, requests=1, seconds=1.0, verifier=3, joules=2.0)
        assert part.unit
        assert part(Usage()) == 0
        assert 0 <= part(small) <= part(small + small)
        assert part(small) == part(small)


class MeterContract(PartContract):
    """A meter counts joules. Needs a fixture ``part`` that can be opened where the tests run."""

    def test_counts_and_never_goes_back(self, part: MeterPart) -> None:
        """It says what it is, starts near 0, and only climbs, also when the clock goes back."""
        part.check()
        meter = part.open()
        if meter is None:
            return
        try:
            assert meter.source
            assert 0 <= meter.window < math.inf
            readings = [meter.read(now) for now in (0.0, 1.0, 1.0, 0.5, 2.0, 1e6)]
            assert all(math.isfinite(joules) and joules >= 0 for joules in readings)
            assert readings == sorted(readings)
        finally:
            meter.close()
            meter.close()


class TaskContract(PartContract):
    """A task is a list of problems and what an answer is. Needs a fixture ``part``."""

    def test_problems_are_stable_and_distinct(self, part: Task) -> None:
        """Asked twice, the same problems; no id twice."""
        first, second = part.problems(), part.problems()
        assert list(first) == list(second)
        assert first
        assert len({problem.id for problem in first}) == len(first)

    def test_answers(self, part: Task) -> None:
        """The gold answer is right, no answer is not, and emptiness is no answer."""
        problem = next(problem for problem in part.problems() if problem.gold is not None)
        gold = part.answer(f"Answer: {problem.gold}", problem)
        assert isinstance(gold, Answer)
        assert part.correct(gold, problem) is True
        assert not part.correct(None, problem)
        assert part.answer("", problem) is None

    def test_borders(self, part: Task) -> None:
        """Steps end at a separator that is not also the end of everything."""
        assert part.separator
        assert part.separator not in part.stop


def _hear(engine: Engine, request: EngineRequest) -> tuple[list[int], list[Progress]]:
    """Run one request and return its tokens and all its news."""
    engine.submit(request)
    news: list[Progress] = []
    for _ in range(5000):
        news += engine.step()
        if news and news[-1].finish is not None:
            return [token for item in news for token in item.tokens], news
    raise AssertionError(f"not ended: {request.id}")


def _sorted(results: Mapping[str, Any]) -> list[Any]:
    return [results[name] for name in sorted(results)]


def _trace(index: int, step: int) -> Trace:
    """Return the state of request ``index`` after ``step`` steps; it ends after ``index + 2``."""
    trace = Trace(lambda tokens: "1" * len(tokens))
    trace.tokens = [1] * min(step, index + 2)
    trace.logprobs = [{1: -0.5}] * len(trace.tokens)
    trace.certainties = [5.0] * len(trace.tokens)
    if step >= index + 2:
        answer = Answer(str(index), str(index))
        tokens = tuple(trace.tokens)
        trace.candidate = Candidate((index,), (), tokens, "1", finish="stop", answer=answer)
    return trace
