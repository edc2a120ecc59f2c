"""What ``ttsflow new`` writes works as it is, and nothing is overwritten."""

import importlib
import json
import re
import shlex
import tomllib

import pytest

from ttsflow import cli, plugins
from ttsflow.build import build
from ttsflow.config import compose, strategy
from ttsflow.plugins import load


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    folder = tmp_path / "my folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


FILES = [entry.name for entry in load().entries("strategy") if entry.is_config]


@pytest.mark.slow
@pytest.mark.parametrize("how", [[], ["--extend"]], ids=["copy", "extend"])
@pytest.mark.parametrize("base", FILES)
def test_a_new_strategy_begins_as_the_other_one(base, how):
    assert cli.main(["new", "strategy", "mine", "--from", base, *how]) == 0
    stages = [
        build("stage", mapping, "strategy", load())
        for mapping in (strategy("mine", config_dir="conf"), strategy(base))
    ]
    assert stages[0] == stages[1]
    known = [compose([f"strategy={name}"], "conf")["variables"] for name in ("mine", base)]
    assert known[0] == known[1]


def test_a_new_strategy_says_where_it_comes_from(home):
    assert cli.main(["new", "strategy", "mine", "--from", "ffs", "--extend", "--config-dir", "a b"]) == 0
    assert (home / "a b" / "strategy" / "mine.yaml").read_text() == (
        "# What: n samples, the k shortest valid ones vote, the others are ended at the k-th finish\n"
        "# Source: ffs of ttsflow, changed\n"
        "# Cost: with T the k-th shortest length, sum of min(length, T) decoded, T in series\n"
        "defaults: [ffs, _self_]\n'n': 8\nk: 4\nrefill: 0\n"
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["strategy", "Mine"], "a strategy's name has small letters, digits and _, got 'Mine'."),
        (["strategy", "../mine"], "got '../mine'."),
        (["strategy", "majority"], "'majority' is installed already; give yours another name."),
        (
            ["strategy", "mine", "--from", "majorty"],
            "there is no strategy 'majorty'. Did you mean 'majority'?",
        ),
        (["plugin", "Spelling"], "the name of a plugin has small letters, digits and single dashes"),
        (["plugin", "ttsflow-"], "the name of a plugin has"),
        (["plugin", "generate"], "there is a stage 'generate' already, and two may not share a name"),
        (["plugin", "strategy"], "there is a stage 'strategy' already"),
    ],
)
def test_what_cannot_be_a_name_is_refused(words, message, capsys, home):
    assert cli.main(["new", *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(home.iterdir())


@pytest.mark.parametrize("words", [["strategy", "mine"], ["plugin", "mine"]])
def test_nothing_is_overwritten(words, capsys, home):
    assert cli.main(["new", *words]) == 0
    before = {file: file.read_text() for file in home.rglob("*") if file.is_file()}
    assert cli.main(["new", *words]) == 2
    assert "exists; nothing is overwritten." in capsys.readouterr().err
    assert {file: file.read_text() for file in home.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("name", ["spelling", "ttsflow-two-words"])
def test_a_new_plugin_is_found_and_passes_its_own_tests(name, install, home, tmp_path):
    assert cli.main(["new", "plugin", name]) == 0
    (folder,) = home.iterdir()
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    (package,) = project["project"]["entry-points"]["ttsflow"].values()
    files = {
        str(file.relative_to(folder / package)): file.read_text()
        for file in (folder / package).rglob("*")
        if file.is_file()
    }
    install(folder.name, files.pop("__init__.py"), files)
    plugins.reload()
    assert plugins.problems() == []
    names = {}
    (tests,) = (folder / "tests").iterdir()
    exec(compile(tests.read_text(), str(tests), "exec"), names)
    contract = names["TestAnswered"]()
    part = importlib.import_module(f"{package}.stage").Answered()
    contract.test_is_a_frozen_dataclass(part)
    names["test_what_has_no_answer_goes"]()
    names["test_it_is_found_and_runs"](tmp_path)


def test_a_schema_is_printed(capsys):
    assert cli.main(["schema", "strategy"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "ttsflow strategy"
    assert cli.main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "ttsflow run"
    assert cli.main(["schema", "stage"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("base", ["majority", "beam_search", "atest_online", "atest_beam"])
def test_the_command_that_is_suggested_works(base, capsys):
    assert cli.main(["new", "strategy", "mine", "--from", base]) == 0
    command = re.search(r"Try `ttsflow (.+)`", capsys.readouterr().out)[1]
    assert cli.main([*shlex.split(command), "-q"]) == 0
