"""A wheel, an editable install and the console script all find the shipped configs."""

import json
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.install

ROOT = Path(__file__).parents[2]
PARTS = ("ttsflow", "conf", "pyproject.toml", "README.md", "LICENSE")


def call(*command, cwd):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return a copy of the source tree, so that building leaves nothing behind in the real one."""
    folder = tmp_path_factory.mktemp("source dir")  # with a space, as people have them
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


@pytest.fixture
def environment(tmp_path):
    """Return a new environment that sees the installed dependencies but not this ttsflow."""
    folder = tmp_path / "env"
    call(sys.executable, "-m", "venv", "--without-pip", folder, cwd=tmp_path)
    site = next(folder.glob("lib/python*/site-packages"))
    # A path file adds the folder itself; the editable install in it stays unseen.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def install(environment, source, *what):
    pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "--quiet")
    call(*pip, "install", "--no-deps", "--no-index", "--no-build-isolation", *what, cwd=source)


def works(environment, cwd):
    """Run every strategy's config and one sweep from an unrelated folder."""
    script, python = environment / "bin" / "ttsflow", environment / "bin" / "python"
    where = call(python, "-c", "import ttsflow; print(ttsflow.__file__)", cwd=cwd)
    listed = call(script, "list", "strategy", cwd=cwd)
    for file in (ROOT / "conf" / "strategy").glob("*.yaml"):
        assert file.stem in listed
    call(script, "run", "-q", "engine=fake", "strategy=ffs", "task.size=2", "hydra.run.dir=one run", cwd=cwd)
    summary = json.loads((cwd / "one run" / "summary.json").read_text())
    assert (summary["status"], summary["strategy"], summary["problems"]) == ("complete", "ffs", 2)
    call(python, "-m", "ttsflow", "run", "-q", "-m", "engine=fake", "strategy=single,majority", cwd=cwd)
    return where


def test_a_wheel_works_anywhere(source, environment, tmp_path):
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    call(*build, "--wheel-dir", tmp_path / "dist", ".", cwd=source)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for folder, prefix in (("conf", "ttsflow/conf"), ("ttsflow", "ttsflow")):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".yaml", ".html", ".css", ".js"} or file.name == "py.typed":
                assert f"{prefix}/{file.relative_to(ROOT / folder)}" in names
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "docs"))]
    install(environment, tmp_path, wheel)
    assert str(environment) in works(environment, tmp_path)


def test_an_editable_install_works_anywhere(source, environment, tmp_path):
    install(environment, source, "-e", ".")
    assert str(source) in works(environment, tmp_path)
