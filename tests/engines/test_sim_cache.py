"""The KV cache of the simulated engine against one that knows every block by its tokens."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.costs.hardware import Hardware
from ttsflow.engines.law import Law
from ttsflow.engines.sim import GIB, Sim
from ttsflow.engines.sim_cache import Cache, Node
from ttsflow.ops import EngineRequest
from ttsflow.types import Sampling

MODEL, KV_BYTES = "smollm2-135m", 23040


class Naive:
    """Blocks by all tokens up to their end, as vLLM's hash chains; the least recently used one goes first.

    Of blocks let go of at once the last of the sequence goes first. No node, no counting.
    """

    def __init__(self, capacity, block):
        self.capacity, self.block = capacity, block
        self.users = {}
        self.let_go = {}
        self.private = self.evicted = self.clock = 0

    @property
    def needed(self):
        return sum(1 for users in self.users.values() if users) + self.private

    @property
    def idle(self):
        return [key for key, users in self.users.items() if not users]

    def keys(self, tokens):
        return [tokens[:end] for end in range(self.block, len(tokens) + 1, self.block)]

    def found(self, tokens):
        return sum(1 for _ in itertools.takewhile(self.users.__contains__, self.keys(tokens)))

    def admit(self, tokens):
        keys = self.keys(tokens)
        partial = len(tokens) % self.block > 0
        if self.needed + sum(not self.users.get(key) for key in keys) + partial > self.capacity:
            return False
        for key in keys:
            self.users[key] = self.users.get(key, 0) + 1
        self.private += partial
        self.make_room()
        return True

    def grow(self):
        self.private += 1
        self.make_room()

    def leave(self, admitted, tokens, private):
        """End a request that was admitted with some tokens and has computed others behind them."""
        self.clock += 1
        self.private -= private
        old = self.keys(admitted)
        for key in self.keys(tokens)[len(old) :]:
            self.users[key] = 0
            self.let_go[key] = self.clock
        for key in old:
            self.users[key] -= 1
            self.let_go[key] = self.clock
        self.make_room()

    def make_room(self):
        while len(self.users) + self.private > self.capacity:
            out = min(self.idle, key=lambda key: (self.let_go[key], -len(key)))
            del self.users[out]
            self.evicted += 1


class Request:
    """What both caches are told of: a prompt, and what has been decoded behind it."""

    def __init__(self, prompt, parent, own):
        self.prompt, self.parent, self.own = prompt, parent, own
        self.decoded = ()
        self.begun = 0

    @property
    def tokens(self):
        return self.prompt + self.decoded


class Both:
    """Tells both caches the same, in the way of the batch, and compares."""

    def __init__(self, capacity, block):
        self.block = block
        self.cache, self.naive = Cache(capacity, block), Naive(capacity, block)
        self.prompts = {}
        self.running, self.ended, self.paused = [], [], []
        self.fresh = itertools.count(100)

    def begin(self, prompt, parent):
        own = Node(parent, len(prompt) // self.block, 0)
        self.seat(Request(prompt, parent, own), parent)

    def seat(self, request, anchor):
        tokens = request.tokens
        assert self.cache.found(anchor) == self.naive.found(tokens)
        blocks = -(-len(tokens) // self.block)
        admitted = self.cache.admit(anchor, blocks)
        assert admitted == self.naive.admit(tokens)
        if admitted:
            request.anchor, request.admitted = anchor, tokens
            request.private = blocks - (anchor.first + anchor.full if anchor else 0)
            # The first new token comes with the reading; it is looked at, and stored, with the next one.
            request.decoded += (next(self.fresh),)
            self.running.append(request)
        elif request.decoded:
            self.paused.append(request)
        self.compare()

    def decode(self, request):
        if (len(request.tokens) - 1) % self.block == 0:
            if self.cache.free < 1:
                return
            self.cache.grow(1)
            self.naive.grow()
            request.private += 1
        request.decoded += (next(self.fresh),)
        self.compare()

    def end(self, request, *, pause):
        self.running.remove(request)
        own, size = request.own, len(request.tokens)
        own.full = size // self.block - own.first
        held = max(0, min(own.full, (size - 1) // self.block - own.first))
        self.cache.leave(request.anchor, request.private, own, held)
        self.naive.leave(request.admitted, request.tokens[:-1], request.private)
        (self.paused if pause else self.ended).append(request)
        self.compare()

    def prompt(self, tokens):
        node = None
        for number, key in enumerate(self.naive.keys(tokens)):
            node = self.prompts.setdefault(key, Node(node, number, 1))
        return node

    def compare(self):
        cache, naive = self.cache, self.naive
        assert (cache.pinned + cache.private, cache.cached, cache.evicted) == (
            naive.needed,
            len(naive.idle),
            naive.evicted,
        )
        assert min(cache.pinned, cache.private, cache.cached) >= 0
        assert cache.used <= cache.capacity


#: Prompts that begin alike for 0, 5 or all of their tokens.
STEMS = [tuple(range(40)), (*range(5), *range(45, 80)), tuple(range(80, 99)) * 2]
ACTIONS = st.lists(
    st.tuples(st.sampled_from("ncgggepr"), st.integers(0, 30), st.integers(1, 30)), max_size=120
)


@pytest.mark.slow
@settings(max_examples=150)
@given(capacity=st.integers(4, 30), block=st.integers(1, 6), actions=ACTIONS)
def test_it_counts_what_a_cache_of_single_blocks_holds(capacity, block, actions):
    both = Both(capacity, block)
    for kind, which, size in actions:
        of = {"c": both.ended, "g": both.running, "e": both.running, "p": both.running, "r": both.paused}.get(
            kind
        )
        one = of[which % len(of)] if of else None
        if kind == "n":
            tokens = STEMS[which % 3][:size]
            both.begin(tokens, both.prompt(tokens))
        elif one is None:
            continue
        elif kind == "c":
            both.begin(one.tokens, one.own)
        elif kind == "g":
            for _ in range(size if one in both.running else 0):
                both.decode(one)
        elif kind in "ep":
            both.end(one, pause=kind == "p")
        else:
            both.paused.remove(one)
            both.seat(one, one.own)
    for one in list(both.running):
        both.end(one, pause=False)
    assert both.cache.pinned == both.cache.private == 0


def test_the_model_of_single_blocks_has_seen_everything():
    """The property above is worth something only if blocks are shared, thrown out and read again."""
    both = Both(capacity=6, block=2)
    for stem in (0, 1, 0):
        both.begin(STEMS[stem][:7], both.prompt(STEMS[stem][:7]))
        both.decode(both.running[0])
        both.end(both.running[0], pause=False)
    assert both.cache.evicted > 0
    child = both.ended[-1]
    assert both.cache.found(child.own) == 4
    both.begin(child.tokens, child.own)
    assert len(both.running) == 1


# --- on an engine, by hand --------------------------------------------------------------------------------


def opened(*, blocks=1000, block=16, law=None, **settings):
    return Sim(
        Hardware(80, 100, 1000),
        model=MODEL,
        paths=law or Law(median=20, sigma=0.5, longest=60, end=0.5),
        # Half a block more, so that rounding cannot take one away.
        kv_gib=(blocks + 0.5) * block * KV_BYTES / GIB,
        block_size=block,
        **settings,
    ).open()


_ids = itertools.count()


def ask(engine, prompt, *, seed=0, max_tokens=8, problem="p"):
    name = f"r{next(_ids)}"
    engine.submit(EngineRequest(name, tuple(prompt), Sampling(), seed, max_tokens, problem=problem))
    return name


def finish(engine):
    """Run what is on the engine to its end; return the last news by name, with all tokens."""
    ends, tokens = {}, {}
    while engine.batch.running or engine.batch.waiting:
        for news in engine.step():
            tokens[news.id] = tokens.get(news.id, ()) + news.tokens
            if news.finish:
                ends[news.id] = news._replace(tokens=tokens[news.id])
    return ends


def alone(engine, prompt, **changes):
    name = ask(engine, prompt, **changes)
    return finish(engine)[name]


def test_prompts_that_begin_alike_share_whole_blocks():
    engine = opened()
    assert alone(engine, range(1, 41), seed=1).cached == 0
    assert engine.batch.read == 40
    assert alone(engine, range(1, 41), seed=2).cached == 32
    assert engine.batch.read == 48
    assert alone(engine, [*range(1, 20), *range(200, 250)], seed=3).cached == 16
    assert alone(engine, range(2, 41), seed=4).cached == 0


def test_the_last_token_is_always_computed():
    engine = opened()
    assert alone(engine, range(1, 33), seed=1).cached == 0
    before = engine.batch.read
    assert alone(engine, range(1, 33), seed=2).cached == 16
    assert engine.batch.read - before == 16


def test_a_child_finds_the_blocks_of_its_parent_and_reads_the_broken_one_again():
    engine = opened()
    prompt = tuple(range(1, 21))
    parent = alone(engine, prompt, seed=1, max_tokens=30)
    # Of 50 tokens 49 are stored, so three blocks are whole.
    assert len(parent.tokens) == 30
    child = alone(engine, prompt + parent.tokens, seed=2, max_tokens=14)
    assert child.cached == 48
    # With 14 more the fourth block is whole, but its last token has not been looked at.
    grandchild = prompt + parent.tokens + child.tokens
    assert len(grandchild) == 64
    assert alone(engine, grandchild, seed=3).cached == 48
    # The grandchild read it; another child of the same parent shares no more than the parent.
    assert alone(engine, (*grandchild, 7), seed=4).cached == 64
    assert alone(engine, prompt + parent.tokens, seed=5).cached == 48


def test_text_behind_a_trajectory_is_read_behind_its_blocks():
    engine = opened()
    prompt = tuple(range(1, 21))
    parent = alone(engine, prompt, seed=1, max_tokens=30)
    words = engine.tokenize("So the answer must be: ")
    assert len(words) == 6
    assert alone(engine, prompt + parent.tokens + words, seed=2, max_tokens=1).cached == 48
    # Many words fill blocks of their own: 70 tokens have four.
    many = engine.tokenize("twenty tokens of text" * 4)[:20]
    assert alone(engine, prompt + parent.tokens + many, seed=3, max_tokens=1).cached == 48
    assert engine.batch.cache.cached == 4
    assert engine.batch.cache.pinned == engine.batch.cache.private == 0


def test_what_runs_is_shared_as_well():
    engine = opened()
    names = [ask(engine, range(1, 41), seed=seed, max_tokens=20) for seed in range(4)]
    engine.step()
    # Two whole blocks once, the rest of the prompt and what is decoded for each.
    assert engine.batch.cache.pinned == 2
    assert engine.batch.cache.private == 4
    assert engine.batch.read == 32 + 4 * 8
    late = ask(engine, range(1, 41), seed=9)
    ends = finish(engine)
    assert [ends[name].cached for name in [*names, late]] == [0, 32, 32, 32, 32]
    assert engine.batch.cache.pinned == engine.batch.cache.private == 0


def test_without_a_prefix_cache_nothing_is_shared():
    engine = opened(prefix_cache=False)
    assert [alone(engine, range(1, 41), seed=seed).cached for seed in (1, 2)] == [0, 0]
    assert engine.batch.read == 80
    assert engine.batch.cache.used == 0


def test_prompts_of_which_only_the_length_is_known_share_within_their_problem():
    engine = opened()
    cached = [alone(engine, (0,) * 40, seed=seed, problem=p).cached for seed, p in enumerate("ppq")]
    assert cached == [0, 32, 0]


def test_the_least_recently_used_blocks_go_first_the_last_ones_of_a_sequence_before_the_others():
    engine = opened(blocks=6)
    first, second = range(1, 41), range(101, 141)
    for prompt, seed in ((first, 1), (second, 2)):
        alone(engine, prompt, seed=seed, max_tokens=1)
    assert (engine.batch.cache.cached, engine.batch.cache.evicted) == (4, 0)
    # 57 tokens need four blocks: both of the first prompt must go.
    alone(engine, range(201, 258), seed=3, max_tokens=1)
    assert (engine.batch.cache.cached, engine.batch.cache.evicted) == (5, 2)
    assert alone(engine, second, seed=4, max_tokens=1).cached == 32
    assert engine.batch.cache.evicted == 2
    # Of the third one the end goes, and its beginning stays.
    assert alone(engine, first, seed=5, max_tokens=1).cached == 0
    assert engine.batch.cache.evicted == 4
    assert alone(engine, range(201, 258), seed=6, max_tokens=1).cached == 16


def test_a_prompt_that_was_not_read_to_its_end_is_not_in_the_cache():
    engine = opened(batch_tokens=24)
    name = ask(engine, range(1, 101), seed=1)
    engine.step()
    assert engine.batch.cache.pinned == 6
    engine.abort([name])
    assert (engine.batch.cache.used, engine.batch.cache.cached) == (1, 1)
    before = engine.now()
    assert alone(engine, range(1, 101), seed=2).cached == 16
    assert engine.batch.read == 24 + 84
    assert engine.now() > before


def test_one_that_found_blocks_and_was_ended_while_it_read_on_leaves_them():
    engine = opened(batch_tokens=8)
    alone(engine, range(1, 65), seed=1, max_tokens=1)
    name = ask(engine, range(1, 65), seed=2)
    engine.step()
    engine.abort([name])
    assert engine.batch.cache.cached == 4
    assert alone(engine, [*range(1, 65), 7], seed=3).cached == 64


def test_an_ended_request_that_was_aborted_keeps_what_it_decoded_until_there_is_no_room():
    engine = opened(blocks=20, law=Law(least=0, end=1.0, median=200, sigma=0.0, longest=200))
    name = ask(engine, range(1, 17), seed=1, max_tokens=200)
    engine.leap = 40
    while engine.batch.decoded < 40:
        engine.step()
    done = engine.batch.decoded
    engine.abort([name])
    assert engine.batch.cache.pinned == engine.batch.cache.private == 0
    assert engine.batch.cache.cached == (16 + done - 1) // 16


def test_a_reset_engine_has_an_empty_cache():
    engine = opened()
    alone(engine, range(1, 41), seed=1)
    engine.reset()
    assert engine.batch.cache.used == 0
    assert alone(engine, range(1, 41), seed=1).cached == 0


# --- on an engine, at random ------------------------------------------------------------------------------

TREES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 38), st.integers(1, 25), st.booleans()),
    min_size=1,
    max_size=40,
)


@pytest.mark.slow
@settings(max_examples=80)
@given(blocks=st.integers(30, 60), block=st.integers(1, 8), tree=TREES, chunked=st.booleans())
def test_one_request_after_the_other_hits_what_single_blocks_would(blocks, block, tree, chunked):
    engine = opened(blocks=blocks, block=block, batch_tokens=16, chunked=chunked)
    naive = Naive(blocks, block)
    known = []
    for seed, (which, size, most, root) in enumerate(tree):
        prompt = STEMS[which % 3][:size] if root or not known else known[which % len(known)]
        if len(prompt) + most > engine.context:
            continue
        hits = min(naive.found(prompt), (len(prompt) - 1) // block)
        end = alone(engine, prompt, seed=seed, max_tokens=most)
        assert end.cached == hits * block
        assert naive.admit(prompt)
        tokens = prompt + end.tokens
        for place in range(len(prompt), len(tokens) - 1):
            if place % block == 0:
                naive.grow()
        naive.leave(prompt, tokens[:-1], -(-(len(tokens) - 1) // block) - len(prompt) // block)
        cache = engine.batch.cache
        assert (cache.evicted, cache.cached) == (naive.evicted, len(naive.idle))
        known.append(tokens)


@pytest.mark.parametrize("block", [1, 16])
def test_a_prompt_of_nothing_is_read_as_one_token(block):
    engine = opened(block=block)
    for seed in (1, 2):
        end = alone(engine, (), seed=seed, max_tokens=20)
        assert (len(end.tokens), end.cached) == (20, 0)
    assert engine.batch.read == 2
    assert engine.batch.cache.pinned == engine.batch.cache.private == 0
