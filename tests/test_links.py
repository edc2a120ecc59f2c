"""Links between pages, to headings and to files lead somewhere; ``make docs`` checks the same with Sphinx."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "plugins").glob("*/README.md")])


def tokens(text):
    for block in MarkdownIt("commonmark").enable("table").parse(text):
        yield block
        yield from block.children or ()


def anchors(text):
    """Return what GitHub calls the headings of a page; the second of a name has ``-1`` behind it."""
    names = []
    blocks = MarkdownIt("commonmark").parse(text)
    for opened, heading in pairwise(blocks):
        if opened.type == "heading_open":
            said = "".join(one.content for one in heading.children)
            name = re.sub(r"[^\w\- ]", "", said.lower()).replace(" ", "-")
            names.append(f"{name}-{names.count(name)}" if name in names else name)
    return names


def leads(root, page, href):
    path, _, anchor = href.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists() or not target.is_relative_to(root):
        return False
    return not anchor or (target.suffix == ".md" and anchor in anchors(target.read_text("utf-8")))


def broken(root, page):
    """Return the links of a page, a file below ``root``, that lead nowhere."""
    text = page.read_text("utf-8")
    hrefs = [token.attrs.get("href") or token.attrs.get("src") for token in tokens(text)]
    wrong = [
        href for href in hrefs if href and not re.match(r"https?:", href) and not leads(root, page, href)
    ]
    # A link by a name that is defined nowhere stays as it was written.
    plain = "".join(token.content for token in tokens(text) if token.type == "text")
    return wrong + re.findall(r"\]\[[^\]]*\]", plain)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    assert broken(ROOT, page) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_of_the_code_are_where_they_are_said_to_be(page):
    told = [
        word
        for token in tokens(page.read_text("utf-8"))
        if token.type == "code_inline"
        for word in token.content.split()
    ]
    for path in filter(re.compile(r"(benchmarks|docs|plugins|requirements|tests|ttsflow)/").match, told):
        assert "NAME" in path or any(ROOT.glob(path)), path


def test_a_broken_link_is_found(tmp_path):
    (tmp_path / "other.md").write_text("# A `b`, c\n\n## Same\n\n## Same\n")
    page = tmp_path / "page.md"
    good = "[x](other.md) [x](other.md#a-b-c) [x](other.md#same-1) [x](#here) [x](https://a.b/c)"
    page.write_text(f"# Here\n\n{good} `[x](no.md)`\n\n```text\n[x](no.md)\n```\n")
    assert broken(tmp_path, page) == []
    bad = ["gone.md", "other.md#same-2", "#there", "../", "other.md#A-b-c"]
    page.write_text("| a |\n|---|\n" + "".join(f"| [x]({link}) |\n" for link in bad))
    assert broken(tmp_path, page) == bad
    page.write_text("[x][nowhere]\n")
    assert broken(tmp_path, page) == ["][nowhere]"]


def test_every_page_is_in_the_index():
    """The side bar of the site is made of these links."""
    index = ROOT / "docs" / "index.md"
    reached = {(index.parent / str(token.attrs.get("href"))).resolve() for token in tokens(index.read_text())}
    below = {file for folder in reached if folder.is_dir() for file in folder.glob("*.md")}
    strategies = set((ROOT / "docs" / "strategies").glob("*.md"))  # in the index of their own, see test_docs
    assert set(PAGES) - {index} <= reached | below | strategies
