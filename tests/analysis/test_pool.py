"""``ttsflow pool``: what it shows, what it writes, what it removes."""

import builtins
import json
import sqlite3
import time
from contextlib import closing

import pytest

from ttsflow import cli
from ttsflow.analysis.pool import _MODELS
from ttsflow.config import compose
from ttsflow.run import run_config

WORDS = ("engine=fake", "limit=4", "strategy.n=6")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a pool that runs of two strategies, one with log-probabilities, have filled."""
    folder = tmp_path_factory.mktemp("pool")
    file = folder / "samples.pool"
    for name, more in {"ffs": ["strategy.k=2"], "majority": ["record=2", "seed=3"]}.items():
        words = [*WORDS, f"strategy={name}", *more, f"engine.pool={file}"]
        assert run_config(compose(words), folder / name).status == "complete"
    return file


@pytest.fixture
def pool(made, tmp_path):
    file = tmp_path / "samples.pool"
    file.write_bytes(made.read_bytes())
    return file


def call(capsys, *words, code=0):
    assert cli.main(["pool", *map(str, words)]) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


def rows(file):
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT whole, length, top FROM samples ORDER BY id").fetchall()


@pytest.mark.slow
def test_it_shows_what_a_pool_holds(pool, capsys):
    found = rows(pool)
    whole = sum(row[0] for row in found)
    assert 0 < whole < len(found)
    out = call(capsys, pool).splitlines()
    assert out[0].split() == ["model", "samples", "partials", "tokens", "prompts", "first", "last"]
    cells = out[1].split()
    tokens = sum(row[1] for row in found)
    assert cells[:5] == ["FakeEnginePart", str(whole), str(len(found) - whole), f"{tokens:,}", "4"]
    assert out[-1].endswith("MB")


def test_a_large_pool_is_shown_without_reading_its_samples(pool):
    with closing(sqlite3.connect(pool)) as connection:
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {_MODELS}")]
    assert [step for step in plan if "samples" in step and "COVERING INDEX" in step], plan


def test_an_empty_pool_is_shown(tmp_path, capsys):
    file = tmp_path / "empty"
    file.touch()
    assert "no samples" in call(capsys, file)


def test_samples_are_exported_as_lines_of_json(pool, tmp_path, capsys):
    target = tmp_path / "out.jsonl"
    found = rows(pool)
    assert f"{len(found)} samples in {target}" in call(capsys, pool, "--export", target)
    records = [json.loads(line) for line in target.read_text().splitlines()]
    assert [(one["whole"], len(one["tokens"])) for one in records] == [(bool(w), n) for w, n, _ in found]
    for one, (_, length, top) in zip(records, found, strict=True):
        assert one["model"] == "FakeEnginePart"
        assert json.loads(one["sampling"])["temperature"] == 0.8
        assert len(one["path"]) == 1
        assert one["prompt"]
        told = one["logprobs"]
        assert (told is None) == (top == 0)
        assert told is None or [len(entry) for entry in told] == [2] * length
        assert (one["certainties"] is None) == (top == 0)
    assert any("Answer: " in one["text"] for one in records)
    assert "nothing is overwritten" in call(capsys, pool, "--export", target, code=2)
    assert [file.name for file in tmp_path.iterdir() if "part" in file.name] == []


@pytest.mark.slow
def test_samples_are_exported_as_parquet(pool, tmp_path, capsys):
    parquet = pytest.importorskip("pyarrow.parquet")
    lines, target = tmp_path / "out.jsonl", tmp_path / "out.parquet"
    call(capsys, pool, "--export", lines)
    call(capsys, pool, "--export", target)
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert parquet.read_table(target).to_pylist() == records


def test_without_what_parquet_needs_it_is_said(pool, tmp_path, capsys, monkeypatch):
    load = builtins.__import__

    def none(name, *args, **settings):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return load(name, *args, **settings)

    monkeypatch.setattr(builtins, "__import__", none)
    target = tmp_path / "out.parquet"
    assert "pip install 'ttsflow[parquet]'" in call(capsys, pool, "--export", target, code=2)
    assert not target.exists()


def test_partials_are_removed_only_with_yes(pool, capsys):
    before = rows(pool)
    assert "add --yes to do it" in call(capsys, pool, "--prune", "--partials")
    assert rows(pool) == before
    assert "removed" in call(capsys, pool, "--prune", "--partials", "--yes")
    assert rows(pool) == [row for row in before if row[0]]
    assert "0 samples and 0 partials, 0 tokens would be removed." in call(
        capsys, pool, "--prune", "--partials", "--yes"
    )


def test_old_samples_and_those_of_a_model_are_removed(pool, capsys):
    with closing(sqlite3.connect(pool)) as connection:
        connection.execute("UPDATE samples SET written = ? WHERE id < 4", (time.time() - 3 * 86400,))
        connection.commit()
    before = rows(pool)
    call(capsys, pool, "--prune", "--older-than", "4d", "--yes")
    assert rows(pool) == before
    call(capsys, pool, "--prune", "--older-than", "50h", "--model", "FakeEnginePart", "--yes")
    assert rows(pool) == before[3:]
    assert "Known: FakeEnginePart" in call(capsys, pool, "--prune", "--model", "Fake", code=2)
    size = pool.stat().st_size
    call(capsys, pool, "--prune", "--model", "FakeEnginePart", "--yes")
    assert pool.stat().st_size < size
    with closing(sqlite3.connect(pool)) as connection:
        for table in ("samples", "prompts", "models", "samplings"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--prune"], "say what to remove"),
        (["--partials"], "belong to it"),
        (["--yes"], "belong to it"),
        (["--prune", "--partials", "--export", "a.jsonl"], "export first"),
        (["--prune", "--older-than", "3"], "an age is written"),
        (["--export", "a.csv"], ".jsonl or .parquet"),
        (["--export", "no/such/folder/a.jsonl"], "cannot be written"),
    ],
)
def test_words_that_do_not_go_together(pool, capsys, words, message):
    assert message in call(capsys, pool, *words, code=2)


def test_a_pool_that_is_not_there(tmp_path, capsys):
    assert "there is no pool" in call(capsys, tmp_path / "no", code=2)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text").write_text("some text " * 100)
    assert "not a database" in call(capsys, tmp_path / "text", code=2)


@pytest.mark.parametrize("ending", ["", ".jsonl", ".parquet"])
@pytest.mark.parametrize(
    "changed",
    [("written", "today"), ("written", 1e300), ("path", "a.b"), ("tokens", b"odd"), ("certainties", "x")],
)
def test_values_that_no_run_writes_are_refused_in_words(pool, tmp_path, capsys, ending, changed):
    column, value = changed
    with closing(sqlite3.connect(pool)) as connection:
        connection.execute(f"UPDATE samples SET {column} = ? WHERE id = 2", (value,))
        connection.commit()
    if not ending and column != "written":
        assert "samples.pool: " in call(capsys, pool)  # which needs none of them
        return
    target = tmp_path / f"out{ending}"
    said = call(capsys, pool, *(["--export", target] if ending else []), code=2)
    assert f"{pool} holds values that no run writes" in said
    assert not target.exists() or not ending
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("column", ["whole", "length", "stop", "text", "seed", "top", "problem", "model"])
def test_a_text_in_place_of_any_value_ends_in_words(pool, tmp_path, capsys, column):
    with closing(sqlite3.connect(pool)) as connection:
        connection.execute(f"UPDATE samples SET {column} = 'x' WHERE id = 2")
        connection.commit()
    for words in (
        [],
        ["--export", str(tmp_path / "a.jsonl")],
        ["--export", str(tmp_path / "a.parquet")],
        ["--prune", "--partials"],
    ):
        code = cli.main(["pool", str(pool), *words])
        assert (code, "holds values" in capsys.readouterr().err) in {(0, False), (2, True)}
