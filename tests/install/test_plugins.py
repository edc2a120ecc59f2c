"""The plugins of this repository, built and installed beside a wheel of ttsflow, as a stranger would."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

# A busy machine takes minutes to build and compile.
pytestmark = [pytest.mark.install, pytest.mark.timeout(1200)]

PLUGINS = Path(__file__).parents[2] / "plugins"
NAMES = sorted(folder.name for folder in PLUGINS.iterdir() if (folder / "pyproject.toml").is_file())

#: A strategy of each, and what it needs besides.
RUNS = {
    "ttsflow-example": ["strategy=trimmed_majority"],
    "ttsflow-particles": ["strategy=particle_gibbs", "verifier=fake", "strategy.depth=4"],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_plugin_is_found_listed_run_swept_and_tested(  # noqa: PLR0917 - fixtures
    name, call, wheel, build, install, environment, tmp_path
):
    folder = tmp_path / "a copy" / name
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    shutil.copytree(PLUGINS / name, folder, ignore=left_out)
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
    for line in re.findall(r"^ttsflow (.+)", (PLUGINS / name / "README.md").read_text(), re.MULTILINE):
        call(script, *shlex.split(line), cwd=home)
    # Its own tests, from its own folder, with nothing of this repository around it.
    pytest_ = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "-m", "not slow")
    call(*pytest_, folder / "tests", cwd=folder)


def test_a_skeleton_is_installed_and_passes_its_own_tests(call, wheel, install, environment, tmp_path):
    install(wheel)
    script, python = environment / "bin" / "ttsflow", environment / "bin" / "python"
    told = call(script, "new", "plugin", "spelling", cwd=tmp_path)
    folder = tmp_path / told.splitlines()[0]
    install("-e", folder)
    call(
        python,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        folder / "tests",
        cwd=folder,
    )
    home = tmp_path / "home"
    home.mkdir()
    assert "spelling_majority  n=8 ties=first" in call(
        script, "check", "spelling_majority", "engine=fake", cwd=home
    )
