"""The command line: exit codes, messages, and how quick it answers."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ttsflow import cli, config, plugins
from ttsflow.build import build
from ttsflow.recordings import Recording, Sample, write_recordings

FAKE = ["engine=fake", "limit=2", "strategy.n=2"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(*argv):
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "ttsflow.cli", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def quick(code, seconds):
    """Run code that prints how long it took and what should not be loaded, up to three times."""
    took = []
    while len(took) < 3 and min(took, default=seconds) >= seconds:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        time_taken, *loaded = done.stdout.splitlines()[-1].split()
        assert not loaded
        took.append(float(time_taken))
    assert min(took) < seconds


# --- answers without a run --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["run", "--help"]])
def test_help_is_quick_and_loads_nothing_heavy(argv):
    code = (
        "import sys, time\nt = time.perf_counter()\nfrom ttsflow.cli import main\n"
        f"try: main({argv!r})\nexcept SystemExit as end: assert not end.code\n"
        "print(time.perf_counter() - t, *{'hydra', 'torch', 'vllm', 'rich', 'omegaconf'} & set(sys.modules))"
    )
    quick(code, seconds=1)


@pytest.mark.slow
def test_the_console_script_reports_its_version():
    script = Path(sys.executable).with_name("ttsflow")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("ttsflow 0.")


@pytest.mark.slow
def test_the_exit_code_and_the_message_leave_the_process():
    done = run("lst")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: there is no command 'lst'.")


@pytest.mark.slow
def test_list_shows_every_part(capsys):
    assert cli.main(["list"]) == 0
    shown = capsys.readouterr().out
    for entry in plugins.load().choices():
        assert f" {entry.name} " in shown


def test_list_shows_config_files_that_are_no_parts_own(capsys):
    assert cli.main(["list", "task"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert {"gsm8k", "arithmetic", "jsonl"} <= set(names)
    assert len(names) == len(set(names))
    assert cli.main(["list", "sampling"]) == 0
    assert "greedy" in capsys.readouterr().out


def test_list_of_strategies_shows_source_and_cost(capsys):
    assert cli.main(["list", "strategy"]) == 0
    shown = capsys.readouterr().out
    assert "2505.18149" in shown
    assert "source" in shown.splitlines()[0]
    assert "cost" in shown.splitlines()[0]


def test_explain_prints_what_can_be_built_again(capsys):
    assert cli.main(["explain", "strategy=beam_search", "strategy.n=8"]) == 0
    out = capsys.readouterr().out
    assert yaml.safe_load(out)["n"] == 8
    printed = config.strategy_of(yaml.safe_load(out))
    registry = plugins.load()
    mapping = config.compose(["strategy=beam_search", "strategy.n=8"])["strategy"]
    assert build("stage", printed, "", registry) == build("stage", mapping, "", registry)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["beam_search", "ffs", "recipe", "dvts", "majority", "dynasor"])
def test_what_explain_prints_has_the_variables_of_the_file_and_can_be_changed_by_them(name, capsys, tmp_path):
    assert cli.main(["explain", f"strategy={name}"]) == 0
    file = tmp_path / "mine" / "strategy" / "printed.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(capsys.readouterr().out)
    shipped = config.compose([f"strategy={name}"])
    assert yaml.safe_load(file.read_text()).items() >= shipped["variables"].items()
    words = [f"strategy.{key}={value}" for key, value in {"n": 8}.items() if key in shipped["variables"]]
    printed = config.compose(["strategy=printed", *words], str(tmp_path / "mine"))
    assert printed["variables"] == shipped["variables"] | ({"n": 8} if words else {})
    registry = plugins.load()
    changed = config.compose([f"strategy={name}", *words])["strategy"]
    assert build("stage", printed["strategy"], "", registry) == build("stage", changed, "", registry)


def test_plugins_shows_what_is_broken_and_why(install, hook, capsys):
    install("broken-plugin", "raise RuntimeError('boom [red]')")
    install("good-plugin", hook("registry.add('watch', 'w', 'x:Y')"), version="3.1")
    assert cli.main(["plugins"]) == 0
    shown = capsys.readouterr().out
    assert "boom [red]" in shown
    row = next(line for line in shown.splitlines() if line.startswith("good-plugin"))
    assert row.split() == ["good-plugin", "good-plugin", "3.1", "ok", "1", "watch"]


def test_a_broken_plugin_is_a_warning_elsewhere(install, capsys):
    install("broken-plugin", "raise RuntimeError('boom')")
    assert cli.main(["list", "watch"]) == 0
    assert capsys.readouterr().err.startswith("warning: plugin 'broken-plugin'")


# --- mistakes ---------------------------------------------------------------------------------------


def test_without_a_command_the_help_is_shown(capsys):
    assert cli.main([]) == 2
    assert "explain" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["lst"], "there is no command 'lst'. Did you mean 'list'?"),
        (["list", "strategie"], "there is no kind of part 'strategie'. Did you mean 'strategy'?"),
        (["run", "--n", "256"], "Settings are written key=value, without dashes."),
        (["run", "strategy=nosuch"], "error: strategy: there is no strategy 'nosuch'. Known: adaptive"),
        (["run", "strategy.nn=4"], "error: strategy.nn: "),
        (["run", *FAKE, "+nn=8"], "error: nn: there is no setting 'nn'."),
        (["run", *FAKE, "limit=none"], "error: limit: a whole number or null is wanted, got the text 'none'"),
        (["run", *FAKE, "sampling.stop='\\n'"], "error: sampling.stop.0: "),
        (["run", *FAKE, "strategy=best_of_n"], "no verifier is set"),
        (["run", *FAKE, "strategy=a,b"], "To sweep over them, add -m."),
        (["run", *FAKE, "hydra.sweep.dir=x"], "a single run does not read it; set hydra.run.dir."),
        (["run", "-m", *FAKE, "hydra.run.dir=x"], "a sweep does not read it; set hydra.sweep.dir."),
        (["run", "-m", *FAKE, "n=[1"], "cannot be read"),
        (["run", "--config-dir", "nowhere", *FAKE], "there is no folder 'nowhere'"),
        (["explain", "strategy.n=1e3"], "error: strategy.stages.sample.n: a whole number is wanted"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(argv, message, capsys):
    try:
        code = cli.main(argv)
    except SystemExit as end:
        code = end.code
    shown = capsys.readouterr()
    assert code == 2
    assert message in shown.err
    assert shown.err.startswith("error: ")
    assert "Traceback" not in shown.err
    assert shown.out == ""
    assert list(Path().iterdir()) == [], "nothing is written for a run that cannot start"


@pytest.mark.slow
def test_a_mistake_is_told_within_three_seconds_and_without_loading_a_model():
    code = (
        "import sys, time\nt = time.perf_counter()\nfrom ttsflow.cli import main\n"
        "assert main(['run', 'strategy.stages.sample.n=x']) == 2\n"
        "print(time.perf_counter() - t, *{'torch', 'vllm'} & set(sys.modules))"
    )
    quick(code, seconds=3)


# --- one run ----------------------------------------------------------------------------------------


def test_a_run_writes_its_folder_and_says_where(capsys):
    assert cli.main(["run", *FAKE, "hydra.run.dir=here"]) == 0
    assert sorted(path.name for path in Path("here").iterdir()) == [
        "config.yaml",
        "results.jsonl",
        "summary.json",
        "trace.jsonl",
    ]
    shown = capsys.readouterr().out
    assert "results in here" in shown
    assert "complete" in shown
    assert yaml.safe_load(Path("here/config.yaml").read_text())["variables"]["n"] == 2


def test_a_quiet_run_prints_only_its_folder(capsys):
    assert cli.main(["run", "-q", *FAKE, "hydra.run.dir=here"]) == 0
    assert capsys.readouterr().out == "results in here\n"


@pytest.mark.slow
def test_the_default_folder_is_new_each_time(capsys):
    assert cli.main(["run", *FAKE]) == 0
    assert cli.main(["run", *FAKE]) == 0
    capsys.readouterr()
    assert len(list(Path("outputs").glob("*/*/summary.json"))) == 2


def test_a_run_that_dies_has_exit_code_1(capsys):
    assert cli.main(["run", *FAKE, "engine.dies_after=2", "hydra.run.dir=here"]) == 1
    assert json.loads(Path("here/summary.json").read_text())["status"] == "failed"
    assert capsys.readouterr().err.startswith("error: ")


def test_options_may_stand_between_settings(tmp_path, capsys):
    folder = tmp_path / "my configs" / "strategy"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("defaults: [majority, _self_]\nn: 3\n")
    argv = ["run", "strategy=mine", "--config-dir", "my configs", "engine=fake", "-q", "limit=1"]
    assert cli.main([*argv, "hydra.run.dir=here"]) == 0
    capsys.readouterr()
    assert json.loads(Path("here/summary.json").read_text())["strategy"] == "mine"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_a_valid_folder(number, code):
    # Enough problems for the run to be in its middle when the signal comes.
    argv = ["run", "engine=fake", "task.size=10000", "strategy.n=2", "hydra.run.dir=here"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ttsflow.cli", *argv],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    results = Path("here/results.jsonl")
    deadline = time.monotonic() + 100
    while not (results.exists() and results.stat().st_size) and time.monotonic() < deadline:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.05)
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    summary = json.loads(Path("here/summary.json").read_text())
    assert summary["status"] == "partial"
    assert summary["problems"] == len(results.read_text().splitlines())


@pytest.mark.slow
def test_a_reader_that_stops_early_is_no_error():
    script = f"{sys.executable} -m ttsflow.cli list | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] in ("0", "141")
    assert done.stderr == ""


@pytest.mark.slow
def test_a_run_is_continued_when_that_is_asked_for(capsys):
    words = ["run", "-q", *FAKE, "hydra.run.dir=here"]
    assert cli.main(words) == 0
    results = Path("here/results.jsonl")
    whole = sorted(json.loads(line)["text"] for line in results.read_text().splitlines())
    os.truncate(results, 20)
    assert cli.main(words) == 2
    assert "With --resume the same run goes on." in capsys.readouterr().err
    assert cli.main([*words, "--resume"]) == 0
    assert sorted(json.loads(line)["text"] for line in results.read_text().splitlines()) == whole
    assert cli.main([*words, "--resume", "seed=3"]) == 2
    assert "seed was 0 and is 3" in capsys.readouterr().err


# --- paths and outputs ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["show", "profile", "replay-table"])
def test_a_path_that_no_system_takes_is_an_error_and_no_traceback(command, capsys):
    for path in ("x" * 5000, "~nobody-of-this-name/x"):
        assert cli.main([command, path]) == 2
        assert capsys.readouterr().err.startswith("error: ")


def shell(line):
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_closed_output_and_a_reader_that_has_seen_enough(tmp_path):
    samples = tuple(Sample(f"{i % 3}", 5 + i, i % 3 == 0, "stop") for i in range(8))
    recordings = [Recording(f"m/{i}/0", samples, model="m", dataset=f"d{i}", gold="0") for i in range(9)]
    write_recordings(tmp_path / "t.jsonl", recordings)
    code = "import sys; from ttsflow.cli import main; sys.exit(main(['replay-table', 't.jsonl']))"
    command = f'"{sys.executable}" -c "{code}"'
    closed = shell(f"{command} >&-")
    assert (closed.returncode, closed.stderr) == (0, "")
    assert shell(f"({command}; echo $? >&2) | head -1 >/dev/null").stderr.strip() in {"141", "0"}


@pytest.mark.slow
def test_without_a_file_the_recording_of_the_package_is_read(capsys):
    assert cli.main(["replay-table", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 8
