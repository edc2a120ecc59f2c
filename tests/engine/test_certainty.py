"""The certainty of tokens on a real model: the model's own, one per token, and nothing left behind."""

import gc
import math

import pytest

from ttsflow.ops import EngineRequest
from ttsflow.types import Message, Sampling

pytestmark = pytest.mark.engine

SHOTS = "Add 3, 4\n3 + 4 = 7\nAnswer: 7.\n\nAdd 2, 6\n2 + 6 = 8\nAnswer: 8.\n\nAdd 5, 4\n"
NARROW = Sampling(temperature=0.6, top_p=0.8, top_k=20, min_p=0.05)
GREEDY = Sampling(temperature=0)


def ask(engine, id, sampling=NARROW, *, max_tokens=12, seed=0, certainty=True, prompt=SHOTS, **rest):
    prompt = engine.encode(prompt)
    engine.submit(EngineRequest(id, prompt, sampling, seed, max_tokens, certainty=certainty, **rest))
    return prompt


class Heard:
    """What the engine said: tokens and certainties by id."""

    def __init__(self, engine):
        self.engine, self.tokens, self.certainties, self.ended, self.news = engine, {}, {}, set(), []

    def step(self):
        for item in self.engine.step():
            self.news.append(item)
            self.tokens.setdefault(item.id, []).extend(item.tokens)
            self.certainties.setdefault(item.id, []).extend(item.certainties)
            self.ended |= {item.id} if item.finish else set()

    def drain(self, *ids):
        for _ in range(500):
            self.step()
            if self.ended >= set(ids):
                return self
        raise AssertionError(f"no end in sight: {self.ended}")


def own(plain_model, prompt, tokens):
    """Return KL(uniform || p) = -log V - mean log p at every token, from a plain forward pass."""
    logprobs = plain_model(prompt, tokens)
    return pytest.approx((-math.log(logprobs.shape[-1]) - logprobs.mean(dim=-1)).tolist(), abs=1e-3)


def test_it_is_the_models_own_whatever_else_is_in_the_batch(engine, plain_model):
    askers = {
        "short": {"max_tokens": 3},
        "streamed": {"max_tokens": 9, "stream": True},
        "stopped": {"max_tokens": 40, "stop": ("\n",)},
        "with logprobs": {"max_tokens": 14, "logprobs": 20, "stream": True},
        "greedy": {"max_tokens": 11, "sampling": GREEDY},
        "wide": {"max_tokens": 13, "sampling": Sampling(temperature=2.0, top_p=1.0)},
        "aborted": {"max_tokens": 50, "stream": True},
    }
    prompts = {}
    for seed, (name, changes) in enumerate(askers.items()):
        prompts[name] = ask(engine, name, seed=seed, **changes)
        ask(engine, f"not {name}", seed=seed, certainty=False, max_tokens=4 + seed, stream=bool(seed % 2))
    heard = Heard(engine)
    for _ in range(6):
        heard.step()
    engine.abort(["aborted"])
    # Those that come later take the seats of those that have ended.
    for name, changes in {"late": {"stream": True}, "later": {"max_tokens": 5}}.items():
        prompts[name] = ask(engine, name, seed=99, **changes)
    heard.drain(*(set(heard.tokens) | set(prompts)) - {"aborted"})
    assert len(heard.tokens["aborted"]) == 6
    for name, prompt in prompts.items():
        tokens, certainties = heard.tokens[name], heard.certainties[name]
        assert len(certainties) == len(tokens), name
        assert certainties == own(plain_model, prompt, tokens), name
    for name in askers:
        assert len(heard.tokens[f"not {name}"]) > 0
        assert heard.certainties[f"not {name}"] == []
    for item in heard.news:
        assert len(item.certainties) == (0 if item.id.startswith("not ") else len(item.tokens))


def test_a_batch_of_greedy_requests_up_to_the_end_of_text(engine, plain_model):
    chat = (Message("user", "What is the capital of France?"),)
    prompt = ask(engine, "a", GREEDY, prompt=chat, max_tokens=64, stop=("<never>",))
    ask(engine, "b", GREEDY, prompt=chat, max_tokens=64, stop=("<never>",), stream=True)
    heard = Heard(engine).drain("a", "b")
    assert heard.tokens["a"][-1] == engine._tokenizer.eos_token_id
    for name in "ab":
        assert heard.certainties[name] == own(plain_model, prompt, heard.tokens[name])


def test_to_be_measured_changes_no_token(engine):
    seen = []
    for certainty in (True, False):
        engine.reset()
        for seed in range(4):
            ask(engine, f"r{seed}", seed=seed, certainty=certainty, max_tokens=10)
        seen.append(Heard(engine).drain(*(f"r{seed}" for seed in range(4))).tokens)
    assert seen[0] == seen[1]


def test_nothing_is_kept_of_requests_that_have_ended(engine):
    from ttsflow.engines.vllm_certainty import Certainties

    for name, changes in {"done": {}, "streamed": {"stream": True}, "gone": {"max_tokens": 99}}.items():
        ask(engine, name, **changes)
    Heard(engine).drain("done", "streamed")
    engine.abort(["gone"])
    # vLLM itself forgets a request with the next step.
    ask(engine, "next", certainty=False, max_tokens=2)
    Heard(engine).drain("next")
    gc.collect()
    assert not [item for item in gc.get_objects() if isinstance(item, Certainties)]


def test_an_engine_that_cannot_says_why(engine, monkeypatch):
    monkeypatch.setattr(engine, "_unmeasured", "the model is elsewhere")
    ask(engine, "lost")
    (news,) = engine.step()
    assert (news.finish, news.tokens) == ("failed", ())
    assert "the model is elsewhere" in news.reason


# --- without a model ----------------------------------------------------------------------------------


def test_what_is_measured_is_the_distance_from_uniform():
    import torch

    from ttsflow.engines.vllm_certainty import certainty_of

    rows = torch.stack([torch.zeros(1000), torch.linspace(-40, 40, 1000), torch.full((1000,), 7.25)])
    p = rows.double().softmax(dim=-1)
    expected = (-(1000 * p).log().mean(dim=-1)).tolist()
    assert certainty_of(rows).tolist() == pytest.approx(expected, abs=1e-4)
    assert min(certainty_of(rows).tolist()) >= 0


def test_rows_that_move_and_tokens_thrown_away_keep_values_and_tokens_together():
    import torch
    from vllm.sampling_params import SamplingParams
    from vllm.v1.sample.logits_processor import BatchUpdate, MoveDirectionality

    from ttsflow.engines.vllm_certainty import KEY, Certainties, CertaintyProcessor, certainty_of

    processor = CertaintyProcessor("config", "device", False)
    logits = torch.randn(4, 50)
    expected = certainty_of(logits).tolist()
    wanted, outputs = (
        [Certainties(prompt=9), None, Certainties(prompt=9), Certainties(prompt=9)],
        [[] for _ in "abcd"],
    )
    params = [SamplingParams(extra_args=item and {KEY: item}).clone() for item in wanted]

    def update(*, removed=(), added=(), moved=()):
        news = [(row, params[who], None, outputs[who]) for row, who in added]
        processor.update_state(BatchUpdate(batch_size=4, removed=removed, added=news, moved=moved))

    update(added=[(row, row) for row in range(4)])
    processor.apply(logits)  # all of these tokens are thrown away, as behind a part of a prompt
    update(moved=[(0, 2, MoveDirectionality.SWAP)])
    processor.update_state(None)
    assert processor.apply(logits) is logits
    for who, row in ((0, 2), (2, 0), (3, 3)):
        outputs[who].append(7)
        assert wanted[who].take(1) == pytest.approx(expected[row : row + 1])
    # The first row ends, the last one takes its place.
    update(removed=[0], moved=[(3, 0, MoveDirectionality.UNIDIRECTIONAL)])
    processor.apply(logits[:3])
    assert wanted[3].take(1) == pytest.approx(expected[:1])
    assert wanted[0].take(1) == pytest.approx(expected[2:3])
    with pytest.raises(KeyError):
        wanted[2].take(1)


def test_the_newer_model_runner_is_served_as_well():
    """It has no CPU build of its own; this is its interface, driven by hand."""
    import numpy as np
    import torch
    from vllm.sampling_params import SamplingParams
    from vllm.v1.worker.gpu.sample.logits_processor import LogitsContext, LogitsProcessor

    from ttsflow.engines.vllm_certainty import KEY, Certainties, CertaintyProcessor, certainty_of

    processor = CertaintyProcessor("config", "request states")
    assert isinstance(processor, LogitsProcessor)
    first, second = Certainties(prompt=10), Certainties(prompt=4)
    # vLLM copies sampling parameters; what is to be filled stays the same.
    assert processor.add_request(5, SamplingParams(extra_args={KEY: first}).clone())
    assert not processor.add_request(2, SamplingParams())
    assert processor.add_request(0, SamplingParams(extra_args={KEY: second}).clone())
    logits = torch.randn(3, 50)
    expected = certainty_of(logits).tolist()

    def step(slots, lengths):
        context = LogitsContext(
            expanded_idx_mapping=torch.tensor(slots),
            idx_mapping=torch.tensor(slots),
            idx_mapping_np=np.array(slots),
            expanded_local_pos=torch.zeros(len(slots)),
            input_ids=torch.zeros(len(slots)),
            pos=torch.zeros(len(slots)),
            seq_lens_upper_bound_np=np.array(lengths),
        )
        rows = logits[: len(slots)]
        before = rows.clone()
        processor.apply_staged_writes()
        assert processor.apply(rows, context) is rows
        assert torch.equal(rows, before)

    step([5, 2, 0], [8, 7, 4, 0])  # a part of the first prompt only; lengths are padded
    assert second.take(1) == pytest.approx(expected[2:])
    step([2, 0, 5], [8, 5, 10])
    assert first.take(1) == pytest.approx(expected[2:])
    assert second.take(1) == pytest.approx(expected[1:2])
    step([0, 5], [6, 11])
    assert first.take(1) == pytest.approx(expected[1:2])
    assert second.take(1) == pytest.approx(expected[:1])
    # The slot goes to another request.
    assert not processor.add_request(5, SamplingParams())
    step([5], [3])
