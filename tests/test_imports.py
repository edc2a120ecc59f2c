"""Imports point one way, heavy packages stay in their adapters, and importing ttsflow is quick."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import ttsflow

PACKAGE = Path(ttsflow.__file__).parent

#: From the bottom up: a module may import from its own line and from those above it. Where the modules of a
#: package are named one by one, each has its own place.
LAYERS = (
    "errors lineage confidence describe fingerprint fields majority metrics status interrupt sandbox",
    "files runs.timeline runs.lines runs.locking",
    "types composing.order values registry hookspecs composing.replace memory driver.chances",
    "acceleration",
    "ops",
    "protocols sensors control choice logger",
    "paths",
    "strategies verifiers tasks costs meters load controllers engines loggers parts recordings library",
    "build composing.origins plugins budget account ledger shape trace",
    "json_schema",
    "sharing",
    "planning",
    "measuring driver.metering choosers driver.queries",
    "setup further checks",
    "builtin results driver.flight runs.kept",
    "composing.assemble composing.mount composing.repository composing.translate",
    "composing.loading",
    "composing.session",
    "config driver.settle driver.verifying driver.rounds driver.pacing driver.controlling driver.choosing",
    "driver.ahead summary driver.ends composing.arguments runs.progress",
    "driver.engines driver.decoding driver.resting",
    "driver.limiting",
    "driver.loop listing",
    "session display testing",
    "runs.earlier runs.runfolder",
    "run pipeline",
    "analysis",
    "runs.changed",
    "runs.jobs runs.job",
    "reporting",
    "runs.sweep",
    "commands",
    "authoring",
    "cli",
    "__main__",
)
RANK = {name: rank for rank, line in enumerate(LAYERS) for name in line.split()}
SPLIT = {name.partition(".")[0] for name in RANK if "." in name}

#: Where a heavy or a framework package may be imported.
HOMES = {
    "hydra": {
        "config",
        "composing.loading",
        "composing.session",
        "composing.repository",
        "composing.translate",
        "runs.sweep",
        "runs.job",
        "cli",
    },
    "omegaconf": {
        "config",
        "composing.loading",
        "composing.session",
        "composing.replace",
        "composing.translate",
        "runs.sweep",
        "runs.job",
        "cli",
    },
    "pluggy": {"hookspecs", "plugins"},
    "torch": {"engines", "load"},
    "vllm": {"engines"},
    "transformers": {"engines"},
    "jinja2": {"reporting"},
    "vl_convert": {"reporting"},
}


class _Imports(ast.NodeVisitor):
    """Collects what a module imports anywhere, but for what only type checkers see."""

    def __init__(self):
        self.found = set()

    def visit_If(self, node):
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Import(self, node):
        self.found |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node):
        assert not node.level, "imports are absolute"
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        self.found |= names if node.module == "ttsflow" or node.module in PACKAGES else {node.module}


MODULES = {
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): file
    for file in sorted(PACKAGE.rglob("*.py"))
}
PACKAGES = {name for name, file in MODULES.items() if file.name == "__init__.py"}


@cache
def imports_of(name):
    visitor = _Imports()
    visitor.visit(ast.parse(MODULES[name].read_text("utf-8")))
    return visitor.found


def part_of(name):
    """Return the module, or the package it is in, that has a place in the layers."""
    _, *names = name.split(".")
    return ".".join(names[:2]) if names[0] in SPLIT else names[0]


INNER = sorted(name for name in MODULES if name.partition(".")[2] not in {"", *SPLIT})


@pytest.mark.parametrize("name", INNER)
def test_imports_point_one_way(name):
    assert part_of(name) in RANK, f"give {part_of(name)} a place in LAYERS"
    for other in imports_of(name):
        if other.startswith("ttsflow."):
            assert RANK[part_of(other)] <= RANK[part_of(name)], f"{name} imports {other}"


@pytest.mark.parametrize("name", INNER)
def test_heavy_packages_are_imported_in_their_own_places(name):
    for other in imports_of(name):
        homes = HOMES.get(other.partition(".")[0])
        assert homes is None or part_of(name) in homes, f"{name} imports {other}"


def test_no_module_imports_itself_through_others():
    graph = {
        name: {
            other
            for other in imports_of(name)
            for other in (other, other.rpartition(".")[0])
            if other in MODULES
        }
        - {"ttsflow", name}
        for name in MODULES
        # A package's front door imports its rooms, which is no arrow upward.
        if name not in PACKAGES
    }
    done, path = set(), []

    def visit(name):
        assert name not in path, " -> ".join([*path[path.index(name) :], name])
        if name in done:
            return
        path.append(name)
        for other in sorted(graph.get(name, ())):
            visit(other)
        path.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)


def loaded_by(statement):
    """Return the top-level packages that are loaded after a statement in a fresh interpreter."""
    code = f"{statement}\nimport sys\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


HEAVY = {"torch", "vllm", "transformers", "numpy"}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import ttsflow", HEAVY | {"hydra", "omegaconf", "pluggy", "rich"}),
        ("import ttsflow.cli", HEAVY | {"hydra", "omegaconf", "pluggy", "rich"}),
        *(
            pytest.param(*given, marks=pytest.mark.slow)
            for given in [
                ("import ttsflow.plugins; ttsflow.plugins.load()", HEAVY | {"hydra", "omegaconf", "rich"}),
                ("import ttsflow.pipeline", HEAVY),
                ("import ttsflow.config; ttsflow.config.compose(['strategy=beam_search'])", HEAVY),
            ]
        ),
    ],
)
def test_nothing_heavy_is_loaded(statement, absent):
    assert loaded_by(statement) & absent == set()


@pytest.mark.slow
def test_importing_ttsflow_takes_under_a_fifth_of_a_second():
    code = "import time\nt = time.perf_counter()\nimport ttsflow\nprint(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    ]
    assert min(times) < 0.2
