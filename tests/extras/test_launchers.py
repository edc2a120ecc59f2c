"""Installed launchers and sweepers of Hydra, each for real on a small sweep; see ``make test-extras``."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from ttsflow.runs.progress import read_plan

# Many processes, on a machine that may be busy: starting Ray alone takes half a minute.
pytestmark = [pytest.mark.extras, pytest.mark.timeout(1200)]

SWEEP = ["engine=fake", "limit=3", "strategy=majority,ffs", "strategy.n=4,8", "concurrency=1"]


def needs(name):
    plugins = importlib.util.find_spec("hydra_plugins")
    found = plugins and importlib.util.find_spec(f"hydra_plugins.{name}")
    return pytest.mark.skipif(not found, reason=f"{name} is not installed")


def run(*words, code=0):
    """Run a sweep in a process of its own and return what it printed."""
    # Without it Ray would leave a secret in the home of whoever runs the tests.
    surroundings = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "ttsflow.cli", "run", "-q", "-m", *words],
        capture_output=True,
        text=True,
        check=False,
        env=surroundings,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def results(folder):
    found = {}
    for _, overrides, path in read_plan(Path(folder)):
        for line in (path / "results.jsonl").read_text().splitlines():
            record = json.loads(line)
            usage = record["usage"]
            key = (frozenset(overrides), record["id"])
            assert key not in found
            found[key] = (record["answer"], record["text"], usage["decoded"], usage["serial"])
    return found


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return what the sweep comes to with Hydra's own launcher."""
    folder = tmp_path_factory.mktemp("plain") / "sweep"
    run(*SWEEP, f"hydra.sweep.dir={folder}")
    return results(folder)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(
            ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"],
            marks=needs("hydra_joblib_launcher"),
            id="joblib",
        ),
        pytest.param(
            ["hydra/launcher=submitit_local"], marks=needs("hydra_submitit_launcher"), id="submitit"
        ),
        pytest.param(
            ["hydra/launcher=ray", "+hydra.launcher.ray.init.num_cpus=2"],
            marks=needs("hydra_ray_launcher"),
            id="ray",
        ),
    ],
)
def test_a_launcher_runs_the_jobs_and_a_rerun_finishes_them(words, plain, tmp_path):
    sweep = [*SWEEP, *words, f"hydra.sweep.dir={tmp_path / 'sweep'}"]
    shown = run(*sweep)
    assert shown.startswith("4 jobs: 4 new\n")
    assert shown.count(" complete ") == 4
    assert results(tmp_path / "sweep") == plain
    # One job is cut, one has vanished: only they are run again.
    (_, _, cut), (_, _, gone), *_ = read_plan(tmp_path / "sweep")
    os.truncate(cut / "results.jsonl", 100)
    for file in gone.iterdir():
        file.unlink()
    again = run(*sweep)
    assert again.startswith("4 jobs: 1 new, 1 partial, 2 complete\n")
    assert results(tmp_path / "sweep") == plain


@needs("hydra_joblib_launcher")
def test_a_job_that_fails_in_another_process_stops_no_other(tmp_path):
    words = [
        "engine=fake",
        "limit=2",
        "strategy=nosuch,majority",
        "hydra/launcher=joblib",
        "hydra.launcher.n_jobs=2",
    ]
    shown = run(*words, f"hydra.sweep.dir={tmp_path / 'sweep'}", code=1)
    assert shown.count("failed") == 1
    states = [json.loads((path / "summary.json").read_text()) for _, _, path in read_plan(tmp_path / "sweep")]
    assert [state["status"] for state in states] == ["failed", "complete"]
    assert "there is no strategy 'nosuch'" in states[0]["traceback"]


OPTUNA = [
    "engine=replay",
    "task=recorded",
    "task.model=R1",
    "limit=20",
    "strategy=majority",
    "hydra/sweeper=optuna",
]


@needs("hydra_optuna_sweeper")
def test_optuna_finds_the_best_accuracy(tmp_path):
    folder = tmp_path / "sweep"
    words = [*OPTUNA, "strategy.n=choice(1,2,4)", "hydra.sweeper.n_trials=6", "hydra.sweeper.sampler.seed=1"]
    words.append("hydra.sweeper.direction=maximize")
    shown = run(*words, f"hydra.sweep.dir={folder}")
    # What was tried before is not run again.
    assert " complete  " in shown
    found = yaml.safe_load((folder / "optimization_results.yaml").read_text())
    accuracies = [json.loads(path.read_text())["accuracy"] for path in folder.glob("*/summary.json")]
    assert found["best_value"] == max(accuracies)


@needs("hydra_optuna_sweeper")
def test_optuna_finds_accuracy_up_and_tokens_down(tmp_path):
    folder = tmp_path / "sweep"
    words = [*OPTUNA, "strategy.n=choice(1,2,4)", "hydra.sweeper.n_trials=6", "hydra.sweeper.sampler.seed=1"]
    run(*words, "hydra.sweeper.direction=[maximize,minimize]", f"hydra.sweep.dir={folder}")
    found = yaml.safe_load((folder / "optimization_results.yaml").read_text())
    summaries = [json.loads(path.read_text()) for path in folder.glob("*/summary.json")]
    points = {(one["accuracy"], float(one["usage"]["decoded_tokens"])) for one in summaries}
    front = {
        (up, down)
        for up, down in points
        if not any((u, d) != (up, down) and u >= up and d <= down for u, d in points)
    }
    assert {tuple(one["values"]) for one in found["solutions"]} == front


@needs("hydra_optuna_sweeper")
def test_optuna_goes_on_when_a_trial_fails(tmp_path):
    words = [
        "engine=replay",
        "task=recorded",
        "task.model=R1",
        "limit=5",
        "strategy=ffs",
        "hydra/sweeper=optuna",
    ]
    more = ["strategy.n=choice(2,4)", "hydra.sweeper.n_trials=8", "hydra.sweeper.sampler.seed=1"]
    shown = run(*words, *more, f"hydra.sweep.dir={tmp_path / 'sweep'}", code=1)
    assert " failed" in shown
    found = yaml.safe_load((tmp_path / "sweep" / "optimization_results.yaml").read_text())
    assert found["best_params"] == {"strategy.n": 4}
