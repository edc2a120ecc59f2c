"""The documentation as a site: ``python docs/site/build.py [FOLDER]`` writes FOLDER/html; default: ``site``.

Sphinx reads FOLDER/source: a copy of this repository, so that a page stands among the same neighbours as here
and every link between files means the same, and beside it pages that are made from the code. A warning makes
the build fail, and a link that leads nowhere is one.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from reference import write_reference
from sphinx.cmd.build import main

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: What pages may link to.
FILES = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md")
FOLDERS = ("benchmarks", "conf", "docs", "plugins", "requirements", "tests", "ttsflow")


def build(folder: Path) -> int:
    """Build the site anew and return Sphinx's exit code, which is 0 when there was no warning."""
    source, html, trees = (folder / name for name in ("source", "html", "trees"))
    for made in (source, html, trees):
        shutil.rmtree(made, ignore_errors=True)
    source.mkdir(parents=True)
    for name in FILES:
        shutil.copy(ROOT / name, source)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    write_reference(source)
    strict = ("--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")
    code: int = main([*strict, "-j", "auto", "-c", str(HERE), "-d", str(trees), str(source), str(html)])
    return code


if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "site").resolve()
    status = build(target)
    if not status:
        print(f"the site is {target / 'html' / 'index.html'}")  # noqa: T201 - what the command is for
    sys.exit(status)
