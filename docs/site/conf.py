"""Settings of Sphinx; ``build.py`` starts it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from ttsflow import __version__

project = html_title = "ttsflow"
release = __version__
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "navigation", "signatures"]
include_patterns = ["*.md", "docs/**.md", "plugins/*/README.md", "reference/**"]

# As on GitHub, so that a link to a heading means the same in both.
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
smartquotes = False

html_theme = "furo"
html_extra_path = ["index.html"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_domain_indices = False
