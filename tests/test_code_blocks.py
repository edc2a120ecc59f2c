"""Every block of code that a page shows is checked by a test: here, or by one that `elsewhere` names."""

import json
import re
import shlex
import tomllib
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from markdown_it import MarkdownIt

import ttsflow
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.plugins import load
from ttsflow.recordings import read_recordings
from ttsflow.registry import KINDS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "plugins").glob("*/README.md")])
#: What is shown to be read: formulas, and what commands print.
READ = "text"

_FILE = re.compile(r"# (?:@package _global_\n# )?([\w./-]+\.(?:py|toml|yaml))\n")


class Block(NamedTuple):
    """What stands between two fences."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def path(self):
        """The file that the block is, if its first line says so."""
        found = _FILE.match(self.text)
        return Path(found[1].removeprefix("conf/")) if found else None


def blocks_of(page):
    """Return all blocks of a page, those in lists as well."""
    tokens = MarkdownIt("commonmark").parse(page.read_text("utf-8"))
    return [Block(page, one.map[0] + 1, one.info, one.content) for one in tokens if one.type == "fence"]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def elsewhere(block):
    """Return file and name of the test that checks a block, where it is none of this module."""
    if block.page.parent.name == "tutorials":
        return "install/test_tutorials.py", "test_a_tutorial_is_followed_from_an_empty_environment"
    if block.language == "pycon" and block.page.is_relative_to(DOCS):
        return "test_docs.py", "test_doctests"
    if block.page == DOCS / "plugins.md" and block.path and block.language in {"python", "yaml"}:
        return "test_docs.py", "test_the_plugin_works"
    if block.language == "yaml" and block.path and block.path.parts[0] == "strategy":
        return "test_docs.py", "test_strategy_files"
    return None


def checked_here(language):
    """Return the blocks of a language that no other test checks, as parameters."""
    return [
        pytest.param(block, id=f"{block.page.relative_to(ROOT)}:{block.line}")
        for block in BLOCKS
        if block.language == language and not elsewhere(block)
    ]


def test_every_block_is_checked():
    here = {"bash", "json", "python", "toml", "yaml", READ}
    wrong = [block for block in BLOCKS if block.language not in here and not elsewhere(block)]
    assert not wrong, "write one of these languages, or a test for another: " + ", ".join(sorted(here))
    for file, name in {elsewhere(block) for block in BLOCKS} - {None}:
        assert f"def {name}(" in (ROOT / "tests" / file).read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_stand_in_fences(page):
    """Outside of one `>>>` is a quotation, in three levels."""
    shown = [token.type for token in MarkdownIt("commonmark").parse(page.read_text("utf-8"))]
    assert "blockquote_open" not in shown
    assert "code_block" not in shown


# --- commands -----------------------------------------------------------------------------------------


def unchecked(line, page):
    """Return what is wrong with a command, or None."""
    name, *words = shlex.split(line, comments=True)
    files = [ROOT / word for word in words if "/" in word or word.endswith((".txt", ".py"))]
    if name == "ttsflow":
        # test_docs runs those of the pages and of README.md, test_plugins those of the plugins.
        run = page.is_relative_to(DOCS) or page == ROOT / "README.md" or page.is_relative_to(ROOT / "plugins")
        return None if run else "no test runs it"
    if name == "make":
        targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
        return None if words and set(words) <= targets else "no such target"
    if not all(file.exists() for file in files):
        return "no such file"
    if name == "python" and files:
        taken = files[0].read_text()
        missing = [word for word in words if word.startswith("--") and f'"{word}"' not in taken]
        return f"no option {', '.join(missing)}" if missing else None
    tools = {"pip", *(f".venv/bin/{tool}" for tool in ("pip", "pre-commit", "pytest"))}
    return None if name in tools else "no test runs it"


@pytest.mark.parametrize("block", checked_here("bash"))
def test_commands_of_others(block):
    lines = block.text.replace("\\\n", " ").splitlines()
    assert not [(line, wrong) for line in lines if line.strip() and (wrong := unchecked(line, block.page))]


@pytest.mark.parametrize(
    "line",
    [
        "make lunch",
        "make",
        "pip install -r requirements/none.txt",
        "python benchmarks/none.py",
        "python benchmarks/atest_experiment.py --no-such-option",
        ".venv/bin/ttsflaw",
        "tsflow run",
        "ttsflow run",
    ],
)
def test_a_wrong_command_is_found(line):
    assert unchecked(line, ROOT / "CONTRIBUTING.md")


# --- files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", checked_here("yaml"))
def test_config_files(block, tmp_path):
    """A file of another group than `strategy` can be chosen, and makes a part."""
    assert block.path, "the first line names the file: # conf/GROUP/NAME.yaml"
    group, name = block.path.parts[0], block.path.stem
    file = tmp_path / block.path
    file.parent.mkdir()
    file.write_text(block.text)
    made = compose([f"{'+' if group == 'experiment' else ''}{group}={name}"], str(tmp_path))
    if group in KINDS:
        build(group, made[group], group, load())
    own = yaml.safe_load(block.text)
    for key in set(own) - {"defaults", "hydra"}:
        assert (made if group == "experiment" else made[group])[key] == own[key]


@pytest.mark.parametrize("block", checked_here("toml"))
def test_projects(block):
    """A project names what the page shows of it."""
    project = tomllib.loads(block.text)
    shown = {str(other.path) for other in blocks_of(block.page) if other.path}
    for package in project["project"]["entry-points"]["ttsflow"].values():
        assert f"{package}/__init__.py" in shown
    for package in project["tool"]["setuptools"]["packages"]:
        folder = package.replace(".", "/")
        assert any(path.startswith(f"{folder}/") for path in shown)


@pytest.mark.parametrize("block", checked_here("json"))
def test_recordings(block, tmp_path):
    file = tmp_path / "shown.jsonl"
    file.write_text(json.dumps(json.loads(block.text)) + "\n")
    (recording,) = read_recordings(file)
    assert len(recording.samples) == len(json.loads(block.text)["samples"])


# --- Python -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("block", checked_here("python"))
def test_python(block, tmp_path, monkeypatch):
    """It runs as it stands, on the fake engine where it names a model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ttsflow, "Pipeline", partial(on_fake, ttsflow.Pipeline))
    exec(compile(block.text, str(block.page), "exec"), {})


def on_fake(pipeline, *words, model, engine=None, **settings):
    """Return a pipeline without a model; the settings of the engine it would have are checked."""
    build("engine", {"use": "vllm", "model": model, **(engine or {})}, "engine", load())
    return pipeline(*words, engine={"use": "fake"}, **settings)
