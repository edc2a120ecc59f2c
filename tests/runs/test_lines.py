"""Files of JSON lines stay whole: half lines are found, and none is left by a disk that is full."""

import errno
import os

import pytest

from ttsflow.errors import DataError
from ttsflow.runs.lines import LineFile, read_lines, replace_text


def test_lines_are_written_whole_and_appended(tmp_path):
    path = tmp_path / "a.jsonl"
    for text in ('{"a":1}', '{"a":"é\\n"}'):
        file = LineFile(path)
        file.write(text)
        assert text not in (path.read_text() if path.exists() else "")
        file.flush()
        file.write('{"b":2}')
        file.close()
        file.close()
    assert read_lines(path) == ([{"a": 1}, {"b": 2}, {"a": "é\n"}, {"b": 2}], [])


def test_many_lines_do_not_wait_for_a_flush(tmp_path):
    file = LineFile(tmp_path / "a.jsonl")
    for _ in range(3000):
        file.write("x" * 1000)
    assert file.path.stat().st_size > 2_000_000
    file.close()
    assert len(file.path.read_text().splitlines()) == 3000


@pytest.mark.parametrize("room", [0, 1, 9, 10, 11])
def test_a_line_that_does_not_fit_is_taken_back(tmp_path, monkeypatch, room):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":1}\n')
    file = LineFile(path)
    written, write = [0], os.write

    def full(number, data):
        fits = min(len(data), room - written[0])
        if not fits:
            raise OSError(errno.ENOSPC, "No space left on device")
        written[0] += fits
        return write(number, data[:fits])

    monkeypatch.setattr(os, "write", full)
    file.write('{"b": 22}')
    if room >= 10:
        file.flush()
        file.write('{"c": 3}')
    with pytest.raises(OSError, match="No space left") as caught:
        file.flush()
    assert caught.value.filename == str(path)
    monkeypatch.undo()
    file.close()
    assert path.read_text() == '{"a":1}\n' + ('{"b": 22}\n' if room >= 10 else "")


def test_broken_lines_are_numbered(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a":1}\n{"a":\n\n[1]\n{"a":2}\n{"a')
    assert read_lines(path) == ([{"a": 1}, {"a": 2}], [2, 4, 6])
    with pytest.raises(DataError, match="cannot be read"):
        read_lines(tmp_path / "none")


def test_a_file_is_replaced_in_one_move(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    replace_text(path, "one")

    def full(self, text, encoding):
        self.write_bytes(b"tw")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(path), "write_text", full)
    with pytest.raises(OSError, match="No space"):
        replace_text(path, "two")
    assert path.read_text() == "one"
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]
