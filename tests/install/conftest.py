"""Builds wheels and makes environments to install them into."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = ("ttsflow", "conf", "pyproject.toml", "README.md", "LICENSE")


def _call(*command, cwd, code=0):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if not code else done.stderr


@pytest.fixture(scope="session")
def call():
    """Return a function that runs a command and returns what it printed."""
    return _call


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """Return a copy of the source tree, so that building leaves nothing behind in the real one."""
    folder = tmp_path_factory.mktemp("source dir")  # with a space, as people have them
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, folder / part)
    return folder


@pytest.fixture(scope="session")
def build(tmp_path_factory):
    """Return a function that makes a wheel of a folder."""

    def make(folder):
        made = tmp_path_factory.mktemp("dist")
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
        _call(*pip, "--wheel-dir", made, ".", cwd=folder)
        (wheel,) = made.glob("*.whl")
        return wheel

    return make


@pytest.fixture(scope="session")
def wheel(source, build):
    """Return a wheel of this ttsflow."""
    return build(source)


@pytest.fixture
def environment(tmp_path):
    """Return a new environment that sees the installed dependencies but not this ttsflow."""
    folder = tmp_path / "env"
    _call(sys.executable, "-m", "venv", "--without-pip", folder, cwd=tmp_path)
    site = next(folder.glob("lib/python*/site-packages"))
    # A path file adds the folders themselves; an editable install in them stays unseen.
    seen = dict.fromkeys([sysconfig.get_path("purelib"), *(p for p in sys.path if p.endswith("-packages"))])
    (site / "dependencies.pth").write_text("".join(f"{path}\n" for path in seen))
    return folder


@pytest.fixture
def install(environment, tmp_path):
    """Return a function that installs wheels or folders into the environment."""

    def into(*what):
        pip = (sys.executable, "-m", "pip", "--python", environment / "bin" / "python", "--quiet")
        _call(*pip, "install", "--no-deps", "--no-index", "--no-build-isolation", *what, cwd=tmp_path)

    return into
