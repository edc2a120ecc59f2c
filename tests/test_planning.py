"""From ``engine.memory`` to parts with a plan's numbers, and what the plan does on the simulated device."""

import json
from dataclasses import replace
from statistics import fmean

import pytest

from ttsflow import planning
from ttsflow.analysis import plan as commands
from ttsflow.analysis.doctor import diagnose
from ttsflow.build import build, fill
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.costs.hardware import Efficiency, Hardware
from ttsflow.costs.plan import GIB
from ttsflow.costs.replan import Limits, Replanner
from ttsflow.engines import vllm_side as vllm_module
from ttsflow.engines.law import Law
from ttsflow.engines.sim import Sim
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError
from ttsflow.memory import Memory, memory_of
from ttsflow.plugins import load
from ttsflow.registry import config_folder
from ttsflow.run import run_config
from ttsflow.session import Session
from ttsflow.sharing import Asked, asked, sharing_of
from ttsflow.testing import FakeEnginePart
from ttsflow.types import Sampling
from ttsflow.verifiers.constant import Constant
from ttsflow.verifiers.judge import Judge
from ttsflow.verifiers.orm import ORM
from ttsflow.verifiers.prm import PRM
from ttsflow.verifiers.simulated import Simulated

RTX = Hardware(24, 165.2, 1008, 32, efficiency=Efficiency(0.7, 0.92, 0.7, 0.0008, 1e-5))
LONG = Sampling(max_tokens=4096, max_step_tokens=2048)
SMALL, LARGE, JUDGE, READER = (
    "qwen2.5-math-1.5b",
    "qwen2.5-math-7b",
    "math-shepherd-7b",
    "skywork-prm-1.5b",
)
#: The published pairs of benchmarks/sim_goodput.py.
PAIRS = {"1.5B+7B": (SMALL, JUDGE), "7B+1.5B": (LARGE, READER), "1.5B+1.5B": (SMALL, READER)}


def planned_run(mapping):
    """Return what the planner was asked, the plan, and engine and verifier with it."""
    setup = commands.plan_of(mapping)
    return setup.sharing, setup.plan, setup.engine, setup.verifier


def planned(engine, verifier, memory, *, hardware=None, **words):
    sharing = sharing_of(engine, verifier, memory, hardware=hardware, **words)
    return planning.planned(engine, verifier, sharing, hardware)


def on_sim(memory=None, *, hardware=RTX, verifier=READER, n=64, **settings):
    part = verifier and Simulated(model=verifier, **settings.pop("reads", {}))
    engine = Sim(hardware, **{"model": LARGE, **settings})
    return planned(engine, part, memory or Memory(), n=n, sampling=LONG, prompt=150, copies=4)


# --- parts ------------------------------------------------------------------------------------------------


def test_both_parts_get_what_the_plan_gives_them():
    engine, verifier, plan = on_sim()
    assert (engine.kv_gib, engine.seats) == (plan.generator.kv_gib, plan.generator.seats)
    assert (verifier.kv_gib, verifier.seats) == (plan.verifier.kv_gib, plan.verifier.seats)
    assert engine.blocks == plan.generator.blocks
    verifier.check_beside(engine)
    total = engine.kv_gib + verifier.kv_gib
    weights = sum(sharing_of(Sim(RTX, LARGE), Simulated(model=READER), Memory(), n=64).weights) / GIB
    # Nine tenths of 24 GiB, less half a GiB of reserve for each model.
    assert total + weights == pytest.approx(20.6, abs=0.01)
    assert on_sim() == (engine, verifier, plan)


def test_the_share_and_the_reserves_are_kept_free():
    _, _, all_of_it = on_sim(Memory(share=1.0))
    _, _, most = on_sim(Memory(share=0.9))
    _, _, reserved = on_sim(Memory(share=0.9), reserve_gib=1.5)
    kv = [plan.generator.kv_gib + plan.verifier.kv_gib for plan in (all_of_it, most, reserved)]
    assert kv[0] - kv[1] == pytest.approx(2.4, abs=0.01)
    assert kv[1] - kv[2] == pytest.approx(1.0, abs=0.01)


def test_what_a_candidate_is_expected_to_be_follows_from_the_law_or_is_said():
    law = Law(median=100, sigma=0.0, least=3, end=0.5)
    engine = Sim(RTX, LARGE, law)
    load = sharing_of(engine, None, Memory(), n=8, sampling=LONG, prompt=150, problems=3).load
    # Five steps of a hundred; in the middle two of them are there.
    assert (load.n, load.problems, load.prompt, load.path, load.step, load.tail) == (
        24,
        3,
        150,
        200,
        100,
        100,
    )
    whole = sharing_of(engine, None, Memory(), n=8, sampling=LONG, steps=False).load
    assert (whole.path, whole.step, whole.tail) == (0, 500, 4096)
    said = sharing_of(engine, None, Memory(prompt=9, path=8, step=50), n=8, sampling=LONG, prompt=150).load
    assert (said.prompt, said.path, said.step, said.tail) == (9, 8, 50, 50)
    unknown = sharing_of(VLLM("demo"), None, Memory(), n=None, hardware=RTX).load
    assert (unknown.n, unknown.step, unknown.tail, unknown.prompt) == (64, 64, 128, 256)


def test_a_strategy_says_how_many_it_works_on():
    def of(*words):
        return asked(build("stage", compose(list(words))["strategy"], "strategy", load()))

    assert of("strategy=beam_search", "strategy.n=8", "strategy.width=2") == Asked(8, 2, steps=True)
    assert of("strategy=dvts", "strategy.n=12", "strategy.width=4") == Asked(12, 4, steps=True)
    assert of("strategy=majority", "strategy.n=5") == Asked(5, 1, steps=False)


def test_a_generator_alone_and_a_verifier_without_a_model():
    _, verifier, plan = on_sim(verifier=None)
    assert verifier is plan.verifier is None
    part = Simulated()
    _, same, plan = planned(Sim(RTX, LARGE), part, Memory(), n=8)
    assert same is part
    assert plan.verifier is None


def test_two_that_run_together_are_never_moved():
    _, verifier, plan = on_sim(hardware=replace(RTX, memory_gib=20.5), reads={"together": True})
    assert plan.offload == verifier.offload == "none"
    with pytest.raises(ConfigError, match="both on the device"):
        Simulated(model=READER, together=True, offload="kv")
    with pytest.raises(ConfigError, match="too little") as caught:
        on_sim(Memory(offload="never"), hardware=replace(RTX, memory_gib=19))
    assert caught.value.path == "engine.memory"
    assert on_sim(hardware=replace(RTX, memory_gib=19))[1].offload == "weights"


def test_memory_that_is_too_small_is_refused_with_the_numbers():
    with pytest.raises(ConfigError, match=r"engine\.memory: 13\.85 GiB .* 14\.18 GiB of weights") as caught:
        on_sim(hardware=replace(RTX, memory_gib=16.5))
    assert caught.value.path == "engine.memory"
    with pytest.raises(ConfigError, match="has no KV cache that could be planned"):
        planned(FakeEnginePart(), None, Memory(), n=8)


def test_the_short_form_is_every_default():
    assert memory_of("auto") == Memory()
    assert memory_of(None) is None
    assert memory_of(Memory(step=9)) == Memory(step=9)
    made = fill(Memory, {"method": "golden", "share": 1.0, "offload": "never"}, "engine.memory", load())
    assert made == Memory("golden", 1.0, offload="never")


@pytest.mark.parametrize(
    ("changes", "path"),
    [({"share": 0.0}, "share"), ({"share": 1.5}, "share"), ({"step": 0}, "step"), ({"prompt": -1}, "prompt")],
)
def test_bad_settings(changes, path):
    with pytest.raises(ConfigError) as caught:
        Memory(**changes)
    assert caught.value.path == path


# --- vLLM -------------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    """Return a maker of folders that hold nothing but the description of a model."""

    def make(name, **changes):
        source = config_folder("ttsflow") / "data" / "models" / f"{name}.json"
        folder = tmp_path / f"{name}{len(changes)}"
        folder.mkdir()
        data = json.loads(source.read_text()) | {"torch_dtype": "bfloat16"} | changes
        (folder / "config.json").write_text(json.dumps(data))
        return str(folder)

    return make


@pytest.fixture(params=[True, False], ids=["cpu", "cuda"])
def cpu(request, monkeypatch):
    monkeypatch.setattr(vllm_module, "installed", lambda: ("0.32.0", request.param))
    monkeypatch.setattr("ttsflow.engines.vllm_load._fast_bfloat16", lambda: True)
    return request.param


def test_a_reward_model_on_vllm_gets_its_share(checkpoint, cpu):
    engine, other = VLLM(checkpoint(SMALL), context=2048), VLLM(checkpoint(READER), context=2048)
    for verifier in (PRM(other, tag="<x>"), ORM(other), Judge(engine=other)):
        first, second, plan = planned(engine, verifier, Memory(), n=64, hardware=RTX)
        assert first == replace(engine, kv_gib=plan.generator.kv_gib, seats=plan.generator.seats)
        assert second.engine == replace(other, kv_gib=plan.verifier.kv_gib, seats=plan.verifier.seats)
        # vLLM does not start unless one sequence of the whole context fits.
        assert min(plan.generator.blocks, plan.verifier.blocks) * (32 if cpu else 16) >= 2048
        assert plan.offload == "none"
        assert ("can neither put a model to sleep" if cpu else "ttsflow does not drive") in plan.reasons[-1]


def test_a_judge_on_the_engine_of_the_run_is_no_second_model(checkpoint, cpu):
    engine = VLLM(checkpoint(SMALL), context=2048)
    for verifier in (Judge(), Judge(engine=engine), Constant(0.5)):
        first, same, plan = planned(engine, verifier, Memory(), n=8, hardware=RTX)
        assert same is verifier
        assert plan.verifier is None
        assert first.kv_gib > 15


def test_sizes_on_vllm_follow_from_the_checkpoint(checkpoint, cpu):
    def side(part):
        return sharing_of(part, None, Memory(), n=8, hardware=RTX).generator

    demo = side(VLLM("demo"))
    assert (demo.longest, demo.block, demo.roofline.kv_bits) == (2048, 32 if cpu else 16, 16)
    assert side(VLLM(checkpoint(SMALL), dtype="float32")).roofline.weight_bits == 32
    assert side(VLLM(checkpoint(SMALL, quantization_config={"bits": 4}))).roofline.weight_bits == 4
    assert side(VLLM("demo", args={"kv_cache_dtype": "fp8"})).roofline.kv_bits == 8
    assert side(VLLM("demo", args={"max_num_batched_tokens": 77})).batch_tokens == 77
    assert side(VLLM("demo", block_size=64, seats=9)).seats == 9


def test_on_vllm_the_machine_must_be_named(cpu):
    with pytest.raises(ConfigError, match="hardware=cpu") as caught:
        planned(VLLM("demo"), None, Memory(), n=8)
    assert caught.value.path == "engine.memory"


def test_a_model_that_is_not_there_yet_is_named(cpu, monkeypatch):
    monkeypatch.setattr(vllm_module, "_cached", lambda model: None)
    with pytest.raises(ConfigError, match=r"config\.json is not on this machine") as caught:
        planned(VLLM("some/model"), None, Memory(), n=8, hardware=RTX)
    assert caught.value.path == "engine.model"


# --- on the simulated device ------------------------------------------------------------------------------


def words(pair, n, *more, problems=2):
    generator, verifier = PAIRS[pair]
    return [
        *("engine=sim", "task=simulated", f"task.size={problems}", "concurrency=1", "strategy=beam_search"),
        *(f"strategy.n={n}", f"engine.model={generator}", "verifier=simulated"),
        *(f"verifier.model={verifier}", *more),
    ]


def simulated(engine, verifier, overrides, follow=None):
    """Run built parts; return (goodput in tokens a second, sequences sent back, results)."""
    mapping = compose([*overrides, f"engine.kv_gib={engine.kv_gib}", f"verifier.kv_gib={verifier.kv_gib}"])
    setup = replace(assemble(mapping), engine=engine, verifier=verifier)
    with Session(setup) as session:
        if follow is not None:
            session._verifier.follow(follow)
        results = list(session.run(setup.task.problems()))
        last = session.moments[-1]
    seconds = fmean(result.usage.seconds for result in results)
    return fmean(result.usage.output for result in results) / seconds, last.preempted, results


@pytest.mark.parametrize("n", [8, *(pytest.param(n, marks=pytest.mark.slow) for n in (64, 512))])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_planned_split_is_at_least_as_good_as_halves(pair, n):
    overrides = words(pair, n, problems=1 if n > 64 else 2)
    sharing, plan, engine, verifier = planned_run(compose(overrides))
    half = sharing.limits("none")[0] / 2 / GIB
    even = (
        replace(engine, kv_gib=half, seats=max(n, 256)),
        replace(verifier, kv_gib=half, offload="none"),
    )
    goodput, preempted, results = simulated(engine, verifier, overrides)
    other, others_preempted, _ = simulated(*even, overrides)
    assert preempted <= others_preempted
    assert goodput >= other
    assert simulated(engine, verifier, overrides)[2] == results
    assert plan.seconds <= plan.compared["half"]


@pytest.mark.slow
def test_halves_send_back_what_a_plan_does_not():
    overrides = words("7B+1.5B", 128, "hardware.memory_gib=21.5", problems=1)
    sharing, _, engine, verifier = planned_run(compose(overrides))
    half = sharing.limits("none")[0] / 2 / GIB
    even = replace(engine, kv_gib=half, seats=256), replace(verifier, kv_gib=half, offload="none")
    goodput, preempted, _ = simulated(engine, verifier, overrides)
    other, others_preempted, _ = simulated(*even, overrides)
    assert preempted < others_preempted
    assert goodput > other


@pytest.mark.slow
def test_two_models_that_fit_only_in_turns_run_in_turns():
    overrides = words("7B+1.5B", 16, "hardware.memory_gib=19", problems=1)
    _, plan, engine, verifier = planned_run(compose(overrides))
    assert plan.offload == verifier.offload == "weights"
    goodput, _, results = simulated(engine, verifier, overrides)
    assert [result.outcome for result in results] == ["answered"]
    _, _, roomy, reader = planned_run(compose(words("7B+1.5B", 16, problems=1)))
    faster, _, same = simulated(roomy, reader, words("7B+1.5B", 16, problems=1))
    # Where things are does not change what is decoded, only how long it takes.
    assert faster > goodput
    assert [result.usage.output for result in same] == [result.usage.output for result in results]


@pytest.mark.slow
def test_a_plan_that_rests_on_the_wrong_lengths_is_made_anew():
    overrides = words("7B+1.5B", 128, "hardware.memory_gib=22", problems=1)
    mapping = compose(overrides)
    mapping["engine"]["memory"] = {"step": 10, "path": 20, "offload": "never"}
    sharing, wrong, engine, verifier = planned_run(mapping)
    replanner = Replanner(sharing, Limits(rounds=2))
    _, with_it, results = simulated(engine, verifier, overrides, replanner)
    _, without, plain = simulated(engine, verifier, overrides)
    assert replanner.replanned >= 1
    assert replanner.assumed[0] > 40
    assert replanner.plan.generator.seats < wrong.generator.seats
    assert with_it <= without
    assert [result.usage.output for result in plain] == [result.usage.output for result in results]


@pytest.mark.slow
def test_where_caches_stay_as_they_are_a_run_says_what_the_next_should_have(tmp_path):
    """A verifier without a model of its own never changes the device; nor does an open vLLM."""
    words = [
        *("strategy=beam_search", "strategy.n=64", "task=simulated", "limit=2", "concurrency=2"),
        *("engine=sim", "engine.model=qwen2.5-math-7b", "hardware=rtx4090", "verifier=random"),
        "hardware.memory_gib=17.6",
    ]
    for name, memory in {"wrong": "{step:9,path:9}", "right": "auto"}.items():
        run_config(compose([*words, f"engine.memory={memory}"]), tmp_path / name)
    work = json.loads((tmp_path / "wrong" / "summary.json").read_text())["work"]
    assert work["planned_step"] == 9
    assert work["seen_step"] > 40
    assert work["planned_candidates"] == 128
    assert 0 < work["seen_candidates"] <= 128
    assert work["replanned"] >= 1
    (finding,) = [finding for finding in diagnose(tmp_path / "wrong") if finding.what == "plan"]
    assert f"engine.memory={{step: {work['seen_step']:.0f}}}" in finding.change
    assert not [finding for finding in diagnose(tmp_path / "right") if finding.what == "plan"]


@pytest.mark.slow
def test_what_is_planned_runs_from_the_command_line(tmp_path):
    overrides = words("1.5B+1.5B", 8, problems=1)
    _, _, engine, verifier = planned_run(compose(overrides))
    by_hand = [
        f"engine.kv_gib={engine.kv_gib:.4f}",
        f"engine.seats={engine.seats}",
        f"verifier.kv_gib={verifier.kv_gib:.4f}",
    ]
    assert run_config(compose([*overrides, *by_hand]), tmp_path / "run").status == "complete"


@pytest.mark.slow
def test_nothing_is_moved_where_work_is_begun_early():
    """Turns would never change: the generator always has something left to do."""
    words = ["engine=sim", "task=simulated", "strategy=beam_search", "strategy.n=128", "concurrency=1"]
    words += ["engine.model=qwen2.5-math-7b", "verifier=simulated", "verifier.model=skywork-prm-1.5b"]
    plans = [
        commands.plan_of(compose([*words, *more])).plan
        for more in (["hardware.memory_gib=21"], ["hardware.memory_gib=21", "engine.speculation=true"])
    ]
    assert plans[0].offload != "none"
    assert plans[1].offload == "none"
