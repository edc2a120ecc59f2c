"""Pictures drawn by a process of their own: they are those that this one draws, whatever becomes of it."""

import re
import sys

import pytest

from ttsflow.reporting import drawer
from ttsflow.reporting.command import report
from ttsflow.reporting.drawer import Drawer
from ttsflow.reporting.drawing import drawn, for_page, whole

SPEC = {"data": {"values": [{"a": 1}, {"a": 2}]}, "mark": "line", "encoding": {"x": {"field": "a"}}}
READY = "print('{}', flush=True);"
LOST = {
    "none can be started": ["/nowhere/python"],
    "it ends at once": [sys.executable, "-c", ""],
    "it dies": [sys.executable, "-c", f"{READY} input()"],
    "it says no JSON": [sys.executable, "-c", f"{READY} input(); print('<svg', flush=True); input()"],
    "it draws nothing": [
        *(sys.executable, "-c"),
        f"import sys; {READY} [print('null', flush=True) for _ in sys.stdin]",
    ],
}


def test_without_a_process_this_one_draws(monkeypatch):
    monkeypatch.setattr(drawer, "boot", lambda module: ["/nowhere/python"])
    with Drawer() as draws:
        one, other = draws.svg(SPEC, "one"), draws.svg_file(SPEC)
    assert one.result() == for_page(drawn(whole(SPEC, "transparent")), "one")
    assert other.result() == drawn(whole(SPEC, "white"))


@pytest.mark.slow
def test_a_process_draws_and_is_gone_afterwards(monkeypatch):
    monkeypatch.setattr(drawer, "drawn", None)  # not here
    with Drawer() as draws:
        pictures = [draws.svg(SPEC, name) for name in "abc"]
        assert [picture.result() for picture in pictures] == [
            for_page(drawn(whole(SPEC, "transparent")), name) for name in "abc"
        ]
        process = draws._worker._process
    assert process.poll() is not None


@pytest.mark.slow
def test_what_cannot_be_drawn_raises_what_it_does_here():
    with Drawer() as draws:
        picture, after = draws.svg({**SPEC, "mark": "scribble"}, "a"), draws.svg(SPEC, "b")
    with pytest.raises(ValueError, match="conversion failed"):
        picture.result()
    assert after.result().startswith("<svg")


def test_after_an_error_nothing_more_is_drawn(monkeypatch):
    monkeypatch.setattr(drawer, "boot", lambda module: ["/nowhere/python"])
    made = []
    monkeypatch.setattr(drawer, "drawn", made.append)

    def fail():
        with Drawer() as draws:
            for _ in range(100):
                last = draws.svg_file(SPEC)
            made.append(last)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    last = next(one for one in made if one is not None and not isinstance(one, str))
    assert last.cancelled()


@pytest.mark.slow
@pytest.mark.parametrize("command", LOST.values(), ids=LOST)
def test_the_page_is_the_same_whoever_draws(write_run, tmp_path, monkeypatch, command):
    for n in (2, 4):
        write_run(f"run{n}", {"a": True, "b": n == 2}, strategy="ffs", n=n)

    def page(name):
        report([tmp_path], tmp_path / name, ["svg"])
        made = (tmp_path / name).read_text("utf-8")
        return re.sub(r"[\d-]+ [\d:]+ UTC", "", made), (tmp_path / name).with_suffix(".svg").read_bytes()

    usual = page("one.html")
    monkeypatch.setattr(drawer, "boot", lambda module: command)
    assert page("other.html") == usual
    assert usual[0].count("<svg") >= 2
