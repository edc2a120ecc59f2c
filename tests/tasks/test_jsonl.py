import gzip
import json
import os
from pathlib import Path

import pytest
import yaml

from ttsflow.errors import ConfigError, DataError, MissingExtra
from ttsflow.protocols import Task
from ttsflow.recordings import read_recordings
from ttsflow.tasks import rows
from ttsflow.tasks.jsonl import Jsonl
from ttsflow.tasks.plain import Plain
from ttsflow.types import Message, Problem

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "conf" / "task"


def write(folder, records, name="data.jsonl"):
    path = folder / name
    text = "".join((record if isinstance(record, str) else json.dumps(record)) + "\n" for record in records)
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return str(path)


def one(folder, record, **settings):
    return Jsonl(path=write(folder, [record]), **settings).problems()[0]


QA = [{"question": "1 + 1?", "answer": "2"}, {"question": "2 + 2?", "answer": 4.0}]


def test_it_is_a_task(tmp_path):
    assert isinstance(Jsonl(path=write(tmp_path, QA)), Task)
    assert isinstance(Plain(("x",)), Task)


@pytest.mark.parametrize("name", ["data.jsonl", "data.jsonl.gz"])
def test_reads_chat_problems(tmp_path, name):
    task = Jsonl(path=write(tmp_path, ["", *QA], name), system="Be brief.")
    first, second = task.problems()
    assert first.prompt == (Message("system", "Be brief."), Message("user", "1 + 1?"))
    assert (first.gold, second.gold) == ("2", "4")
    assert task.correct(task.answer("The answer is 4.", second), second) is True
    assert task.correct(task.answer("No idea", second), second) is False


def test_raw_text_and_template(tmp_path):
    problem = one(tmp_path, QA[0] | {"hint": "count"}, chat=False, prompt="{{Q}}: {question} ({hint})\nA:")
    assert problem.prompt == "{Q}: 1 + 1? (count)\nA:"


def test_braces_in_the_data_stay_as_they_are(tmp_path):
    problem = one(tmp_path, {"question": r"Is \frac{1}{2} {answer}?", "answer": "1"}, chat=False)
    assert problem.prompt == r"Is \frac{1}{2} {answer}?"


def test_fields_by_path_template_and_alternatives(tmp_path):
    nested = {"question": {"stem": "Where?"}, "answer": 1}
    for names in ("question.stem", ("stem", "question.stem"), ("{Body} {Ask}", "question.stem")):
        assert one(tmp_path, nested, question=names, chat=False).prompt == "Where?"
    assert (
        one(tmp_path, {"Body": "B.", "Ask": "A?", "answer": 1}, question="{Body} {Ask}", chat=False).prompt
        == "B. A?"
    )
    flat = {"question": "Where?", "answer": 1}
    assert one(tmp_path, flat, question=("question.stem", "question"), chat=False).prompt == "Where?"


def test_ids(tmp_path):
    path = write(tmp_path, [{"id": 7, **QA[0]}, {"id": 7, **QA[1]}, {"id": "7-2", **QA[1]}])
    assert [problem.id for problem in Jsonl(path=path, id="id").problems()] == ["7", "7-2", "7-2-2"]
    hashed = [problem.id for problem in Jsonl(path=path).problems()]
    assert hashed[2] == f"{hashed[1]}-2"
    assert hashed == [problem.id for problem in Jsonl(path=path, prompt="Now: {question}").problems()]


def test_shuffle_is_a_function_of_its_seed(tmp_path):
    path = write(tmp_path, [{"question": f"{n}?", "answer": n} for n in range(20)])
    order = [[p.gold for p in Jsonl(path=path, shuffle=seed).problems()] for seed in (None, 1, 1, 2)]
    assert order[1] == order[2]
    assert len({tuple(golds) for golds in order}) == 3
    assert sorted(order[1]) == sorted(order[0])


@pytest.mark.parametrize(
    "options",
    [
        ["A)bank", "B) zoo", "C) sea"],
        ["bank", "zoo", "sea"],
        [{"label": "A", "text": "bank"}, {"label": "B", "text": "zoo"}, {"label": "C", "text": "sea"}],
        {"label": ["A", "B", "C"], "text": ["bank", "zoo", "sea"]},
        {"A": "bank", "B": "zoo", "C": "sea"},
    ],
)
@pytest.mark.parametrize("gold", ["B", "b", "(B)", "zoo", 1])
def test_options(tmp_path, options, gold):
    record = {"question": "Lions?", "options": options, "answer": gold}
    settings = {"kind": "choice", "choices": "options", "chat": False, "prompt": "{question}\n{choices}"}
    problem = one(tmp_path, record, **settings)
    assert problem.prompt == "Lions?\nA) bank\nB) zoo\nC) sea"
    assert problem.gold == "B"
    task = Jsonl(path="x", **settings)
    assert task.correct(task.answer("The answer is (B).", problem), problem) is True
    assert task.correct(task.answer("The answer is the sea.", problem), problem) is False


def test_numbered_options_keep_their_labels(tmp_path):
    record = {"question": "?", "choices": {"label": ["1", "2"], "text": ["x", "y"]}, "answer": "2"}
    assert one(tmp_path, record, kind="choice", choices="choices").gold == "2"


def test_distractors_are_mixed_with_the_right_option(tmp_path):
    records = [{"q": f"{n}?", "right": f"r{n}", "w1": "a", "w2": "b", "w3": "c"} for n in range(40)]
    path = write(tmp_path, records)
    settings = {"question": "q", "gold": "right", "distractors": ("w1", "w2", "w3"), "kind": "choice"}
    problems = Jsonl(path=path, **settings).problems()
    assert {problem.gold for problem in problems} == set("ABCD")
    for number, problem in enumerate(problems):
        assert dict(problem.data["choices"])[problem.gold] == f"r{number}"
    assert problems == Jsonl(path=path, **settings).problems()


def test_no_gold_field_means_nothing_is_graded(tmp_path):
    problem = one(tmp_path, {"question": "?"}, gold=None)
    assert problem.gold is None
    assert Jsonl(path="x").correct(None, problem) is None


def test_the_missing_file_is_named_with_its_nearest_neighbour(tmp_path):
    write(tmp_path, QA, "gsm8k_test.jsonl")
    asked = str(tmp_path / "gsm8k_tests.jsonl")
    with pytest.raises(DataError) as caught:
        Jsonl(path=asked).problems()
    assert asked in str(caught.value)
    assert "Did you mean" in str(caught.value)
    assert "gsm8k_test.jsonl" in str(caught.value)
    with pytest.raises(DataError, match=r"folder .* does not exist"):
        Jsonl(path=str(tmp_path / "no" / "x.jsonl")).problems()
    with pytest.raises(DataError, match=r"It holds: gsm8k_test\.jsonl"):
        Jsonl(path=str(tmp_path)).problems()


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ('{"question": ', "not a JSON object"),
        ("[1]", "found list"),
        ('{"question": null, "answer": 1}', "holds null"),
    ],
)
def test_a_broken_line_is_named(tmp_path, broken, says):
    path = write(tmp_path, [QA[0], broken])
    with pytest.raises(DataError, match=says) as caught:
        Jsonl(path=path).problems()
    assert f"{path}:2" in str(caught.value)


def test_a_missing_field_is_named_with_the_known_ones(tmp_path):
    path = write(tmp_path, [QA[0], {"questoin": "?", "answer": 1}])
    with pytest.raises(DataError) as caught:
        Jsonl(path=path).problems()
    for part in (f"{path}:2", "'question'", "Did you mean 'questoin'?", "Known: answer, questoin"):
        assert part in str(caught.value)
    with pytest.raises(DataError, match="Known"):
        Jsonl(path=path, question="{question} {ask}").problems()


@pytest.mark.parametrize("lines", [[], ["", " "]])
def test_an_empty_file_is_refused(tmp_path, lines):
    with pytest.raises(DataError, match="no rows"):
        Jsonl(path=write(tmp_path, lines)).problems()


def test_a_truncated_archive_is_refused(tmp_path):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(QA[0]).encode() * 50)[:-9])
    with pytest.raises(DataError, match=r"x\.jsonl\.gz"):
        Jsonl(path=str(path)).problems()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda data: data[:-9], "x.jsonl.gz:400: cannot be read beyond this line: Compressed file ended"),
        (lambda data: data[:-6] + bytes([data[-6] ^ 255]) + data[-5:], "x.jsonl.gz:400: .* CRC check failed"),
        (lambda data: data[:-40] + b"\xff" * 40, r"x.jsonl.gz:\d+: cannot be read beyond this line: "),
        (lambda data: b"", "x.jsonl.gz: is no gzip data: the file has 0 bytes"),
        (lambda data: b"{}", "x.jsonl.gz: cannot be read: Not a gzipped file"),
    ],
    ids=["truncated", "checksum", "broken", "empty", "text"],
)
def test_a_broken_archive_names_the_last_line_read(tmp_path, make, message):
    # Spaces compress well, but not so well that the last block holds every line.
    lines = [json.dumps({"a": f"{number * 7919**9:060}"}) for number in range(400)]
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(make(gzip.compress("\n".join([*lines, ""]).encode())))
    with pytest.raises(DataError, match=message):
        list(rows.read_rows(str(path)))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_bytes_that_are_no_text_are_named_where_they_stand(tmp_path, end):
    path = tmp_path / "x.jsonl"
    lines = ['\ufeff{"a": "ü"}'.encode(), b'{"a": 2}', b'{"a": "\xff"}', b'{"a": 4}']
    path.write_bytes(end.encode().join(lines))
    with pytest.raises(DataError, match=r"x\.jsonl:3: is no UTF-8 text: .*0xff in position 7"):
        list(rows.read_rows(str(path)))
    path.write_bytes(end.encode().join(lines[:2]))
    assert [row.data["a"] for row in rows.read_rows(str(path))] == ["ü", 2]


@pytest.mark.parametrize("half", [r'{"a": "\ud800"}', r'{"a": {"\uDFff": 1}}', r'{"a": ["\ud800\u0041"]}'])
def test_half_a_character_is_refused_where_it_stands(tmp_path, half):
    path = write(tmp_path, [r'{"a": "\ud83d\ude00 \\ud800"}', half])
    with pytest.raises(DataError, match=r"data\.jsonl:2: holds half a character"):
        list(rows.read_rows(path))
    assert next(rows.read_rows(path)).data == {"a": "\U0001f600 \\ud800"}
    with pytest.raises(DataError, match=r"data\.jsonl:2: holds half a character"):
        read_recordings(write(tmp_path, ['{"problem": 1, "samples": [{"pred": "1", "tokens": 1}]}', half]))


def test_paths_that_lead_to_no_file(tmp_path):
    os.mkfifo(tmp_path / "fifo.jsonl")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to("nowhere.jsonl")
    for path, message in [
        ("~nouser/x.jsonl", "'~nouser/x.jsonl' cannot be read: Could not determine home"),
        (tmp_path / ("a" * 5000), r"a\.\.\.' cannot be read: File name too long"),
        (tmp_path / "fifo.jsonl", "fifo.jsonl' is no regular file"),
        ("/dev/null", "'/dev/null' is no regular file"),
        (tmp_path / "loop.jsonl", "cannot be read: it is a link that leads to no file, but to 'loop.jsonl'"),
        (tmp_path / "dangling.jsonl", "link that leads to no file, but to 'nowhere.jsonl'"),
        ("a\0b", "it holds a null character"),
    ]:
        with pytest.raises(DataError, match=message) as caught:
            list(rows.read_rows(str(path)))
        assert caught.value.path == "path"
        assert "Did you mean" not in str(caught.value)


def test_gold_without_a_value_is_warned_about(tmp_path):
    path = write(
        tmp_path, [QA[0], {"question": "?", "answer": "1/0"}, {"question": "!", "answer": "9" * 5000}]
    )
    with pytest.warns(UserWarning, match="2 of 3 gold answers"):
        assert [problem.gold for problem in Jsonl(path=path).problems()] == ["2", None, None]


def test_gold_that_parses_to_nothing_is_warned_about_once(tmp_path):
    path = write(tmp_path, [QA[0], {"question": "?", "answer": "many"}, {"question": "!", "answer": "few"}])
    with pytest.warns(UserWarning, match="2 of 3 gold answers") as caught:
        problems = Jsonl(path=path).problems()
    assert len(caught) == 1
    assert f"{path}:2" in str(caught[0].message)
    assert [problem.gold for problem in problems] == ["2", None, None]


def test_when_no_gold_parses_the_kind_is_wrong(tmp_path):
    with pytest.raises(DataError, match="the right field, and the kind"):
        Jsonl(path=write(tmp_path, [{"question": "?", "answer": "many"}])).problems()


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"kind": "numeric"}, "kind"),
        ({"kind": "choice"}, "kind"),
        ({"choices": "options"}, "choices"),
        ({"prompt": "What?"}, "prompt"),
        ({"prompt": "{question"}, "prompt"),
        ({"prompt": "{}"}, "prompt"),
        ({"prompt": "{0}"}, "prompt"),
        ({"prompt": "{question.__class__}"}, "prompt"),
        ({"prompt": "{question[0]}"}, "prompt"),
        ({"prompt": "{question!r}"}, "prompt"),
        ({"prompt": "{question:>9}"}, "prompt"),
        ({"question": ()}, "question"),
        ({"stop": "\\n\\n"}, "stop"),
        ({"stop": ("",)}, "stop"),
        ({"separator": "\\n"}, "separator"),
        ({"separator": ""}, "separator"),
        ({"system": "x", "chat": False}, "system"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"kind": "choice", "choices": "a", "distractors": ("b",)}, "distractors"),
    ],
)
def test_settings_are_checked(settings, field):
    with pytest.raises(ConfigError) as caught:
        Jsonl(**settings)
    assert caught.value.path == field


def test_a_stop_string_need_not_be_a_list():
    assert Jsonl(stop="Question:").stop == ("Question:",)
    assert Jsonl(stop=["a", "b"]).stop == ("a", "b")


def test_without_any_data_it_says_what_to_set():
    with pytest.raises(ConfigError, match="set path"):
        Jsonl().problems()


def test_the_hub_needs_its_extra(monkeypatch):
    monkeypatch.setattr(rows.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"ttsflow\[hub\]"):
        Jsonl(hub="openai/gsm8k").problems()


def hub(monkeypatch, load):
    monkeypatch.setattr(rows.importlib.util, "find_spec", lambda name: True)
    monkeypatch.setitem(
        __import__("sys").modules, "datasets", type("datasets", (), {"load_dataset": staticmethod(load)})
    )


def test_the_hub_is_asked_for_subset_and_split(monkeypatch):
    calls = []
    hub(monkeypatch, lambda name, subset, split: calls.append((name, subset, split)) or QA)
    assert [problem.gold for problem in Jsonl(hub="a/b", subset="main", split="dev").problems()] == ["2", "4"]
    assert calls == [("a/b", "main", "dev")]


def test_a_hub_that_fails_is_a_data_error(monkeypatch):
    def load(name, subset, split):
        raise ConnectionError("offline")

    hub(monkeypatch, load)
    with pytest.raises(DataError, match=r"a/b\[test\].*offline"):
        Jsonl(hub="a/b").problems()


# --- in memory ------------------------------------------------------------------------------------


def test_plain_takes_texts_mappings_and_problems():
    given = Problem("raw", id="mine", gold="3")
    task = Plain(("2 + 2?", {"prompt": "1 + 2?", "gold": 3, "id": "a"}, given, {"prompt": "x", "id": "a"}))
    first, second, third, fourth = task.problems()
    assert first.prompt == (Message("user", "2 + 2?"),)
    assert first.gold is None
    assert (second.gold, second.id, fourth.id) == ("3", "a", "a-2")
    assert third is given
    assert task.correct(task.answer("It is 3", second), second) is True


def test_plain_raw_text_and_choices():
    item = {"prompt": "Lions? A) bank B) zoo", "choices": ["bank", "zoo"], "gold": "zoo"}
    task = Plain((item,), kind="choice", chat=False)
    problem = task.problems()[0]
    assert (problem.prompt, problem.gold) == (item["prompt"], "B")
    assert task.correct(task.answer("Answer: B", problem), problem) is True


@pytest.mark.parametrize("items", [(), ({"promt": "x"},), ({"gold": 1},), ({"prompt": "x", "gold": "none"},)])
def test_plain_refuses_what_it_cannot_read(items):
    with pytest.raises(ConfigError):
        Plain(items).problems()


def test_plain_refuses_one_problem_in_place_of_a_list():
    with pytest.raises(ConfigError, match="list of problems"):
        Plain("What is 1 + 1?")


# --- shipped configs ------------------------------------------------------------------------------


def config(name):
    settings = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    assert settings.pop("use") == "jsonl"
    return settings


@pytest.mark.parametrize(
    "name", sorted(path.stem for path in CONFIGS.glob("*.yaml") if "\nuse: jsonl\n" in path.read_text())
)
def test_every_config_builds_and_says_what_it_is(name):
    assert (CONFIGS / f"{name}.yaml").read_text().startswith("# What: ")
    assert Jsonl(**config(name)).separator.isspace()


@pytest.mark.parametrize(
    ("name", "file", "size"),
    [
        pytest.param("gsm8k", "gsm8k_test.jsonl", 1319, marks=pytest.mark.slow),
        pytest.param("svamp", "svamp_test.jsonl", 1000, marks=pytest.mark.slow),
        ("math500", "math500_test.jsonl", 500),
        ("aqua", "aqua_test.jsonl", 254),
        pytest.param("commonsenseqa", "commonsenseqa_dev.jsonl", 1221, marks=pytest.mark.slow),
    ],
)
def test_configs_read_the_published_files_and_accept_their_own_gold(name, file, size, data_file):
    task = Jsonl(**{**config(name), "path": str(data_file(f"datasets/{file}"))})
    problems = task.problems()
    assert len({problem.id for problem in problems}) == len(problems) == size
    for problem in problems:
        answer = task.answer(rf"So it is \boxed{{{problem.gold}}}.", problem)
        assert task.correct(answer, problem) is True


HUB_ROWS = {
    "gsm8k": {"question": "?", "answer": "a <<1+1=2>>\n#### 1,002"},
    "svamp": {"ID": "c-1", "Body": "b.", "Question": "q?", "Answer": "1002.0"},
    "math500": {"problem": "?", "answer": "1002", "unique_id": "u"},
    "aime24": {"id": 60, "problem": "?", "answer": "1002"},
    "amc23": {"id": 0, "question": "?", "answer": 1002.0},
    "aqua": {"question": "?", "options": ["A)1", "B)2"], "correct": "B"},
    "commonsenseqa": {
        "id": "x",
        "question": "?",
        "choices": {"label": ["A", "B"], "text": ["m", "n"]},
        "answerKey": "B",
    },
    "arc_challenge": {
        "id": "x",
        "question": "?",
        "choices": {"text": ["m", "n"], "label": ["A", "B"]},
        "answerKey": "B",
    },
}


@pytest.mark.parametrize("name", sorted(HUB_ROWS))
def test_configs_read_rows_as_the_hub_has_them(monkeypatch, name):
    hub(monkeypatch, lambda name, subset, split: [HUB_ROWS[next(n for n in HUB_ROWS if n == wanted)]])
    wanted = name
    task = Jsonl(**config(name))
    problem = task.problems()[0]
    right = r"\boxed{B}" if task.kind == "choice" else r"\boxed{1002}"
    assert task.correct(task.answer(right, problem), problem) is True
