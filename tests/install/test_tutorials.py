"""The tutorials keep their word on lengths; a script follows them literally."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("strategy", "plugin", "sweep")


def files(blocks):
    """Return the files that a tutorial shows, by path; the line that names one is not part of it."""
    found = {}
    for language, text in blocks:
        head, _, rest = text.partition("\n")
        if language in {"yaml", "toml", "python"}:
            found[head.removeprefix("# ")] = rest
    return found


def lines(text):
    return len(text.strip().splitlines())


def test_a_strategy_has_at_most_ten_lines(shown):
    ((path, text),) = files(shown("tutorials/strategy.md")).items()
    assert path == "conf/strategy/sure.yaml"
    assert lines(text) <= 10


def test_a_plugin_has_at_most_thirty_lines_in_two_files(shown):
    package = {
        path: text for path, text in files(shown("tutorials/plugin.md")).items() if "test_" not in path
    }
    assert len(package) == 2
    assert sum(map(lines, package.values())) <= 30
    assert sum(bool(line.strip()) for text in package.values() for line in text.splitlines()) <= 25


@pytest.mark.install
@pytest.mark.timeout(1200)  # a busy machine takes minutes to build and compile
@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_is_followed_from_an_empty_environment(  # noqa: PLR0917 - fixtures
    page, shown, wheel, environment, install, tmp_path
):
    install(wheel)
    pip = environment / "bin" / "pip"
    # There is no network, and what ttsflow needs is there; else it is the command as one types it.
    into = f'-m pip --python "{environment}/bin/python" -q install'
    options = '--no-deps --no-index --no-build-isolation "$@"'
    pip.write_text(f'#!/bin/sh\nshift\nexec "{sys.executable}" {into} {options}\n')
    pip.chmod(0o755)
    home = tmp_path / "my work"
    home.mkdir()
    told = follow(shown(f"tutorials/{page}.md"), home, {"PATH": f"{environment}/bin:{os.environ['PATH']}"})
    for language, text in shown(f"tutorials/{page}.md"):
        assert language != "text" or text in told


def follow(blocks, folder, changes):
    """Write and run what a tutorial shows, block by block, and return what was printed."""
    told = ""
    for language, text in blocks:
        for path, content in files([(language, text)]).items():
            file = Path(folder) / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        if language == "bash":
            for line in text.splitlines():
                environment = {**os.environ, **changes}
                environment.pop("PYTHONPATH", None)
                done = subprocess.run(
                    ["/bin/sh", "-c", line],
                    cwd=folder,
                    env=environment,
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                told += done.stdout
    return told


def test_every_block_is_followed(shown):
    assert set(PAGES) == {file.stem for file in (ROOT / "docs" / "tutorials").glob("*.md")}
    for page in PAGES:
        blocks = shown(f"tutorials/{page}.md")
        assert {language for language, _ in blocks} <= {"bash", "yaml", "toml", "python", "text"}
        assert all(re.fullmatch(r"[\w./-]+\.(yaml|toml|py)", path) for path in files(blocks))
