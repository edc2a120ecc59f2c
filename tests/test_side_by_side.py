"""The runner that shares test files between processes."""

import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

RUNNER = Path(__file__).parent / "side_by_side.py"
_names = runpy.run_path(str(RUNNER))
Share, side_by_side = _names["Share"], _names["side_by_side"]

SHARED = """
import pytest

@pytest.fixture(scope="session")
def note():
    with open({log!r}, "a") as file:
        yield lambda word: file.write(word + "\\n")
        file.write("closed\\n")
"""
FILE = """
import pytest

@pytest.mark.parametrize("x", range(3))
def test_x(x, note):
    note(f"{name} {{x}}")
    assert x != {wrong}
"""


@pytest.fixture
def write(tmp_path):
    """Write eight test files in three folders; return folder and the file where tests note themselves."""

    def make(wrong):
        log = tmp_path / "log"
        for number in range(8):
            folder = tmp_path / "tests" / f"part_{number % 3}"
            folder.mkdir(parents=True, exist_ok=True)
            text = FILE.format(name=number, wrong=wrong if number == 5 else -1)
            (folder / f"test_{number}.py").write_text(text)
        (tmp_path / "tests" / "conftest.py").write_text(SHARED.format(log=str(log)))
        (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
        return tmp_path, log

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("wrong", "code"), [(-1, 0), (1, 1)])
def test_every_test_runs_once_and_a_failure_is_told(write, wrong, code, capfd):
    folder, log = write(wrong)
    assert side_by_side(["-q", f"--rootdir={folder}", str(folder)], 2) == code
    lines = Counter(log.read_text().split("\n"))
    assert all(lines[f"{number} {x}"] == 1 for number in range(8) for x in range(3))
    # What a session shares lives until its end, in each process.
    assert 1 <= lines["closed"] <= 2
    assert ("test_5.py::test_x[1]" in capfd.readouterr().out) == bool(code)


def test_a_file_belongs_to_the_first_that_takes_it(tmp_path):
    one, other = Share(tmp_path), Share(tmp_path)
    files = [Path(f"/a/{name}.py") for name in "pqrs"]
    assert [one._takes(file) for file in files[:2]] == [True, True]
    assert [other._takes(file) for file in files] == [False, False, True, True]
    assert [one._takes(file) for file in files] == [True, True, False, False]


@pytest.mark.slow
def test_what_needs_an_engine_is_the_first_ones(write, capfd):
    folder, log = write(-1)
    for number in (3, 6, 7):
        file = folder / "tests" / f"part_{number % 3}" / f"test_{number}.py"
        file.write_text(
            file.read_text().replace("import pytest\n", "import pytest\npytestmark = pytest.mark.engine\n")
        )
    with (folder / "pytest.ini").open("a") as settings:
        settings.write("markers =\n    engine: needs a model\n")
    (folder / "tests" / "conftest.py").write_text(
        SHARED.format(log=str(log))
        .replace('word + "', 'f"{os.getpid()} {word}" + "')
        .replace("import", "import os,", 1)
    )
    assert side_by_side(["-q", f"--rootdir={folder}", str(folder)], 2) == 0
    capfd.readouterr()
    lines = [line.split() for line in log.read_text().splitlines() if line != "closed"]
    assert len(lines) == 24
    one = {process for process, name, _ in lines if name in {"3", "6", "7"}}
    assert len(one) == 1
    assert [name for process, name, _ in lines if process in one][:9] == list("333666777")


@pytest.mark.slow
def test_tests_that_cannot_be_collected_fail(write):
    folder, _ = write(-1)
    (folder / "tests" / "part_0" / "test_bad.py").write_text("import nothing_of_this_name\n")
    told = subprocess.run(
        [sys.executable, RUNNER, "-q", str(folder)], check=False, capture_output=True, text=True
    )
    assert told.returncode == 2
    assert "nothing_of_this_name" in told.stdout
