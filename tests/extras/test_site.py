"""``make docs`` in a copy of this repository and an environment of its own; see ``make test-extras``."""

import importlib
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from ttsflow.plugins import load

# Packages are fetched, and Sphinx takes half a minute.
pytestmark = [pytest.mark.extras, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
COPIED = ("benchmarks", "conf", "docs", "plugins", "requirements", "tests", "ttsflow")


class Links(HTMLParser):
    """What a page leads to, and what it loads."""

    def __init__(self, file):
        super().__init__()
        self.reached, self.loaded = set(), set()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        told = dict(attrs)
        if tag == "a" and told.get("href"):
            self.reached.add(told["href"])
        if tag == "meta" and "url=" in (told.get("content") or ""):
            self.reached.add(told["content"].partition("url=")[2])
        if tag in {"script", "img", "iframe"}:
            self.loaded.add(told.get("src"))
        if tag == "link" and told.get("rel") in {"stylesheet", "preload", "icon"}:
            self.loaded.add(told.get("href"))


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a copy") / "ttsflow"
    folder.mkdir()
    for file in (*ROOT.glob("*.md"), *(ROOT / name for name in ("LICENSE", "Makefile", "pyproject.toml"))):
        shutil.copy(file, folder)
    for name in COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def make_docs(folder):
    command = ["make", "docs", f"PYTHON={sys.executable}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(repository):
    done = make_docs(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    return repository / "site" / "html"


def test_every_page_can_be_reached_from_the_first(site):
    reached, waiting = set(), [site / "index.html"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for href in Links(page).reached if page.suffix == ".html" else ():
            if not re.match(r"(https?|mailto):", href):
                path = unquote(href.partition("#")[0].partition("?")[0])
                target = (page.parent / path).resolve() if path else page
                assert target.is_file(), f"{page} leads to {href}"
                waiting.append(target)
    pages = {page for page in site.rglob("*.html") if "_static" not in page.parts}
    assert pages - reached - {site / "search.html"} == set()
    shown = {str(page.relative_to(site).with_suffix(".md")) for page in reached}
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("plugins/*/README.md")):
        assert str(page.relative_to(ROOT)) in shown


def test_nothing_is_loaded_from_elsewhere(site):
    for page in site.rglob("*.html"):
        assert not [source for source in Links(page).loaded if source and "//" in source]
    for style in site.rglob("*.css"):
        assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", style.read_text("utf-8"))


def test_the_reference_has_every_part_and_strategy(site):
    words = (site / "searchindex.js").read_text("utf-8")
    for entry in load().entries():
        if entry.provider != "ttsflow":
            continue
        page = "strategies" if entry.kind == "strategy" else f"parts/{entry.kind}"
        text = (site / "reference" / f"{page}.html").read_text("utf-8")
        assert re.search(rf"<h2>{entry.name}<", text)
        assert f'"{entry.name}"' in words


def test_the_reference_has_every_public_name(site):
    pages = {page.stem: page.read_text("utf-8") for page in (site / "reference" / "api").glob("*.html")}
    assert len(pages) > 15
    for module, text in pages.items():
        for name in importlib.import_module(module).__all__:
            # Described there, or a link to where it is.
            assert re.search(rf'id="{module}\.{name}"|href="[^"]*#ttsflow[\w.]*\.{name}"', text), name


def test_broken_links_fail_the_build(repository, site):
    broken = {
        "README.md": ["docs/gone.md"],
        "docs/engine.md": ["../requirements/gone.txt"],
        "docs/quickstart.md": ["gone.md", "engine.md#no-such-heading", "#no-such-heading"],
    }
    assert site.exists()
    wanted = []
    for page, links in broken.items():
        with (repository / page).open("a", encoding="utf-8") as file:
            file.write("\n" + "".join(f"[here]({link})\n\n" for link in links))
        last = len((repository / page).read_text("utf-8").splitlines())
        wanted += [f"{page}:{last + 1 - 2 * number}: WARNING" for number in range(1, len(links) + 1)]
    done = make_docs(repository)
    assert done.returncode != 0
    told = done.stdout + done.stderr
    assert [line for line in wanted if line not in told] == []
    assert told.count("WARNING") == len(wanted)
