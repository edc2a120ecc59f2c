"""MLflow and Weights & Biases for real, into files; see ``make test-extras``."""

import json
import os
import subprocess
import sys

import pytest

from ttsflow import cli
from ttsflow.engines import warm

pytestmark = [
    pytest.mark.extras,
    # Libraries of others, which warn of each other.
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
]

WORDS = ["run", "-q", "engine=fake", "limit=4", "strategy.n=2", "hydra.run.dir=mine"]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    warm.close_all()


def test_mlflow_keeps_settings_figures_and_files(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    assert cli.main([*WORDS, "logger=mlflow", "logger.experiment=sums"]) == 0
    summary = json.loads((tmp_path / "mine" / "summary.json").read_text())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    client = mlflow.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    experiment = client.get_experiment_by_name("sums")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("mine", "FINISHED")
    assert run.data.params["limit"] == "4"
    assert run.data.params["choices.strategy"] == "majority"
    assert run.data.metrics["usage.decoded_tokens"] == summary["usage"]["decoded_tokens"]
    assert run.data.metrics["accuracy"] == summary["accuracy"]
    steps = [one.step for one in client.get_metric_history(run.info.run_id, "decoded_tokens_so_far")]
    assert steps == [1, 2, 3, 4]
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"summary.json", "config.yaml"}


def test_mlflow_that_cannot_be_reached_ends_no_run(tmp_path):
    pytest.importorskip("mlflow")
    (tmp_path / "mlruns").write_text("not a folder")
    with pytest.warns(UserWarning, match="the logger MLflow failed and is told no more"):
        assert cli.main([*WORDS, "logger=mlflow"]) == 0


def test_wandb_keeps_a_run_offline(tmp_path):
    pytest.importorskip("wandb")
    # In a process of its own: it leaves a service running until its process ends.
    command = [sys.executable, "-m", "ttsflow.cli", *WORDS, "logger=wandb"]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "WANDB_ERROR_REPORTING": "false"},
    )
    assert done.returncode == 0, done.stderr
    assert "failed" not in done.stderr
    (kept,) = (tmp_path / "mine" / "wandb").glob("offline-run-*")
    (file,) = kept.glob("run-*.wandb")
    said = file.read_bytes()
    for word in (b"decoded_tokens_so_far", b"usage.decoded_tokens", b"arithmetic", b"mine"):
        assert word in said
    assert json.loads((tmp_path / "mine" / "summary.json").read_text())["status"] == "complete"
