"""Timelines of a page: those of the best runs, few, and a broken one is told."""

import pytest

from ttsflow.analysis.runs import read_run
from ttsflow.reporting.panels import panels
from ttsflow.reporting.timelines import timelines
from ttsflow.runs.timeline import FILE, Moment, write_timeline


@pytest.mark.slow
def test_the_best_run_of_each_strategy_is_drawn(write_run, draw):
    runs = []
    for strategy, n, right in (("ffs", 2, True), ("ffs", 4, False), ("lfs", 2, True)):
        folder = write_run(f"{strategy}{n}", {"a": right}, strategy=strategy, n=n)
        write_timeline(folder, [Moment(step / 2, step, 0, step, 3, 0, 0, step, 9) for step in range(1000)])
        runs.append(read_run(folder))
    (drawn,), notes = timelines(panels(runs), draw)
    assert [one.run for one in drawn] == ["ffs n=2", "lfs"]
    assert drawn[0].figures["most running"] == "999"
    picture = drawn[0].picture.result()
    assert "in use" in picture
    assert len(picture) < 60_000
    assert notes[0].startswith("2 of 3 timelines of sums")


def test_a_broken_timeline_is_told(write_run, draw):
    folder = write_run("run", {"a": True})
    (folder / FILE).write_text("seconds\n1")
    (drawn,), notes = timelines(panels([read_run(folder)]), draw)
    assert drawn == []
    assert f"{folder / FILE}:1: is no timeline" in notes[0]
