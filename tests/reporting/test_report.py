"""The command and its page: what is on it, that nothing of a model is markup, that it asks for nothing."""

import json
import re
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from ttsflow import cli
from ttsflow.analysis.runs import read_run
from ttsflow.config import compose
from ttsflow.errors import ConfigError
from ttsflow.reporting.command import report
from ttsflow.reporting.panels import panels
from ttsflow.reporting.problems import pack
from ttsflow.run import run_config

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp;\u2028"
VOID = {"meta", "link", "img", "input", "br"}


class Outline(HTMLParser):
    """What a page consists of; every element is closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.data, self.texts = [], [], "", []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.data = self.data or data
        else:
            self.texts.append(data)

    def named(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]

    @property
    def text(self):
        return " ".join(" ".join(self.texts).split())


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Return a folder of runs: votes, a search with timelines, joules, one that failed."""
    folder = tmp_path_factory.mktemp("sweep")
    sim = ["engine=sim", "task=simulated", "task.size=6", "verifier=simulated", "strategy.n=4"]
    for name in ("majority", "beam_search", "best_of_n"):
        run_config(compose([*sim, f"strategy={name}"]), folder / name)
    (folder / "failed").mkdir()
    told = {"status": "failed", "error": "ModelError: no such model", "traceback": "Traceback: line 1"}
    (folder / "failed" / "summary.json").write_text(json.dumps(told))
    return folder


@pytest.fixture(scope="module")
def page(sweep, tmp_path_factory):
    """Return the page of the sweep, as text."""
    target = tmp_path_factory.mktemp("page") / "report.html"
    report([sweep], target)
    return target.read_text("utf-8")


@pytest.mark.slow
def test_the_page_has_all_parts(page):
    outline = Outline(page)
    text = outline.text
    for part in (
        "Accuracy against what it costs",
        "Runs",
        "A against B",
        "Problems",
        "Search trees",
        "Timelines",
    ):
        assert part in text
    assert "4 runs: 3 complete, 0 partial, 1 failed" in text
    assert "ModelError: no such model" in text
    assert "Traceback: line 1" in text
    assert "ttsflow show" in text
    assert len(outline.named("svg")) >= 5


def test_the_page_asks_for_nothing(page):
    outline = Outline(page)
    for _, attrs in outline.tags:
        for key in ("src", "href", "xlink:href", "data", "action"):
            assert attrs.get(key, "#").startswith(("#", "data:,")), attrs
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest", page)
    (policy,) = [one["content"] for one in outline.named("meta") if "http-equiv" in one]
    assert policy.startswith("default-src 'none'")


def test_the_page_can_be_read_by_ear_and_by_keyboard(page):
    outline = Outline(page)
    assert outline.named("html")[0]["lang"] == "en"
    assert [len(outline.named(tag)) for tag in ("h1", "main", "header", "footer")] == [1, 1, 1, 1]
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h\d", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(outline.named("table")) == len(outline.named("caption"))
    assert all("scope" in attrs for attrs in outline.named("th"))
    charts = [attrs for attrs in outline.named("div") if attrs.get("class") == "chart"]
    assert charts
    assert all(attrs["role"] == "img" and attrs["aria-label"] for attrs in charts)
    for attrs in outline.named("div"):
        if attrs.get("class") == "scroll":
            assert attrs["tabindex"] == "0"
            assert attrs["aria-label"]
    ids = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for attrs in outline.named("a"):
        assert attrs["href"][1:] in ids


def test_every_picture_is_xml(page):
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert pictures
    for picture in pictures:
        assert ET.fromstring(picture).get("viewBox")


@pytest.mark.slow
def test_what_a_model_has_written_is_text(write_run, tmp_path):
    rows = {
        EVIL: {"answer": EVIL, "gold": EVIL, "correct": True, "text": EVIL, "stopped": EVIL, "reason": EVIL}
    }
    config = {"choices": {"strategy": EVIL, "task": EVIL, "engine": EVIL}, "engine": {"model": EVIL}}
    folder = write_run("run", rows, config=config, summary={"strategy": EVIL, "task": EVIL, "engine": EVIL})
    events = [
        {"event": "candidate", "path": [0], "finish": "step", "tokens": 3, "tokens_new": 3, "text": EVIL},
        {"event": "candidate", "path": [0, 0], "finish": "stop", "tokens": 6, "tokens_new": 3, "text": EVIL}
        | {"answer": EVIL, "reason": EVIL},
        {"event": "aggregate", "how": EVIL, "weights": {EVIL: 1.0}, "chosen": [0, 0]},
    ]
    lines = [
        json.dumps({**event, "problem": EVIL}, ensure_ascii=False, separators=(",", ":")) for event in events
    ]
    (folder / "trace.jsonl").write_text("\n".join(lines), encoding="utf-8")
    write_run("failed", {}, status="failed", summary={"error": EVIL, "traceback": EVIL})
    (tmp_path / "failed" / "results.jsonl").write_text(EVIL)
    report([folder, tmp_path / "failed"], tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text("utf-8")
    outline = Outline(text)
    assert outline.named("img") == []
    assert [attrs.get("type") for attrs in outline.named("script")] == ["application/json", None]
    assert "Search trees" in outline.text
    assert EVIL in json.loads(outline.data)["strings"]
    assert "alert(1)" in outline.text
    for picture in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ET.fromstring(picture)


@pytest.mark.slow
def test_half_a_character_breaks_nothing(write_run, tmp_path):
    broken = "half \ud800"
    folder = write_run("run", {broken: {"answer": broken, "correct": True}}, summary={"strategy": broken})
    report([folder], tmp_path / "page.html", ["svg"])
    assert "half ?" in (tmp_path / "page.html").read_text("utf-8")
    assert "half ?" in (tmp_path / "page.svg").read_text("utf-8")


def test_a_long_list_of_failed_jobs_is_cut(write_run, tmp_path, monkeypatch):
    monkeypatch.setattr("ttsflow.reporting.page._LISTED", 2)
    for number in range(5):
        write_run(f"sweep/{number}", {}, status="failed", summary={"error": "no such model"})
    report([tmp_path / "sweep"], tmp_path / "page.html")
    text = Outline((tmp_path / "page.html").read_text()).text
    assert text.count("no such model") == 4  # in the line, and below it
    assert "and 3 more." in text


@pytest.mark.slow
def test_what_is_skipped_is_counted_and_named(write_run, tmp_path, capsys):
    folder = write_run("run", {"a": True, "b": False})
    with (folder / "results.jsonl").open("a") as file:
        file.write('{"id": "c", "outc\n')
    assert cli.main(["report", str(folder), "-o", str(tmp_path / "page.html")]) == 0
    shown = capsys.readouterr().out
    assert f"skipped {folder / 'results.jsonl'}:3: is no record of JSON" in shown
    text = Outline((tmp_path / "page.html").read_text()).text
    assert "1 line of results was skipped" in text
    assert f"{folder / 'results.jsonl'}:3 is no record of JSON" in text


@pytest.mark.slow
def test_a_high_rate_of_cut_candidates_is_marked(write_run, tmp_path):
    for name, cut in (("good", 0), ("bad", 1)):
        report([write_run(name, {"a": {"correct": True, "truncated": cut}})], tmp_path / "page.html")
        assert ("above 5 %: the token limit" in (tmp_path / "page.html").read_text()) is bool(cut)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "right", "said"),
    [
        (2, True, "majority n=0 has the highest accuracy, together with majority n=1: 50.0"),
        (4, True, "has the highest accuracy, together with 3 others: 50.0"),
        (2, False, "No complete run has a right answer to any question."),
    ],
)
def test_the_headline_tells_of_ties(write_run, tmp_path, count, right, said):
    folders = [write_run(f"run{n}", {"a": right, "b": False}, n=n) for n in range(count)]
    report(folders, tmp_path / "page.html")
    text = Outline((tmp_path / "page.html").read_text()).text
    assert said in text
    assert ("highest accuracy" in text) is right
    assert "Accuracy against seconds (virtual clock)" in text


@pytest.mark.slow
def test_joules_have_a_picture_where_they_are_known(write_run, tmp_path):
    rows = {name: {"correct": True, "usage": {"joules": 3.0}} for name in "ab"}
    report([write_run("run", rows)], tmp_path / "page.html")
    assert "Accuracy against joules" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("rows", [{}, {"a": None}])
def test_a_page_without_an_accuracy_says_so(write_run, tmp_path, rows):
    report([write_run("run", rows, status="complete")], tmp_path / "page.html")
    text = Outline((tmp_path / "page.html").read_text()).text
    assert (
        "No complete run of these problems has gold answers" if rows else "No run has a result yet"
    ) in text


# --- the command ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_writes_page_and_pictures(sweep, tmp_path, capsys):
    page = tmp_path / "mine.html"
    assert cli.main(["report", str(sweep), "-o", str(page), "--png", "--svg"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "4 runs: 3 complete, 0 partial, 1 failed",
        f"html: {page}",
        f"png: {tmp_path / 'mine.png'}",
        f"svg: {tmp_path / 'mine.svg'}",
    ]
    assert (tmp_path / "mine.png").read_bytes().startswith(b"\x89PNG")
    assert "beam_search" in "".join(ET.fromstring((tmp_path / "mine.svg").read_text()).itertext())


@pytest.mark.slow
def test_the_page_stands_in_the_first_folder_unless_named(write_run, tmp_path):
    folder = write_run("run", {"a": True})
    for _ in range(2):
        assert cli.main(["report", str(folder)]) == 0
    assert (folder / "report.html").is_file()
    assert read_run(folder).skipped == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gone"], "there is no folder 'gone'"),
        (["empty"], "empty holds no run"),
        (["run", "-o", "page.txt"], "page.txt is no page"),
        (["run", "-o", "gone/page.html"], "there is no folder 'gone'"),
        (["run", "-o", "folder.html"], "folder.html is no page"),
    ],
)
def test_what_cannot_be_is_refused_in_words(write_run, monkeypatch, capsys, words, said):
    folder = write_run("run", {"a": True}).parent
    for name in ("empty", "folder.html"):
        (folder / name).mkdir()
    monkeypatch.chdir(folder)
    assert cli.main(["report", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("package", ["jinja2", "vl_convert"])
def test_without_the_extra_it_is_named(write_run, monkeypatch, capsys, package):
    folder = write_run("run", {"a": True})
    for name in [name for name in sys.modules if name.startswith("ttsflow.reporting.")]:
        monkeypatch.delattr(name, raising=False)
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert cli.main(["report", str(folder)]) == 2
    assert "pip install 'ttsflow[report]'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_page_that_cannot_be_written_is_told(write_run, tmp_path, monkeypatch):
    folder = write_run("run", {"a": True})

    def full(self, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(ConfigError, match="cannot be written: No space left on device"):
        report([folder], tmp_path / "page.html")


# --- the data of the page ---------------------------------------------------------------------------------


def test_every_result_is_in_the_data(sweep):
    found = panels([read_run(sweep / name) for name in ("majority", "best_of_n")])
    data, notes = pack(found)
    strings, (packed,) = data["strings"], data["panels"]
    assert [strings[number] for number in packed["runs"]] == ["majority", "best_of_n"]
    assert len(packed["problems"]) == 6
    assert notes == []
    for name, gold, cells in packed["problems"]:
        for point, cell in zip(found[0].points, cells, strict=True):
            row = point.run.rows[strings[name]]
            verdict, outcome, answer, decoded, serial, seconds, why, vote, *_ = cell
            assert (bool(verdict), strings[outcome], strings[answer]) == (
                row.correct,
                row.outcome,
                row.answer,
            )
            assert (decoded, serial, strings[why]) == (row.decoded, row.serial, row.stopped)
            assert seconds == pytest.approx(row.seconds, rel=1e-3)
            assert strings[gold] == row.gold
            how, weights, others, score, tied = vote
            assert strings[how] in {"majority", "best"}
            assert (score is not None) == (strings[how] == "best")
            if weights:
                assert sum(weights[1::2]) + others == row.candidates
            assert tied in (0, 1)


def test_a_page_of_too_many_results_leaves_out_what_all_agree_on(write_run, monkeypatch):
    rows = {f"q{number}": True for number in range(10)}
    runs = [read_run(write_run(name, {**rows, "q7": name == "one"})) for name in ("one", "two")]
    monkeypatch.setattr("ttsflow.reporting.problems.MOST_RESULTS", 6)
    monkeypatch.setattr("ttsflow.reporting.problems.MOST_TEXT", 10)
    data, notes = pack(panels(runs))
    ids = [data["strings"][problem[0]] for problem in data["panels"][0]["problems"]]
    assert ids == ["q0", "q1", "q7"]
    assert any(note.startswith("7 of 10 problems of sums are left out") for note in notes)
    assert any("texts of trajectories are left out" in note for note in notes)
