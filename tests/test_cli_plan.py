"""``ttsflow plan``: what it prints, how quick it is, and what it says of mistakes."""

import shlex
import subprocess
import sys

import pytest

from ttsflow import cli

PAIR = ["engine=sim", "task=simulated", "strategy=beam_search", "concurrency=1", "verifier=simulated"]


def plan(capsys, *words):
    code = cli.main(["plan", *words])
    out, error = capsys.readouterr()
    return code, out, error


@pytest.mark.slow
def test_it_prints_plan_reasons_and_settings(capsys):
    words = [*PAIR, "strategy.n=512", "engine.model=qwen2.5-math-7b", "verifier.model=skywork-prm-1.5b"]
    code, out, _ = plan(capsys, *words)
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert ["generator", "qwen2.5-math-7b", "14.18", "GiB"] in [row[:4] for row in rows]
    assert ["verifier", "skywork-prm-1.5b", "2.88", "GiB"] in [row[:4] for row in rows]
    assert "- A round asks for 512 steps" in out
    by_hand = shlex.split(out.splitlines()[-1].removeprefix("By hand: "))
    assert [word.partition("=")[0] for word in by_hand] == [
        "engine.kv_gib",
        "engine.seats",
        "verifier.kv_gib",
        "verifier.seats",
    ]
    assert plan(capsys, *words, "engine.memory=auto") == (0, out, "")


def test_what_is_moved_has_a_row(capsys):
    words = [*PAIR, "engine.model=qwen2.5-math-7b", "verifier.model=skywork-prm-1.5b"]
    _, out, _ = plan(capsys, *words, "hardware.memory_gib=19")
    assert "moved" in out
    assert out.splitlines()[-1].endswith("verifier.offload=weights")


def test_a_generator_alone_has_one_row(capsys):
    code, out, _ = plan(capsys, "engine=sim", "task=simulated", "engine.memory.step=700")
    assert code == 0
    assert "No verifier has a model" in out
    assert "steps of 700 tokens" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["engine.memory=on"], "error: engine.memory: "),
        (["engine.memory.methd=linear"], "Did you mean 'method'?"),
        (
            ["engine.memory.method=lineal"],
            "error: engine.memory.method: the text 'lineal' is not allowed here. Did you mean 'linear'?",
        ),
        (["engine.memory.share=2"], "error: engine.memory.share: "),
        (["engine.modell=x"], "'sim' has no setting 'modell'. Did you mean 'model'?"),
        (["verifier.model=skywork-prm"], "Did you mean 'skywork-prm-1.5b'?"),
        (["verifier.model=math-shepherd-7b", "hardware.memory_gib=13"], "error: engine.memory: "),
        (["hardware=rtx"], "rtx4090"),
    ],
)
def test_mistakes_are_explained(words, message, capsys):
    code, out, error = plan(capsys, *PAIR, *words)
    assert (code, out) == (2, "")
    assert message in error


def test_engines_without_a_cache_are_refused(capsys):
    code, _, error = plan(capsys, "engine=fake")
    assert code == 2
    assert "`fake` has no KV cache that could be planned; engine=sim and engine=vllm have one" in error


@pytest.mark.slow
def test_it_takes_under_two_seconds_and_loads_no_model():
    code = (
        "import sys, time\nfrom ttsflow.cli import main\n"
        f"assert main(['plan', *{PAIR!r}, 'verifier.model=math-shepherd-7b']) == 0\n"
        "print(time.process_time(), *{'torch', 'vllm', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, *loaded = done.stdout.splitlines()[-1].split()
    assert not loaded
    # Of this process alone: the clock on the wall also counts what else the machine does.
    assert float(seconds) < 2
