"""A pool outlives its processes: runs that are killed at any moment, and two that share it."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.run import run_config

WORDS = ("engine=fake", "task.size=120", "strategy.n=12", "sampling.max_tokens=200", "trace=false")


def started(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "ttsflow", "run", "-q", *WORDS, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "warning" not in errors.lower(), errors


def results(folder):
    """Return the results of a run by problem, without what a pool may change."""
    records = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    for record in records:
        record["usage"] = {
            key: value
            for key, value in record["usage"].items()
            if key not in {"seconds", "engine_steps", "reused"}
        }
        record["cost"] = {}
    return {record["id"]: record for record in records}


def query(file, text):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(text).fetchall()


def twin(folder, *words):
    assert run_config(compose([*WORDS, *words]), folder).status == "complete"
    return results(folder)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["majority", "ffs"])
def test_a_run_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path, strategy):
    file, rng, killed, kept = tmp_path / "samples.pool", random.Random(strategy), 0, 0
    words = [f"strategy={strategy}", f"engine.pool={file}"]
    for number in range(10):
        process = started(*words, f"hydra.run.dir={tmp_path / str(number)}")
        until = time.monotonic() + 20
        while process.poll() is None and not (tmp_path / str(number) / "summary.json").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        # From before the first sample to well into the run.
        time.sleep(rng.random() * 0.6)
        killed += process.poll() is None
        process.kill()
        process.communicate()
        if file.exists():
            assert query(file, "PRAGMA integrity_check") == [("ok",)]
            tables = query(file, "SELECT name FROM sqlite_master WHERE name = 'samples'")
            count = query(file, "SELECT count(*) FROM samples WHERE whole")[0][0] if tables else 0
            assert count >= kept, "a whole sample is lost"
            kept = count
    assert killed >= 5
    assert kept > 0
    process = started(*words, f"hydra.run.dir={tmp_path / 'last'}")
    ended(process)
    assert results(tmp_path / "last") == twin(tmp_path / "twin", f"strategy={strategy}")
    ((rows, keys),) = query(file, "SELECT count(*), count(DISTINCT key) FROM samples")
    assert rows == keys == 120 * 12
    work = json.loads((tmp_path / "last" / "summary.json").read_text())["work"]
    assert work["pool_found"] >= kept
    assert work["pool_unwritten"] == 0


@pytest.mark.slow
def test_two_processes_share_one_pool(tmp_path):
    """They begin at once on no file at all, one from either end, and meet."""
    file = tmp_path / "samples.pool"
    words = {"majority": [], "ffs": ["strategy.k=3"]}
    both = [
        started(f"strategy={name}", *more, f"engine.pool={file}", f"hydra.run.dir={tmp_path / name}")
        for name, more in words.items()
    ]
    for process in both:
        ended(process)
    for name, more in words.items():
        found = results(tmp_path / name)
        assert found == twin(tmp_path / f"twin-{name}", f"strategy={name}", *more)
        work = json.loads((tmp_path / name / "summary.json").read_text())["work"]
        assert work["pool_unwritten"] == 0
    assert query(file, "PRAGMA integrity_check") == [("ok",)]
    most = "SELECT count(*), count(DISTINCT key), sum(whole OR length = 200) FROM samples"
    assert query(file, most) == [(120 * 12,) * 3]
    again = [
        started(f"strategy={name}", *more, f"engine.pool={file}", f"hydra.run.dir={tmp_path / f'{name}2'}")
        for name, more in words.items()
    ]
    for process in again:
        ended(process)
    for name in words:
        usage = json.loads((tmp_path / f"{name}2" / "summary.json").read_text())["usage"]
        assert usage["reused_tokens"] == usage["output_tokens"] + usage["aborted_tokens"] > 0
        assert results(tmp_path / f"{name}2") == results(tmp_path / name)


# --- in one process -----------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    """Return what runs a config on a small task and returns its summary."""

    def run(name, *words):
        return run_config(compose(["engine=fake", "limit=3", *words]), tmp_path / name)

    return run


@pytest.mark.slow
def test_a_run_again_is_the_same_run_and_says_what_came_from_the_pool(run, tmp_path):
    words = ("strategy=ffs", "strategy.n=6", "strategy.k=2")
    plain = run("plain", *words)
    first, second = (run(name, *words, f"engine.pool={tmp_path / 'a.pool'}") for name in ("one", "two"))
    assert plain.fingerprint == first.fingerprint == second.fingerprint
    assert results(tmp_path / "two") == results(tmp_path / "one") == results(tmp_path / "plain")
    assert (plain.usage["reused_tokens"], first.usage["reused_tokens"]) == (0, 0)
    assert second.usage["reused_tokens"] == second.usage["decoded_tokens"] == plain.usage["decoded_tokens"]
    assert first.work["pool_written"] == first.work["pool_missed"] == second.work["pool_found"] == 18
    assert "pool_found" not in plain.work


@pytest.mark.slow
def test_with_all_else_that_makes_a_run_faster(run, tmp_path):
    words = (
        "strategy=beam_search",
        "strategy.n=8",
        "strategy.width=2",
        "verifier=fake",
        "engine.capacity=24",
    )
    faster = ("engine.prefix_order=true", "engine.speculation={curve: false}", "engine.eager_verify=true")
    run("plain", *words)
    drop = {"adopted", "dropped", "decoded", "verifier"}
    told = []
    for name in ("one", "two"):
        summary = run(name, *words, *faster, f"engine.pool={tmp_path / 'a.pool'}", "engine.check_exact=1")
        assert summary.exact == {"checked": 3, "differ": [], "skipped": 0}
        told.append(summary)
    assert told[1].usage["reused_tokens"] == told[1].usage["output_tokens"] > 0
    assert told[1].work["begun_early"] > 0
    for one in ("one", "two"):
        for name, record in results(tmp_path / "plain").items():
            other = results(tmp_path / one)[name]
            assert {**other, "usage": 0} == {**record, "usage": 0}
            assert all(other["usage"][key] == record["usage"][key] for key in {*record["usage"]} - drop)


@pytest.mark.slow
def test_a_budget_is_spent_by_what_is_played_as_by_what_is_decoded(run, tmp_path):
    words = ("strategy=majority", "strategy.n=6", "budget.problem.tokens=60", "concurrency=1")
    run("plain", *words)
    for name in ("one", "two"):
        run(name, *words, f"engine.pool={tmp_path / 'a.pool'}")
        assert results(tmp_path / name) == results(tmp_path / "plain")


@pytest.mark.slow
def test_a_pool_that_cannot_be_is_told_before_anything_is_written(run, tmp_path):
    for pool, message in {
        tmp_path: "is a folder",
        tmp_path / "no" / "a.pool": "does not exist",
    }.items():
        with pytest.raises(ConfigError, match=message):
            run("never", f"engine.pool={pool}")
    for engine, more in {"replay": ["task=recorded"], "sim": ["task=simulated"]}.items():
        with pytest.raises(ConfigError, match="have a pool, such as engine=vllm") as caught:
            run_config(
                compose([f"engine={engine}", *more, f"engine.pool={tmp_path / 'a'}"]), tmp_path / "never"
            )
        assert caught.value.path == "engine.pool"
    assert not (tmp_path / "never").exists()
    assert not (tmp_path / "a").exists()


def test_a_pool_that_fails_midway_costs_no_answer(run, tmp_path, monkeypatch):
    from ttsflow.engines.sample_store import SampleStore

    run("plain", "strategy.n=4")
    write, calls = SampleStore._write, []

    def full(self, added):
        calls.append(1)
        if len(calls) > 2:
            raise sqlite3.OperationalError("database or disk is full")
        return write(self, added)

    monkeypatch.setattr(SampleStore, "_write", full)
    with pytest.warns(UserWarning, match="goes on without it") as told:
        summary = run("here", "strategy.n=4", f"engine.pool={tmp_path / 'a.pool'}")
    assert len([one for one in told if "goes on" in str(one.message)]) == 1
    assert results(tmp_path / "here") == results(tmp_path / "plain")
    assert summary.work["pool_unwritten"] > 0
    assert summary.work["pool_written"] + summary.work["pool_unwritten"] == 12
