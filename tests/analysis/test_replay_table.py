"""The published table comes out of the shipped stages."""

import gzip
import json

import pytest

from ttsflow.analysis.replay_table import show, table
from ttsflow.cli import main
from ttsflow.errors import DataError
from ttsflow.recordings import Recording, Sample, write_recordings

KEYS = {"n_problems", "SD", "MV", "pass", "noans", "avg_tok", "max_tok", "tot"}


def lines_of(path, keep=lambda line: True):
    with gzip.open(path, "rt") as file:
        return [line for line in map(json.loads, file) if keep(line)]


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def by_set(rows):
    return {(row["model"], row["dataset"]): row for row in rows}


def differing(rows, expected):
    """Return the cells of ``expected`` that differ, over the rows that both have."""
    found = by_set(rows)
    return [
        (row["model"], row["dataset"], key, value, found[row["model"], row["dataset"]].get(key))
        for row in expected
        if (row["model"], row["dataset"]) in found
        for key, value in row.items()
        if found[row["model"], row["dataset"]].get(key) != value
    ]


@pytest.mark.slow
def test_every_published_cell(data_file):
    expected = json.loads(data_file("traces/expected.json").read_text())
    rows = table(str(data_file("traces/sampled_answers.jsonl.gz")), "paper")
    assert differing(rows, expected) == []
    assert {(row["model"], row["dataset"]) for row in expected} <= set(by_set(rows))
    assert len(expected) == 20


@pytest.fixture(scope="module")
def aime(data_file):
    """Return the lines of two models on two short sets."""
    wanted = {("R1DistilQwen", "aime2025-i"), ("QwQ", "aime2025-ii")}
    return lines_of(
        data_file("traces/sampled_answers.jsonl.gz"), lambda x: (x["model"], x["dataset"]) in wanted
    )


@pytest.mark.slow
def test_two_published_sets_and_a_perturbed_copy(data_file, aime, tmp_path):
    expected = json.loads(data_file("traces/expected.json").read_text())
    assert differing(table(written(tmp_path / "same.jsonl", aime), "paper"), expected) == []
    changed = json.loads(json.dumps(aime))
    for line in changed:
        for sample in line["samples"]:
            sample["tokens"] += 7
        line["samples"][0] |= {"pred": "NO_ANSWER", "correct": False}
    cells = {
        key for _, _, key, *_ in differing(table(written(tmp_path / "p.jsonl", changed), "paper"), expected)
    }
    assert cells >= {"SD", "MV", "noans", "avg_tok", "FFS1_seq", "FFS4_tot_parallel"}


def of(tokens, answers, gold="7"):
    samples = [
        Sample(answer, length, answer == gold, "stop") for length, answer in zip(tokens, answers, strict=True)
    ]
    return Recording("m/d/0", tuple(samples), model="m", dataset="d", gold=gold)


def test_by_hand(tmp_path):
    write_recordings(tmp_path / "t.jsonl", [of([50, 100, 120, 120], [None, "7", "8", "7"])])
    (exact,) = table(str(tmp_path / "t.jsonl"))
    (paper,) = table(str(tmp_path / "t.jsonl"), "paper")
    assert exact["n"] == 4
    assert (exact["SD"], exact["MV"], exact["pass"], exact["noans"]) == (0.5, 1.0, 1.0, 1.0)
    # The first valid one has 100 tokens: the one without an answer has ended, the two others are cut.
    assert exact["FFS1_seq"] == 100
    assert exact["FFS1_tot_parallel"] == 50 + 3 * 100
    assert exact["FFS1_tot_paper"] == 150
    # Two have 120 tokens: exactly two vote and the first decides, or all three do.
    assert (exact["FFS2"], paper["FFS2"]) == (1.0, 1.0)
    assert (exact["LFS1"], paper["LFS1"]) == (0.0, 0.0)
    assert (exact["LFS4"], exact["tot"], exact["max_tok"]) == (1.0, 390, 120)
    assert "FFS8" not in exact


def test_sets_of_other_sizes_stand_side_by_side(tmp_path):
    two = of([5, 6], ["7", "8"])
    other = Recording("m/e/0", two.samples * 2, model="m", dataset="e", gold="7")
    write_recordings(tmp_path / "t.jsonl", [two, other])
    rows = by_set(table(str(tmp_path / "t.jsonl")))
    assert {name: row["n"] for name, row in rows.items()} == {("m", "d"): 2, ("m", "e"): 4}
    assert "FFS4" not in rows["m", "d"]
    show(list(rows.values()))


def test_the_command_prints_a_table_or_json(tmp_path, capsys):
    write_recordings(tmp_path / "t.jsonl", [of([5, 6, 7, 8], ["7", "8", "7", None])])
    assert main(["replay-table", str(tmp_path / "t.jsonl"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row.keys() >= KEYS
    assert main(["replay-table", str(tmp_path / "t.jsonl"), "--profile", "paper"]) == 0
    assert "accuracy in %" in capsys.readouterr().out


def test_a_broken_line_is_named(tmp_path):
    path = written(tmp_path / "broken.jsonl", [])
    (tmp_path / "broken.jsonl").write_text('{"model": "m", "samples": [{"pred": 1}]}\n')
    with pytest.raises(DataError, match=r"broken\.jsonl"):
        table(path)


def test_without_verdicts_the_gold_answer_grades_and_without_both_nothing_does(tmp_path):
    samples = tuple(Sample(said, 5 + i, None, "stop") for i, said in enumerate(["1", "1", "2"]))
    write_recordings(tmp_path / "gold.jsonl", [Recording("m/d/0", samples, model="m", dataset="d", gold="1")])
    (row,) = table(str(tmp_path / "gold.jsonl"))
    assert (row["SD"], row["MV"], row["pass"]) == (0.6667, 1.0, 1.0)
    write_recordings(tmp_path / "none.jsonl", [Recording("m/d/0", samples, model="m", dataset="d")])
    with pytest.raises(DataError, match="neither verdicts nor a gold answer"):
        table(str(tmp_path / "none.jsonl"))


def test_names_with_markup_are_shown_as_they_are(tmp_path, capsys):
    odd = Recording("x", of([5, 6], ["7", "8"]).samples, model="[/x]", dataset="[bold]d[/bold]", gold="7")
    write_recordings(tmp_path / "t.jsonl", [odd])
    assert main(["replay-table", str(tmp_path / "t.jsonl")]) == 0
    assert "[bold]d[/bold]" in capsys.readouterr().out
