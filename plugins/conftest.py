"""Lets the plugins of this folder be found as if they were installed, each by its own tests alone."""

import importlib
import tomllib
from pathlib import Path

import pytest

from ttsflow import plugins

HERE = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def _installed(request, tmp_path_factory):
    folder = HERE / request.path.relative_to(HERE).parts[0]
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    site = tmp_path_factory.mktemp("site packages")
    info = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["ttsflow"].items()
    (info / "entry_points.txt").write_text(
        "[ttsflow]\n" + "".join(f"{name} = {value}\n" for name, value in points)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        importlib.invalidate_caches()
        plugins.reload()
        yield
    plugins._loaded.cache_clear()
