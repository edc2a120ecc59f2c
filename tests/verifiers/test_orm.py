"""Outcome reward models on a pooling engine that is not one."""

import math
import re

import pytest

from ttsflow.build import field_names
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.engines.pooling import Pooling
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError
from ttsflow.protocols import VerifierPart
from ttsflow.testing.contracts import PartContract
from ttsflow.types import Candidate, Message, Problem
from ttsflow.verifiers.orm import ORM
from ttsflow.verifiers.served import Served

ENGINE = VLLM("org/orm")
PROBLEM = Problem((Message("user", "1+1?"),), id="p")


class TestContract(PartContract):
    @pytest.fixture
    def part(self):
        return ORM(ENGINE)


def scored(part, pooler, drain, texts=("a\nb\n",)):
    verifier = part.open_on([pooler], "\n")
    pooler.asked.clear()
    for number, text in enumerate(texts):
        verifier.submit(str(number), PROBLEM, Candidate((number,), (), (1,), text))
    return drain(verifier, len(texts))


def test_it_is_a_verifier_with_an_engine_of_its_own():
    assert isinstance(ORM(ENGINE), VerifierPart)
    assert isinstance(ORM(ENGINE), Served)
    assert ORM(ENGINE).engines == (Pooling(ENGINE, per_token=False),)


@pytest.mark.parametrize(
    ("part", "row", "score"),
    [
        (ORM(ENGINE), (-2.5,), -2.5),
        (ORM(ENGINE, activation="sigmoid"), (-2.5,), 1 / (1 + math.exp(2.5))),
        (ORM(ENGINE), (1.0, 3.0), 1 / (1 + math.exp(-2))),
        (ORM(ENGINE, good=0, activation="sigmoid"), (1.0, 3.0), 1 / (1 + math.exp(2))),
    ],
)
def test_a_candidate_has_one_score(part, row, score, pooler, drain):
    pooler.logits = lambda tokens: row
    verdict = scored(part, pooler, drain)["0"]
    assert verdict.scores == (pytest.approx(score),)
    assert verdict.reason == ""
    assert verdict.tokens > 0


@pytest.mark.parametrize("row", [(math.nan,), (math.inf,), (math.nan, 1.0), (-math.inf, math.inf)])
def test_what_is_no_finite_number_is_missing(row, pooler, drain):
    pooler.logits = lambda tokens: row
    verdict = scored(ORM(ENGINE), pooler, drain)["0"]
    assert (verdict.scores, verdict.reason) == ((None,), "")


def test_a_vector_is_no_score(pooler, drain):
    pooler.logits = lambda tokens: (0.0,) * 8192
    verdict = scored(ORM(ENGINE), pooler, drain)["0"]
    assert verdict.scores == ()
    assert "gave 8192 numbers for a text, 1 (a value) or 2 (classes) are wanted" in verdict.reason


def test_the_prompt_is_a_chat_or_a_text(pooler, drain):
    scored(ORM(ENGINE), pooler, drain, ("a\nb\n", ""))
    assert [text for _, text, _ in pooler.asked] == [
        "<s>[user]1+1?|[assistant]a\nb|",
        "<s>[user]1+1?|[assistant]|",
    ]
    for template in ("{bos}Q {question} A {text}", "Q {question} A {text}"):
        scored(ORM(ENGINE, template=template), pooler, drain)
        assert [text for _, text, _ in pooler.asked] == ["<s>Q 1+1? A a\nb"]


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"good": 2}, "good"),
        ({"template": "{question}"}, "template"),
        ({"template": "{qestion} {text}"}, "template"),
        ({"rename": {"": ""}}, "rename"),
        ({"deadline": -1.0}, "deadline"),
        ({"engine": VLLM("org/orm", args={"pooler_config": {}})}, "engine.args.pooler_config"),
    ],
)
def test_settings_are_checked(settings, path):
    with pytest.raises(ConfigError) as caught:
        ORM(**{"engine": ENGINE, **settings})
    assert caught.value.path == path


def test_a_missing_chat_template_shows_when_it_opens(pooler):
    pooler.chat = False
    with pytest.raises(ConfigError, match="chat template"):
        ORM(ENGINE).open_on([pooler], "\n")


def test_a_model_of_another_kind_is_told_of_by_settings_that_exist():
    from ttsflow.verifiers.prm import PRM

    loaded = ["LlamaForCausalLM"], ["embed"]
    whole = ORM(ENGINE).engines[0].misfit(*loaded, ["classify"])
    steps = PRM(ENGINE, "<t>").engines[0].misfit(*loaded, ["token_classify"])
    for said, part in ((whole, ORM), (steps, PRM)):
        settings = {name.split(".")[1] for name in re.findall(r"`(verifier\.[\w.]+)`", said)}
        assert settings <= set(field_names(part))
        assert "architecture" in settings
        assert "as a model for embed; scores need" in said
    assert "verifier.engine.model" in whole
    assert "`verifier.read`" in steps


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["verifier=prm"], "verifier=qwen_prm"),
        (["verifier=prm", "+verifier.engine.model=org/prm"], "behind a step"),
    ],
)
def test_a_missing_setting_says_what_to_set(words, hint):
    with pytest.raises(ConfigError, match="needs the setting") as caught:
        assemble(compose(["engine=fake", *words]))
    assert hint in str(caught.value)
