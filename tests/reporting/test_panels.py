"""Runs side by side: panels, fronts, what plain sampling comes to at equal tokens, and who is compared."""

import dataclasses
import re

import pytest

from ttsflow.analysis.compare import compare
from ttsflow.analysis.runs import read_run, read_runs
from ttsflow.config import compose
from ttsflow.metrics import paired_bootstrap
from ttsflow.reporting.charts import _plain_lines, _shorts, accuracy
from ttsflow.reporting.drawing import drawn, whole
from ttsflow.reporting.panels import panels
from ttsflow.run import run_config

QUESTIONS = [f"q{number}" for number in range(8)]


def rows(right, tokens):
    """Return results of which the first ``right`` are right, for so many tokens each."""
    return {
        name: {"correct": place < right, "usage": {"decoded": tokens}} for place, name in enumerate(QUESTIONS)
    }


@pytest.fixture
def put(write_run):
    """Write and read a run: ``put(strategy, n, right, tokens)``."""

    def make(strategy, n, right, tokens, **more):
        name = more.pop("name", f"{strategy}{n}")
        return read_run(write_run(name, rows(right, tokens), strategy=strategy, n=n, **more))

    return make


def test_each_set_of_problems_has_a_panel_of_its_own(put):
    other = {"task": {"use": "sums", "terms": 9}}
    found = panels([put("majority", 1, 3, 10), put("ffs", 1, 3, 10), put("ffs", 2, 3, 10, config=other)])
    assert [len(panel.points) for panel in found] == [2, 1]
    assert [panel.title for panel in found] == ["sums", "sums terms=9"]
    assert found[0].engines == "fake (virtual clock)"


def test_runs_that_are_not_whole_are_not_drawn(put):
    found = panels([put("majority", 1, 3, 10), put("ffs", 2, 8, 10, status="partial")])
    (panel,) = found
    assert [point.name for point in panel.drawn] == ["majority"]
    assert [point.name for point in panel.others] == ["ffs"]
    assert panel.best.name == "majority"


def test_long_names_are_cut_in_pictures_and_stay_apart(put):
    long = "a-setting-with-a-long-name"
    config = [{long: {"inner": value}} for value in ("one", "two")]
    runs = [put("ffs", place, 3, 10, config=keys) for place, keys in enumerate(config, 1)]
    (panel,) = panels([*runs, put("ffs", 1, 3, 10, name="another", config={"seed": 123456789})])
    shorts = _shorts(panel.drawn)
    assert len(set(shorts)) == 3
    assert all(len(short) <= 24 for short in shorts)
    assert [("\u2026" in short) for short in shorts] == [True, True, False]
    points = accuracy(panel, "decoded")["layer"]
    told = [one["told"] for one in points[0]["data"]["values"]]
    assert all(line.startswith(f"{point.name}: ") for line, point in zip(told, panel.drawn, strict=True))


def test_ties_are_told(put):
    (panel,) = panels(
        [put("majority", 4, 4, 40), put("ffs", 4, 4, 30), put("beam", 4, 4, 30), put("a", 1, 3, 9)]
    )
    assert panel.best.name == "ffs"
    assert [point.name for point in panel.tied] == ["majority", "beam"]
    assert panel.fronts["decoded"] == ["a", "ffs", "beam"]
    assert panel.clock == " (virtual clock)"
    assert panel.engines == "fake (virtual clock)"


def test_where_nothing_is_right_nothing_is_the_best(put):
    (panel,) = panels([put("majority", 4, 0, 40), put("ffs", 4, 0, 30)])
    assert (panel.best, panel.tied, panel.pairs) == (None, [], ())
    assert len(panel.drawn) == 2


@pytest.mark.parametrize(
    ("tokens", "ticks"),
    [((52, 148), {"60", "100", "140"}), ((0.2, 4000), {"1", "1k"}), ((29_000, 31_000), {"30k"})],
)
def test_ticks_are_plain_numbers(put, tokens, ticks):
    runs = [put("ffs", place, 3, 10, name=f"r{place}") for place in range(len(tokens))]
    runs = [
        dataclasses.replace(
            run, rows={name: dataclasses.replace(row, decoded=cost) for name, row in run.rows.items()}
        )
        for run, cost in zip(runs, tokens, strict=True)
    ]
    (panel,) = panels(runs)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn(whole(accuracy(panel, "decoded"), "white")))
    assert ticks <= set(texts)
    assert not any(re.fullmatch(r"[\d.]+(e.*|m)", text) for text in texts)


def test_runs_without_results_are_in_no_panel(put, write_run):
    assert panels([read_run(write_run("failed", {}, status="failed"))]) == []


def test_the_front_is_by_cost(put):
    runs = [put("majority", 1, 2, 10), put("majority", 4, 4, 40), put("ffs", 4, 4, 60), put("beam", 4, 6, 90)]
    (panel,) = panels(runs)
    assert panel.fronts["decoded"] == ["majority n=1", "majority n=4", "beam"]
    assert panel.costs == ["decoded", "serial", "seconds"]


def test_between_two_plain_runs_questions_are_shared_out(put):
    """At 25 of 10 and 40 tokens half of the questions go to each: 3 of 8 right."""
    (panel,) = panels([put("majority", 1, 2, 10), put("majority", 4, 4, 40), put("beam", 4, 6, 25)])
    against = panel.against["beam"]
    assert (against.accuracy, against.share) == (3 / 8, 1.0)
    assert against.gain == 3 / 8
    mixed = [1, 1, 0.5, 0.5, 0, 0, 0, 0]
    gain, low, high = paired_bootstrap([1] * 6 + [0] * 2, mixed)
    assert (against.gain, against.low, against.high) == pytest.approx((gain, low, high))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [(9, None), (10, (2 / 8, 1.0)), (40, (4 / 8, 1.0)), (80, (4 / 8, 0.5))],
)
def test_nothing_is_extrapolated(put, tokens, expected):
    (panel,) = panels([put("majority", 1, 2, 10), put("majority", 4, 4, 40), put("beam", 4, 6, tokens)])
    against = panel.against.get("beam")
    assert (against and (against.accuracy, against.share)) == expected


def test_single_samples_and_votes_are_one_line(put):
    (panel,) = panels([put("single", 1, 2, 10), put("majority", 4, 4, 30), put("beam", 4, 6, 20)])
    assert panel.against["beam"].accuracy == 3 / 8


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("apart", [0, 1])
def test_a_plain_run_that_another_beats_for_its_tokens_is_no_baseline(put, order, apart):
    """A single sample of a pool of 4 costs what the vote over it costs, and is right less often."""
    runs = [
        put("single", 4, 1, 4_000_000),
        put("majority", 4, 4, 4_000_000 + apart),
        put("majority", 8, 5, 8_000_000),
    ]
    runs += [put("single", 8, 1, 8_000_000), put("ffs", 4, 4, 4_000_000), put("beam", 8, 6, 8_000_000)]
    (panel,) = panels(runs[::order])
    assert [(panel.against[name].accuracy, panel.against[name].gain) for name in ("ffs", "beam")] == [
        (4 / 8, 0.0),
        (5 / 8, 1 / 8),
    ]
    assert panel.pairs[0].second == "majority n=8"
    assert panel.pairs[0].difference == tuple(panel.against["beam"])[1:4]
    line = _plain_lines(panel, "decoded", {}, {})[0]["data"]["values"]
    assert (line[0]["accuracy"], line[-1]["accuracy"]) == (4 / 8, 5 / 8)


@pytest.mark.slow
def test_recorded_single_samples_do_not_lower_the_baseline(tmp_path):
    """``single`` pays for the whole pool of recorded samples, as the vote does."""
    for name in ("single", "majority", "ffs"):
        for n in (4, 8):
            asked = ["engine=replay", "task=recorded", "task.model=R1", f"strategy={name}", f"strategy.n={n}"]
            run_config(compose([*asked, "trace=false"]), tmp_path / f"{name}{n}")
    (panel,) = panels(read_runs([tmp_path]))
    points = {point.name: point for point in panel.drawn}
    one, other = points["ffs n=4"], points["majority n=4"]
    assert one.measures.decoded == points["single n=4"].measures.decoded == other.measures.decoded
    assert (
        panel.against["ffs n=4"].accuracy == other.measures.accuracy > points["single n=4"].measures.accuracy
    )
    paired = compare(one.run, other.run).difference
    assert tuple(panel.against["ffs n=4"])[1:4] == pytest.approx(paired)


def test_seeds_of_a_plain_run_are_taken_together(put):
    seeds = [put("majority", 4, right, 40, name=f"s{right}", config={"seed": right}) for right in (2, 4)]
    (panel,) = panels([*seeds, put("beam", 4, 6, 40)])
    assert panel.against["beam seed=0"].accuracy == 3 / 8


def test_a_plain_run_of_another_model_is_no_baseline(put):
    large = {"engine": {"use": "fake", "model": "large"}}
    (panel,) = panels([put("majority", 4, 2, 40, config=large), put("beam", 4, 6, 40)])
    assert panel.against == {}


def test_only_shared_questions_count(put, write_run):
    half = {name: keys for name, keys in rows(2, 40).items() if name < "q4"}
    plain = read_run(write_run("half", half, strategy="majority"))
    beam = put("beam", 4, 6, 40)
    for found in panels([plain, beam]):
        assert (len(found.drawn), found.against, found.pairs) == (1, {}, ())
    open_ones = {name: {**keys, "correct": None} for name, keys in rows(2, 40).items() if name >= "q4"}
    plain = read_run(write_run("open", {**half, **open_ones}, strategy="majority"))
    (panel,) = panels([plain, beam])
    assert (panel.against["beam"].accuracy, panel.against["beam"].gain) == (0.5, 0.5)
    fewer = {name: {"correct": True if name == "q0" else None} for name in QUESTIONS}
    (panel,) = panels([read_run(write_run("few", fewer, strategy="majority")), beam])
    assert panel.against == {}


def test_each_set_of_questions_has_a_panel_of_its_own(put, write_run):
    """Another limit, another sub-set, and as many others: nothing spans them."""

    def some(name, places, **more):
        return read_run(write_run(name, {f"q{place}": True for place in places}, **more))

    runs = [put("majority", 4, 3, 40), put("ffs", 4, 4, 30), put("beam", 2, 1, 9, config={"limit": 8})]
    runs += [some("short", range(4), config={"limit": 4}), some("others", range(4, 8))]
    runs += [some("begun", range(3), status="partial", n=9), some("far", range(20, 22), status="partial")]
    found = panels(runs)
    assert [len(panel.points) for panel in found] == [3, 2, 1, 1]
    assert [panel.title for panel in found] == [
        "sums, 8 questions",
        "sums, 4 questions (2)",
        "sums, 4 questions (3)",
        "sums, 2 questions",
    ]
    assert found[0].best.name.startswith("ffs")
    assert [len(panel.others) for panel in found] == [0, 1, 0, 1]
    for panel in found:
        names = {point.name for point in panel.points}
        assert all(names >= set(front) for front in panel.fronts.values())


def test_the_best_is_compared_with_plain_ones(put):
    runs = [
        put("majority", 1, 2, 50),
        put("majority", 4, 4, 400),
        put("ffs", 4, 5, 60),
        put("beam", 4, 6, 60),
    ]
    (panel,) = panels(runs)
    assert [(pair.first, pair.second) for pair in panel.pairs] == [
        ("beam", "majority n=4"),
        ("beam", "majority n=1"),
    ]
    assert panel.pairs[0].difference[0] == 2 / 8


@pytest.mark.parametrize(
    ("asked", "pair"),
    [
        ([("majority", 1, 6), ("ffs", 2, 5), ("ffs", 4, 4)], ("majority", "ffs n=2")),
        ([("beam", 1, 6), ("beam", 2, 5)], ("beam n=1", "beam n=2")),
        ([("beam", 1, 6)], None),
    ],
)
def test_without_a_better_one_it_is_the_next(put, asked, pair):
    (panel,) = panels([put(strategy, n, right, 10 * n) for strategy, n, right in asked])
    assert [(one.first, one.second) for one in panel.pairs] == ([pair] if pair else [])
