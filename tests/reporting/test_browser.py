"""The page in a real browser: no complaint, pictures drawn, trees open, and it fits a phone."""

import pytest

from ttsflow.config import compose
from ttsflow.reporting.command import report
from ttsflow.run import run_config

pytestmark = pytest.mark.slow
EVIL = "</script><script>window.hurt = 1</script><img src=x onerror='window.hurt = 2'>"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return the page of a small sweep with a search, and of a run that would hurt the page if it could."""
    folder = tmp_path_factory.mktemp("sweep")
    sim = ["engine=sim", "task=simulated", "task.size=6", "verifier=simulated", "strategy.n=4"]
    for name in ("majority", "beam_search"):
        run_config(compose([*sim, f"strategy={name}"]), folder / name)
    lines = (
        (folder / "majority" / "results.jsonl")
        .read_text()
        .replace('"text": "', f'"text": "{EVIL}')
        .splitlines()
    )
    (folder / "majority" / "results.jsonl").write_text("\n".join([*lines, '{"id": ', ""]))
    report([folder], folder / "report.html")
    return folder / "report.html"


WIDTHS = [pytest.param(390, id="phone"), pytest.param(1200, id="desktop")]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_it_opens_without_a_complaint_and_fits(browser, file, width, dark):
    browser.complaints.clear()
    browser.open(file, width, dark=dark)
    opened = browser.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert opened is None
    assert browser.value("new Promise((done) => setTimeout(() => done(1), 200))") == 1
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("innerWidth") == width
    assert browser.complaints == []
    assert browser.value("window.hurt") is None


@pytest.mark.parametrize("width", WIDTHS)
def test_pictures_are_drawn_and_legible(browser, file, width):
    browser.open(file, width)
    charts = browser.value(
        "[...document.querySelectorAll('.charts svg')].map((one) => [one.getBoundingClientRect().width, "
        "one.querySelectorAll('.mark-symbol [aria-label]').length, "
        "one.querySelector('text').getBoundingClientRect().height])"
    )
    assert len(charts) == 3
    for wide, marks, height in charts:
        assert wide > 250
        assert marks == 2
        assert height > 8


def test_a_tree_and_a_problem_open_by_keyboard(browser, file):
    browser.open(file, 390)
    browser.press("Tab")
    for place, inside in (("details.tree", ".tree li summary"), (".problems details", ".result")):
        browser.value(f"document.querySelector('{place} > summary').focus()")
        assert browser.value("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        browser.press("Enter")
        assert browser.value("new Promise((done) => setTimeout(() => done(1), 100))") == 1
        assert browser.value(f"document.querySelector('{place}').open") is True
        assert browser.value(f"document.querySelector('{inside}').getBoundingClientRect().height") > 0
    shown = browser.value("document.querySelector('.problems').innerText")
    assert "majority: " in shown
    assert EVIL in shown


def test_tab_comes_to_everything_in_the_order_of_the_page(browser, file):
    browser.open(file, 1200)
    seen = []
    for _ in range(12):
        browser.press("Tab")
        seen.append(browser.value("document.activeElement.textContent.trim().slice(0, 30)"))
    assert seen[0] == "Skip to the results"
    places = browser.value(
        "[...document.querySelectorAll('a, button, select, input, summary, [tabindex=\"0\"]')]"
        ".filter((one) => one.checkVisibility()).map((one) => one.textContent.trim().slice(0, 30))"
    )
    assert seen == places[: len(seen)]


def test_a_mark_says_what_it_is(browser, file):
    browser.open(file, 390)
    mark = "document.querySelector('.charts .mark-symbol.role-mark [aria-label]')"
    browser.value(f"{mark}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")
    told = browser.value("document.querySelector('.charts .told').textContent")
    assert told == browser.value(f"{mark}.getAttribute('aria-label')")
    assert "accuracy" in told


def test_a_column_is_put_in_order(browser, file):
    browser.open(file, 1200)
    rows = "[...document.querySelectorAll('table.sortable')[0].tBodies[0].rows]"
    numbers = f"{rows}.map((row) => Number(row.cells[1].dataset.value))"
    button = "document.querySelectorAll('table.sortable thead button')[1]"
    browser.value(f"{button}.click()")
    assert browser.value(numbers) == sorted(browser.value(numbers), reverse=True)
    assert browser.value(f"{button}.closest('th').getAttribute('aria-sort')") == "descending"
    browser.value(f"{button}.click()")
    assert browser.value(numbers) == sorted(browser.value(numbers))


def test_problems_are_chosen(browser, file):
    browser.open(file, 1200)
    count = "document.querySelectorAll('.problems details').length"
    every = browser.value(count)
    assert every == 6
    counted = {}
    for key in ("differ", "wrong", "right", "open"):
        browser.value(
            f"(() => {{ const one = document.querySelector('.problems select'); one.value = '{key}'; "
            "one.dispatchEvent(new Event('change')); })()"
        )
        counted[key] = browser.value(count)
    assert counted["differ"] + counted["wrong"] + counted["right"] >= every
    browser.value(
        "(() => { const all = document.querySelector('.problems select'); all.value = 'all'; "
        "const one = document.querySelector('.problems input'); one.value = '0-3'; "
        "one.dispatchEvent(new Event('input')); })()"
    )
    assert browser.value(count) == 1
