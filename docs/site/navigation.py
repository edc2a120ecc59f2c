"""The side bar, read from the pages: what a page links to is where a reader goes next.

``docs/index.md`` gives it, a heading with the links below it for each group; the strategies hang below their
own page, the decisions below a page that the folder they are in becomes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
_DECISIONS = "/reference/decisions.rst"
_REFERENCE = ["/reference/parts", "/reference/strategies", "/reference/api", "/genindex"]


def _tree(pages: list[str], caption: str = "") -> str:
    told = f":caption: {caption}\n" if caption else ""
    return "\n".join(["", "```{toctree}", f":hidden:\n{told}", *dict.fromkeys(pages), "```", ""])


def add_trees(_: Sphinx, page: str, source: list[str]) -> None:
    """Put the table of contents, which only the side bar shows, behind pages that have others below."""
    if page == "docs/index":
        text = source[0] = source[0].replace("](decisions/)", f"]({_DECISIONS})")
        groups = re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        trees = [_tree(_LINK.findall(below), title) for title, below in groups]
        trees.insert(-1, _tree(_REFERENCE, "Reference"))
        source[0] += "\n".join(trees)
    elif page == "docs/strategies":
        source[0] += _tree([link for link in _LINK.findall(source[0]) if link.startswith("strategies/")])


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the function of this module; Sphinx calls it."""
    app.connect("source-read", add_trees)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
