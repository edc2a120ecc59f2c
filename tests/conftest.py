"""Fixtures that several test modules share."""

import gc
import importlib
import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import is_hypothesis_test, settings

from ttsflow import plugins

# A busy machine is no reason for a test to fail; pytest's own timeout ends what hangs.
settings.register_profile("ttsflow", deadline=None)
settings.load_profile("ttsflow")


def pytest_addoption(parser):
    """Add what `make test-fast` gives: a property is tried on fewer examples than it asks for."""
    parser.addoption("--most-examples", type=int, metavar="N", help="at most N examples of each property")


def pytest_collection_modifyitems(config, items):
    """Hold every property to ``--most-examples``; without it each has as many as it asks for."""
    most = config.getoption("--most-examples")
    for test in {
        item.function for item in items if most and is_hypothesis_test(getattr(item, "function", None))
    }:
        asked = test._hypothesis_internal_use_settings
        fewer = min(most, asked.max_examples)
        test._hypothesis_internal_use_settings = settings(asked, max_examples=fewer)


def pytest_collection_finish():
    """Spare the garbage collector the modules and tests themselves, which all stay until the end.

    It looks as seldom as under the command: looking took a twelfth of the time of all tests.
    """
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install distributions that exist for one test: ``install(name, source, files)``.

    Each is a package with an entry point in ttsflow's group, found as any installed one is.
    """
    site = tmp_path / "site packages"
    site.mkdir()
    before = set(sys.modules)

    def make(name, source, files=None, version="1.0"):
        package = name.replace("-", "_")
        folder = site / package
        folder.mkdir()
        (folder / "__init__.py").write_text(source)
        for path, text in (files or {}).items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        info = site / f"{package}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[ttsflow]\n{name} = {package}\n")
        importlib.invalidate_caches()
        return plugins.reload()

    monkeypatch.syspath_prepend(str(site))
    yield make
    plugins._loaded.cache_clear()
    for module in set(sys.modules) - before:
        origin = getattr(sys.modules[module], "__file__", None) or ""
        if str(site) in origin:
            del sys.modules[module]


HOOK = "from ttsflow.hookspecs import hookimpl\n@hookimpl\ndef ttsflow_register(registry):\n"


@pytest.fixture
def hook():
    """Return the source of a plugin whose hook consists of the given lines."""

    def source(*lines):
        return HOOK + "".join(f"    {line}\n" for line in lines)

    return source


_SHOWN = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="session")
def shown():
    """Return the code blocks that a page of the documentation shows, as (language, text), in order."""

    def read(page):
        return _SHOWN.findall((Path(__file__).parent.parent / "docs" / page).read_text())

    return read


@pytest.fixture(scope="session")
def recipes(shown, tmp_path_factory):
    """Return a folder of configs with every file that the page of recipes shows."""
    target = tmp_path_factory.mktemp("recipes") / "my conf"
    for language, text in shown("recipes.md"):
        match = re.match(r"# conf/(\w+)/(\w+)\.yaml\n", text)
        if language == "yaml" and match:
            (target / match[1]).mkdir(parents=True, exist_ok=True)
            (target / match[1] / f"{match[2]}.yaml").write_text(text)
    return target


@pytest.fixture(scope="session")
def data_file():
    """Return a file of the test data, such as ``traces/expected.json``; without it the test is skipped."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("TTSFLOW_TEST_DATA") or beside)

    def find(name):
        if not (folder / name).is_file():
            pytest.skip(f"no {name} in {folder}; set TTSFLOW_TEST_DATA to the folder with the test data")
        return folder / name

    return find


@pytest.fixture
def write_run(tmp_path):
    """Write the folder of a run: ``write_run(name, rows, strategy=..., **files)``.

    ``rows`` are, by problem id, whether it is right, or keys of its result; what is not given is made up.
    ``config`` and ``summary`` change what is written of them.
    """

    def make(name, rows, *, strategy="majority", n=4, status="complete", config=None, summary=None):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        choices = {"strategy": strategy, "task": "sums", "engine": "fake"}
        settings = {
            "strategy": {"use": "sequence"},
            "variables": {"n": n},
            "task": {"use": "sums"},
            "seed": 0,
        }
        settings |= {"engine": {"use": "fake"}, "choices": choices, **(config or {})}
        (folder / "config.yaml").write_text(yaml.safe_dump(settings))
        told = {**choices, "status": status, "planned": len(rows), "error": None, **(summary or {})}
        (folder / "summary.json").write_text(json.dumps(told))
        lines = []
        for problem, given in rows.items():
            keys = {"correct": given} if isinstance(given, bool) or given is None else dict(given)
            usage = {"decoded": 100, "serial": 50, "seconds": 2.0, "joules": None, **keys.pop("usage", {})}
            row = {
                "id": problem,
                "outcome": "answered",
                "answer": "7",
                "gold": "7",
                "candidates": n,
                "truncated": 0,
            }
            lines.append(json.dumps({**row, "usage": usage, **keys}))
        (folder / "results.jsonl").write_text("".join(f"{line}\n" for line in lines))
        return folder

    return make
