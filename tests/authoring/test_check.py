"""``ttsflow check`` finds what a run would be refused for, loads no model, and draws the stages."""

import pytest

from ttsflow import cli
from ttsflow.authoring.check import check_config
from ttsflow.errors import ConfigError

BEAM = """\
beam_search  n=8 width=4 depth=40 reduce=last
└── sequence
    ├── search: repeat at_most=40
    │   ├── step: generate n=8 unit=step
    │   ├── score: verify
    │   ├── keep: select into=8 copies=4
    │   ├── funds: budget_check reserve=0.1
    │   └── until: finished at_least=8
    └── answer: aggregate how=weighted top=8
engine: fake
task: arithmetic
verifier: fake
budget: 400 tokens per problem
nothing is wrong with it; fingerprint """

MINE = "# What: mine\ndefaults: [majority, _self_]\nn: 3\n"


@pytest.fixture(autouse=True)
def _no_engine(monkeypatch):
    def opened(self):
        raise AssertionError("nothing is opened")

    monkeypatch.setattr("ttsflow.testing.parts.FakeEnginePart.open", opened)


def test_the_tree_is_drawn(capsys):
    words = ["beam_search", "engine=fake", "verifier=fake", "strategy.n=8", "budget.problem.tokens=400"]
    assert cli.main(["check", *words]) == 0
    assert capsys.readouterr().out.startswith(BEAM)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["best_of_n"], "strategy.stages.score: `verify` needs scores, but no verifier is set."),
        (["strategy=ffs", "strategy.k=20"], "k=20 of n=8 can never finish"),
        (["bestofn"], "there is no strategy 'bestofn'. Did you mean 'best_of_n'?"),
        (["majority", "ffs"], "one strategy or config file is checked at a time, got majority and ffs."),
        (["nowhere.yaml"], "there is no file 'nowhere.yaml'."),
    ],
)
def test_what_is_wrong_is_said(words, message, capsys):
    assert cli.main(["check", *words, "engine=fake"]) == 2
    told = capsys.readouterr()
    assert message in told.err
    assert told.out == ""


@pytest.mark.parametrize("place", ["my conf/strategy/mine.yaml", "mine.yaml", "deep/mine.yml"])
def test_a_file_is_checked_where_it_is(place, tmp_path, capsys):
    file = tmp_path / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(MINE)
    assert cli.main(["check", str(file), "engine=fake"]) == 0
    assert "mine  n=3 ties=first" in capsys.readouterr().out


@pytest.mark.slow
def test_a_file_of_another_group_is_chosen(tmp_path, capsys):
    file = tmp_path / "task" / "sums.yaml"
    file.parent.mkdir()
    file.write_text("use: arithmetic\nterms: 1\n")
    assert cli.main(["check", str(file), "engine=fake"]) == 2
    assert "task.terms" in capsys.readouterr().err
    file.write_text("use: arithmetic\nterms: 4\n")
    assert cli.main(["check", str(file), "engine=fake"]) == 0
    assert "task: sums" in capsys.readouterr().out


def test_a_file_and_a_folder_are_one_too_many(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text(MINE)
    assert cli.main(["check", str(tmp_path / "mine.yaml"), "--config-dir", str(tmp_path), "engine=fake"]) == 2
    assert "leave --config-dir out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"5\n", "holds 5; a strategy is a mapping"),
        (b"[1]\n", r"holds \[1\]; a strategy is a mapping"),
        (b"", "is empty; a strategy is a mapping"),
        (b"a: [1", "cannot be read: while parsing"),
        (b"\xe1\xff", "cannot be read: 'utf-8' codec"),
    ],
)
def test_a_file_that_holds_no_mapping_is_named(text, said, tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_bytes(text)
    with pytest.raises(ConfigError, match=f"'{file}' {said}"):
        check_config([str(file), "engine=fake"], None)
