"""A wheel, an editable install and the console script all find the shipped configs."""

import json
import zipfile
from pathlib import Path

import pytest

# A busy machine takes minutes to build and compile.
pytestmark = [pytest.mark.install, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]


def works(call, environment, cwd):
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


def test_a_wheel_works_anywhere(call, wheel, install, environment, tmp_path):
    names = zipfile.ZipFile(wheel).namelist()
    for folder, prefix in (("conf", "ttsflow/conf"), ("ttsflow", "ttsflow")):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in {".py", ".yaml", ".html", ".css", ".js"} or file.name == "py.typed":
                assert f"{prefix}/{file.relative_to(ROOT / folder)}" in names
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "docs"))]
    install(wheel)
    assert str(environment) in works(call, environment, tmp_path)


def test_an_editable_install_works_anywhere(call, source, install, environment, tmp_path):
    install("-e", source)
    assert str(source) in works(call, environment, tmp_path)
