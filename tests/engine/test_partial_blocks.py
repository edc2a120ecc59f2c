"""Partly filled KV blocks on a real model: the same texts and scores, and fewer tokens computed."""

import json
import random
import re
import shutil
import warnings
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ttsflow.engines import warm
from ttsflow.engines.demo_model import demo_model_path
from ttsflow.engines.pooling import Pooling
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ModelError
from ttsflow.ops import EngineRequest
from ttsflow.types import Sampling

pytestmark = pytest.mark.engine

LAYERS = 3
#: 74 tokens: two whole blocks, and 10 of the third.
PROMPT = "The quick brown fox jumps over the lazy dog. " * 7 + "Once upon a time"


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """Return an engine with the first layers of the model: a step takes a third of the time.

    What it says is no language, but hangs on every token before it, which is what matters here.
    """
    from safetensors.torch import load_file, save_file

    source, folder = Path(demo_model_path()), tmp_path_factory.mktemp("few layers")
    weights = load_file(source / "model.safetensors")
    layer = re.compile(r"model\.layers\.(\d+)\.")
    kept = {n: w for n, w in weights.items() if (m := layer.match(n)) is None or int(m[1]) < LAYERS}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": LAYERS}))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(source / name, folder)
    return VLLM(str(folder), dtype="float32", seats=16, context=512, kv_gib=0.02, partial_blocks=24)


@pytest.fixture(scope="module")
def tight(part):
    """Return one with so little memory that sequences are sent back."""
    return replace(part, kv_gib=0.003, partial_blocks=3)


@contextmanager
def computing(engine):
    """Count what the scheduler has computed, and what it sends back."""
    scheduler = engine._core.engine_core.engine_core.scheduler
    plain, counts = scheduler.schedule, {"tokens": 0, "preempted": 0}

    def schedule(*args, **settings):
        plan = plain(*args, **settings)
        counts["tokens"] += plan.total_num_scheduled_tokens
        counts["preempted"] += len(plan.preempted_req_ids or ())
        return plan

    scheduler.schedule = schedule
    try:
        yield counts
    finally:
        scheduler.schedule = plain


@contextmanager
def without(engine):
    """Have the engine keep nothing, as vLLM by itself."""
    scheduler = engine._core.engine_core.engine_core.scheduler
    store, scheduler.connector = scheduler.connector, None
    try:
        yield
    finally:
        scheduler.connector = store


def grow(engine, rounds, *, width=4, keep=2, stop=(), length=12):
    """Return the texts of a small tree: each round every parent gets ``width`` children, all at once."""
    parents, texts = [engine.encode(PROMPT)], {}
    for depth in range(rounds):
        asked = {}
        for index, parent in enumerate(parents):
            for child in range(width):
                name, seed = f"{depth}-{index}-{child}", depth * 100 + index * 10 + child
                asked[name] = parent
                engine.submit(EngineRequest(name, parent, Sampling(temperature=0.8), seed, length, stop))
        found, left = dict.fromkeys(asked, ()), len(asked)
        while left:
            for news in engine.step():
                found[news.id] += news.tokens
                left -= news.finish is not None
        texts |= found
        parents = [(*asked[name], *found[name]) for name in list(asked)[:: max(1, width - 1)][:keep]]
    return texts


@pytest.mark.parametrize(("stop", "rounds"), [((), 2), ((" a", "e"), 3)], ids=["by length", "by stop string"])
def test_continuations_read_what_is_new_alone(part, stop, rounds):
    engine = warm.acquire(part)
    with without(engine), computing(engine) as plain:
        texts = grow(engine, rounds, stop=stop, length=16)
    engine.reset()
    with computing(engine) as kept:
        assert grow(engine, rounds, stop=stop, length=16) == texts
    decoded = sum(map(len, texts.values()))
    # Each text computes its last prompt token, which is where its first own one comes from.
    assert decoded <= kept["tokens"] <= decoded + 3 * 73
    assert plain["tokens"] - kept["tokens"] > 150


def test_the_first_of_many_equal_prompts_reads_for_all(part):
    engine = warm.acquire(part)
    with computing(engine) as kept:
        texts = grow(engine, 1, width=12)
    # All of the prompt but its last token, which is where a text's own first one comes from, is read once.
    assert kept["tokens"] == 73 + sum(map(len, texts.values()))


def test_nothing_is_kept_over_a_reset(part):
    engine = warm.acquire(part)
    grow(engine, 1)
    engine.reset()
    with computing(engine) as kept:
        texts = grow(engine, 1, width=1)
    assert kept["tokens"] == 73 + sum(map(len, texts.values()))


def test_few_places_and_sequences_sent_back(tight):
    engine = warm.acquire(tight)
    with without(engine), computing(engine) as plain:
        texts = grow(engine, 2, width=6, length=30)
    engine.reset()
    with computing(engine) as kept:
        assert grow(engine, 2, width=6, length=30) == texts
    assert plain["preempted"] > 0
    assert kept["tokens"] < plain["tokens"]


def test_a_random_crowd_says_what_it_says_without(tight):
    """Prompts that begin alike, submitted at random, some given up: blocks change hands all the time."""

    def play(engine):
        rng = random.Random(5)
        base = engine.encode(PROMPT)
        waiting, texts, live = [], {}, set()
        for name in range(14):
            head = base[: rng.choice((20, 40, 70, 73))]
            waiting.append(
                (f"r{name}", (*head, *(rng.randrange(1000, 1004) for _ in range(rng.randrange(20)))))
            )
        while waiting or live:
            for name, prompt in [waiting.pop() for _ in range(min(len(waiting), rng.randrange(4)))]:
                length = rng.randrange(1, 28)
                engine.submit(EngineRequest(name, prompt, Sampling(temperature=0.8), len(name), length, ()))
                live.add(name)
                texts[name] = ()
            for news in engine.step():
                texts[news.id] += news.tokens
                if news.finish is not None:
                    live.discard(news.id)
            if live and rng.random() < 0.1:
                gone = rng.choice(sorted(live))
                engine.abort([gone])
                live.discard(gone)
        return texts

    engine = warm.acquire(tight)
    with without(engine):
        plain = play(engine)
    engine.reset()
    kept = play(engine)
    # Another number of steps passes, so that those given up end elsewhere: one begins as the other.
    for name, tokens in plain.items():
        short = min(len(tokens), len(kept[name]))
        assert tokens[:short] == kept[name][:short]


def test_a_verifier_reads_what_is_new_alone(part):
    pooling = Pooling(part, words={"good": " yes", "bad": " no"}, per_token=True)
    pooler = pooling.open()
    try:
        scheduler = pooler._core.engine_core.engine_core.scheduler
        head = pooler.tokenize(PROMPT)
        texts = [(*head, *(100 + index + place for place in range(6 + index))) for index in range(12)]
        texts += [(*text, 7, 8, 9) for text in texts]

        def read(*, cached):
            rows = {}
            for half in (texts[:12], texts[12:]):
                for index, text in enumerate(half):
                    pooler.submit(f"{index}", text, [len(text) - 1], cached=cached)
                done = 0
                while done < len(half):
                    for news in pooler.step():
                        rows[half[int(news.id)]] = news.rows[len(half[int(news.id)]) - 1]
                        done += 1
            return rows

        plain = read(cached=False)
        pooler.reset()
        kept = read(cached=True)
        assert scheduler.connector.saved > 0
        # What was not found in a cache: the first prompt, and each text's own tokens.
        assert pooler.computed <= len(head) + sum(7 + index + 4 for index in range(12))
        for text, row in plain.items():
            assert kept[text] == pytest.approx(row, abs=1e-4)
    finally:
        pooler.close()


def test_a_vllm_that_has_no_place_for_a_store_is_closed_and_says_so(part, monkeypatch, request):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ttsflow.engines import vllm_tails

    attached = []

    def attach(core, places):
        attached.append(core)
        raise AttributeError("no such scheduler")

    warm.close_all()
    monkeypatch.setattr(vllm_tails, "attach", attach)
    with pytest.raises(ModelError, match=r"could not load .*no such scheduler"):
        part.open()
    assert len(attached) == 1
    monkeypatch.undo()
    # The one that the tests after these go on with.
    assert request.getfixturevalue("engine").load()[:2] == (0, 0), "another one can be opened"
