"""Loggers are told of a run as it goes on, and what goes wrong in them ends none."""

import importlib.util
import json
import warnings
from dataclasses import dataclass

import pytest

from ttsflow.build import build, explain
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.errors import ConfigError, MissingExtra
from ttsflow.logger import Logger, LoggerPart
from ttsflow.loggers.figures import flat, running
from ttsflow.loggers.mlflow import MLflow
from ttsflow.loggers.plain import NoLogger
from ttsflow.loggers.wandb import WandB
from ttsflow.plugins import load
from ttsflow.run import run_config
from ttsflow.testing import FakeEngine
from ttsflow.types import Result, Usage

HEARD = []
WORDS = ["engine=fake", "limit=4", "strategy.n=2", "concurrency=2"]


class Recording:
    """Writes down what it is told; fails where it is said to."""

    def __init__(self, fails):
        self.fails = fails

    def _hear(self, what, told):
        HEARD.append((what, told))
        if self.fails == what:
            raise OSError("the server is away")

    def begin(self, config):
        self._hear("begin", config)

    def result(self, result):
        self._hear("result", result)

    def end(self, summary):
        self._hear("end", summary)


@dataclass(frozen=True, slots=True)
class Hearing:
    """A logger of the tests' own."""

    fails: str = ""
    needs: str | None = None

    def check(self):
        if self.needs:
            raise MissingExtra(self.needs)

    def open(self, folder):
        HEARD.append(("open", folder))
        if self.fails == "open":
            raise ImportError("no such library")
        return Recording(self.fails)


@pytest.fixture
def words(install, hook, monkeypatch):
    """Return the words of a run with a logger that an installed plugin offers."""
    HEARD.clear()
    source = hook(
        f"from {__name__.rpartition('.')[2]} import Hearing", "registry.add('logger', 'hearing', Hearing)"
    )
    monkeypatch.setitem(
        __import__("sys").modules, __name__.rpartition(".")[2], __import__("sys").modules[__name__]
    )
    install("hearing", source)
    yield [*WORDS, "logger=hearing"]
    warm.close_all()


@pytest.mark.slow
def test_a_logger_is_told_of_the_config_every_result_and_the_summary(words, tmp_path):
    summary = run_config(compose(words), tmp_path / "run")
    assert [what for what, _ in HEARD] == ["open", "begin", *["result"] * 4, "end"]
    told = dict(HEARD)
    assert told["open"] == tmp_path / "run"
    assert told["begin"]["limit"] == 4
    assert told["end"] == summary.as_dict()
    ids = [json.loads(line)["id"] for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    assert [one.id for what, one in HEARD if what == "result"] == ids


@pytest.mark.slow
def test_it_is_told_of_a_run_that_is_interrupted_and_of_what_is_kept(words, tmp_path, monkeypatch):
    step = FakeEngine.step

    def breaks(self):
        if self.steps > 60:
            raise KeyboardInterrupt
        return step(self)

    with monkeypatch.context() as patched:
        patched.setattr(FakeEngine, "step", breaks)
        with pytest.raises(KeyboardInterrupt):
            run_config(compose(words), tmp_path / "run")
    assert HEARD[-1][1]["status"] == "partial"
    kept = [one.id for what, one in HEARD if what == "result"]
    assert 0 < len(kept) < 4
    HEARD.clear()
    run_config(compose(words), tmp_path / "run", resume=True)
    assert [what for what, _ in HEARD] == ["open", "begin", *["result"] * 4, "end"]
    assert [one.id for what, one in HEARD if what == "result"][: len(kept)] == kept


@pytest.mark.slow
@pytest.mark.parametrize("fails", ["open", "begin", "result", "end"])
def test_a_logger_that_fails_is_warned_of_once_and_ends_no_run(fails, words, tmp_path):
    with pytest.warns(UserWarning, match="the logger Hearing failed and is told no more") as caught:
        summary = run_config(compose([*words, f"logger.fails={fails}"]), tmp_path / "run")
    assert len(caught) == 1
    assert (summary.status, summary.problems) == ("complete", 4)
    assert [what for what, _ in HEARD].count(fails) == 1
    assert HEARD[-1][0] == fails


@pytest.mark.slow
def test_what_a_logger_lacks_is_told_before_anything_opens(words, tmp_path):
    with pytest.raises(MissingExtra, match="install it"):
        run_config(compose([*words, "logger.needs='install it'"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_logger_changes_no_fingerprint(words):
    assert assemble(compose(words)).fingerprint == assemble(compose(WORDS)).fingerprint


@pytest.mark.slow
def test_the_default_tells_nobody(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_config(compose(WORDS), tmp_path / "run").status == "complete"
    assert assemble(compose(WORDS)).logger == NoLogger()
    assert NoLogger().open(tmp_path) is None


def test_settings_are_read_and_checked(tmp_path):
    registry = load()
    part = build("logger", {"use": "wandb", "mode": "online", "entity": "us"}, "logger", registry)
    assert part == WandB(entity="us", mode="online")
    assert build("logger", explain(part, registry), "logger", registry) == part
    with pytest.raises(ConfigError, match="offline"):
        build("logger", {"use": "wandb", "mode": "on"}, "logger", registry)
    with pytest.raises(ConfigError, match="mlflow"):
        compose(["logger=mlflo"])
    assert isinstance(part, LoggerPart)
    assert isinstance(Recording(""), Logger)


@pytest.mark.parametrize(("part", "package"), [(MLflow(), "mlflow"), (WandB(), "wandb")])
def test_without_the_package_the_extra_is_named(part, package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=rf"pip install 'ttsflow\[{package}\]'"):
        part.check()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    part.check()


def test_figures_are_flat_and_run_along():
    assert flat({"a": {"b": 1, "c": None}, "d": "x", "e": {}}) == {"a.b": 1, "d": "x"}
    told = running()

    def result(correct, output, serial):
        usage = Usage(output=output, serial=serial)
        return Result("p", None, "answered", correct, None, usage, {}, 1, 0)

    assert told(result(None, 5, 2)) == {"decoded_tokens_so_far": 5, "serial_tokens_so_far": 2}
    assert told(result(True, 5, 2))["accuracy_so_far"] == 1.0
    assert told(result(False, 1, 1)) == {
        "accuracy_so_far": 0.5,
        "decoded_tokens_so_far": 11,
        "serial_tokens_so_far": 5,
    }
