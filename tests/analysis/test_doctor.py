"""What held a run back, seen in its figures."""

import json

import pytest

from ttsflow import cli
from ttsflow.analysis.doctor import diagnose
from ttsflow.config import compose
from ttsflow.errors import DataError
from ttsflow.run import run_config

SIM = [
    "engine=sim",
    "task=simulated",
    "strategy=beam_search",
    "verifier=simulated",
    "strategy.n=16",
    "limit=2",
]
PAIR = ["verifier.model=math-shepherd-7b", "engine.memory_share=0.22", "verifier.memory_share=0.68"]


def ran(folder, *words):
    run_config(compose([*SIM, *words]), folder)
    return {finding.what: finding for finding in diagnose(folder)}


@pytest.mark.slow
def test_a_small_cache_is_named_with_what_to_raise(tmp_path):
    found = ran(tmp_path / "a", "engine.kv_gib=0.05")
    assert "sent back and read again" in found["memory"].seen
    assert "engine.kv_gib" in found["memory"].change
    waits = ran(tmp_path / "b", "engine.kv_gib=0.05", "engine.prefix_order=true")
    assert "memory" in waits


@pytest.mark.slow
def test_a_verifier_that_reads_everything_again_is_told_to_keep_it(tmp_path):
    found = ran(tmp_path / "a", *PAIR)
    assert "verifier.prefix_cache=true" in found["verifier"].change
    kept = ran(tmp_path / "b", *PAIR, "verifier.prefix_cache=true")
    assert "verifier" not in kept or "prefix_cache" not in kept["verifier"].change


@pytest.mark.slow
def test_empty_seats_and_wasted_work_are_named(tmp_path):
    found = ran(tmp_path / "a", "engine.seats=512", "concurrency=1")
    assert "on 512 seats, with 1 problems in flight" in found["batch"].seen
    assert "engine.speculation=true" in found["batch"].change
    early = ran(tmp_path / "b", "engine.seats=512", "concurrency=1", "engine.speculation.curve=false")
    assert "begun early and dropped" in early["speculation"].seen


@pytest.mark.slow
def test_a_run_that_lacks_nothing_is_told_so(tmp_path, capsys):
    run_config(compose([*SIM, "engine.seats=16"]), tmp_path / "a")
    assert diagnose(tmp_path / "a") == []
    assert cli.main(["doctor", str(tmp_path / "a")]) == 0
    out = capsys.readouterr().out
    assert "nothing held this run back" in out
    assert "mean batch" in out


@pytest.fixture
def changed(tmp_path):
    """Return what is found in a run whose summary has other figures, as those of vLLM."""
    run_config(compose([*SIM, "engine.seats=16"]), tmp_path / "vllm")
    file = tmp_path / "vllm" / "summary.json"
    summary = json.loads(file.read_text())

    def found(**work):
        file.write_text(json.dumps({**summary, "work": {**summary["work"], **work}}))
        return {finding.what: finding for finding in diagnose(tmp_path / "vllm")}

    assert found() == {}
    return found


@pytest.mark.slow
def test_prefixes_that_were_thrown_out_are_named_where_prompts_are_what_costs(changed):
    lost = {"prefix_queried_tokens": 10**6, "prefix_hit_rate": 0.2, "kv_peak": 0.97}
    found = changed(**lost)
    assert "20% of 1,000,000 prompt tokens were found" in found["prefix cache"].seen
    assert "engine.prefix_order=true" in found["prefix cache"].change
    for other in ({"kv_peak": 0.5}, {"prefix_hit_rate": 0.8}, {"prefix_queried_tokens": 10}):
        assert changed(**lost | other) == {}


@pytest.mark.slow
def test_seats_that_memory_keeps_empty_ask_for_memory(changed):
    assert "a higher concurrency" in changed(mean_batch=2.0, kv_peak=0.4)["batch"].change
    assert "Raise engine.kv_gib first" in changed(mean_batch=2.0, kv_peak=0.95)["batch"].change


@pytest.mark.slow
def test_an_idle_device_is_named(changed):
    assert "in 12% of the time" in changed(gpu_utilisation=0.12)["device"].seen
    assert "OMP_NUM_THREADS" in changed(cpu_utilisation=0.3)["device"].change
    assert changed(gpu_utilisation=0.8, cpu_utilisation=0.9) == {}


@pytest.mark.slow
def test_samples_that_were_cut_and_problems_without_one_are_named(tmp_path):
    fake = ["engine=fake", "strategy=majority", "strategy.n=4", "limit=10"]
    run_config(compose([*fake, "sampling.max_tokens=3"]), tmp_path / "a")
    assert {f.what: f.seen for f in diagnose(tmp_path / "a")}["limits"] == (
        "75% of the samples were cut by a limit"
    )
    run_config(compose([*fake, "budget.run.tokens=60", "concurrency=1"]), tmp_path / "b")
    told = {f.what: f for f in diagnose(tmp_path / "b")}["budget"]
    assert told.seen.endswith("% of the problems had no sample")
    assert "budget.reserve" in told.change


def test_differences_are_told(tmp_path):
    run_config(compose(SIM), tmp_path / "a")
    file = tmp_path / "a" / "summary.json"
    summary = json.loads(file.read_text())
    file.write_text(json.dumps({**summary, "exact": {"checked": 2, "differ": ["x"]}}))
    assert "1 of 2 problems" in {f.what: f for f in diagnose(tmp_path / "a")}["other answers"].seen


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "holds no summary.json"),
        ({"summary.json": "{}"}, "holds no config.yaml"),
        ({"summary.json": "{", "config.yaml": "a: 1"}, "cannot be read"),
        ({"summary.json": "[]", "config.yaml": "a: 1"}, "no mapping"),
        ({"summary.json": "{}", "config.yaml": "a: 1"}, "no figures of its engine"),
        ({"summary.json": '{"work": {"iterations": "x"}}', "config.yaml": "[]"}, "no mapping"),
    ],
)
def test_other_folders_are_refused(tmp_path, files, said):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=said):
        diagnose(tmp_path)
