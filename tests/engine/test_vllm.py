"""The vLLM adapter against real vLLM: what it reports is what was decoded, and nothing else."""

import functools
import math
import os
from collections import defaultdict

import pytest

from ttsflow.engines import warm
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import EngineDead
from ttsflow.ops import EngineRequest
from ttsflow.types import Message, Sampling

pytestmark = pytest.mark.engine

SHOTS = (
    "Q: 3 + 4 + 5\nA: 3 + 4 = 7. 7 + 5 = 12. The answer is 12.\n\n"
    "Q: 6 + 1 + 2\nA: 6 + 1 = 7. 7 + 2 = 9. The answer is 9.\n\n"
    "Q: 2 + 9 + 4\nA:"
)
CHAT = (Message("user", "What is the capital of France?"),)
GREEDY = Sampling(temperature=0)
WILD = Sampling(temperature=2.0, top_p=1.0)  # the highest temperature vLLM takes


def ask(engine, id, prompt=None, *, seed=0, sampling=None, max_tokens=16, **rest):
    prompt = engine.encode(SHOTS) if prompt is None else prompt
    engine.submit(EngineRequest(id, prompt, sampling or Sampling(), seed, max_tokens, **rest))


def drain(engine, ids, each_step=lambda step, news: None):
    """Step until all ``ids`` have ended; return tokens and last news by id."""
    tokens, last = defaultdict(tuple), {}
    for number in range(2000):
        news = engine.step()
        for item in news:
            tokens[item.id] += item.tokens
            last[item.id] = item
        each_step(number, news)
        if all(name in last and last[name].finish for name in ids):
            return tokens, last
    raise AssertionError(f"no end in sight: {last}")


def one(engine, prompt=None, **rest):
    ask(engine, "one", prompt, **rest)
    tokens, last = drain(engine, ["one"])
    return tokens["one"], last["one"]


def certainty_in(logprobs):
    """Return KL(uniform || p) of every row of log-probabilities, the plain way."""
    return (-logprobs.mean(dim=-1) - math.log(logprobs.shape[-1])).tolist()


def scheduler_of(engine):
    return engine._core.engine_core.engine_core.scheduler


def test_end_of_text_is_a_stop_without_a_string_and_its_token_is_counted(engine):
    tokens, last = one(engine, engine.encode(CHAT), sampling=GREEDY, max_tokens=64, stop=("<never>",))
    assert (last.finish, last.stop) == ("stop", None)
    assert tokens[-1] == engine._tokenizer.eos_token_id
    assert "Paris" in engine.decode(tokens)


def test_a_stop_string_across_tokens_ends_at_the_token_that_completes_it(engine):
    tokens, last = one(engine, sampling=GREEDY, max_tokens=64, stop=(". ", "\n\n"))
    assert (last.finish, last.stop) == ("stop", ". ")
    assert ". " in engine.decode(tokens)
    assert ". " not in engine.decode(tokens[:-1])


def test_a_limit_is_length(engine):
    tokens, last = one(engine, max_tokens=5)
    assert (last.finish, last.stop, len(tokens)) == ("length", None, 5)


def test_every_sampled_token_is_reported_once(engine, counting):
    ids = [f"r{i}" for i in range(10)]
    aborted = {"r1", "r4"}
    got = dict.fromkeys(ids, 0)

    def step(number, news):
        for item in news:
            got[item.id] += len(item.tokens)
        if number == 6:
            engine.abort(sorted(aborted))

    with counting(engine) as total:
        for i, name in enumerate(ids):
            # The aborted ones stream, as the driver asks for whatever it may end early.
            ask(engine, name, seed=i, max_tokens=12 + i, stop=(". ",) if i % 2 else (), stream=i < 6)
        drain(engine, [name for name in ids if name not in aborted], step)
    assert all(got.values())
    assert sum(got.values()) == total[0]


def test_an_abort_gives_no_further_news_and_frees_what_it_held(engine):
    ask(engine, "a", stream=True)
    ask(engine, "b", stream=True, max_tokens=6)
    assert engine.step()
    engine.abort(["a", "unknown", "a"])
    tokens, _ = drain(engine, ["b"])
    assert set(tokens) == {"b"}
    engine.abort(["b"])
    assert engine.step() == []
    assert engine.load() == (0, 0, 0.0)


def test_a_seed_repeats_and_seeds_differ(engine):
    ids = ["a", "b", "c"]

    def run():
        engine.reset()
        for name, seed in zip(ids, (7, 8, 2**62 + 1), strict=True):
            ask(engine, name, seed=seed, max_tokens=24)
        return drain(engine, ids)[0]

    first = run()
    assert run() == first
    assert len(set(first.values())) == 3


def test_the_order_in_the_batch_does_not_matter(engine):
    seeds = range(6)

    def run(order):
        engine.reset()
        for seed in order:
            ask(engine, f"s{seed}", seed=seed, max_tokens=16)
        return drain(engine, [f"s{seed}" for seed in seeds])[0]

    assert run(seeds) == run(reversed(seeds))


def test_greedy_ignores_the_seed(engine):
    a, _ = one(engine, sampling=GREEDY, seed=1, max_tokens=8)
    b, _ = one(engine, sampling=GREEDY, seed=2, max_tokens=8)
    assert a == b


def test_streaming_changes_nothing_but_the_news(engine):
    news = []
    ask(engine, "s", seed=3, stream=True, stop=("\n",))
    streamed, last = drain(engine, ["s"], lambda _, items: news.extend(items))
    whole, end = one(engine, seed=3, stop=("\n",))
    assert streamed["s"] == whole
    assert (last["s"].finish, last["s"].stop) == (end.finish, end.stop)
    assert [len(item.tokens) for item in news] == [1] * len(whole)


def test_a_prompt_that_leaves_no_room_ends_as_length(engine):
    prompt = (engine.encode("word ") * engine.context)[: engine.context]
    ask(engine, "full", prompt)
    ask(engine, "none", max_tokens=0)
    assert [(news.id, news.tokens, news.finish) for news in engine.step()] == [
        ("full", (), "length"),
        ("none", (), "length"),
    ]
    assert engine.step() == []


def test_max_tokens_is_cut_to_the_context(engine):
    prompt = (engine.encode(SHOTS) * engine.context)[: engine.context - 3]
    tokens, last = one(engine, prompt, max_tokens=50)
    assert last.finish == "length"
    assert len(tokens) == 3


def test_a_request_that_vllm_refuses_fails_alone(engine):
    ask(engine, "bad", (10**7,))
    ask(engine, "empty", ())
    ask(engine, "hot", sampling=Sampling(temperature=2.5))
    ask(engine, "good", max_tokens=2)
    tokens, last = drain(engine, ["bad", "empty", "hot", "good"])
    assert {name: news.finish for name, news in last.items()} == {
        "bad": "failed",
        "empty": "failed",
        "hot": "failed",
        "good": "length",
    }
    assert "vocabulary" in last["bad"].reason
    assert "temperature" in last["hot"].reason
    assert len(tokens["good"]) == 2


def test_an_id_in_use_is_refused(engine):
    ask(engine, "twice")
    with pytest.raises(ValueError, match="twice"):
        ask(engine, "twice")
    engine.abort(["twice"])
    ask(engine, "twice", max_tokens=1)
    drain(engine, ["twice"])


def test_a_lower_priority_runs_earlier(engine):
    ids = [f"r{i}" for i in range(engine.capacity + 1)]
    for i, name in enumerate(ids):
        ask(engine, name, max_tokens=2, priority=len(ids) - i)
    first = {news.id for _ in range(2) for news in engine.step()}
    assert set(ids) - first == {"r0"}
    drain(engine, ["r0"])


@pytest.mark.parametrize("stream", [False, True])
def test_as_many_log_probabilities_as_asked_for(engine, plain_model, stream):
    news = []
    prompt = engine.encode(SHOTS)
    ask(engine, "l", seed=5, max_tokens=16, logprobs=20, stream=stream, sampling=WILD)
    # In one batch with others that want none, or fewer.
    ask(engine, "none", seed=6, max_tokens=4)
    ask(engine, "two", seed=6, max_tokens=8, logprobs=2, stream=not stream)
    tokens, _ = drain(engine, ["l", "none", "two"], lambda _, items: news.extend(items))
    found = {name: [entry for item in news if item.id == name for entry in item.logprobs] for name in tokens}
    assert [len(entry) for entry in found["l"]] == [20] * len(tokens["l"])
    assert [len(entry) for entry in found["two"]] == [2] * len(tokens["two"])
    assert found["none"] == []
    for name, count in (("l", 20), ("two", 2)):
        best = plain_model(prompt, tokens[name]).topk(count).values.tolist()
        for entry, own in zip(found[name], best, strict=True):
            assert list(entry.values()) == pytest.approx(own, abs=1e-3)
            assert list(entry.values()) == sorted(entry.values(), reverse=True)
    # At this temperature most tokens are not among the 20 best, where vLLM gives 21.
    assert any(token not in entry for token, entry in zip(tokens["l"], found["l"], strict=True))


def test_no_compiler_is_needed(engine):
    from torch._dynamo.utils import counters

    counters.clear()
    ask(engine, "l", seed=5, max_tokens=2, logprobs=2)
    drain(engine, ["l"])
    assert not counters["inductor"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stop", [(), (". ",)])
def test_the_token_that_stops_has_its_log_probabilities_too(engine, stream, stop):
    prompt = engine.encode(SHOTS) if stop else engine.encode(CHAT)
    news = []
    ask(engine, "s", prompt, sampling=GREEDY, max_tokens=64, logprobs=20, stream=stream, stop=stop)
    tokens, last = drain(engine, ["s"], lambda _, items: news.extend(items))
    entries = [entry for item in news for entry in item.logprobs]
    assert last["s"].finish == "stop"
    assert [len(entry) for entry in entries] == [20] * len(tokens["s"])
    assert [next(iter(entry)) for entry in entries] == list(tokens["s"])


def test_the_prefix_cache_is_counted_and_reset_empties_it(engine):
    assert one(engine, max_tokens=1)[1].cached == 0
    cached = one(engine, max_tokens=1)[1].cached
    assert 0 < cached < len(engine.encode(SHOTS))
    assert cached % 32 == 0
    ask(engine, "left over")
    engine.reset()
    assert engine.step() == []
    assert one(engine, max_tokens=1)[1].cached == 0


def test_a_chat_is_encoded_with_the_template(engine):
    tokens = engine.encode((Message("system", "Be brief."), *CHAT))
    assert engine._tokenizer.decode(tokens) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.parametrize("text", ["3 + 4 = 7. 7 + 5 = 12.\n\n", " a , b . c  d's", "über 数学 🙂"])
def test_plain_text_round_trips(engine, text):
    assert engine.decode(engine.encode(text)) == text


@pytest.mark.parametrize("text", ["\n\nAnswer: ", " The answer is", "Wait", "<|im_end|>\n"])
def test_a_continuation_gets_no_special_tokens_and_no_space(engine, text):
    before, after = engine.encode("2 + 3 = 5."), engine.tokenize(text)
    assert engine._tokenizer.decode([*before, *after]) == "2 + 3 = 5." + text


def test_tokenizers_that_put_a_space_before_a_text_do_not_put_it_into_one(engine, monkeypatch):
    import tokenizers
    from transformers import PreTrainedTokenizerFast

    pieces = ["▁", "\n", *"abcdef", "abc", "▁abc", "\nabc"]
    model = tokenizers.models.Unigram([(piece, -1.0 - len(piece) / 9) for piece in pieces], unk_id=0)
    spaced = tokenizers.Tokenizer(model)
    spaced.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    spaced.decoder = tokenizers.decoders.Metaspace(prepend_scheme="always", split=False)
    monkeypatch.setattr(engine, "_tokenizer", PreTrainedTokenizerFast(tokenizer_object=spaced))
    tokens = functools.partial(engine._tokenizer.convert_tokens_to_ids)
    assert engine.encode("def") == tuple(tokens(["▁", "d", "e", "f"]))
    assert engine.tokenize("def") == tuple(tokens(["d", "e", "f"]))
    assert engine.tokenize("\ndef") == tuple(tokens(["\n", "d", "e", "f"]))
    assert engine.tokenize(" abc") == tuple(tokens(["▁abc"]))


def test_a_text_is_continued_from_a_suffix_as_from_any_tokens(engine, plain_model):
    prompt = engine.encode(SHOTS)
    start, _ = one(engine, prompt, sampling=GREEDY, max_tokens=40, stop=("15.",))
    suffix = engine.tokenize(" The answer is")
    assert engine.decode(start + suffix) == engine.decode(start) + " The answer is"
    more, _ = one(engine, prompt + start + suffix, sampling=GREEDY, max_tokens=6)
    assert engine.decode(more).startswith(" 15.")
    # Token for token what the model itself thinks likeliest behind these very tokens.
    assert more == tuple(plain_model(prompt + start + suffix, more).argmax(dim=-1).tolist())


def test_an_open_engine_is_reused(engine):
    assert warm.acquire(VLLM("demo", dtype="float32", seats=16, context=1024, kv_gib=0.25)) is engine


def test_the_core_runs_in_this_process_and_the_clock_goes_on(engine):
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert engine.context == 1024
    assert engine.capacity == 16
    before = engine.now()
    one(engine, max_tokens=1)
    assert engine.now() > before


def test_how_busy_the_cores_are_is_measured(engine):
    meter = engine.meter()
    one(engine, max_tokens=16)
    (share,) = meter.stop().values()
    assert 0.05 < share <= 1
    assert set(engine.meter().stop()) == {"cpu_utilisation"}


# --- from here on with another engine in the same process: opening it closes the first ---------------


@functools.cache
def tiny_part():
    """Return more sequences than the KV cache holds once they grow, so that vLLM must preempt.

    Besides, a logits processor of the user's own; as long as it has no ``token`` it does nothing.
    """
    from vllm.v1.sample.logits_processor import LogitsProcessor

    class Never(LogitsProcessor):
        token = None

        def __init__(self, *given):
            pass

        def is_argmax_invariant(self):
            return False

        def update_state(self, batch_update):
            pass

        def apply(self, logits):
            if self.token is not None:
                logits[:, self.token] = -float("inf")
            return logits

    args = {"num_gpu_blocks_override": 100, "logits_processors": [Never]}
    return VLLM("demo", dtype="float32", seats=64, context=256, kv_gib=0.25, args=args)


@pytest.fixture
def tiny():
    return warm.acquire(tiny_part())


def test_many_seeded_requests_survive_preemption_with_their_tokens(tiny, counting, plain_model):
    scheduler, preempted = scheduler_of(tiny), set()
    plain = scheduler._preempt_request

    def preempt(request, *args, **kwargs):
        preempted.add(request.external_req_id if hasattr(request, "external_req_id") else request.request_id)
        return plain(request, *args, **kwargs)

    shared = (tiny.encode(SHOTS) * 2)[:96]
    prompts = {f"r{i:02}": shared + tiny.encode(f"{i} + {i + 1} = ")[:4] + shared[:20] for i in range(64)}

    certainties = {}

    def run(ids):
        for name in ids:
            ask(tiny, name, prompts[name], seed=int(name[1:]), max_tokens=11, certainty=True)
        tokens, last = drain(tiny, ids)
        certainties.update({name: last[name].certainties for name in ids})
        return tokens

    ids = list(prompts)
    scheduler._preempt_request = preempt
    with counting(tiny) as total:
        tokens = run(ids)
    assert preempted
    assert sum(map(len, tokens.values())) == total[0]
    hit = sorted({name[:3] for name in preempted})[:16]
    assert all(len(certainties[name]) == len(tokens[name]) for name in ids)
    for name in hit[:6]:
        own = certainty_in(plain_model(prompts[name], tokens[name]))
        assert certainties[name] == pytest.approx(own, abs=1e-3)
    preempted.clear()
    tiny.reset()
    calm = run(hit)
    assert not preempted
    # Not all to the bit: the last bits of a product can depend on the batch, and a sample on them.
    same = [name for name in hit if calm[name] == tokens[name]]
    assert len(same) >= 0.8 * len(hit), (len(same), len(hit))


def test_what_the_scheduler_did_is_counted_as_the_scheduler_itself_has_it(tiny):
    """Preemptions, prefix cache, batch and memory against vLLM's own books, kept where each happens."""
    from vllm.v1.metrics.stats import PrefixCacheStats

    scheduler = scheduler_of(tiny)
    manager, pool = scheduler.kv_cache_manager, scheduler.kv_cache_manager.block_pool
    back, rows, usage = [], [], []
    preempts, updates, allocates = (
        scheduler._preempt_request,
        scheduler.update_from_output,
        manager.allocate_slots,
    )

    def preempt(request, *args, **kwargs):
        back.append(request.request_id)
        return preempts(request, *args, **kwargs)

    def update(plan, output):
        rows.append(sum(1 for name in output.req_ids if plan.num_scheduled_tokens[name]))
        return updates(plan, output)

    def allocate(*args, **kwargs):
        made = allocates(*args, **kwargs)
        usage.append(1 - pool.get_num_free_blocks() / tiny.kv_blocks)
        return made

    scheduler._preempt_request, scheduler.update_from_output = preempt, update
    manager.allocate_slots = allocate
    # vLLM's own books of the prefix cache, which ttsflow leaves off.
    manager.log_stats, manager.prefix_cache_stats = True, PrefixCacheStats()
    shared = (tiny.encode(SHOTS) * 2)[:96]
    names = [f"r{i:02}" for i in range(64)]
    try:
        for i, name in enumerate(names):
            prompt = shared + tiny.encode(f"{i} + {i + 1} = ")[:4] + shared[:20]
            ask(tiny, name, prompt, seed=i, max_tokens=11, stream=True)
        tiny.step()
        # What is ended early has been asked for as well.
        tiny.abort(names[:2])
        drain(tiny, names[2:])
        own = manager.prefix_cache_stats
        found = tiny.counters()
    finally:
        del scheduler._preempt_request, scheduler.update_from_output, manager.allocate_slots
        manager.log_stats, manager.prefix_cache_stats = False, None
    assert found["preempted"] == len(back) > 0
    assert (found["prefix_queried_tokens"], found["prefix_hit_tokens"]) == (own.queries, own.hits)
    assert 0 < found["prefix_hit_rate"] == own.hits / own.queries
    assert found["mean_batch"] == sum(rows) / len(rows)
    assert found["iterations"] == len(rows)
    assert 0.9 < found["kv_peak"] <= max(usage) <= 1
    tiny.reset()
    assert tiny.counters()["preempted"] == 0
    one(tiny, max_tokens=4)
    assert tiny.counters()["preempted"] == 0


def test_a_processor_of_the_user_comes_after_the_measurement(tiny, plain_model, monkeypatch):
    (never,) = tiny_part().args["logits_processors"]
    prompt = tiny.encode(SHOTS)
    before, _ = one(tiny, prompt, sampling=GREEDY, max_tokens=12)
    banned = before[2]
    monkeypatch.setattr(never, "token", banned)
    tokens, last = one(tiny, prompt, sampling=GREEDY, max_tokens=12, certainty=True)
    assert tokens[:2] == before[:2]
    assert banned not in tokens
    assert last.certainties == pytest.approx(certainty_in(plain_model(prompt, tokens)), abs=1e-3)


def test_a_dead_engine_says_so_and_is_replaced(tiny):
    def step():
        raise RuntimeError("no memory")

    tiny._core.step = step
    ask(tiny, "lost")
    with pytest.raises(EngineDead, match="no memory"):
        tiny.step()
    with pytest.raises(EngineDead):
        tiny.step()
    assert tiny.dead
    replacement = warm.acquire(tiny_part())
    assert replacement is not tiny
    assert tiny.closed
    tiny.close()
    assert one(replacement, max_tokens=2)[1].finish == "length"
