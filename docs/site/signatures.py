"""What autodoc shows of the public API: its names are links, and other names stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reference import public_modules

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def plain_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, shown: nodes.TextElement
) -> nodes.TextElement | None:
    """Leave the name of a type as it is where there is no page to go to; a public one has to have a page."""
    del env
    module, _, name = str(node.get("reftarget")).rpartition(".")
    public = name in public_modules(app.srcdir).get(module, ())
    return shown if node.get("refdomain") == "py" and not public else None


def skipped(app: Sphinx, what: str, name: str, value: Any, skip: Any, options: Any) -> bool | None:  # noqa: PLR0917 - Sphinx's
    """Leave out fields of a named tuple: its signature and docstring have them."""
    del app, what, name, skip, options
    return True if str(getattr(value, "__doc__", "")).startswith("Alias for field number") else None


def parsable(*given: Any) -> tuple[str, str | None] | None:
    """Write a default that a dataclass makes anew as Python can read it; else no type is linked."""
    signature, result = given[-2:]  # before them: app, what it is, its name, itself, options
    return (signature.replace("<factory>", "..."), result) if signature else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the functions of this module; Sphinx calls it."""
    app.connect("missing-reference", plain_name)
    app.connect("autodoc-skip-member", skipped)
    app.connect("autodoc-process-signature", parsable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
