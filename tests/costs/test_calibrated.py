"""The profile of a calibration: what it says, and what is wrong with a file of it."""

import dataclasses
import json

import pytest

from ttsflow.costs.calibrated import Calibration, read_calibration
from ttsflow.errors import ConfigError, DataError

PROFILE = Calibration(
    model="demo",
    task="arithmetic",
    unit="joules",
    rungs=(1, 3, 8),
    loads=(0.0, 0.5),
    cost=(10.0, 20.0, 5.0, 40.0),
    error=0.02,
    accuracy=(0.5, 0.6, 0.7),
    measured=(0.5, 0.61, 0.69),
    questions=20,
    samples=240,
    seconds=12.5,
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text(PROFILE.dumped())
    return path


def test_what_was_written_is_read(file):
    assert read_calibration(str(file), "joules", "profile") == PROFILE
    assert json.loads(file.read_text())["version"] == 1


def test_a_profile_may_tell_how_far_samples_agree_and_older_ones_do_not(tmp_path):
    told = {"alpha": 0.5, "fresh": 3.0, "draws": [[1, 9.0]]}
    path = tmp_path / "with.json"
    path.write_text(dataclasses.replace(PROFILE, agreement=told).dumped())
    assert read_calibration(str(path), "joules", "profile").agreement == told
    saved = json.loads(path.read_text())
    del saved["agreement"]
    path.write_text(json.dumps(saved))
    assert read_calibration(str(path), "joules", "profile").agreement is None
    path.write_text(json.dumps(saved | {"agreement": "much"}))
    with pytest.raises(DataError, match="how far samples agree is a mapping"):
        read_calibration(str(path), "joules", "profile")


def test_a_price_is_a_line_in_samples_and_in_load():
    assert PROFILE.price(3, 0.5) == 10 + 20 * 3 + 5 * 0.5 + 40 * 3 * 0.5


def test_an_accuracy_that_was_not_measured_says_how_to_get_it():
    assert PROFILE.accuracy_of((1, 8)) == (0.5, 0.7)
    with pytest.raises(ConfigError, match=r"no accuracy of 4, 6 samples; it has those of 1, 3, 8") as caught:
        PROFILE.accuracy_of((1, 4, 6))
    assert caught.value.path == "rungs"
    assert "--rungs 1 3 4 6 8" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"version": 2}, ConfigError, "a calibration of version 2, and this ttsflow reads 1"),
        ({"version": None}, ConfigError, "of version None"),
        ({"kind": "learnt"}, DataError, "holds no calibration"),
        ({"unit": "tokens"}, ConfigError, "has costs in tokens, and this run counts joules"),
        ({"rungs": []}, DataError, "rise from at least 1"),
        ({"rungs": [3, 1, 8]}, DataError, "rise from at least 1"),
        ({"rungs": [1, 3]}, DataError, "an accuracy for each of 2 rungs"),
        ({"accuracy": [0.5, 0.6, 1.7]}, DataError, "between 0 and 1"),
        ({"accuracy": [0.5, 0.4, 0.7]}, DataError, "does not fall"),
        ({"accuracy": [0.5, None, 0.7]}, DataError, "no finite number"),
        ({"accuracy": 0.5}, DataError, "no calibration"),
        ({"cost": [1, 2, 3]}, DataError, "four finite numbers"),
        ({"cost": [1, 2, -3, 0]}, DataError, "four finite numbers"),
        ({"cost": [0, 0, 3, 0]}, DataError, "costs something"),
        ({"cost": ["a", 0, 3, 0]}, DataError, "no finite number"),
        ({"loads": []}, DataError, "one at least"),
        ({"loads": [1.5]}, DataError, "between 0 and 1"),
    ],
)
def test_a_file_that_is_wrong_says_what_is_and_what_to_do(change, kind, message, file):
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(kind, match=message) as caught:
        read_calibration(str(file), "joules", "profile")
    assert caught.value.path == "profile"
    assert str(file) in str(caught.value)
    assert "ttsflow calibrate" in str(caught.value)


#: What every file has; older ones say nothing of agreement.
PIECES = [field.name for field in dataclasses.fields(Calibration) if field.name != "agreement"]


@pytest.mark.parametrize("name", PIECES)
def test_a_file_that_lacks_a_piece_names_it(name, file):
    saved = json.loads(file.read_text())
    del saved[name]
    file.write_text(json.dumps(saved))
    with pytest.raises(DataError, match=f"'{name}' is missing"):
        read_calibration(str(file), "joules", "profile")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", b"\xff\xfe"])
def test_a_file_that_is_none_is_refused(text, file):
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match="calibration"):
        read_calibration(str(file), "joules", "profile")


def test_a_file_that_is_missing_says_who_writes_one(tmp_path):
    with pytest.raises(DataError, match="no such file; make one with `ttsflow calibrate"):
        read_calibration(str(tmp_path / "none.json"), "joules", "profile")
    with pytest.raises(DataError, match="IsADirectoryError"):
        read_calibration(str(tmp_path), "joules", "profile")
