"""One engine, two users: nobody loses news, and iterations are counted where they belong."""

import pytest

from ttsflow.engines.shared import share
from ttsflow.ops import EngineRequest
from ttsflow.protocols import Engine, Leaping
from ttsflow.testing import FakeEngine
from ttsflow.testing.contracts import EngineContract
from ttsflow.types import Sampling


class TestHost(EngineContract):
    @pytest.fixture
    def engine(self):
        return share(FakeEngine(context=200))[0]


class TestGuest(EngineContract):
    @pytest.fixture
    def engine(self):
        return share(FakeEngine(context=200))[1]


def request(name, seed=0, **changes):
    return EngineRequest(name, (10,), Sampling(temperature=1.0), seed, **{"max_tokens": 12, **changes})


def alone(*requests):
    engine, done = FakeEngine(), {}
    for item in requests:
        engine.submit(item)
    while len(done) < len(requests):
        done |= {news.id: news for news in engine.step() if news.finish}
    return done


def test_ports_are_engines_that_tell_what_the_engine_is():
    engine = FakeEngine(capacity=3, context=99, logprobs=4)
    for port in share(engine):
        assert isinstance(port, Engine)
        assert not isinstance(port, Leaping)
        assert (port.capacity, port.context, port.capabilities.logprobs) == (3, 99, 4)
        assert port.decode(port.encode("12")) == port.decode(port.tokenize("12")) == "12"
        assert port.now() == 0
        assert not port.dead


def test_everyone_hears_of_their_own_requests_alone():
    host, guest = share(FakeEngine())
    mine = [request(f"h{n}", n, stream=n == 0) for n in range(3)]
    theirs = [request(f"g{n}", 10 + n) for n in range(3)]
    for one, other in zip(mine, theirs, strict=True):
        host.submit(one)
        guest.submit(other)
    heard = {host: {}, guest: {}}
    for _ in range(40):
        for port in (guest, host):
            for news in port.step():
                assert news.id.startswith("h" if port is host else "g")
                if news.finish:
                    heard[port][news.id] = news
    plain = alone(*mine, *theirs)
    assert heard[host] | heard[guest] == {
        name: news if name != "h0" else heard[host]["h0"] for name, news in plain.items()
    }


def test_the_guest_turns_the_engine_only_while_the_host_has_nothing_there():
    engine = FakeEngine()
    host, guest = share(engine)
    host.submit(request("h", max_tokens=3))
    guest.submit(request("g", max_tokens=30))
    assert guest.step() == []
    assert engine.steps == 0
    ended = False
    while not ended:
        ended = any(news.finish for news in host.step())
        taken = engine.steps
        guest.step()
        assert engine.steps == taken + ended
    news = []
    while not news:
        news = guest.step()
    assert [item.id for item in news] == ["g"]


def test_what_a_guest_asks_runs_first():
    host, guest = share(FakeEngine(capacity=1))
    for number in range(3):
        host.submit(request(f"h{number}", priority=number, max_tokens=1))
    guest.submit(request("g", max_tokens=1))
    order = [news.id for _ in range(4) for port in (host, guest) for news in port.step()]
    assert order[0] == "g"


def test_an_id_belongs_to_one_user():
    host, guest = share(FakeEngine())
    host.submit(request("x"))
    with pytest.raises(ValueError, match="x"):
        guest.submit(request("x"))
    guest.abort(["x", "unknown"])
    assert any(news.id == "x" for _ in range(20) for news in host.step())
    guest.submit(request("x"))


def test_closing_a_port_ends_its_own_requests():
    engine = FakeEngine()
    host, guest = share(engine)
    host.submit(request("h"))
    guest.submit(request("g"))
    host.step()
    guest.close()
    guest.close()
    assert set(engine._running) == {"h"}
    assert guest.step() == []
    host.abort(["h"])
    guest.submit(request("g"))
    host.reset()
    assert not engine._waiting
    guest.submit(request("g"))
