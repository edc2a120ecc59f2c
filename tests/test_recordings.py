import gzip
import json
import os

import pytest

from ttsflow.errors import ConfigError, DataError
from ttsflow.fields import MOST_TOKENS
from ttsflow.library import SHIPPED, check_count, library
from ttsflow.recordings import Recording, Sample, read_recordings, write_recordings
from ttsflow.tasks.jsonl import Jsonl
from ttsflow.tasks.keys import key_of


def write(folder, *lines, name="r.jsonl"):
    path = folder / name
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def line(*samples, **fields):
    return {
        "problem": 0,
        "samples": [{"pred": "1", "tokens": 5, **sample} for sample in samples or [{}]],
        **fields,
    }


def one(folder, record, **settings):
    [recording] = read_recordings(write(folder, record), **settings)
    return recording


# --- reading ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_every_field_is_read(tmp_path, name):
    full = {
        "pred": 204,
        "tokens": 2,
        "correct": True,
        "finish": "STOP",
        "text": "so 204",
        "scores": [0.5, None, 1],
        "logprobs": [[-0.1, -2], [-0.2]],
        "certainties": [1.5, 2],
    }
    record = {"model": "m", "dataset": "d", "problem": 7, "answer": 204, "prompt_tokens": 9, "prompt": "ab12"}
    path = write(tmp_path, record | {"samples": [full], "level": "other people's field"}, "", name=name)
    sample = Sample(
        answer="204",
        tokens=2,
        correct=True,
        finish="stop",
        text="so 204",
        scores=(0.5, None, 1.0),
        logprobs=((-0.1, -2.0), (-0.2,)),
        certainties=(1.5, 2.0),
    )
    assert read_recordings(path) == [Recording("m/d/7", (sample,), "m", "d", "204", 9, "ab12")]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"problem": 3}, "3"),
        ({"problem": "a", "model": "m"}, "m/a"),
        ({"problem": "a", "dataset": "d"}, "d/a"),
        ({"problem": None, "id": 0}, "0"),
        ({"problem": None, "id": "x", "model": "m", "dataset": "d"}, "x"),
    ],
)
def test_ids(tmp_path, fields, name):
    assert one(tmp_path, line(**fields)).id == name


@pytest.mark.parametrize(
    ("pred", "answer"),
    [(5, "5"), (-2.0, "-2"), (0.5, "0.5"), ("B", "B"), ("NO_ANSWER", None), ("", None), (None, None)],
)
def test_answers(tmp_path, pred, answer):
    recording = one(tmp_path, line({"pred": pred}, answer=None if answer is None else pred))
    assert recording.samples[0].answer == answer
    assert recording.gold == answer


@pytest.mark.parametrize(
    ("finish", "meant"),
    [
        ("STOP", "stop"),
        ("UNKNOWN", "stop"),
        ("stop", "stop"),
        (None, "stop"),
        ("CUTOFF", "length"),
        ("length", "length"),
    ],
)
def test_finishes(tmp_path, finish, meant):
    # A sample that was cut stays cut, also when an answer was recorded for it.
    assert one(tmp_path, line({"finish": finish})).samples[0] == Sample("1", 5, None, meant)


@pytest.mark.parametrize(
    ("fields", "scores"),
    [
        ({"score": 2}, (2.0,)),
        ({"rm_score": -1.5}, (-1.5,)),
        ({"scores": []}, ()),
        ({"score": None}, ()),
        ({}, ()),
    ],
)
def test_scores(tmp_path, fields, scores):
    assert one(tmp_path, line(fields)).samples[0].scores == scores


def test_words_are_counted_where_they_are_asked_for(tmp_path):
    record = line({"text": "one two  three\n", "logprobs": [[-1]] * 5})
    sample = one(tmp_path, record, count="words").samples[0]
    assert (sample.tokens, sample.logprobs) == (3, ())
    del record["samples"][0]["tokens"]
    with pytest.raises(DataError, match=r"r\.jsonl:1: sample 0: .*`tokens`; set `count: words`"):
        one(tmp_path, record)
    with pytest.raises(DataError, match=r"sample 0: .*`text` to count the words of"):
        one(tmp_path, line(), count="words")


MALFORMED = [
    ("[1]", "expected a JSON object"),
    ("{", "not a JSON object"),
    ({"problem": 1}, "`samples` must be a list of one sample or more. Known: problem"),
    (line() | {"samples": []}, r"`samples` must be .* found \[\]"),
    (line(problem=None), "no field `problem` or `id`"),
    (line(problem=[1]), r"`problem` must be text or a finite number, found \[1\]"),
    (line(problem=True), "`problem` must be text or a finite number, found true"),
    (line(model=3), "`model` must be text"),
    (line(answer={}), r"`answer` must be text or a finite number, found \{\}"),
    (line(prompt_tokens=-1), "`prompt_tokens` must be a whole number from 0 to 100,000,000, found -1"),
    (line() | {"samples": [5]}, "sample 0: must be an object, found 5"),
    (line() | {"samples": [{"tokens": 5}]}, "sample 0: there is no field `pred`"),
    (line({}, {"pred": True}), "sample 1: `pred` must be text or a finite number, found true"),
    (line({"pred": ["x" * 100]}), r"`pred` must be text or a finite number, found \[\"x{58}\.\.\.$"),
    (line({"tokens": -1}), "`tokens` must be a whole number from 0 to 100,000,000, found -1"),
    (line({"tokens": 1.5}), "`tokens` must be a whole number"),
    (line({"tokens": True}), "`tokens` must be a whole number"),
    (line({"tokens": 0}), "has an answer, but no token that says it"),
    (line({"correct": 1}), "`correct` must be true or false, found 1"),
    (line({"finish": "EOS"}), 'there is no finish "EOS". .*Known: CUTOFF, STOP, UNKNOWN, length, stop'),
    (line({"finish": 1}), "there is no finish 1"),
    (line({"text": 1}), "`text` must be text, found 1"),
    (line({"scores": 1}), "`scores` must be a list, found 1"),
    (line({"scores": ["high"]}), '`scores` must be a list of null or a finite number from .*, found "high"'),
    (line({"score": float("nan")}), r"`score` must be a finite number from -1e\+100 to 1e\+100, found NaN"),
    (line({"rm_score": float("inf")}), "`rm_score` must be a finite number from .*, found Infinity"),
    (line({"logprobs": {}}), r"`logprobs` must be a list, found \{\}"),
    (
        line({"logprobs": [[]]}),
        r"entry 0 of `logprobs` must be a list of finite numbers from -1,000,000 to 0, found \[\]",
    ),
    (line({"logprobs": [[-1], [None]]}), "entry 1 of `logprobs` must be"),
    *(
        (line({"pred": 2, name: value}), f"{name}` must be .*found {shown}")
        for name, value, shown in [
            ("pred", 10**400, "1000"),
            ("score", 10**400, "1000"),
            ("rm_score", -1.1e100, "-1.1e"),
            ("scores", [-(10**309)], "-1000"),
            ("tokens", 100_000_001, "100000001"),
            ("tokens", 10**400, "1000"),
            ("logprobs", [[-0.1, 1e-5]], r"\[-0.1, 1e-05\]"),
            ("logprobs", [[-1_000_001]], r"\[-1000001\]"),
            ("logprobs", [[-(10**400)]], r"\[-1000"),
            ("logprobs", [[-float("inf")]], r"\[-Infinity\]"),
            ("certainties", [-1e-5], "-1e-05"),
            ("certainties", [10**400], "1000"),
            ("certainties", [1e101], "1e\\+101"),
        ]
    ),
    *(
        (line(**{name: value}), f"`{name}` must be .*found {value}"[:60])
        for name in ("prompt_tokens", "problem", "answer", "id")
        for value in (5 * 10**400,)
    ),
    (
        line(prompt_tokens=5_000_000_000),
        "`prompt_tokens` must be a whole number from 0 to 100,000,000, found 5",
    ),
    (line({"logprobs": [[-1]]}), "has 5 tokens, but 1 `logprobs`"),
    (line({"certainties": ["a"]}), "entry 0 of `certainties` must be a finite number from 0 to"),
    (line({"certainties": [1.0]}), "has 5 tokens, but 1 `certainties`"),
    (
        line({"correct": True}, {"pred": 2}, {"correct": False}),
        "the samples 0 and 2 have the same answer '1'",
    ),
]


@pytest.mark.parametrize(("record", "message"), MALFORMED, ids=[message for _, message in MALFORMED])
def test_a_malformed_line_is_named(tmp_path, record, message):
    path = write(tmp_path, line(problem="fine"), record)
    with pytest.raises(DataError, match=message) as caught:
        read_recordings(path)
    assert str(caught.value).startswith(f"{path}:2: ")


def test_rounding_and_the_limits_themselves_are_read(tmp_path):
    known = {"tokens": 1, "logprobs": [[1e-6, -1e6]], "certainties": [-1e-6], "scores": [1e100, -1e100]}
    sample = one(tmp_path, line(known)).samples[0]
    assert (sample.logprobs, sample.certainties, sample.scores) == (
        ((1e-6, -1e6),),
        (-1e-6,),
        (1e100, -1e100),
    )
    record = line({"tokens": MOST_TOKENS}, prompt_tokens=MOST_TOKENS)
    assert one(tmp_path, record).prompt_tokens == MOST_TOKENS


def test_an_id_twice_names_both_lines(tmp_path):
    path = write(tmp_path, line(), line(problem=1), line())
    with pytest.raises(DataError, match=r"r\.jsonl:3: the problem '0' stands already at .*r\.jsonl:1"):
        read_recordings(path)


def test_released_solutions_are_recordings_of_the_task(tmp_path):
    record = {
        "question": "How many are two and two? ",
        "ground_truth": "2 + 2 = <<2+2=4>>4\nA: 4",
        "small": {"is_correct": True, "solution": "It is 4.\nA: 4"},
        "large": {"is_correct": False, "solution": "Two and two and two and"},
    }
    recording = one(tmp_path, record, count="words")
    assert (recording.gold, [sample.tokens for sample in recording.samples]) == ("4", [5, 6])
    assert [(s.answer, s.correct, s.finish) for s in recording.samples] == [
        ("4", True, "stop"),
        (None, False, "length"),
    ]
    task = Jsonl(path=str(write(tmp_path, {"question": record["question"], "answer": "4"})))
    assert [problem.id for problem in task.problems()] == [recording.id]


def test_files_that_are_not_there_or_empty(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        read_recordings(tmp_path / "no.jsonl")
    with pytest.raises(DataError, match="holds no rows"):
        read_recordings(write(tmp_path, ""))


def test_an_empty_gold_answer_is_warned_about(tmp_path):
    path = write(tmp_path, line(answer=""), line(problem=1, answer=None), line(problem=2, answer="4"))
    with pytest.warns(UserWarning, match=r"1 of 3 gold answers are empty .*r\.jsonl:1"):
        assert [recording.gold for recording in read_recordings(path)] == [None, None, "4"]


def test_said():
    assert Sample("4", 5, None, "stop").said == r"\boxed{4}"
    assert Sample("4", 5, None, "stop", "four").said == "four"
    assert Sample(None, 5, None, "stop").said == ""


# --- writing ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["w.jsonl", "w.jsonl.gz"])
def test_what_is_written_is_read_back_and_equal_bytes_again(tmp_path, name):
    samples = (
        Sample("4", 2, True, "stop", "it is\nvier ü", (0.5, None), ((-0.5, -1.0), (-2.0,)), (0.1, 3.0)),
        Sample(None, 0, None, "length"),
        Sample(None, 7, False, "length", ""),
    )
    recordings = [
        Recording("m/d/7", samples, "m", "d", "204", 9, "ab12"),
        Recording("own", samples, "m", "d"),
        Recording("plain", samples),
    ]
    paths = [tmp_path / name, tmp_path / f"again-{name}"]
    for path in paths:
        write_recordings(path, recordings)
    assert read_recordings(paths[0]) == recordings
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("recordings", "message"),
    [
        ([Recording("a", ())], "a: `samples` must be"),
        ([Recording("a", (Sample("1", -1, None, "stop"),))], "a: sample 0: `tokens`"),
        ([Recording("a", (Sample("1", 1, None, "stop", scores=(float("nan"),)),))], "a: Out of range"),
        ([Recording("a", (Sample("NO_ANSWER", 1, None, "stop"),))], "would not be read back"),
        ([Recording("a", (Sample("1", 1, None, "stop"),))] * 2, "there twice"),
    ],
)
def test_what_could_not_be_read_is_not_written(tmp_path, recordings, message):
    with pytest.raises(DataError, match=message):
        write_recordings(tmp_path / "w.jsonl", recordings)
    assert not (tmp_path / "w.jsonl").exists()


def test_another_ending_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"\.jsonl or a \.jsonl\.gz file"):
        write_recordings(tmp_path / "w.json", [])


# --- libraries ----------------------------------------------------------------------------------------


def test_a_file_is_read_once_until_it_changes(tmp_path):
    path = write(tmp_path, line({}, {"pred": 2}), line(problem=1))
    first = library(str(path))
    assert library(str(path)) is first
    assert first.first == {"0": 0, "1": 2}
    assert [(name, sample.answer) for name, sample in first.samples] == [("0", "1"), ("0", "2"), ("1", "1")]
    os.utime(write(tmp_path, line(problem="new")), ns=(1, 1))
    assert list(library(str(path)).recordings) == ["new"]


def test_values_per_token_are_known_when_every_token_has_them(tmp_path):
    few = {"tokens": 2, "logprobs": [[-1, -2, -3], [-1, -2]], "certainties": [1, 2]}
    empty = {"pred": None, "tokens": 0}
    known = library(str(write(tmp_path, line(few, empty), name="known.jsonl")))
    assert (known.logprobs, known.certainty) == (2, True)
    partly = library(str(write(tmp_path, line(few, {}), name="partly.jsonl")))
    assert (partly.logprobs, partly.certainty) == (0, False)
    none = library(str(write(tmp_path, line(empty), name="none.jsonl")))
    assert (none.logprobs, none.certainty) == (0, False)


def test_counts_are_known():
    with pytest.raises(ConfigError, match="Did you mean 'words'"):
        check_count("word")


# --- real files ---------------------------------------------------------------------------------------


def test_the_shipped_file_holds_numbers_and_letters():
    recordings = read_recordings(SHIPPED)
    assert len(recordings) == 516
    assert {len(recording.samples) for recording in recordings} == {8}
    assert {recording.model for recording in recordings} == {"R1", "R1DistilQwen"}
    samples = [sample for recording in recordings for sample in recording.samples]
    assert not any(sample.text or sample.scores or sample.logprobs for sample in samples)
    answers = {sample.answer for sample in samples if sample.answer} | {r.gold for r in recordings}
    assert all(answer in "ABCD" or answer.lstrip("-").isdigit() for answer in answers)
    assert SHIPPED.stat().st_size < 30_000


@pytest.mark.slow
def test_the_published_samples(data_file):
    recordings = read_recordings(data_file("traces/sampled_answers.jsonl.gz"))
    samples = [sample for recording in recordings for sample in recording.samples]
    assert (len(recordings), len(samples)) == (1790, 12320)
    assert sum(sample.tokens for sample in samples) == 69_056_189
    assert sum(sample.finish == "length" for sample in samples) == 84
    assert sum(sample.finish == "length" and sample.answer is not None for sample in samples) == 5
    assert sum(sample.answer is None for sample in samples) == 1554 + 79 + 76 + 28
    assert sum(bool(sample.correct) for sample in samples) == 4685 + 2184 + 632 + 1
    shipped = {recording.id: recording for recording in read_recordings(SHIPPED)}
    assert [shipped[r.id] for r in recordings if r.id in shipped] == [
        r for r in recordings if r.id in shipped
    ]


def test_the_samples_with_rewards(data_file):
    path = data_file("traces/reward_scored_math100_n8.jsonl.gz")
    recordings = read_recordings(path, count="words")
    assert {len(recording.samples) for recording in recordings} == {8}
    assert all(len(sample.scores) == 1 and sample.text for r in recordings for sample in r.samples)
    with pytest.raises(DataError, match=r"math100_n8\.jsonl\.gz:1: sample 0: .*set `count: words`"):
        read_recordings(path)


@pytest.mark.slow
def test_the_released_solutions(data_file):
    recordings = read_recordings(data_file("traces/gsm8k_solutions_n4.jsonl.gz"), count="words")
    assert len(recordings) == 1319
    right = [sum(bool(r.samples[model].correct) for r in recordings) for model in range(4)]
    assert right == [286, 515, 458, 742]
    for recording in recordings:
        for sample in recording.samples:
            # What was read out of a solution is right just when its authors say so.
            same = sample.answer is not None and key_of(sample.answer, "number") == key_of(
                recording.gold, "number"
            )
            assert bool(sample.correct) == same
            assert (sample.finish == "length") == (sample.answer is None)
