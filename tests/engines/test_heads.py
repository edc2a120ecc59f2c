"""What copies of a survivor begin with in the published way of speculation."""

from ttsflow.engines.heads import Heads
from ttsflow.engines.sim import Sim
from ttsflow.engines.speculative import Speculative
from ttsflow.ops import EngineRequest, Progress
from ttsflow.testing.fake import FakeEngine
from ttsflow.types import Sampling


def request(name, seed, prompt, path, *, most=20, stop=()):
    return EngineRequest(name, prompt, Sampling(), seed, most, stop, problem="p", path=path)


def test_a_share_never_has_the_end_and_is_not_passed_on():
    heads = Heads(0.85)
    first = request("a", 1, (5,), (0, 0))
    heads.know(first, Progress("a", (1, 2, 3, 4), "stop", "\n", reused=0))
    left, part = heads.part(request("b", 2, (5,), (0, 1)), heads.of(first))
    assert (part.tokens, part.reused, part.finish) == ((1, 2, 3), 3, None)
    assert (left.prompt, left.max_tokens) == ((5, 1, 2, 3), 17)
    heads.know(request("c", 3, (6,), (1, 0)), Progress("c", (1, 2), reused=1))
    assert heads.of(request("c", 3, (6,), (1, 0))) is None
    heads.forget("p")
    assert heads.of(first) is None


def test_copies_get_a_whole_step_where_something_behind_it_was_begun():
    """And what follows it is shared as well, since they read the same."""
    fake = FakeEngine(capacity=8)
    engine = Speculative(fake, curve=False, keep=0.5)
    ended = {}
    engine.on_end = lambda done, end: ended.setdefault(done.id, end)
    engine.submit(request("long", 3, (49,), (0,), most=60))
    step = request("s", 11, (50,), (1, 0), most=3)
    engine.expect(step, 0.5)
    while "s" not in ended:
        engine.step()
    # The fake ends a step by its limit; here it is one that ended with its separator.
    engine._guesses["s"].heard[-1] = engine._guesses["s"].heard[-1]._replace(finish="stop", stop="\n")
    engine._guesses["s"].end = engine._guesses["s"].told("s")
    tokens = ended["s"].tokens
    engine.expect(request("t", 12, (50, *tokens), (1, 0, 0), most=30), 0.2)
    for _ in range(5):
        engine.step()
    engine.submit(request("first", 11, (50,), (1, 0), most=3))
    engine.submit(request("copy", 21, (50,), (1, 1), most=3))
    news = {item.id: item for item in engine.step() if item.id in {"first", "copy"}}
    assert news["copy"].tokens == news["first"].tokens == tokens
    assert (news["copy"].reused, news["first"].reused) == (3, 0)
    assert news["copy"].stop == "\n"
    # The children of both read the same: the one that was begun keeps all, the other one gets a share.
    engine.submit(request("kid", 12, (50, *tokens), (1, 0, 0), most=30))
    engine.submit(request("kid of the copy", 31, (50, *tokens), (1, 1, 0), most=30))
    heard = engine.step()
    kid = [token for item in heard if item.id == "kid" for token in item.tokens]
    taken = next(item for item in heard if item.id == "kid of the copy")
    assert 0 < taken.reused <= len(kid) / 2
    assert list(taken.tokens) == kid[: taken.reused]
    assert not any(item.reused for item in heard if item.id == "kid")


def test_steps_of_the_law_that_share_a_beginning_are_as_long_as_others():
    engine = Sim.__dataclass_fields__["paths"].default_factory().open_paths()
    prompt = engine.encode("what is it?" * 20)
    whole, shared = [], []
    for number in range(400):
        first = engine.play(request(f"a{number}", number, prompt, (0,), most=2000, stop=("\n\n",)), 10**6)
        head = tuple(range(first.piece.base, first.piece.base + int(0.85 * first.length)))
        other = request(f"b{number}", 10**6 + number, prompt + head, (1,), most=2000, stop=("\n\n",))
        whole.append(first.length)
        shared.append(len(head) + engine.play(other, 10**6).length)
    assert abs(sum(shared) / sum(whole) - 1) < 0.05
