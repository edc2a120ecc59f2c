"""What the driver relies on in an engine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import pytest

from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine
from ttsflow.types import Sampling

__all__ = ["EngineContract", "decode_all"]

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

    def test_the_clock_never_goes_back(self, engine: Engine) -> None:
        """Its seconds only grow, whatever it does."""
        engine.submit(self.request(engine, seed=6))
        readings = [engine.now()]
        for _ in range(20):
            engine.step()
            readings.append(engine.now())
        engine.reset()
        assert all(math.isfinite(reading) for reading in readings)
        assert readings == sorted(readings)

    def test_closing_twice_is_no_error(self, engine: Engine) -> None:
        """Whoever closes it need not know whether it is closed."""
        engine.close()
        engine.close()

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


def _hear(engine: Engine, request: EngineRequest) -> tuple[list[int], list[Progress]]:
    """Run one request and return its tokens and all its news."""
    engine.submit(request)
    news: list[Progress] = []
    for _ in range(5000):
        news += engine.step()
        if news and news[-1].finish is not None:
            return [token for item in news for token in item.tokens], news
    raise AssertionError(f"not ended: {request.id}")
