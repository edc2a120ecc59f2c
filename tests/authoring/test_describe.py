"""``ttsflow describe`` tells of any part what its class says."""

import pytest

from ttsflow import cli
from ttsflow.authoring.reference import settings_of
from ttsflow.plugins import load
from ttsflow.registry import KINDS

PARTS = [(entry.kind, entry.name) for entry in load().entries()]


@pytest.mark.parametrize(("kind", "name"), PARTS, ids=[" ".join(part) for part in PARTS])
def test_every_part_is_described(kind, name, capsys):
    assert cli.main(["describe", kind, name]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"{kind} {name}, of ttsflow\n")
    entry = load().find(kind, name)
    assert entry.doc.split()[0] in told
    if not entry.is_config:
        for key, type_, default in settings_of(entry.load()):
            assert key in told
            assert type_
            assert default


def test_types_and_defaults_are_in_words():
    rows = {key: rest for key, *rest in settings_of(load().get("stage", "generate"))}
    assert rows["n"] == ["a whole number", "1"]
    assert rows["unit"] == ["one of 'whole', 'step', 'tokens'", "'whole'"]
    assert rows["total"] == ["a whole number or null", "null"]
    assert rows["watch"] == ["a mapping or null", "null"]
    rows = {key: rest for key, *rest in settings_of(load().get("stage", "when"))}
    assert rows["if"] == ["a mapping", "required"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["stge", "generate"], "there is no kind of part 'stge'. Did you mean 'stage'?"),
        (["stage", "generat"], "there is no stage 'generat'. Did you mean 'generate'?"),
    ],
)
def test_what_there_is_not_is_refused(words, message, capsys):
    assert cli.main(["describe", *words]) == 2
    assert message in capsys.readouterr().err


def test_there_are_parts_of_every_kind():
    assert {kind for kind, _ in PARTS} == set(KINDS)


def test_a_part_is_found_without_its_kind(capsys):
    assert cli.main(["describe", "generate"]) == 0
    assert capsys.readouterr().out.startswith("stage generate, of ttsflow")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stage", "'stage' is a kind of part; say which: aggregate"),
        ("generat", "there is no part 'generat'. Did you mean 'generate'?"),
        ("auto", "there are several parts 'auto'; say which: "),
    ],
)
def test_what_is_no_single_part_is_refused(name, said, capsys):
    assert cli.main(["describe", name]) == 2
    assert said in capsys.readouterr().err
