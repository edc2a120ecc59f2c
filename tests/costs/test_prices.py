"""Joules, money, operations and seconds of a described machine: what they count, and that they add up."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow import plugins
from ttsflow.build import build
from ttsflow.costs.hardware import Hardware
from ttsflow.costs.models import shape_of
from ttsflow.costs.prices import Joules, Money
from ttsflow.costs.roofline import Reading, Roofline
from ttsflow.costs.work import Flops, RooflineSeconds
from ttsflow.errors import ConfigError
from ttsflow.types import Usage

NAN = float("nan")
MODEL = "qwen2.5-math-1.5b"
GPU = Hardware(80, 100.0, 1000.0)
USAGE = Usage(prompt=100, cached=40, output=7, aborted=2, dropped=1, verifier=20, seconds=1.5, joules=3.0)

COUNT = st.integers(0, 10**7)


@st.composite
def usages(draw):
    prompt = draw(COUNT)
    counts = {
        name: draw(COUNT) for name in ("output", "aborted", "dropped", "verifier", "serial", "requests")
    }
    cached = draw(st.integers(0, prompt))
    return Usage(
        prompt=prompt,
        cached=cached,
        **counts,
        seconds=draw(st.floats(0, 1e6)),
        joules=draw(st.floats(0, 1e9)),
    )


LINEAR = [
    Joules(),
    Money(prompt=2.0, cached=0.5, output=8.0, hour=3.0),
    Flops(MODEL),
    Flops(MODEL, context=2000),
    RooflineSeconds(GPU, MODEL),
]


@pytest.mark.slow
@pytest.mark.parametrize("price", LINEAR, ids=str)
@given(usages(), usages())
def test_two_usages_cost_what_each_costs(price, first, second):
    assert price(first + second) == pytest.approx(price(first) + price(second), rel=1e-9, abs=1e-12)
    assert 0 <= price(first) <= price(first + second)
    assert price(Usage()) == 0


# --- joules -----------------------------------------------------------------------------------------------


def test_joules_are_those_of_the_meter():
    assert Joules()(USAGE) == 3.0
    assert Joules()(Usage(joules=0.0, output=5)) == 0.0


@pytest.mark.parametrize("spent", [{"output": 1}, {"seconds": 0.1}, {"prompt": 3}, {"requests": 1}], ids=str)
def test_what_was_used_without_a_meter_is_never_a_silent_0(spent):
    with pytest.raises(ConfigError, match=r"needs a meter, and none ran: choose .*meter=model") as caught:
        Joules()(Usage(**spent))
    assert caught.value.path == "meter"
    assert Joules()(Usage()) == 0.0
    assert Joules.needs == {"joules"}


# --- money ------------------------------------------------------------------------------------------------


def test_money_is_per_million_tokens_and_per_hour():
    assert Money(prompt=1e6)(USAGE) == 60
    assert Money(cached=1e6)(USAGE) == 40
    assert Money(output=1e6)(USAGE) == 10
    assert Money(hour=3600.0)(USAGE) == 1.5
    assert Money(prompt=1e6, output=2e6, hour=7200.0)(USAGE) == 60 + 20 + 3


def test_there_are_no_prices_but_yours():
    with pytest.raises(ConfigError, match="every price is 0; set one of prompt, cached, output, hour"):
        Money()
    with pytest.raises(ConfigError, match=r"^cost.money: every price is 0"):
        build("cost", {"use": "money", "currency": "EUR"}, "cost.money", plugins.load())
    assert Money(hour=1.0, currency="EUR").unit == "EUR"


@pytest.mark.parametrize("wrong", [-0.1, NAN, float("inf")])
@pytest.mark.parametrize("field", ["prompt", "cached", "output", "hour"])
def test_a_price_without_sense_is_refused(field, wrong):
    with pytest.raises(ConfigError) as caught:
        Money(**{"prompt": 1.0, field: wrong})
    assert caught.value.path == field


def test_a_currency_has_a_name():
    with pytest.raises(ConfigError) as caught:
        Money(hour=1.0, currency=" ")
    assert caught.value.path == "currency"


# --- operations -------------------------------------------------------------------------------------------


def test_operations_are_two_a_parameter_and_token():
    shape = shape_of(MODEL)
    decoded = Usage(output=1)
    assert Flops(MODEL)(decoded) == 2 * (shape.layer_parameters + shape.output_parameters)
    # The 1.5B model: about 3.1 GFLOP a token.
    assert Flops(MODEL)(decoded) == pytest.approx(3.09e9, rel=0.01)
    assert Flops(MODEL)(Usage(prompt=10, cached=9)) == 2 * shape.layer_parameters
    assert Flops(MODEL)(Usage(aborted=1)) == Flops(MODEL)(Usage(dropped=1)) == Flops(MODEL)(decoded)
    assert Flops(MODEL)(Usage(verifier=5)) == 0


def test_attention_is_added_for_the_tokens_looked_at():
    shape = shape_of(MODEL)
    usage = Usage(prompt=30, cached=10, output=5)
    more = Flops(MODEL, context=1000)(usage) - Flops(MODEL)(usage)
    assert more == 25 * 1000 * 4 * shape.layers * shape.heads * shape.head


# --- seconds of a machine ---------------------------------------------------------------------------------


def test_a_stream_decodes_as_the_roofline_says():
    price, roofline = RooflineSeconds(GPU, MODEL, context=500), Roofline(GPU, shape_of(MODEL))
    assert price(Usage(output=8)) == pytest.approx(8 * roofline.span(1, 500).seconds)
    # Batch 1 is bound by memory: at the least the weights are read for each token.
    assert price(Usage(output=1)) >= roofline.weight_bytes / 1e12


def test_prompts_are_read_in_chunks():
    price, roofline = RooflineSeconds(GPU, MODEL, chunk=100), Roofline(GPU, shape_of(MODEL))
    chunk = roofline.span(0, 0, reading=Reading(tokens=100, pairs=5050, sequences=1))
    assert price(Usage(prompt=250, cached=50)) == pytest.approx(2 * chunk.seconds)
    assert price(Usage(prompt=100)) < price(Usage(output=100)), "reading is quicker than writing"


def test_bits_make_weights_and_cache_smaller():
    usage = Usage(output=10)
    assert RooflineSeconds(GPU, MODEL, weight_bits=4)(usage) < RooflineSeconds(GPU, MODEL)(usage)
    assert RooflineSeconds(GPU, MODEL, kv_bits=8)(usage) < RooflineSeconds(GPU, MODEL)(usage)


def test_a_machine_that_would_have_to_be_measured_is_refused():
    with pytest.raises(ConfigError, match="give tflops and bandwidth as numbers") as caught:
        RooflineSeconds(Hardware(8, probe=True), MODEL)
    assert caught.value.path == "hardware.probe"


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Flops("qwen2.5-math-1.6b"), "model"),
        (lambda: Flops(MODEL, context=-1), "context"),
        (lambda: RooflineSeconds(GPU, "no such"), "model"),
        (lambda: RooflineSeconds(GPU, MODEL, context=-1), "context"),
        (lambda: RooflineSeconds(GPU, MODEL, chunk=0), "chunk"),
        (lambda: RooflineSeconds(GPU, MODEL, weight_bits=0), "weight_bits"),
        (lambda: RooflineSeconds(GPU, MODEL, kv_bits=65), "kv_bits"),
    ],
)
def test_settings_without_sense_are_refused(make, field):
    with pytest.raises(ConfigError) as caught:
        make()
    assert caught.value.path == field


def test_they_are_built_from_a_config():
    registry = plugins.load()
    machine = {key: value for key, value in dataclasses.asdict(GPU).items() if key != "efficiency"}
    mapping = {"use": "roofline", "hardware": machine, "model": MODEL}
    assert build("cost", mapping, "cost.stream", registry) == RooflineSeconds(GPU, MODEL)
    with pytest.raises(ConfigError, match=r"needs the setting 'hardware'.*hardware=NAME"):
        build("cost", {"use": "roofline", "model": MODEL}, "cost.stream", registry)
    with pytest.raises(ConfigError, match=r"cost\.work\.model: .*Did you mean 'qwen2\.5-math-1\.5b'"):
        build("cost", {"use": "flops", "model": "qwen2.5-math-1.6b"}, "cost.work", registry)
