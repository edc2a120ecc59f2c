"""What a page takes from traces: votes and scores, and the trees it shows."""

import json

import pytest

from ttsflow.analysis.runs import read_run
from ttsflow.analysis.tree import grow
from ttsflow.config import compose
from ttsflow.reporting.panels import panels
from ttsflow.reporting.traces import Vote, is_search, problem_events, votes
from ttsflow.reporting.tree_picture import fate, picture, way
from ttsflow.reporting.trees import search_trees
from ttsflow.run import run_config


def write(file, events):
    file.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    return file


def test_votes_are_those_of_the_last_count(tmp_path):
    trace = write(
        tmp_path / "trace.jsonl",
        [
            {"event": "score", "problem": "a", "path": [0], "scores": [0.2, 0.9, None]},
            {"event": "aggregate", "problem": "a", "how": "first", "chosen": [1]},
            {"event": "score", "problem": "a", "path": [0], "scores": [0.2, 0.7]},
            {
                "event": "aggregate",
                "problem": "a",
                "how": "weighted",
                "weights": {"x": 1, "y": 2.5},
                "chosen": [0],
            },
            {"event": "aggregate", "problem": "b", "how": "best", "chosen": [3], "score": 0.25},
            {
                "event": "aggregate",
                "problem": "c",
                "how": "majority",
                "weights": {str(n): n for n in range(9)},
            }
            | {"tied": True},
            {"event": "aggregate", "problem": "d", "weights": 3},
            {"event": "score", "problem": "d", "scores": 3},
        ],
    )
    with trace.open("a") as file:
        file.write('{"event":"aggregate","problem":"e"')
    assert votes(trace) == {
        "a": Vote("weighted", (("y", 2.5), ("x", 1.0)), 0, 0.7, tied=False),
        "b": Vote("best", (), 0, 0.25, tied=False),
        "c": Vote("majority", tuple((str(n), float(n)) for n in (8, 7, 6, 5, 4, 3)), 3, None, tied=True),
    }
    assert votes(tmp_path / "gone.jsonl") == {}


def test_events_of_some_problems_are_found(tmp_path):
    trace = write(
        tmp_path / "trace.jsonl", [{"event": "x", "problem": name, "text": "é"} for name in ("é", "b", "é")]
    )
    assert [len(events) for events in problem_events(trace, ["é", "c"]).values()] == [2, 0]


def search(folder, **more):
    settings = ["engine=sim", "task=simulated", "task.size=5", "verifier=simulated", "strategy=beam_search"]
    run_config(compose([*settings, "strategy.n=4"]), folder / "beam")
    run_config(compose([*settings[:-1], "strategy=majority", "strategy.n=4"]), folder / "plain")
    return panels([read_run(folder / name) for name in ("beam", "plain")])


@pytest.mark.slow
def test_searches_are_told_from_samples_and_their_trees_are_shown(tmp_path, draw):
    found = search(tmp_path)
    assert is_search(tmp_path / "beam" / "trace.jsonl")
    assert not is_search(tmp_path / "plain" / "trace.jsonl")
    (shown,), notes = search_trees(found, draw)
    assert 1 <= len(shown) <= 2
    assert f"{len(shown)} of 5 trees" in notes[0]
    for one in shown:
        events = problem_events(tmp_path / "beam" / "trace.jsonl", [one.tree.problem])
        assert one.tree.nodes.keys() == grow(one.tree.problem, events[one.tree.problem]).nodes.keys()
        (chosen,) = [node.path for node in one.tree.nodes.values() if node.chosen]
        assert one.way == {chosen[:depth] for depth in range(1, len(chosen) + 1)}
        count, waiting = 0, list(one.roots)
        while waiting:
            node = waiting.pop()
            count += 1
            waiting += node["children"]
        assert count == len(one.tree.nodes)
        assert one.picture.result().count("aria-label") >= len(one.tree.nodes)


@pytest.mark.slow
def test_a_picture_has_a_line_for_every_leaf(tmp_path):
    search(tmp_path)
    events = problem_events(tmp_path / "beam" / "trace.jsonl", ["simulated-0-1"])
    tree = grow("simulated-0-1", events["simulated-0-1"])
    edges, nodes = (one["data"]["values"] for one in picture(tree)["layer"])
    assert len(edges) == len(nodes) == len(tree.nodes)
    leaves = [node for node in tree.nodes.values() if not node.children]
    lanes = {node["lane"] for node in nodes}
    assert {float(number) for number in range(len(leaves))} <= lanes
    assert sum(edge["on"] for edge in edges) == len(way(tree))
    assert {fate(node) for node in tree.nodes.values()} == {node["fate"] for node in nodes}


def test_a_tree_that_is_too_deep_is_cut_and_says_so(write_run, draw):
    folder = write_run("run", {"a": True}, strategy="beam")
    nodes = [
        {
            "event": "candidate",
            "problem": "a",
            "path": [0] * depth,
            "finish": "step",
            "tokens": depth,
            "tokens_new": 1,
        }
        for depth in range(1, 101)
    ]
    write(folder / "trace.jsonl", nodes)
    (shown,), _ = search_trees(panels([read_run(folder)]), draw)
    (node,) = shown[0].roots
    depth = 1
    while node["children"]:
        (node,) = node["children"]
        depth += 1
    assert (depth, node["hidden"]) == (60, 40)


@pytest.mark.slow
@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**400])
def test_a_damaged_number_in_a_tree_is_drawn_without_it(write_run, draw, number):
    folder = write_run("run", {"a": True}, strategy="beam")
    events = [
        {
            "event": "candidate",
            "problem": "a",
            "path": [0] * depth,
            "finish": "step",
            "tokens": number if depth == 2 else depth,
            "tokens_new": number if depth == 2 else 1,
        }
        for depth in (1, 2, 3)
    ]
    events.append({"event": "score", "problem": "a", "path": [0], "scores": [number]})
    write(folder / "trace.jsonl", events)
    (shown,), _ = search_trees(panels([read_run(folder)]), draw)
    assert shown
    for one in shown:
        assert one.picture.result().startswith("<svg")
        assert one.roots
