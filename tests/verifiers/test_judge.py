"""A judge on engines that need no model."""

import math

import pytest

from ttsflow.engines.replay import Replay
from ttsflow.errors import ConfigError
from ttsflow.protocols import Verifier, VerifierPart
from ttsflow.testing import FakeEngine, FakeEnginePart
from ttsflow.testing.contracts import PartContract, VerifierContract
from ttsflow.types import Candidate, Message, Problem
from ttsflow.verifiers.judge import Judge
from ttsflow.verifiers.prompting import check_places
from ttsflow.verifiers.served import Served

PROBLEM = Problem((Message("user", "1+1?"),), id="p")
DIGITS = {"good": ("1", "2", "3"), "bad": ("4", "5", "6")}


class TestContract(VerifierContract):
    @pytest.fixture
    def part(self):
        return Judge(FakeEnginePart(), per="step", **DIGITS)


class TestPart(PartContract):
    @pytest.fixture
    def part(self):
        return Judge()


class Engine(FakeEngine):
    """Remembers what it was asked."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.asked = []

    def submit(self, request):
        self.asked.append(request)
        super().submit(request)


def judged(part, drain, texts, engine=None):
    engine = engine or Engine()
    verifier = part.open_on([engine], "\n")
    for number, text in enumerate(texts):
        verifier.submit(str(number), PROBLEM, Candidate((number,), (), (1,), text))
    return drain(verifier, len(texts), most=500), engine


def test_it_is_a_verifier_that_may_bring_an_engine():
    assert isinstance(Judge(), VerifierPart)
    assert isinstance(Judge(), Served)
    assert Judge().engines == ()
    assert Judge(FakeEnginePart()).engines == (FakeEnginePart(),)
    assert isinstance(Judge(FakeEnginePart()).open(), Verifier)
    with pytest.raises(ConfigError, match="set an engine"):
        Judge().open()


def test_words_are_weighed_by_the_first_token(drain):
    found, engine = judged(Judge(**DIGITS), drain, ["a", "b\nc\n"])
    for number, request in enumerate(engine.asked):
        verdict = found[str(number)]
        assert (request.max_tokens, request.logprobs, request.sampling.temperature) == (1, 20, 0.0)
        fresh = FakeEngine()
        fresh.submit(request)
        (news,) = fresh.step()
        shares = {chr(token): math.exp(value) for token, value in news.logprobs[0].items()}
        good = sum(shares.get(word, 0.0) for word in DIGITS["good"])
        bad = sum(shares.get(word, 0.0) for word in DIGITS["bad"])
        assert verdict.scores == ((pytest.approx(good / (good + bad)) if good + bad else None),)
        assert verdict.tokens == len(request.prompt) + 1
    assert any(verdict.scores[0] is not None for verdict in found.values())


def test_neither_word_is_a_missing_score(drain):
    found, _ = judged(Judge(), drain, ["a"])
    assert (found["0"].scores, found["0"].reason) == ((None,), "")


def test_a_mark_is_read_from_the_reply(drain, monkeypatch):
    part = Judge(read="score", scale=10**30, max_tokens=12)
    found, engine = judged(part, drain, ["a", "b"])
    for number, request in enumerate(engine.asked):
        assert (request.max_tokens, request.logprobs) == (12, 0)
        verdict = found[str(number)]
        assert len(request.prompt) < verdict.tokens <= len(request.prompt) + 12
        assert verdict.reason == ""
    monkeypatch.setattr(Engine, "decode", lambda self, tokens: "Score: 7/10")
    found, _ = judged(part, drain, ["a"])
    assert found["0"].scores == (0.7,)
    monkeypatch.setattr(Engine, "decode", lambda self, tokens: "hm")
    found, _ = judged(part, drain, ["a"])
    assert (found["0"].scores, found["0"].reason) == ((None,), "")


def test_every_step_is_asked_about_with_what_stands_before_it(drain):
    template = {"system": "judge", "user": "Q {question} T {text} S {step}"}
    found, engine = judged(Judge(per="step", template=template, **DIGITS), drain, ["a\n\n b\nc\n", "", "d"])
    prompts = [engine.decode(request.prompt) for request in engine.asked]
    assert prompts == [
        f"system: judge\nuser: Q 1+1? T {text}\n" for text in ("a S a", "a\n b S b", "a\n b\nc S c", "d S d")
    ]
    assert [len(found[name].scores) for name in "012"] == [3, 0, 1]
    assert found["0"].tokens == sum(len(request.prompt) + 1 for request in engine.asked[:3])


def test_a_plain_text_is_put_as_it_is(drain):
    _, engine = judged(Judge(template="{question} {text} ?{x}"), drain, ["a"])
    assert engine.decode(engine.asked[0].prompt) == "1+1? a ?{x}"


def test_a_prompt_without_room_fails_its_candidate_alone(drain):
    found, _ = judged(Judge(template="{text}"), drain, ["a" * 50, "a"], Engine(context=50))
    assert found["0"].reason == "the judge's prompt has 50 tokens, its context is 50"
    assert found["1"].reason == ""


def test_a_prompt_that_breaks_fails_its_candidate_alone(drain):
    class Broken(Engine):
        def encode(self, prompt):
            if "bad" in str(prompt):
                raise ValueError("no template")
            return super().encode(prompt)

    found, _ = judged(Judge(), drain, ["bad", "a"], Broken())
    assert "ValueError: no template" in found["0"].reason
    assert found["1"].reason == ""


def test_a_request_that_fails_fails_its_candidate_alone(drain):
    class Failing(Engine):
        def step(self):
            news = super().step()
            first = self.asked[1].id
            return [n._replace(finish="failed", reason="refused") if n.id == first else n for n in news]

    found, engine = judged(Judge(per="step", **DIGITS), drain, ["a\nb\nc", "d"], Failing())
    assert found["0"].reason == "the judge failed: refused"
    assert found["0"].scores == ()
    assert len(found["1"].scores) == 1
    assert not engine._running


def test_an_engine_that_dies_fails_what_waits_and_what_follows(drain):
    part = Judge(FakeEnginePart(dies_after=1), read="score", per="step")
    verifier = part.open()
    for number in range(2):
        verifier.submit(str(number), PROBLEM, Candidate((number,), (), (1,), "a\nb"))
    for verdict in drain(verifier, 2).values():
        assert verdict.reason.startswith("the judge's engine died: the fake engine died")
    verifier.submit("late", PROBLEM, Candidate((9,), (), (1,), "a"))
    assert "died" in drain(verifier, 1)["late"].reason
    verifier.close()


def test_cancelled_candidates_leave_the_engine(drain):
    engine = Engine()
    verifier = Judge(per="step", **DIGITS).open_on([engine], "\n")
    for name in ("a", "b"):
        verifier.submit(name, PROBLEM, Candidate((0,), (), (1,), "x\ny"))
    with pytest.raises(ValueError, match="'a'"):
        verifier.submit("a", PROBLEM, Candidate((0,), (), (1,), "x"))
    verifier.cancel(["a", "unknown"])
    assert set(drain(verifier, 1)) == {"b"}
    verifier.submit("c", PROBLEM, Candidate((0,), (), (1,), "x"))
    verifier.close()
    assert verifier.step() == []
    assert not engine._waiting
    assert not engine._running


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"template": "{question}"}, "template"),
        ({"template": {"user": "{text}", "assistant": "Sure:"}}, "template"),
        ({"template": {"User": "{text}"}}, "template"),
        ({"template": "{question} {text} {foo}"}, "template"),
        ({"good": ()}, "good"),
        ({"good": ("yes", "")}, "good"),
        ({"bad": ("no", " .")}, "bad"),
        ({"bad": ("yes",)}, "bad"),
        ({"bad": ("no", "YES.")}, "bad"),
        ({"good": ("absolutely correct",)}, "good"),
        ({"read": "score", "top": 5}, "top"),
        ({"read": "score", "good": ("true",)}, "good"),
        ({"read": "score", "bad": ("false",)}, "bad"),
        ({"max_tokens": 8}, "max_tokens"),
        ({"scale": 5.0}, "scale"),
        ({"bad": (" ",)}, "bad"),
        ({"top": 0}, "top"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"scale": 0.0}, "scale"),
        ({"separator": "\\n"}, "separator"),
        ({"deadline": 0.0}, "deadline"),
    ],
)
def test_settings_are_checked(settings, path):
    with pytest.raises(ConfigError) as caught:
        Judge(**settings)
    assert caught.value.path == path


def test_an_engine_that_cannot_be_asked_is_refused():
    with pytest.raises(ConfigError, match="gives none") as caught:
        Judge(FakeEnginePart(logprobs=0)).check()
    assert caught.value.path == "engine"
    Judge(FakeEnginePart(logprobs=0), read="score").check()
    Judge(FakeEnginePart(logprobs=5), top=5).check()
    with pytest.raises(ConfigError, match="plays back"):
        Judge(Replay(), read="score").check()
    Judge().check()


@pytest.mark.parametrize(
    "text",
    [
        "{foo}",
        "{texts}",
        "{Text}",
        "{text}{quest}",
        r"\boxed{answer} {answer}",
        r"\frac{a} {bad}",
        "{{score}}",
        '{"mark": {mark}}',
    ],
)
def test_a_place_that_nothing_fills_is_refused(text):
    with pytest.raises(ConfigError, match="there is no place") as caught:
        check_places(text, ("question", "text", "step"), "template")
    assert caught.value.path == "template"
    assert "question, step, text" in caught.value.message


def test_a_misspelt_place_is_told_the_nearest():
    with pytest.raises(ConfigError, match=r"no place \{quest\}. Did you mean 'question'.*\{ quest \}"):
        Judge(template="{quest} {text}")


@pytest.mark.parametrize(
    "text",
    [
        r"\boxed{} \boxed{answer} \frac{1}{2} \frac{distance}{time} \sqrt[3]{volume} \text{so {far}}",
        r"\begin{align*}x^{max} + y_{min}\end{align*} \frac{\text{all}}{part}",
        r"{x} {1} \{one\} { score } {} {a: 1} {a,b}",
        "{text} {question} {step}",
    ],
)
def test_braces_of_latex_and_data_stand_for_themselves(text):
    check_places(text, ("question", "text", "step"), "template")
