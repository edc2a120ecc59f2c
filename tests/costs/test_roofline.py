"""Machines, model sizes, and the time of an iteration."""

import json
import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.costs import probe
from ttsflow.costs.hardware import Efficiency, Hardware
from ttsflow.costs.models import ModelShape, shape_of, shipped_models
from ttsflow.costs.roofline import Reading, Roofline, Span
from ttsflow.errors import ConfigError
from ttsflow.registry import config_folder

GIB = 1 << 30
SMALL = ModelShape(
    layers=2, hidden=64, inner=128, heads=4, kv_heads=2, head=16, vocab=100, tied=True, context=64
)

SHAPES = st.builds(
    ModelShape,
    layers=st.integers(1, 40),
    hidden=st.integers(1, 8192),
    inner=st.integers(1, 20000),
    heads=st.integers(1, 64),
    kv_heads=st.integers(1, 16),
    head=st.sampled_from([64, 80, 128]),
    vocab=st.integers(1, 200_000),
    tied=st.booleans(),
    context=st.just(4096),
)
MACHINES = st.builds(
    Hardware, memory_gib=st.just(80), tflops=st.floats(0.01, 2000), bandwidth=st.floats(0.1, 10_000)
)
READINGS = st.builds(
    lambda chunks: Reading(
        sum(chunk for chunk, _, _ in chunks),
        sum(chunk * before + chunk * (chunk + 1) // 2 for chunk, before, _ in chunks),
        sum(before for _, before, _ in chunks),
        len(chunks),
        sum(ended for _, _, ended in chunks),
    ),
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 500), st.booleans()), max_size=4),
)


def floor(machine, shape, bits, contexts, read):
    """Return what one iteration takes at best: three phases, each as long as its compute or its memory."""
    peak, wire = machine.tflops * 1e12, machine.bandwidth * 1e9
    width, kv_width = shape.heads * shape.head, shape.kv_heads * shape.head
    # Every matrix of a layer: queries and output, keys and values, gate, up and down.
    matrices = 2 * shape.hidden * width + 2 * shape.hidden * kv_width + 3 * shape.hidden * shape.inner
    tokens, sampled = len(contexts) + read.tokens, len(contexts) + read.ended
    flops = 2 * shape.layers * matrices * tokens + 2 * shape.hidden * shape.vocab * sampled
    weights = (shape.layers * matrices + shape.hidden * shape.vocab) * bits / 8
    pair = 2 * 2 * width * shape.layers
    kv = 2 * kv_width * 2 * shape.layers
    return (
        max(flops / peak, weights / wire)
        + max(pair * sum(contexts) / peak, kv * sum(contexts) / wire)
        + max(pair * read.pairs / peak, kv * (read.before + read.tokens) / wire)
    )


# --- one iteration and many -------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60)
@given(
    machine=MACHINES,
    shape=SHAPES,
    bits=st.sampled_from([4, 8, 16]),
    contexts=st.lists(st.integers(0, 4000), max_size=8),
    read=READINGS,
)
def test_a_step_takes_the_larger_of_compute_and_memory_in_each_phase(machine, shape, bits, contexts, read):
    span = Roofline(machine, shape, bits).span(len(contexts), sum(contexts), 1, read)
    assert span.seconds == pytest.approx(floor(machine, shape, bits, contexts, read), rel=1e-12)
    assert 0 <= span.compute <= 1 + 1e-12
    assert 0 <= span.memory <= 1 + 1e-12
    # A phase is bound by one of the two, so together they fill the time at least once.
    assert span.compute + span.memory >= 1 - 1e-12


@pytest.mark.slow
@settings(max_examples=60)
@given(
    machine=MACHINES,
    shape=SHAPES,
    contexts=st.lists(st.integers(0, 4000), min_size=1, max_size=8),
    count=st.integers(1, 300),
    launch=st.sampled_from([0.0, 1e-3]),
)
def test_iterations_taken_together_take_as_long_as_one_by_one(machine, shape, contexts, count, launch):
    machine = Hardware(
        80, machine.tflops, machine.bandwidth, efficiency=Efficiency(0.5, 0.9, 0.7, launch, 1e-5)
    )
    roofline, size = Roofline(machine, shape), len(contexts)
    together = roofline.span(size, sum(contexts), count)
    single = [roofline.span(size, sum(contexts) + size * i) for i in range(count)]
    # Both bounds of attention grow alike, so that no leap passes from one to the other.
    assert together.seconds == pytest.approx(math.fsum(span.seconds for span in single), rel=1e-9)


def test_what_takes_time_by_hand():
    machine = Hardware(80, tflops=1e-6, bandwidth=1e-3)
    roofline = Roofline(machine, SMALL)
    layer = 64 * (2 * 64 + 2 * 32) + 3 * 64 * 128
    assert SMALL.layer_parameters == 2 * layer == 73728
    assert (SMALL.output_parameters, SMALL.parameters) == (6400, 80128)
    # 1e6 operations and 1e6 bytes a second; one sequence at its tenth token, bound by operations.
    assert roofline.span(1, 10).seconds == pytest.approx((2 * 73728 + 2 * 6400 + 10 * 4 * 2 * 64) / 1e6)
    # Eight bits halve what is read, and the time only where that is the bound.
    slow = Hardware(80, tflops=1.0, bandwidth=1e-3)
    assert Roofline(slow, SMALL).span(1, 0).seconds == pytest.approx(2 * 80128 / 1e6)
    assert Roofline(slow, SMALL, weight_bits=8).span(1, 0).seconds == pytest.approx(80128 / 1e6)


def test_nothing_takes_no_time():
    roofline = Roofline(Hardware(80, 1.0, 1.0), SMALL)
    assert roofline.span(0, 0, 0) == Span(0.0, 0.0, 0.0)
    assert roofline.transfer(0) == 0


@pytest.mark.parametrize(
    ("factors", "phase"),
    [
        ({"compute": 0.5}, (2 * 80128, 0)),
        ({"bandwidth": 0.5}, (0, 2 * 80128)),
        ({"attention": 0.5}, (0, 1000 * 2 * 2 * 2 * 2 * 16)),
    ],
)
def test_each_factor_slows_its_own_part_down(factors, phase):
    flops, moved = phase
    machine = {"tflops": 1e-6, "bandwidth": 1e3} if flops else {"tflops": 1e6, "bandwidth": 1e-3}
    context = 0 if "bandwidth" in factors or flops else 1000
    plain, slowed = (
        Roofline(Hardware(80, **machine, efficiency=one), SMALL).span(1, context).seconds
        for one in (Efficiency(), Efficiency(**factors))
    )
    assert slowed - plain == pytest.approx((flops + moved) / 1e6)


def test_overheads_are_of_every_iteration_and_every_sequence():
    efficiency = Efficiency(launch=2.0, sequence=0.5)
    roofline = Roofline(Hardware(80, 1e6, 1e6, efficiency=efficiency), SMALL)
    read = Reading(tokens=4, pairs=10, sequences=2, ended=2)
    assert roofline.span(3, 0, 1, read).seconds == pytest.approx(2 + 5 * 0.5, abs=1e-6)
    assert roofline.span(3, 0, 10).seconds == pytest.approx(10 * (2 + 3 * 0.5), abs=1e-6)


def test_moving_the_cache_takes_its_bytes_over_the_link():
    assert Roofline(Hardware(80, 1.0, 1.0, link=2.0), SMALL).transfer(100) == pytest.approx(100 * 256 / 2e9)


# --- models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "millions", "kv"),
    [
        ("qwen2.5-math-1.5b", 1543.7, 28672),
        ("qwen2.5-math-7b", 7615.6, 57344),
        ("math-shepherd-7b", 7241.7, 131072),
        ("skywork-prm-1.5b", 1543.7, 28672),
        ("smollm2-135m", 134.5, 23040),
    ],
)
def test_shipped_models_have_their_published_size(name, millions, kv):
    shape = shape_of(name)
    assert shape.parameters / 1e6 == pytest.approx(millions, rel=1e-3)
    assert shape.kv_bytes(16) == 2 * shape.kv_bytes(8) == kv
    assert shape_of(name.upper()) == shape


def test_all_shipped_models_are_held_to_it():
    mark = next(
        m for m in test_shipped_models_have_their_published_size.pytestmark if m.name == "parametrize"
    )
    assert sorted(name for name, _, _ in mark.args[1]) == shipped_models()


CONFIG = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 100,
}


def written(tmp_path, data):
    (tmp_path / "config.json").write_text(data if isinstance(data, str) else json.dumps(data))
    return str(tmp_path)


def test_a_checkpoint_is_read_from_its_folder_or_file(tmp_path):
    folder = written(tmp_path, CONFIG)
    shape = shape_of(folder)
    # What older checkpoints leave out: all heads have keys of their own, and the tables differ.
    assert (shape.kv_heads, shape.head, shape.tied, shape.context) == (4, 16, False, 4096)
    assert shape == shape_of(f"{folder}/config.json")
    assert shape.parameters - shape.layer_parameters == 2 * 6400


def test_settings_win_over_what_is_usual(tmp_path):
    more = {
        "num_key_value_heads": 2,
        "head_dim": 24,
        "tie_word_embeddings": True,
        "max_position_embeddings": 9,
    }
    shape = shape_of(written(tmp_path, {"text_config": CONFIG | more | {"num_experts": 1}}))
    assert (shape.kv_heads, shape.head, shape.tied, shape.context) == (2, 24, True, 9)
    assert shape.kv_bytes(16) == 2 * 2 * 2 * 24 * 2


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{", "cannot be read"),
        ("[1]", "is no mapping"),
        ("[" * 200_000, "nested too deeply"),
        ({**CONFIG, "vocab_size": "100"}, 'vocab_size must be a whole number from 1 to .*, found "100"'),
        ({**CONFIG, "num_hidden_layers": 0}, "num_hidden_layers must be a whole number from 1"),
        (
            {**CONFIG, "hidden_size": 10**320},
            "hidden_size must be a whole number from 1 to 100,000,000, found",
        ),
        ({**CONFIG, "hidden_size": 10**9}, "hidden_size must be a whole number"),
        ({**CONFIG, "num_attention_heads": 100}, "head_dim must be a whole number from 1 to .*, found 0"),
        ({**CONFIG, "head_dim": True}, "head_dim must be"),
        ({**CONFIG, "tie_word_embeddings": "false"}, "tie_word_embeddings must be true or false"),
        ({"text_config": 5}, "its text_config is no mapping"),
        ({"text_config": [CONFIG]}, "its text_config is no mapping"),
        ({**CONFIG, "num_experts": "8"}, 'num_experts must be a whole number from 0 to .*, found "8"'),
        ({**CONFIG, "n_routed_experts": [1]}, "n_routed_experts must be a whole number from 0"),
        ({"hidden_size": 64, "vocab_size": 100}, "has no intermediate_size, num_attention_heads, num_hidden"),
        ({**CONFIG, "num_local_experts": 8}, "is a mixture of experts"),
        ({**CONFIG, "n_routed_experts": 64}, "is a mixture of experts"),
    ],
)
def test_what_is_no_dense_decoder_is_refused(tmp_path, data, message):
    with pytest.raises(ConfigError, match=message) as caught:
        shape_of(written(tmp_path, data))
    assert caught.value.path == "model"
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("absent", [None, 0, 1])
def test_a_dense_model_may_say_that_it_has_no_experts(tmp_path, absent):
    assert shape_of(written(tmp_path, {**CONFIG, "num_experts": absent, "text_config": {}})).layers


@pytest.mark.parametrize("name", ["x" * 300, "~nouser/x", "a\0b"])
def test_a_model_that_no_file_can_be_called(name):
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        shape_of(name)
    assert caught.value.path == "model"


def test_a_cache_of_few_bits_takes_parts_of_a_byte():
    """Regression: they were rounded down, so that a small model needed none and others too few."""
    small = ModelShape(
        layers=1, hidden=1, inner=1, heads=1, kv_heads=1, head=1, vocab=1, tied=True, context=9
    )
    assert small.kv_bytes(2) == 0.5
    assert small.kv_bytes(3) == 0.75
    assert SMALL.kv_bytes(16) == 256


def test_an_unknown_model_is_refused_with_the_nearest_one(tmp_path):
    with pytest.raises(ConfigError, match=r"Did you mean 'qwen2\.5-math-7b'\? Known: math-shepherd-7b"):
        shape_of("Qwen2.5-Math-7")
    with pytest.raises(ConfigError, match="neither a model of this package"):
        shape_of(str(tmp_path))


# --- machines ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "path", "message"),
    [
        ({"memory_gib": 0}, "memory_gib", "must be above 0"),
        ({"tflops": -1.0}, "tflops", "must be above 0"),
        ({"bandwidth": math.inf}, "bandwidth", "must be above 0"),
        ({"link": math.nan}, "link", "must be above 0"),
        ({"memory_gib": 1e300}, "memory_gib", "between 1e-06 and 1e.09, got 1e.300"),
        ({"memory_gib": 10**400}, "memory_gib", "between 1e-06 and 1e.09, got 1000"),
        ({"bandwidth": 1e-300}, "bandwidth", "between 1e-06"),
        ({"tflops": None}, "tflops", "is missing; a number, or `probe: true`"),
        ({"bandwidth": None}, "bandwidth", "is missing"),
        ({"probe": True}, "tflops", "leave it null"),
    ],
)
def test_a_machine_without_sense_is_refused(settings, path, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Hardware(**{"memory_gib": 8, "tflops": 1.0, "bandwidth": 1.0, **settings})
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"compute": 0}, "compute"),
        ({"bandwidth": 1.01}, "bandwidth"),
        ({"attention": math.nan}, "attention"),
        ({"launch": -1e-9}, "launch"),
        ({"sequence": math.inf}, "sequence"),
        ({"launch": 1e300}, "launch"),
        ({"sequence": 1.7e308}, "sequence"),
        ({"compute": 1e-300}, "compute"),
    ],
)
def test_factors_without_sense_are_refused(settings, path):
    with pytest.raises(ConfigError) as caught:
        Efficiency(**settings)
    assert caught.value.path == path


@pytest.mark.parametrize("number", [1e-6, 1e9])
@pytest.mark.parametrize("share", [1e-6, 1.0])
def test_the_least_and_the_most_machine_have_finite_times(number, share):
    efficiency = Efficiency(share, share, share, launch=1e9, sequence=1e9)
    machine = Hardware(number, number, number, number, efficiency=efficiency)
    roofline = Roofline(machine, shape_of("qwen2.5-math-7b"))
    span = roofline.span(10_000, 10**9, 10**6, Reading(10**5, 10**10, 10**6, 100, 100))
    assert all(math.isfinite(value) for value in (*span, roofline.transfer(10**9)))
    assert span.seconds > 0


def test_a_machine_of_a_data_sheet_is_measured_already():
    machine = Hardware(8, 1.0, 2.0)
    assert machine.measured() is machine


def test_a_probe_finds_what_this_machine_can_do(monkeypatch):
    monkeypatch.setattr(probe, "_SIDE", 64)
    monkeypatch.setattr(probe, "_BYTES", 1 << 20)
    found = probe.probed.__wrapped__()
    assert all(0 < value < 1e6 for value in found)
    monkeypatch.setattr(probe, "probed", lambda: found)
    efficiency = Efficiency(compute=0.5)
    machine = Hardware(8, probe=True, link=3.0, efficiency=efficiency)
    with pytest.warns(UserWarning, match="for the same seconds again, give them with hardware.probe=false"):
        measured = machine.measured()
    rounded = [pytest.approx(value, rel=0.005) for value in found]
    assert [measured.tflops, measured.bandwidth] == rounded
    assert (measured.memory_gib, measured.link, measured.efficiency) == (8, 3.0, efficiency)
    assert not measured.probe


@pytest.mark.parametrize(
    ("name", "tflops", "bandwidth"), [("h200", 989, 4800), ("rtx4090", 165.2, 1008), ("orin", 42.5, 204.8)]
)
def test_a_shipped_machine_by_its_name(name, tflops, bandwidth):
    machine = assemble(compose(["engine=sim", "task=simulated", f"hardware={name}"])).engine.hardware
    assert (machine.tflops, machine.bandwidth) == (tflops, bandwidth)
    assert machine.efficiency.launch > 0


def test_shipped_machines_share_one_set_of_factors():
    files = {
        file.name: yaml.safe_load(file.read_text())
        for file in config_folder("ttsflow.conf").joinpath("hardware").iterdir()
    }
    shared = files.pop("gpu.yaml")["efficiency"]
    assert Efficiency(**shared)
    assert files.pop("none.yaml") is None
    assert files.pop("cpu.yaml")["probe"] is True
    assert len(files) >= 8
    for name, data in files.items():
        assert data.pop("defaults") == ["gpu", "_self_"], name
        assert set(data) == {"tflops", "bandwidth", "memory_gib", "link"}, name
        assert Hardware(**data)


def test_an_unknown_machine_is_refused_with_the_nearest_one():
    with pytest.raises(
        ConfigError, match=r"no hardware 'rtx4091'\. Did you mean 'rtx4090'\? Known: a100"
    ) as caught:
        compose(["engine=sim", "hardware=rtx4091"])
    assert caught.value.path == "hardware"


def test_a_machine_that_nothing_reads_is_refused():
    with pytest.raises(ConfigError, match="no part of this run reads it") as caught:
        assemble(compose(["engine=fake", "hardware=rtx4090"]))
    assert caught.value.path == "hardware"
    assert assemble(compose(["engine=fake"])).engine
