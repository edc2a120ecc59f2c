"""Process reward models on a pooling engine that is not one: prompts, places, shapes and failures."""

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ttsflow import plugins
from ttsflow.build import build, explain
from ttsflow.engines.pooler import Pooled, Pooler
from ttsflow.engines.pooling import Pooling
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError
from ttsflow.protocols import Verifier, VerifierPart
from ttsflow.testing import FakeEnginePart
from ttsflow.testing.contracts import PartContract
from ttsflow.types import Candidate, Message, Problem
from ttsflow.verifiers.batch import steps_of
from ttsflow.verifiers.judge import Judge
from ttsflow.verifiers.orm import ORM
from ttsflow.verifiers.pooled import Unreadable
from ttsflow.verifiers.prm import PRM
from ttsflow.verifiers.prm_prompt import Writer
from ttsflow.verifiers.prompting import filled, question_of
from ttsflow.verifiers.served import Served

ENGINE = VLLM("org/prm")
QWEN = PRM(
    ENGINE, "<extra_0>", template={"system": "Be right.", "user": "{question}", "assistant": "{steps}"}
)
SHEPHERD = PRM(ENGINE, " ки", read="tag", step="Step {number}: {step}{tag}\n", template="{question} {steps}")
SKYWORK = PRM(ENGINE, "\n", read="value", apart=True, template="{bos}{question}\n{steps}")
KINDS = {"classes": QWEN, "tag": SHEPHERD, "value": SKYWORK}
PROBLEM = Problem((Message("system", "s"), Message("user", "old"), Message("user", "1+1?")), id="p")


def candidate(text, number=0):
    return Candidate((number,), (), (1,), text)


def opened(part, pooler, separator="\n"):
    pooler.width = 1 if part.read == "value" else 2
    verifier = part.open_on([pooler], separator)
    pooler.asked.clear()
    return verifier


def ask(verifier, texts, problem=PROBLEM):
    for number, text in enumerate(texts):
        verifier.submit(str(number), problem, candidate(text, number))


class TestContract(PartContract):
    @pytest.fixture
    def part(self):
        return QWEN


def test_it_is_a_verifier_with_an_engine_of_its_own(pooler):
    assert isinstance(pooler, Pooler)
    assert isinstance(QWEN, VerifierPart)
    assert isinstance(QWEN, Served)
    assert isinstance(opened(QWEN, pooler), Verifier)
    assert QWEN.engines == (Pooling(ENGINE),)
    assert SHEPHERD.engines == (Pooling(ENGINE, words={"good": "+", "bad": "-"}),)
    assert SKYWORK.engines == (Pooling(ENGINE, labels=1),)


# --- prompts ------------------------------------------------------------------------------------------

TEXT = "a = 1\n\n b = 2 \nc"


@pytest.mark.parametrize(
    ("part", "prompt"),
    [
        (QWEN, "<s>[system]Be right.|[user]1+1?|[assistant]a = 1<extra_0>b = 2<extra_0>c<extra_0>|"),
        (SHEPHERD, "<s>1+1? Step 1: a = 1 ки\nStep 2: b = 2 ки\nStep 3: c ки\n"),
        (SKYWORK, "<s>1+1?\na = 1\nb = 2\nc\n"),
    ],
    ids=KINDS,
)
def test_a_prompt_has_a_place_for_every_step(part, prompt, pooler):
    text = Writer(part, pooler, "\n")(PROBLEM, candidate(TEXT))
    assert pooler.decode(text.tokens) == prompt
    tag = pooler.tokenize(part.tag)
    assert [text.tokens[place] for place in text.places] == list(tag) * 3
    ends = [pooler.decode(text.tokens[:place])[-1] for place in text.places]
    assert ends == ["1", "2", "c"]


def test_a_score_can_be_read_where_the_tag_is_foreseen(pooler):
    part = PRM(ENGINE, "+", read="tag", at="before", step="{step}?{tag}", template="{question} {steps}")
    text = Writer(part, pooler, "\n")(Problem("q"), candidate("a\nb"))
    assert pooler.decode(text.tokens) == "<s>q a?+b?+"
    assert [pooler.decode(text.tokens[place : place + 2]) for place in text.places] == ["?+", "?+"]


def test_steps_end_with_the_separator_of_the_task_or_ones_own(pooler, drain):
    verifier = opened(QWEN, pooler, separator=". ")
    ask(verifier, ["a\nb. c. "])
    assert len(drain(verifier, 1)["0"].scores) == 2
    own = PRM(ENGINE, "<extra_0>", separator="\n")
    verifier = opened(own, pooler, separator=". ")
    ask(verifier, ["a\nb. c. \nd"])
    assert len(drain(verifier, 1)["0"].scores) == 3


def test_the_question_is_the_prompt_or_the_last_turn_of_a_user():
    assert question_of(Problem("raw {steps}")) == "raw {steps}"
    assert question_of(PROBLEM) == "1+1?"
    assert question_of(Problem((Message("system", "s"),))) == ""


def test_what_looks_like_a_place_in_a_question_or_a_step_is_text(pooler):
    text = Writer(QWEN, pooler, "\n")(Problem("{steps}{bos}{x}"), candidate("{tag} {number}\n{step}"))
    said = pooler.decode(text.tokens)
    assert said.endswith("[user]{steps}{bos}{x}|[assistant]{tag} {number}<extra_0>{step}<extra_0>|")
    assert len(text.places) == 2


def test_a_tag_in_the_question_is_none_of_a_step(pooler):
    text = Writer(QWEN, pooler, "\n")(Problem("what is <extra_0>?"), candidate("a\nb"))
    assert [pooler.decode(text.tokens[place - 1 : place]) for place in text.places] == ["a", "b"]


@pytest.mark.parametrize("part", [QWEN, SHEPHERD], ids=["classes", "tag"])
def test_a_step_with_the_tag_in_it_fails_its_candidate_alone(part, pooler, drain):
    verifier = opened(part, pooler)
    ask(verifier, [f"a{part.tag}\nb", "a\nb"])
    found = drain(verifier, 2)
    assert found["0"].scores == ()
    assert "3 times for 2 steps" in found["0"].reason
    assert found["1"].reason == ""


def test_a_tag_that_is_no_token_is_refused_when_it_opens(pooler):
    with pytest.raises(ConfigError, match="no single token") as caught:
        opened(PRM(ENGINE, "<step>"), pooler)
    assert caught.value.path == "tag"
    opened(PRM(ENGINE, "<step>", apart=True), pooler)


def test_a_tag_that_grows_together_with_its_step_is_refused_when_it_opens(pooler):
    pooler.vocabulary = (*pooler.vocabulary, "2\n")
    with pytest.raises(ConfigError, match="apart"):
        opened(PRM(ENGINE, "\n", template="{question} {steps}"), pooler)


@pytest.mark.slow
@given(
    st.lists(st.text(st.sampled_from("aB§+é"), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.text(st.sampled_from("aB§+é 12"), min_size=2, max_size=3), max_size=6),
    st.sampled_from("§+"),
    st.sampled_from(["{step}{tag}", "{step} {tag}\n", "Step {number}: {step}{tag}"]),
)
@example(["a§a", "B"], ["§B"], "§", "{step}{tag}")
def test_whatever_a_tokenizer_merges_steps_are_read_behind_themselves_or_not_at_all(
    make_pooler, steps, merged, tag, step
):
    """The tokens of the verifier are others than those that the text was decoded as."""
    pooler = make_pooler(vocabulary=(*merged, "<s>", "<extra_0>"))
    part = PRM(ENGINE, tag, step=step, template="{question} {steps}")
    text = "\n".join(steps)
    wanted = steps_of(text, "\n")
    try:
        made = Writer(part, pooler, "\n")(Problem("1+1?"), candidate(text))
    except (Unreadable, ConfigError):
        return
    assert len(made.places) == len(wanted)
    before = "1+1? "
    for number, (one, place) in enumerate(zip(wanted, made.places, strict=True), 1):
        head, _, tail = filled(step, {"step": one.strip(), "number": str(number), "tag": "\0"}).partition(
            "\0"
        )
        before += head + tag
        assert pooler.decode(made.tokens[: place + 1]).split() == f"<s>{before}".split()
        before += tail


def test_as_many_tags_as_steps_in_other_places_are_no_scores(pooler, drain):
    """The first step has a tag in it, and its own has grown together with the second step."""
    pooler.vocabulary = ("§B", *pooler.vocabulary)
    verifier = opened(PRM(ENGINE, "§", template="{question} {steps}"), pooler)
    ask(verifier, ["A§q\nB", "A\nC"])
    found = drain(verifier, 2)
    assert found["0"].scores == ()
    assert "the border of step 1 is lost" in found["0"].reason
    assert "the tag '§' behind" in found["0"].reason
    assert found["1"].reason == ""
    apart = opened(PRM(ENGINE, "§", apart=True, template="{question} {steps}"), pooler)
    ask(apart, ["A\nB"])
    assert len(drain(apart, 1)["0"].scores) == 2


def test_a_tokenizer_that_changes_what_it_reads_is_held_to_the_tags_alone(make_pooler, drain):
    class Lowering(make_pooler):
        """Its text never comes back as it was."""

        def tokenize(self, text, *, special=False):
            return super().tokenize(text.lower(), special=special)

    pooler = Lowering(vocabulary=("§b", "<s>"))
    verifier = opened(PRM(ENGINE, "§", template="{question} {steps}"), pooler)
    ask(verifier, ["A\nC", "A§q\nB"])
    found = drain(verifier, 2)
    assert len(found["0"].scores) == 2
    assert "the border of step 1 is lost" in found["1"].reason


def test_a_model_without_a_chat_template_is_refused_when_it_opens(pooler):
    pooler.chat = False
    with pytest.raises(ConfigError, match="chat template"):
        opened(QWEN, pooler)
    opened(SHEPHERD, pooler)


@pytest.mark.parametrize(
    ("bos", "template", "special"),
    [
        ("<s>", "{bos}{question}{steps}", 1),
        ("<s>", "{question}{steps}", 1),
        ("", "{bos}{question}{steps}", 0),
    ],
)
def test_a_document_begins_once(bos, template, special, pooler):
    pooler.bos = bos
    text = Writer(PRM(ENGINE, "<extra_0>", template=template), pooler, "\n")(Problem("q"), candidate("a"))
    assert pooler.decode(text.tokens) == f"{bos}qa<extra_0>"
    assert text.tokens.count(1002) == special


# --- scores -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("caches", [False, True])
def test_one_score_per_step(part, caches, pooler, drain):
    pooler.caches = caches
    verifier = opened(part, pooler)
    texts = ["a\nb\n\nc\n", "a\nb", "", " \n", "a\nb\nd"]
    ask(verifier, texts)
    found = drain(verifier, len(texts))
    assert [len(found[str(n)].scores) for n in range(5)] == [3, 2, 0, 0, 3]
    assert all(0 < score < 1 for verdict in found.values() for score in verdict.scores)
    assert found["0"].scores[:2] == found["1"].scores == found["4"].scores[:2]
    assert found["0"].tokens == len(pooler.tokenize(pooler.asked[0][1])) > found["1"].tokens
    assert found["2"].tokens == 0
    assert not any(verdict.reason for verdict in found.values())


def test_what_a_score_is(pooler, drain):
    for part, row, score in (
        (QWEN, (1.0, 3.0), 1 / (1 + math.exp(-2))),
        (SHEPHERD, (1.0, 3.0), 1 / (1 + math.exp(2))),
        (SKYWORK, (-1.5,), 1 / (1 + math.exp(1.5))),
        (QWEN, (-1000.0, 1000.0), 1.0),
        (SKYWORK, (-1000.0,), 0.0),
    ):
        verifier = opened(part, pooler)
        pooler.logits = lambda tokens, row=row: row
        ask(verifier, ["a"])
        assert drain(verifier, 1)["0"].scores == (pytest.approx(score),)


@pytest.mark.parametrize("part", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_missing(part, value, pooler, drain):
    verifier = opened(part, pooler)
    plain = pooler.logits
    pooler.logits = lambda tokens: (value,) * pooler.width if "b" in pooler.decode(tokens) else plain(tokens)
    ask(verifier, ["a\nb"])
    first, second = drain(verifier, 1)["0"].scores
    assert 0 < first < 1
    assert second is None


@pytest.mark.parametrize(("part", "width"), [(QWEN, 1), (QWEN, 8192), (SHEPHERD, 49152), (SKYWORK, 2)])
def test_numbers_that_are_no_score_say_what_came_and_what_was_expected(part, width, pooler, drain):
    verifier = opened(part, pooler)
    pooler.width = width
    ask(verifier, ["a\nb", "c"])
    for verdict in drain(verifier, 2).values():
        assert verdict.scores == ()
        assert f"gave {width} numbers" in verdict.reason
        assert f"`read: {part.read}` wants {1 if part.read == 'value' else 2}" in verdict.reason


def test_a_place_without_numbers_fails_its_candidate(pooler, drain):
    verifier = opened(QWEN, pooler)
    pooler.broken = {"0": Pooled("0", {}), "1": Pooled("1", {}, "numbers of shape (8192,)")}
    ask(verifier, ["a\nb", "a\nb", "a\nb"])
    found = drain(verifier, 3)
    assert "0 of 2 places" in found["0"].reason
    assert found["1"].reason == "numbers of shape (8192,)"
    assert len(found["2"].scores) == 2


def test_a_prompt_longer_than_the_context_fails_its_candidate_alone(pooler, drain):
    verifier = opened(QWEN, pooler)
    pooler.context = 80
    ask(verifier, ["a", "a" * 80])
    found = drain(verifier, 2)
    assert found["0"].reason == ""
    assert "its context is 80" in found["1"].reason


def test_a_prompt_that_breaks_fails_its_candidate_alone(pooler, drain):
    verifier = opened(QWEN, pooler)
    plain = pooler.render
    pooler.render = lambda turns: plain(turns) if "bad" not in turns[1].content else 1 / 0
    verifier.submit("bad", Problem("bad"), candidate("a"))
    verifier.submit("good", Problem("good"), candidate("a"))
    found = drain(verifier, 2)
    assert "ZeroDivisionError" in found["bad"].reason
    assert found["good"].reason == ""


# --- the prefix cache ---------------------------------------------------------------------------------


def test_what_the_cache_leaves_out_is_remembered(pooler, drain):
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a\nb\nc"])
    plain = drain(verifier, 1)["0"].scores
    pooler.caches = True
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a\nb"])
    (first,) = drain(verifier, 1).values()
    pooler.found = lambda tokens: len(pooler.tokenize(pooler.asked[0][1].removesuffix("|")))
    ask(verifier, ["a\nb\nc"])
    (second,) = drain(verifier, 1).values()
    assert second.scores[:2] == first.scores
    assert second.scores == plain
    assert [cached for _, _, cached in pooler.asked] == [True, True]


def test_what_the_cache_leaves_out_and_nobody_knows_is_read_again(pooler, drain):
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a\nb\nc"])
    plain = drain(verifier, 1)["0"]
    pooler.caches = True
    pooler.found = lambda tokens: len(tokens) - 2
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a\nb\nc"])
    assert drain(verifier, 1)["0"] == plain
    assert [cached for _, _, cached in pooler.asked] == [True, False]


def test_siblings_in_one_step_know_each_others_scores(pooler, drain):
    pooler.caches = True
    verifier = opened(QWEN, pooler)
    seen = []

    def found(tokens):
        before = max((sum(a == b for a, b in zip(tokens, old, strict=False)) for old in seen), default=0)
        seen.append(tokens)
        return min(before, len(tokens) - 3) if before else 0

    pooler.found = found
    ask(verifier, ["a\nb\nc", "a\nb\nd", "a\nb\ne"])
    verdicts = drain(verifier, 3, most=1)
    assert len({verdict.scores[:2] for verdict in verdicts.values()}) == 1
    assert len({verdict.scores[2] for verdict in verdicts.values()}) == 3


def test_a_text_whose_scores_are_known_is_not_read_again(pooler, drain):
    pooler.caches = True
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a\nb\nc"])
    (first,) = drain(verifier, 1).values()
    verifier.submit("again", PROBLEM, candidate("a\nb\nc"))
    verifier.submit("shorter", PROBLEM, candidate("a\nb"))
    again = drain(verifier, 2, most=1)
    assert again["again"] == first._replace(id="again")
    assert again["shorter"].scores == first.scores[:2]
    assert again["shorter"].tokens < first.tokens
    assert len(pooler.asked) == 1


@pytest.mark.parametrize("caches", [False, True])
def test_of_texts_that_wait_and_begin_another_one_only_the_longest_is_read(pooler, drain, caches):
    texts = ["a\nb", "a", "a\nb\nc", "a\nd", "a\nb\nc"]
    alone = {}
    for text in set(texts):
        ask(verifier := opened(QWEN, pooler), [text])
        (alone[text],) = drain(verifier, 1).values()
    pooler.asked.clear()
    pooler.caches = caches
    verifier = opened(QWEN, pooler)
    ask(verifier, texts)
    verdicts = drain(verifier, 5, most=1)
    for number, text in enumerate(texts):
        assert verdicts[str(number)] == alone[text]._replace(id=str(number))
    assert sorted(name for name, _, _ in pooler.asked) == ["2", "3"]


def test_when_the_longest_is_given_up_or_fails_the_others_are_read_themselves(pooler, drain):
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a", "a\nb"])
    pooler.seats = 0
    assert not verifier.step()
    verifier.cancel(["1"])
    pooler.seats = 64
    assert drain(verifier, 1)["0"].scores
    pooler.broken["1"] = Pooled("1", {}, "too long")
    ask(verifier, ["a", "a\nb"])
    verdicts = drain(verifier, 2)
    assert verdicts["1"].reason == "too long"
    assert verdicts["0"].scores
    assert not verdicts["0"].reason


# --- life ---------------------------------------------------------------------------------------------


def test_candidates_of_several_problems_are_one_batch_and_a_step_is_one_iteration(pooler):
    verifier = opened(QWEN, pooler)
    pooler.seats = 2
    for number in range(5):
        verifier.submit(str(number), Problem(f"q{number}"), candidate("a"))
    sizes = [len(verifier.step()) for _ in range(4)]
    assert sizes == [2, 2, 1, 0]


def test_an_engine_that_dies_fails_what_waits_and_what_follows(pooler, drain):
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a", "b\nc"])
    pooler.dies = True
    for verdict in drain(verifier, 2).values():
        assert verdict.reason == "the verifier's engine died: no memory"
        assert verdict.scores == ()
    verifier.submit("late", PROBLEM, candidate("a"))
    assert drain(verifier, 1)["late"].reason == "the verifier's engine died: no memory"
    verifier.cancel(["late"])
    verifier.close()


def test_cancelled_candidates_are_taken_from_the_engine(pooler, drain):
    verifier = opened(QWEN, pooler)
    ask(verifier, ["a", "", "c"])
    verifier.cancel(["0", "1", "unknown"])
    assert set(drain(verifier, 1)) == {"2"}
    ask(verifier, ["a"])
    verifier.close()
    verifier.close()
    assert not pooler.waiting
    assert verifier.step() == []


def test_a_waiting_id_cannot_be_used_again(pooler):
    verifier = opened(QWEN, pooler)
    for text in ("a", ""):
        verifier.submit(f"id{text}", PROBLEM, candidate(text))
        with pytest.raises(ValueError, match=f"'id{text}'"):
            verifier.submit(f"id{text}", PROBLEM, candidate(text))


def test_only_an_engine_that_it_opened_itself_is_closed(pooler, monkeypatch):
    verifier = opened(QWEN, pooler)
    verifier.close()
    assert not pooler.closed
    monkeypatch.setattr(Pooling, "open", lambda self: pooler)
    verifier = QWEN.open()
    verifier.close()
    assert pooler.closed == 1


# --- settings -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "part", [*KINDS.values(), ORM(ENGINE, activation="sigmoid"), Judge(ENGINE, per="step"), Judge()]
)
def test_a_part_is_what_explain_says(part):
    registry = plugins.load()
    assert build("verifier", explain(part, registry), "verifier", registry) == part


@pytest.mark.parametrize(
    ("settings", "path", "message"),
    [
        ({"tag": ""}, "tag", "empty"),
        ({"tag": "\\n"}, "tag", "double quotes"),
        ({"separator": ""}, "separator", "empty"),
        ({"step": "{step}"}, "step", "{tag} once"),
        ({"step": "{tag}{step}{tag}"}, "step", "{tag} once"),
        ({"template": "{question}"}, "template", "{steps} once, found 0"),
        ({"template": {"user": "{steps}", "assistant": "{steps}"}}, "template", "found 2"),
        ({"template": {"user": "{question}", "asistant": "{steps}"}}, "template", "Did you mean 'assistant'"),
        ({"deadline": 0.0}, "deadline", "above 0"),
        ({"step": "{step}{tag}{foo}"}, "step", "no place {foo}"),
        ({"step": "{step}{tag}{nummer}"}, "step", "Did you mean 'number'"),
        ({"template": "{steps}{quest}"}, "template", "Did you mean 'question'"),
        ({"read": "tag", "good": " "}, "good", "empty"),
        ({"read": "tag", "good": "+", "bad": " +"}, "bad", "`good`"),
        ({"read": "tag", "bad": "not good"}, "bad", "more than one word"),
        ({"good": "yes"}, "good", "only `read: tag`"),
        ({"read": "value", "bad": "no"}, "bad", "only `read: tag`"),
        ({"rename": {"a": "b", "": ""}}, "rename", "by itself"),
        ({"engine": FakeEnginePart()}, "engine", "`vllm` alone"),
        ({"engine": VLLM("org/prm", args={"convert": "embed"})}, "engine.args.convert", "follows"),
        ({"engine": VLLM("o/m", args={"load_format": "pt"}), "rename": {"a": "b"}}, "rename", "auto"),
    ],
)
def test_settings_are_checked(settings, path, message):
    with pytest.raises(ConfigError) as caught:
        PRM(**{"engine": ENGINE, "tag": "<t>", **settings})
    assert caught.value.path == path
    assert message in str(caught.value)


@pytest.mark.parametrize("use", ["prm", "orm"])
def test_the_engine_may_be_named_as_everywhere(use):
    registry = plugins.load()
    rest = {"tag": "<t>"} if use == "prm" else {}

    def made(**engine):
        return build("verifier", {"use": use, **rest, "engine": engine}, "verifier", registry)

    assert made(use="vllm", model="org/prm") == made(model="org/prm")
    for engine, path, message in (
        ({"use": "fake"}, "verifier.engine", "`vllm` alone"),
        ({"use": "vlm", "model": "o/m"}, "verifier.engine.use", "Did you mean 'vllm'"),
        ({"use": "vllm", "model": "o/m", "seat": 1}, "verifier.engine.seat", "Did you mean 'seats'"),
        ({"model": "o/m", "seat": 1}, "verifier.engine.seat", "Did you mean 'seats'"),
    ):
        with pytest.raises(ConfigError) as caught:
            made(**engine)
        assert caught.value.path == path
        assert message in caught.value.message


def test_the_engine_is_checked_without_loading_it(tmp_path, monkeypatch):
    part = PRM(VLLM(str(tmp_path / "none")), "<t>")
    with pytest.raises(ConfigError, match="no such folder") as caught:
        part.check()
    assert caught.value.path == "engine.model"
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")
    with pytest.raises(ConfigError, match="VLLM_CPU_KVCACHE_SPACE") as caught:
        QWEN.check()
    assert caught.value.path == "engine.kv_gib"


def test_a_prefill_may_be_split_where_nothing_is_decoded():
    part = PRM(VLLM("org/prm", args={"enable_chunked_prefill": True}), "<t>")
    part.check()
    with pytest.raises(ConfigError, match="seeded"):
        part.engine.check()
