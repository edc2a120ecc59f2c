import math

import pytest

from ttsflow.verifiers.marks import chance_of, mark_of


@pytest.mark.parametrize(
    ("reply", "scale", "mark"),
    [
        ("score: 7/10", 10, 0.7),
        ("Score: 7", 10, 0.7),
        ("8", 10, 0.8),
        (" 8.\n", 10, 0.8),
        ("0.8", 1, 0.8),
        ("0.8", 10, 0.08),
        (".5", 1, 0.5),
        ("7,5", 10, 0.75),
        ("0", 10, 0.0),
        ("Score: 0", 10, 0.0),
        ("10/10", 10, 1.0),
        ("4/5", 10, 0.8),
        ("I would give it 4 out of 5.", 5, 0.8),
        ("80%", 10, 0.8),
        ("**Score:** 9", 10, 0.9),
        ("Rating = **3** / 4", 10, 0.75),
        ("The score is 6.", 10, 0.6),
        ("\\boxed{8}", 10, 0.8),
        ("[[8]]", 10, 0.8),
        ("3 + 4 = 7 is right.\nScore: 9/10", 10, 0.9),
        ("3 + 4 = 7 is right, so 9/10", 10, 0.9),
        ("3 + 4 = 7 is right.\n9", 10, 0.9),
        ("Score: 2. No: score: 6", 10, 0.6),
        ("<think>maybe 3, or score: 4</think>\nScore: 8", 10, 0.8),
    ],
)
def test_a_mark_is_read(reply, scale, mark):
    assert mark_of(reply, scale) == pytest.approx(mark)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "good",
        "11",
        "-3",
        "Score: 12/10",
        "between 3 and 5",
        "v2",
        "<think>score: 4",
        "12/2024/5",
        "3 4",
    ],
)
def test_what_is_no_mark_is_missing_and_never_0(reply):
    assert mark_of(reply, 10) is None


WORDS = {1: "Yes", 2: " no", 3: "yes.", 4: "NO", 5: "maybe", 6: "Ja"}


def test_the_chance_sums_what_is_one_word():
    top = {1: math.log(0.3), 2: math.log(0.1), 3: math.log(0.2), 4: math.log(0.1), 5: math.log(0.3)}
    assert chance_of(top, WORDS.get, ["yes"], ["no"]) == pytest.approx(0.5 / 0.7)
    assert chance_of(top, WORDS.get, ["ja", "YES "], ["no"]) == pytest.approx(0.5 / 0.7)
    assert chance_of({2: 0.0}, WORDS.get, ["yes"], ["no"]) == 0.0
    assert chance_of({6: -1.0, 2: -1.0}, WORDS.get, ["ja"], ["no"]) == pytest.approx(0.5)


def test_without_any_of_the_words_there_is_no_chance():
    assert chance_of({5: 0.0}, WORDS.get, ["yes"], ["no"]) is None
    assert chance_of({}, WORDS.get, ["yes"], ["no"]) is None
