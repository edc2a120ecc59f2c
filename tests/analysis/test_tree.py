"""A run's trace, as a tree and as a table."""

import json

import pytest
from rich.console import Console

from ttsflow.analysis.tree import grow, read_events, walk
from ttsflow.cli import main
from ttsflow.config import compose
from ttsflow.errors import DataError
from ttsflow.run import run_config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "dvts"
    words = ["strategy=dvts", "engine=fake", "verifier=fake", "strategy.n=8", "task.size=3"]
    run_config(compose(words), folder)
    return folder


def test_every_token_of_the_books_is_in_the_tree(run):
    results = {r["id"]: r for r in map(json.loads, (run / "results.jsonl").read_text().splitlines())}
    for problem, events in read_events(run).items():
        tree = grow(problem, events)
        nodes = list(walk(tree.roots))
        assert {node.path for node in nodes} == set(tree.nodes)
        assert sum(node.tokens for node in nodes) == results[problem]["usage"]["decoded"]
        assert [node.text for node in nodes if node.chosen] != []
        assert all(node.full.endswith(node.text) for node in nodes)


def test_who_was_pruned_and_why(run):
    pruned = [n for p, e in read_events(run).items() for n in walk(grow(p, e).roots) if n.pruned]
    voted = [node for node in pruned if node.pruned.startswith("from the vote: not among the best 8")]
    assert len(pruned) > len(voted)
    for node in (node for node in pruned if node not in voted):
        assert not node.children
        assert node.pruned.startswith("by score: ")
        worth, kept = (
            float(word) for word in node.pruned.removeprefix("by score: ").split(", the last kept has ")
        )
        assert worth <= kept


def test_the_command_draws_the_tree_and_lists_problems(run, capsys):
    assert main(["show", str(run)]) == 0
    listed = capsys.readouterr().out
    problem = next(iter(read_events(run)))
    assert problem in listed
    assert main(["show", str(run), "--problem", problem]) == 0
    drawn = capsys.readouterr().out
    assert "chosen" in drawn
    assert "pruned by score" in drawn
    assert "weighted: " in drawn


def test_what_is_not_there_is_said(run, tmp_path, capsys):
    assert main(["show", str(run), "--problem", "arithmetic-1"]) == 2
    assert "no problem 'arithmetic-1'" in capsys.readouterr().err
    assert main(["show", str(tmp_path)]) == 2
    assert "no results.jsonl" in capsys.readouterr().err
    with pytest.raises(DataError, match="no trace"):
        read_events(tmp_path)


def test_a_half_written_line_is_skipped_and_named(run, tmp_path, capsys):
    for name in ("results.jsonl", "trace.jsonl"):
        (tmp_path / name).write_text((run / name).read_text() + '{"id": "half')
    assert main(["show", str(tmp_path)]) == 0
    assert "line 4 of results.jsonl is broken" in capsys.readouterr().out
    assert len(read_events(tmp_path)) == 3


def test_early_ends_are_told(tmp_path, capsys):
    words = ["strategy=ffs", "engine=fake", "strategy.n=8", "strategy.k=2", "task.size=1"]
    run_config(compose(words), tmp_path / "ffs")
    (problem,) = read_events(tmp_path / "ffs")
    assert main(["show", str(tmp_path / "ffs"), "--problem", problem]) == 0
    drawn = capsys.readouterr().out
    assert "first 2 finished after" in drawn
    assert "aborted" in drawn


@pytest.mark.slow
def test_rollouts_and_probes_are_marked_as_thrown_away(tmp_path, capsys):
    for name, word in (("lookahead", "rollout"), ("dynasor", "probe")):
        words = [f"strategy={name}", "engine=fake", "verifier=fake", "strategy.n=4", "task.size=1"]
        run_config(compose([*words, *(["strategy.chunk=2"] if name == "dynasor" else [])]), tmp_path / name)
        ((problem, events),) = read_events(tmp_path / name).items()
        tree = grow(problem, events)
        assert {node.aside for node in walk(tree.roots)} == {None, word}
        assert main(["show", str(tmp_path / name), "--problem", problem]) == 0
        assert f"{word}, thrown away" in capsys.readouterr().out
        if name == "lookahead":
            assert all(n.scores for n in walk(tree.roots) if n.pruned and n.pruned.startswith("by score"))


def test_a_folder_of_runs_names_them(run, capsys):
    assert main(["show", str(run.parent)]) == 2
    assert str(run) in capsys.readouterr().err


def test_escape_codes_of_a_text_do_not_reach_the_terminal(run, tmp_path, capsys):
    for name in ("results.jsonl", "trace.jsonl"):
        (tmp_path / name).write_text((run / name).read_text().replace("Answer: ", "\\u001b[2JAnswer: "))
    problem = next(iter(read_events(tmp_path)))
    assert main(["show", str(tmp_path)]) == 0
    assert main(["show", str(tmp_path), "--problem", problem]) == 0
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "change",
    [
        {"path": None},
        {"path": ["a"]},
        {"path": [float("inf")]},
        {"path": [10**400]},
        {"tokens_new": "y"},
        {"tokens_new": float("inf")},
        {"tokens_new": 10**4000},
        {"tokens": float("nan")},
    ],
)
def test_damaged_events_are_skipped_and_counted(run, change):
    problem, events = next(iter(read_events(run).items()))
    place = next(i for i, event in enumerate(events) if event["event"] == "candidate")
    tree = grow(problem, [*events[:place], {**events[place], **change}, *events[place + 1 :]])
    assert tree.decisions[-1] == "1 damaged events of the trace were skipped"


@pytest.mark.parametrize("scores", [["x"], [{}], [[1]], [10**400], "x"])
def test_scores_that_are_no_numbers_are_skipped_and_counted(scores):
    events = [
        {"event": "candidate", "path": [0], "text": "a"},
        {"event": "score", "path": [0], "scores": scores},
        {"event": "lookahead", "scores": [{"path": [0], "score": scores}]},
    ]
    tree = grow("p", events)
    assert tree.nodes[(0,)].scores == ()
    assert tree.decisions == ["2 damaged events of the trace were skipped"]


def written(folder, *events):
    lines = [event if isinstance(event, str) else json.dumps({"problem": "p", **event}) for event in events]
    (folder / "trace.jsonl").write_text("\n".join(lines))
    return ["show", str(folder), "--problem", "p"]


@pytest.mark.parametrize("field", ["finish", "aside", "answer", "reason", "text"])
@pytest.mark.parametrize("value", ["[/red]", "[bold", "[/x", "x]\\", "\x1b[2J"])
def test_what_looks_like_markup_is_shown_as_it_is(tmp_path, capsys, field, value):
    event = {"event": "candidate", "path": [0], "finish": "stop", "text": "y]", "answer": "z]", field: value}
    assert main(written(tmp_path, event)) == 0
    assert value.replace("\x1b", " ").strip() in capsys.readouterr().out


def test_a_line_nested_too_deeply_is_a_broken_line(run, tmp_path, capsys):
    event = {"event": "candidate", "path": [0], "text": "a"}
    assert main(written(tmp_path, "[" * 200_000, event, '{"problem": "p')) == 0
    told = capsys.readouterr().out
    for number in (1, 3):
        assert f"line {number} of trace.jsonl is broken and was skipped" in told
    (tmp_path / "results.jsonl").write_text("[" * 200_000 + "\n" + (run / "results.jsonl").read_text())
    assert main(["show", str(tmp_path)]) == 0
    assert "line 1 of results.jsonl is broken" in capsys.readouterr().out


@pytest.mark.parametrize("depth", [300, 900])
def test_a_value_nested_deeply_does_not_stop_the_rest(tmp_path, capsys, depth):
    nested = json.loads("[" * depth + "]" * depth)
    start = {"event": "candidate", "path": [0], "text": "seen", "answer": nested, "aside": nested}
    assert main(written(tmp_path, start, {"event": "result", "answer": nested, "why": nested})) == 0
    assert "seen" in capsys.readouterr().out


@pytest.mark.parametrize("width", [40, *(pytest.param(n, marks=pytest.mark.slow) for n in (80, 1000))])
def test_a_deep_tree_is_cut_off_with_a_note(tmp_path, capsys, monkeypatch, width):
    monkeypatch.setattr("ttsflow.analysis.show.wide_console", lambda: Console(width=width, highlight=False))
    # Deeper than Python lets functions call each other.
    events = [{"event": "candidate", "path": [0] * n, "text": "a" * n} for n in range(1, 1200)]
    assert len(list(walk(grow("p", events).roots))) == 1199
    assert main(written(tmp_path, *events)) == 0
    told = capsys.readouterr().out
    drawn = min(200, (width - 16) // 4)
    assert f"{1199 - drawn} nodes" in told
    assert "1199 nodes" in told


def drawn_of(tmp_path, capsys, *events):
    lines = [{"event": "candidate", "problem": "p", "finish": "stop", **event} for event in events]
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["show", str(tmp_path), "--problem", "p"]) == 0
    return capsys.readouterr().out


def test_a_node_without_a_text_of_its_own_shows_none(tmp_path, capsys):
    first = {"path": [0], "text": "one\nAns", "tokens_new": 1, "finish": "step"}
    shown = drawn_of(tmp_path, capsys, first, {"path": [0, 0], "text": "one\n", "tokens_new": 2})
    assert shown.count("one") == 1
    assert "1 token " in shown
    assert "2 tokens" in shown
    same = drawn_of(tmp_path, capsys, first, {"path": [0, 0], "text": "one\nAns", "tokens_new": 1})
    assert same.count("one") == 1


def test_a_program_as_the_answer_takes_one_short_line(tmp_path, capsys):
    program = "def f(x):\n" + "    x += 1\n" * 100
    line = {"id": "p", "outcome": "answered", "answer": program, "gold": program, "correct": True}
    (tmp_path / "results.jsonl").write_text(json.dumps(line) + "\n")
    assert main(["show", str(tmp_path)]) == 0
    listed = capsys.readouterr().out
    assert len(listed.splitlines()) == 2
    assert max(map(len, listed.splitlines())) < 150
    assert "def f(x): x += 1" in listed
    shown = drawn_of(tmp_path, capsys, {"path": [0], "text": program, "answer": program})
    assert max(map(len, shown.splitlines())) < 250
