"""The memory planner: its costs, its searches against brute force, and what it promises of every plan."""

import math
import random
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.costs.hardware import Efficiency, Hardware
from ttsflow.costs.models import shape_of
from ttsflow.costs.plan import GIB, Load, Sharing, Side
from ttsflow.costs.plan_costs import Batch, Bytes, decoding, even_batches, kv_bytes, reading
from ttsflow.costs.planner import plan, split_evenly
from ttsflow.costs.roofline import Reading, Roofline
from ttsflow.costs.search import SEARCHES
from ttsflow.errors import ConfigError

GPU = Efficiency(0.7, 0.92, 0.7, 0.0008, 1e-5)
RTX = Hardware(24, 165.2, 1008, 32, efficiency=GPU)
SMALL, LARGE, JUDGE, READER = (
    "qwen2.5-math-1.5b",
    "qwen2.5-math-7b",
    "math-shepherd-7b",
    "skywork-prm-1.5b",
)


def side(model, hardware=RTX, longest=4096, **settings):
    return Side(Roofline(hardware, shape_of(model)), longest, **settings)


def shared(generator=LARGE, verifier=READER, *, n=64, gib=20.6, keep=False, **settings):
    load = Load(n, 150, 290, 83, 600, copies=4)
    theirs = verifier and side(verifier, keep=keep)
    return Sharing(side(generator), theirs, gib * GIB, load, **settings)


def random_sharing(rng, *, most=300, **settings):
    """Return a random case; whether it fits is chance."""
    hardware = Hardware(
        24,
        10 ** rng.uniform(-1, 3),
        10 ** rng.uniform(0.5, 3.5),
        10 ** rng.uniform(0, 2),
        efficiency=Efficiency(rng.uniform(0.3, 1), 1.0, rng.uniform(0.3, 1), rng.choice([0, 1e-3]), 1e-5),
    )
    load = Load(
        rng.randint(1, most),
        rng.choice([0, rng.uniform(1, 600)]),
        rng.uniform(0, 2000),
        rng.uniform(1, 600),
        rng.choice([0, rng.uniform(1, 2000)]),
        rng.choice([1, 2, 4]),
        rng.choice([1, 4]),
        rng.random() < 0.7,
    )
    sides = []
    for _ in range(2):
        block = rng.choice([1, 16, 32])
        longest, tokens = rng.randint(1, 6000), rng.choice([512, 2048, 8192])
        name = rng.choice([SMALL, LARGE, JUDGE, READER])
        sides.append(side(name, hardware, longest, block=block, batch_tokens=tokens, keep=rng.random() < 0.5))
    weights = sum(one.roofline.weight_bytes for one in sides)
    memory = weights + 10 ** rng.uniform(-1.5, 1.5) * GIB
    return Sharing(*sides, memory, load, **settings)


def brute_force(sharing):
    """Return the least seconds over all pairs of batches that fit, with everything on the device."""
    load, left = sharing.load, sharing.limits("none")[0]
    ours, theirs = kv_bytes(sharing.generator, load), kv_bytes(sharing.verifier, load)
    decode = decoding(sharing.generator, load)
    least = math.inf
    reads = reading(
        sharing.verifier, load, [Batch(math.ceil(load.n / size), size) for size in range(1, load.n + 1)]
    )
    decodes = [decode(size) for size in range(1, load.n + 1)]
    for place, read in enumerate(reads):
        for other, decoded in enumerate(decodes):
            if theirs.of(place + 1) + ours.of(other + 1) > left:
                break
            least = min(least, read + decoded)
    return least


# --- costs ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(
    size=st.integers(1, 600), prompt=st.integers(0, 900), path=st.integers(0, 900), step=st.integers(1, 300)
)
def test_a_batch_decodes_in_the_time_of_the_roofline(size, prompt, path, step):
    one = side(LARGE, keep=False)
    seconds = decoding(one, Load(size, prompt, path, step))(size)
    expected = one.roofline.span(size, size * (prompt + path), step).seconds
    assert seconds == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
@given(size=st.integers(1, 9), prompt=st.integers(0, 300), path=st.integers(0, 300), step=st.integers(1, 300))
def test_a_batch_is_read_in_the_time_of_the_roofline(size, prompt, path, step):
    one, load = side(JUDGE, keep=False), Load(size, prompt, path, step)
    (seconds,) = reading(one, load, [Batch(1, size)])
    whole = int(load.size)
    read = Reading(size * whole, size * whole * (whole + 1) // 2, 0, size, size)
    assert seconds == pytest.approx(one.roofline.span(0, 0, 1, read).seconds, rel=1e-9)


def test_what_the_cache_keeps_is_not_read_again():
    load = Load(8, 200, 400, 50)
    whole, kept = (reading(side(JUDGE, keep=keep), load, [Batch(1, 8)])[0] for keep in (False, True))
    assert kept < whole / 5
    turns = reading(side(JUDGE), load, [Batch(2, 4)])[0]
    assert kept < turns < whole


def test_a_round_is_as_long_as_its_longest_step():
    short = decoding(side(LARGE), Load(8, 200, 400, 50))(8)
    long = decoding(side(LARGE), Load(8, 200, 400, 50, tail=150))(8)
    roofline = Roofline(RTX, shape_of(LARGE))
    assert long - short == pytest.approx(100 * roofline.span(0, 0).seconds)


def test_shared_paths_are_there_once():
    load = Load(8, 160, 320, 64, copies=4)
    token = shape_of(LARGE).kv_bytes(16)
    small = side(LARGE, longest=1)
    assert kv_bytes(small, load) == Bytes(160 * token, (80 + 64) * token)
    assert kv_bytes(small, replace(load, problems=3)).once == 3 * 160 * token
    assert kv_bytes(small, replace(load, shared=False)) == Bytes(0, 544 * token)
    assert kv_bytes(side(LARGE, longest=1, keep=False), load) == Bytes(0, 544 * token)
    # One of them may be the longest, so that it is never alone too long for the cache.
    assert kv_bytes(side(LARGE), load).of(1) >= 4096 * token


@pytest.mark.slow
@given(st.integers(1, 5000))
def test_even_batches_are_the_smallest_of_each_number_of_waves(n):
    batches = even_batches(n)
    assert {batch.waves: batch.size for batch in batches} == {
        waves: min(size for size in sizes) for waves, sizes in _by_waves(n).items()
    }
    assert [batch.size for batch in batches] == sorted({batch.size for batch in batches})


def _by_waves(n):
    groups = {}
    for size in range(1, n + 1):
        groups.setdefault(math.ceil(n / size), []).append(size)
    return groups


# --- searches ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cases", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_linear_is_brute_force_on_random_cases(cases):
    rng, fitting = random.Random(1), 0
    while fitting < cases:
        sharing = random_sharing(rng, most=80)
        expected = brute_force(sharing)
        if math.isinf(expected):
            with pytest.raises(ConfigError, match="too little"):
                plan(sharing)
            continue
        fitting += 1
        assert plan(sharing).seconds == expected


@pytest.mark.slow
@pytest.mark.parametrize("method", ["coarse", "golden"])
def test_the_other_searches_are_never_better_and_mostly_equal(method):
    rng, equal, cases = random.Random(2), 0, 0
    while cases < 300:
        sharing = random_sharing(rng)
        try:
            best = plan(sharing).seconds
        except ConfigError:
            continue
        found = plan(replace(sharing, method=method)).seconds
        assert best <= found
        cases, equal = cases + 1, equal + (found <= best * 1.01)
    assert equal >= 270


@pytest.mark.slow
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200), st.data())
def test_what_each_search_promises(values, data):
    count = len(values)
    assert values[SEARCHES["linear"](count, values.__getitem__)] == min(values)
    grid = values[:: max(1, math.isqrt(count))]
    assert values[SEARCHES["coarse"](count, values.__getitem__)] <= min(grid)
    assert values[SEARCHES["golden"](count, values.__getitem__)] <= min(values[0], values[-1])
    dip = data.draw(st.integers(0, count - 1))
    valley = [abs(place - dip) * (1 if place < dip else 3) for place in range(count)]
    for search in SEARCHES.values():
        assert search(count, valley.__getitem__) == dip


def test_golden_asks_for_few():
    asked = []
    SEARCHES["golden"](10_000, lambda place: asked.append(place) or abs(place - 777))
    assert len(asked) < 30


# --- every plan -------------------------------------------------------------------------------------------

SHARINGS = st.integers(0, 10**9).map(
    lambda seed: random_sharing(
        random.Random(seed), most=2048, offload=random.Random(seed).choice([(), ("kv",), ("kv", "weights")])
    )
)


def planned_or_none(sharing):
    try:
        return plan(sharing)
    except ConfigError:
        return None


@pytest.mark.slow
@settings(max_examples=200)
@given(SHARINGS)
def test_what_is_on_the_device_at_once_always_fits(sharing):
    found = planned_or_none(sharing)
    if found is None:
        return
    ours, theirs = sharing.weights
    first, second = found.generator.kv_bytes, found.verifier.kv_bytes
    at_once = {
        "none": ours + theirs + first + second,
        "kv": ours + theirs + max(first, second),
        "weights": max(ours + first, theirs + second),
    }[found.offload]
    assert at_once <= sharing.memory
    load = sharing.load
    for share, one in ((found.generator, sharing.generator), (found.verifier, sharing.verifier)):
        assert share.kv_bytes == share.blocks * one.block_bytes
        assert share.blocks * one.block >= one.longest
        assert 1 <= share.batch <= load.n
        assert share.seats >= share.batch
    assert found.seconds == min(found.compared[name] for name in found.compared if name != "half")
    assert found.seconds <= found.compared.get("half", math.inf)


@pytest.mark.slow
@settings(max_examples=150)
@given(SHARINGS, st.lists(st.floats(0.2, 30), min_size=2, max_size=6))
def test_more_memory_is_never_slower(sharing, sizes):
    before = math.inf
    for gib in sorted(sizes):
        found = planned_or_none(replace(sharing, memory=sum(sharing.weights) * 0.6 + gib * GIB))
        if found is None:
            assert math.isinf(before)
            continue
        assert found.seconds <= before * (1 + 1e-12)
        before = found.seconds


@settings(max_examples=60)
@given(SHARINGS)
def test_the_larger_batch_of_the_generator_wins_among_equals(sharing):
    found = planned_or_none(replace(sharing, offload=()))
    if found is None:
        return
    left = sharing.limits("none")[0]
    theirs = kv_bytes(sharing.verifier, sharing.load).of(found.verifier.batch)
    ours = kv_bytes(sharing.generator, sharing.load)
    assert found.generator.batch == min(sharing.load.n, ours.most(left - theirs))


@pytest.mark.parametrize("n", [8, 512, 2048])
@pytest.mark.parametrize("method", ["linear", "coarse", "golden"])
def test_a_plan_takes_about_a_millisecond(method, n):
    sharing = shared(n=n, method=method, offload=("kv", "weights"))
    times = []
    for _ in range(200):
        began = time.perf_counter()
        plan(sharing)
        times.append(time.perf_counter() - began)
    # Under one on a machine that is left alone; the bound is for those that are not.
    assert min(times) < 0.004


def test_the_same_question_has_the_same_answer():
    assert plan(shared()) == plan(shared())
    assert split_evenly(shared()) == plan(shared()).compared["half"]


# --- what a plan says -------------------------------------------------------------------------------------


def test_a_plan_gives_the_generator_what_the_verifier_does_not_need():
    found = plan(shared(n=512))
    assert found.offload == "none"
    assert found.generator.kv_bytes > 8 * found.verifier.kv_bytes
    assert found.seconds < found.compared["half"]
    text = " ".join(found.reasons)
    assert "weights take 14.2 and 2.9" in text
    assert f"a round would take {found.compared['half']:.2f} s" in text
    assert "512 steps of 83 tokens behind 150 of a prompt and 290 decoded before" in text


def test_a_verifier_that_keeps_what_it_read_gets_what_the_generator_does_not_need():
    roomy = {"generator": SMALL, "n": 512}
    without, with_cache = plan(shared(**roomy)), plan(shared(**roomy, keep=True))
    assert with_cache.verifier.kv_bytes > 4 * without.verifier.kv_bytes
    assert with_cache.verifier.batch == with_cache.generator.batch == 512
    # It has no use for more than all paths, and the rest keeps what the generator has seen.
    assert with_cache.generator.kv_bytes > with_cache.verifier.kv_bytes


def test_a_generator_alone_has_everything():
    found = plan(shared(verifier=None, n=4096))
    assert found.verifier is None
    assert found.reading == found.moving == 0
    assert (20.6 - found.generator.kv_gib) * GIB == pytest.approx(shared().weights[0], rel=0.001)
    assert "No verifier has a model" in found.reasons[-1]
    assert split_evenly(shared(verifier=None)) is None


def test_seats_are_no_more_than_have_room():
    full = plan(shared(n=512))
    assert full.generator.seats == full.generator.batch < 512
    few = plan(shared(generator=SMALL, n=8))
    assert few.generator.seats == 8
    roomy = replace(shared(generator=SMALL, n=8), generator=side(SMALL, seats=256))
    assert plan(roomy).generator.seats == 256


# --- offloading -------------------------------------------------------------------------------------------

BOTH = ("kv", "weights")


def test_things_are_moved_when_nothing_else_fits():
    weights = sum(shared().weights) / GIB
    with pytest.raises(ConfigError, match="too little"):
        plan(shared(gib=weights + 0.3))
    found = plan(shared(gib=weights + 0.3, offload=BOTH))
    assert found.offload in BOTH
    assert "none" not in found.compared
    assert any("both at once do not fit" in reason for reason in found.reasons)
    # Only one at a time is on the device at all.
    found = plan(shared(gib=weights - 1, offload=BOTH))
    assert found.offload == "weights"
    assert set(found.compared) == {"weights"}
    assert found.moving > 2 * weights * GIB / 32e9


def test_things_are_moved_when_that_is_faster_and_not_when_it_is_not():
    slow, fast = (replace(RTX, link=link) for link in (1, 2000))
    results = {}
    for name, hardware in (("slow", slow), ("fast", fast)):
        sharing = replace(
            shared(n=512, gib=18, offload=BOTH),
            generator=side(LARGE, hardware),
            verifier=side(READER, hardware, keep=False),
        )
        results[name] = plan(sharing)
    assert results["slow"].offload == "none"
    assert results["fast"].offload != "none"
    assert results["fast"].seconds < results["fast"].compared["none"]
    assert results["fast"].seconds == pytest.approx(
        results["fast"].decoding + results["fast"].reading + results["fast"].moving
    )


def test_platforms_that_move_nothing_say_so():
    assert any("stay where they are" in reason for reason in plan(shared()).reasons)


# --- bad input --------------------------------------------------------------------------------------------


def test_too_little_memory_is_refused_with_the_numbers():
    with pytest.raises(ConfigError) as caught:
        plan(shared(gib=14, offload=BOTH))
    assert caught.value.path == "memory"
    for words in ("14.00 GiB", "14.18 GiB of weights", "4096 and 4096 tokens", "even in turns"):
        assert words in str(caught.value)
    with pytest.raises(ConfigError, match=r"needs 0\.23 of KV for one sequence of up to 4096 tokens"):
        plan(shared(verifier=None, gib=14))


def test_hardware_without_a_bandwidth_is_refused():
    with pytest.raises(ConfigError) as caught:
        side(LARGE, Hardware(8, probe=True))
    assert caught.value.path == "hardware.tflops"
    with pytest.raises(ConfigError, match="is missing"):
        Hardware(24, tflops=100)


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: Load(0, 1, 1, 1), "n"),
        (lambda: Load(1, -1, 1, 1), "prompt"),
        (lambda: Load(1, 1, math.nan, 1), "path"),
        (lambda: Load(1, 1, 1, 0.5), "step"),
        (lambda: Load(1, 1, 1, 1, copies=0), "copies"),
        (lambda: Load(1, 1, 1, 1, tail=math.inf), "tail"),
        (lambda: side(LARGE, longest=0), "longest"),
        (lambda: side(LARGE, block=0), "block"),
    ],
)
def test_numbers_that_cannot_be(make, path):
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.path == path
