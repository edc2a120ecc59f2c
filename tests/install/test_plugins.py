"""The plugins of this repository, built and installed beside a wheel of ttsflow, as a stranger would."""

import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.install

PLUGINS = Path(__file__).parents[2] / "plugins"
NAMES = sorted(folder.name for folder in PLUGINS.iterdir() if (folder / "pyproject.toml").is_file())

#: A strategy of each, and what it needs besides.
RUNS = {
    "ttsflow-example": ["strategy=trimmed_majority"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_plugin_is_found_listed_run_swept_and_tested(
    name, call, wheel, build, install, environment, tmp_path
):
    folder = tmp_path / "a copy" / name
    shutil.copytree(PLUGINS / name, folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    install(wheel, build(folder))
    script, python, home = environment / "bin" / "ttsflow", environment / "bin" / "python", tmp_path / "home"
    home.mkdir()
    where = call(python, "-c", "import ttsflow; print(ttsflow.__file__)", cwd=home)
    assert str(environment) in where
    told = call(script, "plugins", cwd=home)
    assert name in told
    assert "problem" not in told
    strategy = RUNS[name][0].partition("=")[2]
    listed = call(script, "list", "strategy", cwd=home).splitlines()
    assert any(line.split()[:2] == [strategy, name] for line in listed)
    run = [*RUNS[name], "engine=fake", "limit=2"]
    call(script, "run", "-q", *run, "hydra.run.dir=one run", cwd=home)
    summary = json.loads((home / "one run" / "summary.json").read_text())
    assert (summary["status"], summary["strategy"], summary["problems"]) == ("complete", strategy, 2)
    call(script, "run", "-q", "-m", *run, "strategy.n=2,4", "hydra.sweep.dir=sweep", cwd=home)
    assert len(list((home / "sweep").glob("*/summary.json"))) == 2
    # Its own tests, from its own folder, with nothing of this repository around it.
    call(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder / "tests", "-c", "/dev/null", cwd=folder)
