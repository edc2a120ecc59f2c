"""Reward models on real vLLM, equal to a plain forward pass; and a judge. The models are tiny and random."""

import dataclasses
import json
import math
from types import SimpleNamespace

import pytest

from ttsflow.engines import warm
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError, ModelError
from ttsflow.pipeline import Pipeline
from ttsflow.types import Candidate, Message, Problem
from ttsflow.verifiers.judge import Judge
from ttsflow.verifiers.orm import ORM
from ttsflow.verifiers.prm import PRM

pytestmark = pytest.mark.engine

DEMO = VLLM("demo", dtype="float32", seats=16, context=1024, kv_gib=0.25)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{{ eos_token }}{% endfor %}"
)
PROBLEMS = (
    Problem((Message("user", "What is 3 + 4 + 5?"),), id="p"),
    Problem("Add 2, 6 and 1", id="q"),
)
TEXTS = (
    "3 + 4 = 7\n7 + 5 = 12\n",
    "3 + 4 = 8\n\n8 + 5 = 13\nAnswer: 13",
    "\n".join(f"{i} + {i} = {2 * i}" for i in range(20)),
    "12",
)


def tokenizer():
    """Return a tokenizer of bytes with the tags of all models."""
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    core = tokenizers.Tokenizer(tokenizers.models.BPE({char: i for i, char in enumerate(alphabet)}, []))
    core.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = tokenizers.decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>")
    made.add_special_tokens({"additional_special_tokens": ["<extra_0>"]})
    made.add_tokens([" ки"])
    made.chat_template = TEMPLATE
    return made


class Models:
    """The checkpoints, their parts, and what a plain forward pass makes of a text."""

    def __init__(self, folder):
        import torch
        import transformers
        from safetensors.torch import save_file

        self.folder, self.torch = folder, torch
        words = tokenizer()
        self.good, self.bad = (words(sign, add_special_tokens=False).input_ids[-1] for sign in "+-")
        size = {
            "vocab_size": 264,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "max_position_embeddings": 512,
            "initializer_range": 0.2,
            "bos_token_id": words.bos_token_id,
            "eos_token_id": words.eos_token_id,
            "pad_token_id": 263,
        }
        torch.manual_seed(0)
        qwen = transformers.Qwen2Config(**size, tie_word_embeddings=False)
        self.base = transformers.Qwen2ForCausalLM(qwen).eval()
        self.tagged = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**size, tie_word_embeddings=True)
        ).eval()
        qwen_one = transformers.Qwen2Config(**size, num_labels=1)
        self.whole = transformers.Qwen2ForSequenceClassification(qwen_one).eval()
        self.linear = transformers.Qwen2ForTokenClassification(qwen).eval()
        with torch.no_grad():
            for model in (self.base, self.tagged, self.whole, self.linear):
                for name, weight in model.named_parameters():
                    weight.add_(0.1 * torch.randn_like(weight)) if "bias" in name else None
        draw = torch.randn
        self.head = {
            "score.0.weight": 0.2 * draw(64, 64),
            "score.0.bias": 0.1 * draw(64),
            "score.2.weight": 0.2 * draw(2, 64),
            "score.2.bias": 0.1 * draw(2),
        }
        self.value = {"v_head.summary.weight": 0.2 * draw(1, 64), "v_head.summary.bias": torch.tensor([0.3])}
        plain = {name: weight.clone() for name, weight in self.base.state_dict().items()}
        body = {name: weight for name, weight in plain.items() if not name.startswith("lm_head")}
        for name, model, architecture, weights in (
            ("classes", self.base, "Qwen2ForProcessRewardModel", body | self.head),
            ("tag", self.tagged, "LlamaForCausalLM", None),
            ("value", self.base, "Qwen2ForPrmModel", plain | self.value),
            ("orm", self.whole, "Qwen2ForSequenceClassification", None),
            ("linear", self.linear, "Qwen2ForTokenClassification", None),
        ):
            place = folder / name
            model.save_pretrained(place)
            words.save_pretrained(place)
            if weights is not None:
                save_file(weights, place / "model.safetensors", metadata={"format": "pt"})
            config = json.loads((place / "config.json").read_text())
            (place / "config.json").write_text(json.dumps(config | {"architectures": [architecture]}))
        chunks = {"enable_chunked_prefill": True, "max_num_batched_tokens": 64}
        self.parts = {
            # Most prompts are longer than a chunk of this one.
            "classes": PRM(self.engine("classes", chunks), "<extra_0>"),
            "tag": PRM(
                self.engine("tag"),
                " ки",
                read="tag",
                step="Step {number}: {step}{tag}\n",
                template="{question} {steps}",
            ),
            "value": PRM(
                self.engine("value"),
                "\n",
                read="value",
                apart=True,
                template="{bos}{question}\n{steps}",
                architecture="Qwen2ForCausalLM",
                rename={"v_head.summary.": "score."},
            ),
            "linear": PRM(self.engine("linear"), "\n", apart=True, template="{question}\n{steps}"),
            "orm": ORM(self.engine("orm"), activation="sigmoid"),
        }

    def engine(self, name, args=None):
        return VLLM(
            str(self.folder / name), dtype="float32", seats=8, context=512, kv_gib=0.02, args=args or {}
        )

    def open(self):
        """Return the demo engine and the opened models by kind, all of them open together."""
        kinds = list(self.parts)
        demo, *engines = warm.acquire_all([DEMO, *(self.parts[kind].engines[0] for kind in kinds)])
        return demo, dict(zip(kinds, engines, strict=True))

    def plain(self, kind, tokens, places):
        """Return what a forward pass in float32 gives at these places."""
        torch = self.torch
        model = {"tag": self.tagged, "orm": self.whole}.get(kind, self.base)
        with torch.no_grad():
            if kind == "orm":
                return torch.sigmoid(model(torch.tensor([tokens])).logits[0]).tolist()
            if kind == "linear":
                logits = self.linear(torch.tensor([tokens])).logits[0]
                return logits.softmax(-1)[list(places), 1].tolist()
            hidden = model.model(torch.tensor([tokens])).last_hidden_state[0]
            if kind == "classes":
                inner = torch.relu(hidden @ self.head["score.0.weight"].T + self.head["score.0.bias"])
                logits = inner @ self.head["score.2.weight"].T + self.head["score.2.bias"]
                scores = logits.softmax(-1)[:, 1]
            elif kind == "tag":
                scores = model.lm_head(hidden)[:, [self.good, self.bad]].softmax(-1)[:, 0]
            else:
                weight, bias = self.value.values()
                scores = torch.sigmoid(hidden @ weight.T + bias)[:, 0]
        return scores[list(places)].tolist()


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return Models(tmp_path_factory.mktemp("models"))


KINDS = ("classes", "tag", "value", "linear", "orm")


def scored(verifier, asked):
    """Return verdicts by number, and after how many steps each came."""
    for number, (problem, text) in enumerate(asked):
        verifier.submit(str(number), problem, Candidate((number,), (), (1,), text))
    found, steps = {}, 0
    while len(found) < len(asked):
        steps += 1
        assert steps < 200
        found |= {int(verdict.id): (verdict, steps) for verdict in verifier.step()}
    return [found[number] for number in range(len(asked))]


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_a_plain_forward_pass(models, kind):
    engine = models.open()[1][kind]
    verifier = models.parts[kind].open_on([engine], "\n")
    # Several problems in one batch, more than there are seats.
    asked = [(problem, text) for text in TEXTS for problem in PROBLEMS]
    # What is in the cache by now, and steps that are new behind it.
    again = [(PROBLEMS[0], TEXTS[2] + "\n99 + 1 = 100"), (PROBLEMS[0], TEXTS[2]), (PROBLEMS[1], "12\n13")]
    worst, longest = 0.0, 0
    for batch in (asked, again):
        for (problem, text), (verdict, _) in zip(batch, scored(verifier, batch), strict=True):
            steps = sum(bool(step.strip()) for step in text.split("\n"))
            prompt = verifier._write(problem, Candidate((0,), (), (1,), text))
            assert verdict.reason == ""
            assert verdict.tokens == len(prompt.tokens)
            assert len(verdict.scores) == (1 if kind == "orm" else steps)
            own = models.plain(kind, prompt.tokens, prompt.places)
            worst = max(worst, *(abs(a - b) for a, b in zip(verdict.scores, own, strict=True)))
            longest = max(longest, len(prompt.tokens))
    assert longest > 200
    assert worst < 1e-4, worst
    assert engine._core.engine_core.engine_core.scheduler.get_request_counts() == (0, 0)


def test_the_cache_is_read_and_changes_no_score(models, monkeypatch):
    part, engine = models.parts["value"], models.open()[1]["value"]
    computed = []
    scheduler = engine._core.engine_core.engine_core.scheduler
    plain = scheduler.schedule

    def schedule(*args, **kwargs):
        plan = plain(*args, **kwargs)
        computed.append(plan.total_num_scheduled_tokens)
        return plan

    monkeypatch.setattr(scheduler, "schedule", schedule)
    grown = [(PROBLEMS[0], "\n".join(TEXTS[2].split("\n")[:count])) for count in (18, 19, 20)]
    found = {}
    for caches in (False, True):
        engine.reset()
        monkeypatch.setattr(engine, "_caches", caches)
        verifier = part.open_on([engine], "\n")
        computed.clear()
        found[caches] = [scored(verifier, [one])[0][0] for one in grown]
        read = sum(verdict.tokens for verdict in found[caches])
        assert (sum(computed) < 0.6 * read) if caches else (sum(computed) == read)
    for cached, fresh in zip(found[True], found[False], strict=True):
        assert cached.scores == pytest.approx(fresh.scores, abs=1e-5)
        assert cached.tokens == fresh.tokens


def test_a_prompt_may_fill_the_context_and_no_more(models):
    part, engine = models.parts["tag"], models.open()[1]["tag"]
    verifier = part.open_on([engine], "\n")
    frame = len(verifier._write(PROBLEMS[1], Candidate((0,), (), (1,), "1")).tokens) - 1
    (full, _), (over, _) = scored(
        verifier, [(PROBLEMS[1], "1" * (512 - frame)), (PROBLEMS[1], "1" * (513 - frame))]
    )
    assert (full.tokens, full.reason) == (512, "")
    assert over.reason == "the verifier's prompt has 513 tokens, its context is 512"
    assert len(full.scores) == 1


def test_cancelled_texts_leave_the_engine(models):
    engine = models.open()[1]["classes"]
    verifier = models.parts["classes"].open_on([engine], "\n")
    for number, text in enumerate(TEXTS):
        verifier.submit(str(number), PROBLEMS[0], Candidate((number,), (), (1,), text))
    verifier.step()
    verifier.cancel(["0", "1", "2"])
    verdicts = [verdict for _ in range(20) for verdict in verifier.step()]
    assert [verdict.id for verdict in verdicts] == ["3"]
    assert engine._core.engine_core.engine_core.scheduler.get_request_counts() == (0, 0)


def test_a_text_that_vllm_refuses_fails_alone(models):
    engine = models.open()[1]["tag"]
    engine.submit("bad", (10**7,), (0,))
    engine.submit("empty", (), ())
    engine.submit("good", (5, 6), (1,))
    with pytest.raises(ValueError, match="good"):
        engine.submit("good", (5,), (0,))
    found = {}
    while len(found) < 3:
        found |= {news.id: news for news in engine.step()}
    assert "vLLM refused" in found["bad"].reason
    assert "vLLM refused" in found["empty"].reason
    assert len(found["good"].rows[1]) == 2


def test_the_shape_of_what_comes_is_checked():
    import torch

    from ttsflow.engines.vllm_pool import _Live, _pooled

    def pooled(*shape, per_token=True, cached=False):
        output = SimpleNamespace(request_id="r", outputs=SimpleNamespace(data=torch.zeros(shape)))
        return _pooled(output, _Live(6, (2, 5), cached), per_token=per_token)

    assert pooled(6, 2).rows == {2: (0.0, 0.0), 5: (0.0, 0.0)}
    assert pooled(6).rows == {2: (0.0,), 5: (0.0,)}
    assert pooled(2, 1, cached=True).rows == {5: (0.0,)}
    for shape in ((8192,), (4, 2), (7, 2), (6, 2, 2)):
        assert f"shape {shape} instead of a row for each of 6 tokens" in pooled(*shape).reason
    assert pooled(3, per_token=False).rows[5] == (0.0, 0.0, 0.0)
    assert "shape (2, 3) instead of one row" in pooled(2, 3, per_token=False).reason


def test_a_model_of_another_kind_is_refused_by_what_it_is():
    from ttsflow.engines.vllm_pool import _task

    def core(*tasks, **config):
        model = SimpleNamespace(hf_config=SimpleNamespace(architectures=["LlamaForCausalLM"], **config))
        return SimpleNamespace(
            get_supported_tasks=lambda: tasks, vllm_config=SimpleNamespace(model_config=model)
        )

    steps, whole = PRM(DEMO, "<t>").engines[0], ORM(DEMO).engines[0]
    assert _task(steps, core("token_classify", "classify")) == "token_classify"
    assert _task(whole, core("token_classify", "classify")) == "classify"
    assert _task(whole, core("token_classify")) == "token_classify"
    with pytest.raises(
        ModelError, match=r"LlamaForCausalLM\) as a model for embed, token_embed; scores need"
    ):
        _task(steps, core("token_embed", "embed"))
    with pytest.raises(ModelError, match=r"verifier\.engine\.model.*verifier=judge"):
        _task(whole, core("token_embed", "embed"))
    tagged = PRM(DEMO, "<t>", read="tag").engines[0]
    with pytest.raises(ModelError, match="final_logit_softcapping"):
        _task(tagged, core("token_classify", final_logit_softcapping=30.0))


def test_words_that_are_no_single_token_are_refused_before_the_model_loads(models):
    part = dataclasses.replace(models.parts["tag"], good="right")
    with pytest.raises(ConfigError, match="token") as caught:
        part.open()
    assert caught.value.path == "verifier.good"


# --- with a generator in the same process -------------------------------------------------------------


def pipeline(verifier, strategy="beam_search", max_tokens=24, **settings):
    return Pipeline(
        strategy,
        model="demo",
        engine={"dtype": "float32", "seats": 16, "context": 1024, "kv_gib": 0.25},
        verifier=verifier,
        task={"use": "arithmetic", "size": 2},
        sampling={"max_tokens": max_tokens},
        n=4,
        **settings,
    )


def settings_of(part):
    """Return a part's settings as in a config."""
    engine = part.engine
    given = {name: getattr(engine, name) for name in ("model", "dtype", "seats", "context", "kv_gib", "args")}
    rest = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    return {"use": type(part).__name__.lower(), **rest, "engine": given}


def test_a_search_with_a_process_reward_model(models, counting):
    demo, engines = models.open()
    searching = pipeline(settings_of(models.parts["classes"]), width=2)
    assert searching.setup.verifier == models.parts["classes"]
    with counting(demo) as count:
        run = searching.run()
    assert run.summary.error is None
    assert sum(result.usage.decoded for result in run.results) == count[0]
    assert all(result.usage.verifier > 100 for result in run.results)
    assert all(result.outcome != "failed" for result in run.results)
    again = searching.run()
    for one, other in zip(run.results, again.results, strict=True):
        assert (one.answer, one.text) == (other.answer, other.text)
        assert one.usage.verifier == other.usage.verifier
    assert models.open() == (demo, engines)


@pytest.mark.parametrize("kind", ["classes", "value"])
def test_steps_are_read_at_their_ends_in_a_verifiers_own_tokens(models, tmp_path, kind):
    """The generator's tokens are pieces of words, the verifier's are bytes: only the text is the same."""
    demo, engines = models.open()
    part, file = models.parts[kind], tmp_path / "trace.jsonl"
    searching = pipeline(settings_of(part), width=2)
    searching.run(trace=file)
    events = [json.loads(line) for line in file.read_text().splitlines()]
    texts = {(e["problem"], *e["path"]): e["text"] for e in events if e["event"] == "candidate"}
    problems = {problem.id: problem for problem in searching.setup.task.problems()}
    separator = searching.setup.task.separator
    verifier = part.open_on([engines[kind]], separator)
    scored = [event for event in events if event["event"] == "score"]
    assert any(len(event["scores"]) > 1 for event in scored)
    for event in scored:
        text = texts[event["problem"], *event["path"]]
        assert engines[kind].tokenize(text) != demo.tokenize(text)
        steps = [step for step in text.split(separator) if step.strip()]
        prompt = verifier._write(problems[event["problem"]], Candidate((0,), (), (1,), text))
        assert len(event["scores"]) == len(prompt.places) == len(steps)
        for step, place in zip(steps, prompt.places, strict=True):
            assert engines[kind].decode(prompt.tokens[: place + 1]).endswith(step.strip() + part.tag)
        own = models.plain(kind, prompt.tokens, prompt.places)
        assert event["scores"] == pytest.approx(own, abs=1e-4)


def test_a_judge_shares_the_engine_of_the_run(models, counting):
    demo, _ = models.open()
    with counting(demo) as count:
        run = pipeline({"use": "judge"}, "best_of_n").run()
    assert run.summary.error is None
    # The judge decodes one token per candidate that it is asked about.
    asked = count[0] - sum(result.usage.decoded for result in run.results)
    assert 2 <= asked <= 8
    assert all(result.usage.verifier > 0 for result in run.results)
    assert demo.load()[:2] == (0, 0)


def test_what_a_judge_says_is_what_the_model_thinks(models, plain_model):
    demo, _ = models.open()
    judge = Judge().open_on([demo], "\n")
    asked = [(problem, text) for problem in PROBLEMS for text in TEXTS[:2]]
    for (problem, text), (verdict, _) in zip(asked, scored(judge, asked), strict=True):
        (prompt,) = judge._prompts(problem, Candidate((0,), (), (1,), text))
        tokens = demo.encode(prompt)
        assert verdict.tokens == len(tokens) + 1
        top = plain_model(tokens, (0,))[0].topk(20)
        chances = {True: 0.0, False: 0.0}
        for value, token in zip(top.values.tolist(), top.indices.tolist(), strict=True):
            word = demo.decode((token,)).strip().lower()
            if word in {"yes", "no"}:
                chances[word == "yes"] += math.exp(value)
        assert sum(chances.values()) > 0
        assert verdict.scores == (pytest.approx(chances[True] / sum(chances.values()), abs=1e-4),)


def test_a_verifier_that_dies_fails_its_candidates_and_all_are_closed_together(models, monkeypatch):
    demo, engines = models.open()
    dying = engines["classes"]

    def step():
        raise RuntimeError("no memory")

    monkeypatch.setattr(dying._core, "step", step)
    run = pipeline(settings_of(models.parts["classes"]), "best_of_n", max_tokens=4).run()
    assert len(run.results) == 2
    for result in run.results:
        assert result.outcome == "failed"
        assert "the verifier's engine died: vLLM stopped: RuntimeError: no memory" in result.reason
    warm.close_all()
    assert demo.closed
    assert all(engine.closed for engine in engines.values())
