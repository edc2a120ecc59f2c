"""The documentation is true: its examples run, and it leaves out nothing that is public."""

import argparse
import dataclasses
import doctest
import importlib
import inspect
import json
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
import yaml
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser

from ttsflow import cli, hookspecs, plugins
from ttsflow.build import build, explain
from ttsflow.builtin import PARTS
from ttsflow.composing.assemble import assemble, split_engine
from ttsflow.config import compose
from ttsflow.costs.calibrated import Calibration
from ttsflow.errors import ConfigError
from ttsflow.further import engines_of
from ttsflow.parts import schema
from ttsflow.pipeline import Pipeline
from ttsflow.registry import KINDS, config_folder, config_options
from ttsflow.run import run_config
from ttsflow.summary import Summary
from ttsflow.testing import contracts
from ttsflow.types import Result, Sampling, Usage

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
FILES = sorted(file for file in (*DOCS.rglob("*.md"), ROOT / "README.md") if file.exists())

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_STRATEGY = re.compile(r"# (?:conf/)?strategy/(\w+)\.yaml$")

_OTHER = re.compile(r"# conf/(engine|task|verifier|cost|budget|sampling)/(\w+)\.yaml$")

#: Commands that read what others have written; what they print is tested where they are.
READERS = frozenset(
    ("compare", "doctor", "load", "pool", "profile", "replay-table", "report", "show", "status", "timeline")
)

#: What the page of every strategy says, in this order.
HEADINGS = ("What it does", "Settings", "Cost", "When it loses", "Example", "Related")


def blocks(file, language):
    return [text for kind, text in _BLOCK.findall(file.read_text()) if kind == language]


def commands():
    for file in FILES:
        if file.parent.name == "tutorials":
            continue  # followed literally, by tests/install
        for text in blocks(file, "bash"):
            for line in text.replace("\\\n", " ").splitlines():
                if line.startswith("ttsflow "):
                    marks = [pytest.mark.slow] if file.parent.name == "strategies" else []
                    yield pytest.param(line, id=f"{file.name}: {line}", marks=marks)


def strategies():
    for file in FILES:
        for text in blocks(file, "yaml"):
            match = _STRATEGY.match(text.partition("\n")[0])
            if match:
                yield file, match[1], text


def page(name):
    return (DOCS / name).read_text()


def rows(text, columns):
    """Return the first cells of every table row of a page."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")[:columns]) for line in lines]


def section(text, title):
    found = re.search(rf"^## `?{re.escape(title)}`?\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"there is no section {title!r}"
    return found[1]


def own(kind=None):
    return [entry for entry in plugins.load().entries(kind) if entry.provider == "ttsflow"]


def installed(name):
    return any(entry.name == name for entry in own("strategy"))


@pytest.fixture(scope="module")
def config_dir(tmp_path_factory):
    """Return a folder with every strategy file that a page shows, but those that are installed."""
    folder = tmp_path_factory.mktemp("docs") / "conf"
    (folder / "strategy").mkdir(parents=True)
    for file, name, text in strategies():
        target = folder / "strategy" / f"{'shown_' if installed(name) else ''}{name}.yaml"
        assert not target.exists() or target.read_text() == text, f"{file} shows another {name}.yaml"
        target.write_text(text)
    for file in FILES:
        for text in blocks(file, "yaml"):
            match = _OTHER.match(text.partition("\n")[0])
            if match:
                (folder / match[1]).mkdir(exist_ok=True)
                (folder / match[1] / f"{match[2]}.yaml").write_text(text)
    return str(folder)


def on_fake(mapping):
    """Return a composed config with an engine that needs nothing; its own settings are checked first."""
    build("engine", split_engine(mapping["engine"])[0], "engine", plugins.load())
    if mapping["engine"]["use"] == "sim":
        engine = {**mapping["engine"], "paths": {"use": "law"}}
        verifier = mapping["verifier"]
        if verifier and verifier.get("scores"):
            # One that reads the task which is simulated in its stead.
            verifier = {**verifier, "scores": None}
        return {**mapping, "engine": engine, "task": {"use": "simulated", "size": 2}, "verifier": verifier}
    return mapping if mapping["engine"]["use"] == "fake" else {**mapping, "engine": {"use": "fake"}}


def with_profile(mapping, folder):
    """Return a composed config whose profile, if it names one, is there."""
    draw = mapping["strategy"].get("stages", {}).get("draw", {})
    if draw.get("use") != "allocate":
        return mapping
    rungs = (1, 3, 4, 6, 8)
    costs, shares = (0.0, 20.0, 0.0, 0.0), (0.5, 0.6, 0.65, 0.7, 0.7)
    file = Path(folder) / draw["controller"]["profile"]
    made = Calibration("fake", "t", "tokens", rungs, (0.0,), costs, 0.0, shares, shares, 1, 22, 1.0)
    file.write_text(made.dumped())
    controller = {**draw["controller"], "profile": str(file)}
    stages = {**mapping["strategy"]["stages"], "draw": {**draw, "controller": controller}}
    return {**mapping, "strategy": {**mapping["strategy"], "stages": stages}}


# --- examples run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_doctests(file):
    assert doctest.testfile(str(file), module_relative=False, encoding="utf-8").failed == 0


def swept(overrides):
    """Return what the experiment among some overrides sweeps over."""
    names = [word.partition("=")[2] for word in overrides if word.startswith("experiment=")]
    files = [config_folder("ttsflow.conf").joinpath("experiment", f"{name}.yaml") for name in names]
    params = [yaml.safe_load(file.read_text())["hydra"]["sweeper"]["params"] for file in files]
    return [f"{key}={value}" for one in params for key, value in one.items()]


@pytest.mark.slow
@pytest.mark.parametrize("line", list(commands()))
def test_commands(line, config_dir, capsys, tmp_path, monkeypatch):
    _, command, *words = shlex.split(line, comments=True)
    assert command in cli.COMMANDS
    monkeypatch.chdir(tmp_path)
    words = [word.replace("NAME", "mine") for word in words]
    if command in {"list", "plugins", "check", "schema", "new", "describe"}:
        assert cli.main([command, *words]) == 0
        return
    if command == "record":
        folder, option, _ = words
        assert option == "-o"
        assert any(f"hydra.run.dir={folder}" in line for file in FILES for line in blocks(file, "bash"))
        return
    if command == "calibrate":
        # That it works is tested beside it, and takes long with a model.
        from ttsflow.analysis.calibrate import parsed

        parsed(words, argparse.ArgumentParser())
        return
    if command in READERS:
        # Only that the words are ones they take.
        with pytest.raises(SystemExit) as help_shown:
            cli.main([command, "--help"])
        assert help_shown.value.code == 0
        assert {word for word in words if word.startswith("-")} <= set(capsys.readouterr().out.split())
        return
    if "--config-dir" in words:
        place = words.index("--config-dir")
        words[place : place + 2] = []
    multirun = {"-m", "--multirun"} & set(words)
    options = {word for word in words if word.startswith("-")}
    assert options <= {"-m", "--multirun", "-q", "--quiet", "--resume"}
    overrides = [word for word in words if word not in options]
    cli._check_folder(overrides, multirun=bool(multirun))
    jobs = [overrides]
    if multirun:
        parsed = OverridesParser.create().parse_overrides([*swept(overrides), *overrides])
        jobs = [job for batch in BasicSweeper.split_arguments(parsed, max_batch_size=None) for job in batch]
        assert len(jobs) > 1, "this sweep has one job"
    for job in jobs:
        made = compose(job, config_dir)
        # Recorded problems have no engine but the one that plays them, which loads no model either.
        played = (made.get("task") or {}).get("use") == "recorded" and not made["task"].get("path")
        mapping = with_profile(made if played else on_fake(made), config_dir)
        build("stage", mapping["strategy"], "strategy", plugins.load())
        if command == "run":
            assemble(mapping)
    if command == "explain":
        assert cli.main([command, *words]) == 0
        assert yaml.safe_load(capsys.readouterr().out)["use"]


def lines_of(file):
    text = "".join(blocks(file, "bash"))
    return [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("ttsflow ")]


_FOLDER = re.compile(r"\boutputs/\w+")
_MADE = re.compile(r"hydra\.(?:run|sweep)\.dir=(outputs/\w+)")


def test_a_folder_that_is_documented_is_made_by_one_command():
    made = {}
    for file in FILES:
        for line in lines_of(file):
            for folder in _MADE.findall(line):
                if "--resume" not in line:
                    assert made.setdefault(folder, (file, line)) == (file, line), f"again: {file}"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_folder_that_is_documented_is_made_before_it_is_read(file):
    ready = {
        folder for other in FILES if other != file for one in lines_of(other) for folder in _MADE.findall(one)
    }
    for line in lines_of(file):
        ready |= {*_MADE.findall(line)}
        assert {*_FOLDER.findall(line)} <= ready, line


@pytest.mark.slow
@pytest.mark.parametrize(("name", "text"), [pytest.param(n, t, id=n) for _, n, t in strategies()])
def test_strategy_files(name, text, config_dir, tmp_path):
    del text
    shown = f"shown_{name}" if installed(name) else name
    settings = [f"strategy={shown}", "engine=fake", "verifier=fake", "limit=3", "task.size=3"]
    mapping = compose(settings, config_dir)
    stage = build("stage", mapping["strategy"], "strategy", plugins.load())
    mapping["engines"] = {engine: {"use": "fake"} for engine in engines_of(stage)}
    if shown != name:
        shipped = compose([f"strategy={name}"])["strategy"]
        assert stage == build("stage", shipped, "strategy", plugins.load()), "it is not the shipped one"
    assert build("stage", explain(stage, plugins.load()), "strategy", plugins.load()) == stage
    summary = run_config(mapping, tmp_path / name)
    assert (summary.status, summary.problems, summary.failed) == ("complete", 3, 0)


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=file.name) for file in FILES for text in blocks(file, "yaml")]
)
def test_every_yaml_block_is_yaml(text):
    assert yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=file.name) for file in FILES for text in blocks(file, "python")]
)
def test_every_python_block_compiles(text):
    compile(text, "docs", "exec")


def mistakes():
    """Yield (overrides, message) for the rows of the table of errors that show a command line."""
    for asked, message in rows(section(page("config.md"), "Errors"), 2):
        overrides = [word for code in re.findall(r"`([^`]+)`", asked) for word in code.split() if "=" in word]
        if overrides:
            yield pytest.param(overrides, re.findall(r"`([^`]+)`", message)[0], id=asked)


@pytest.mark.parametrize(("overrides", "message"), list(mistakes()))
def test_errors_are_as_shown(overrides, message):
    with pytest.raises(ConfigError) as caught:
        assemble(on_fake(compose(overrides)))
    for part in filter(None, message.split("...")):
        assert part.strip() in str(caught.value)


@pytest.mark.slow
def test_the_plugin_works(install, tmp_path):
    """The package that plugins.md shows can be installed, found, run and held to its contract."""
    shown = [*blocks(DOCS / "plugins.md", "python"), *blocks(DOCS / "plugins.md", "yaml")]
    files = {text.partition("\n")[0].removeprefix("# "): text for text in shown}
    package = "ttsflow_brief"
    inside = {name.removeprefix(f"{package}/"): text for name, text in files.items() if package + "/" in name}
    source = inside.pop("__init__.py")
    install("ttsflow-brief", source, {**inside, "conf/__init__.py": "", "conf/strategy/__init__.py": ""})
    assert plugins.problems() == []
    chosen = ["strategy=brief_beam", "verifier=brief", "verifier.scale=20", "engine=fake", "limit=2"]
    assert run_config(compose(chosen), tmp_path / "run").status == "complete"
    (entry,) = [entry for entry in plugins.load().entries("strategy") if entry.provider == "ttsflow-brief"]
    assert set(entry.notes) == {"what", "source", "cost"}
    names = {}
    exec(compile(files["test_brief.py"], "test_brief.py", "exec"), names)
    contract = names["TestBrief"]()
    part = plugins.load().get("verifier", "brief")()
    checks = [check for name, check in inspect.getmembers(contract) if name.startswith("test_")]
    assert len(checks) >= 3
    for check in checks:
        check(part)


# --- nothing public is left out -----------------------------------------------------------------------


def shown_default(field):
    if field.default_factory is not dataclasses.MISSING:
        return shown(field.default_factory())
    return "required" if field.default is dataclasses.MISSING else shown(field.default)


def shown(value):
    if dataclasses.is_dataclass(value):
        value = {"use": plugins.load().entry_of(type(value)).name}
    if isinstance(value, str):
        plain = re.fullmatch(r"\w+", value)
        return f"`{value}`" if plain else f"`{json.dumps(value)}`"
    return f"`{json.dumps(value)}`"


def spread(key, field):
    """Yield a setting and its default; one that holds settings and is no part gives these."""
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
        if dataclasses.is_dataclass(value) and plugins.load().entry_of(type(value)) is None:
            for inner in dataclasses.fields(value):
                yield f"{key}.{inner.name}", shown(getattr(value, inner.name))
            return
    yield key, shown_default(field)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "strategy"])
def test_every_setting_of_a_part_is_described(kind):
    registry = plugins.load()
    wanted = set()
    for entry in own(kind):
        fields = schema(registry.get(kind, entry.name))
        for key, (field, _) in fields.items():
            for name, default in spread(key, field):
                wanted.add((f"`{entry.name}`", f"`{name}`", default))
        if not fields:
            wanted.add((f"`{entry.name}`", "-", ""))
    told = {row for row in rows(section(page("parts.md"), kind), 3) if row[0].startswith("`")}
    assert told == wanted


@cache
def settings(name):
    """Return what a strategy file sets beside its stages: its variables, or the fields of its root part."""
    mapping = compose([f"strategy={name}"])
    fields = {
        key: value
        for key, value in mapping["strategy"].items()
        if key != "use" and not isinstance(value, dict)
    }
    return {**fields, **mapping["variables"]}


@pytest.mark.slow
def test_every_strategy_is_described():
    told = {row[0]: " ".join(row) for row in rows(page("strategies.md"), 7) if len(row) == 6}
    for entry in own("strategy"):
        assert "n" in settings(entry.name)
        for name, value in settings(entry.name).items():
            row = told[f"`{entry.name}`"]
            assert f"`{name}` {shown(value).strip('`')}" in row or f"`{name}` `{value}`" in row
    assert len(told) == len(own("strategy")) + 2  # the head of the table and the line below it


def test_every_strategy_has_a_page():
    names = {entry.name for entry in own("strategy")}
    assert {file.stem for file in (DOCS / "strategies").glob("*.md")} == names
    for name in names:
        assert f"](strategies/{name}.md)" in page("strategies.md")


@pytest.mark.parametrize("entry", own("strategy"), ids=lambda entry: entry.name)
def test_the_page_of_a_strategy_is_complete(entry):
    text = page(f"strategies/{entry.name}.md")
    assert text.startswith(f"# `{entry.name}`\n")
    assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == HEADINGS
    head, _, *told = rows(section(text, "Settings"), 4)
    assert head == ("setting", "default", "what", "default from")
    assert [row[:2] for row in told] == [(f"`{k}`", shown(v)) for k, v in settings(entry.name).items()]
    assert all(row[2] and row[3] for row in told)
    assert {row[0] for row in rows(section(text, "Cost"), 2)} >= {"decoded", "serial"}
    for source in re.findall(r"arXiv [\d.]+\d", entry.notes["source"]):
        assert source in text.partition("\n## ")[0]
    (examples,) = blocks(DOCS / "strategies" / f"{entry.name}.md", "bash")
    assert re.search(rf"^ttsflow run .*\bstrategy={entry.name}\b", examples, re.MULTILINE)


def test_every_task_file_is_named():
    for option, _ in config_options(config_folder("ttsflow.conf")):
        if option.startswith("task/"):
            assert f"`{option.removeprefix('task/')}`" in page("parts.md")


def test_every_experiment_is_described():
    told = {row[0].strip("`") for row in rows(section(page("sweeps.md"), "Ready sweeps"), 1)}
    options = [option for option, _ in config_options(config_folder("ttsflow.conf"))]
    names = {option.partition("/")[2] for option in options if option.startswith("experiment/")}
    assert names == told - {"experiment", "---"}


def test_every_setting_of_a_run_is_described():
    text = page("config.md")
    plain = set(compose()) - {"variables", "choices"}
    told = {row[0] for row in rows(text, 1)}
    assert {f"`{key}`" for key in plain} <= told
    assert {f"`{field.name}`" for field in dataclasses.fields(Sampling)} <= told
    assert {row[2] for row in rows(text, 3) if row[0] == "`seed`"} == {"0"}
    for field in dataclasses.fields(Sampling):
        (default,) = [row[1].strip("`") for row in rows(text, 2) if row[0] == f"`{field.name}`"]
        assert json.loads(default) == (list(field.default) if field.name == "stop" else field.default)


def test_the_hook_and_all_that_it_is_given_is_described():
    text = page("plugins.md")
    hooks = {name for name, hook in vars(hookspecs).items() if hasattr(hook, f"{hookspecs.PROJECT}_spec")}
    for name in hooks:
        arguments = ", ".join(inspect.signature(getattr(hookspecs, name)).parameters)
        assert f"`{name}({arguments})`" in text
    told = {row[0] for row in rows(text, 1)}
    for name, method in vars(plugins.Registration).items():
        if not name.startswith("_"):
            _, *arguments = inspect.signature(method).parameters
            (row,) = [
                cell for cell in rows(text, 2) if cell[0] == f"`registry.{name}({', '.join(arguments)})`"
            ]
            assert all(f"`{argument}`" in row[1] for argument in arguments)
    assert {f"`{variable}=" for variable in (plugins.BLOCK, plugins.TRACE)} <= {
        cell[: cell.find("=") + 1] for cell in told
    }
    assert f"```python\n{plugins.VERSION} = {hookspecs.API_VERSION}\n```" in text


def test_every_contract_is_described():
    told = {row[0].strip("`") for row in rows(section(page("plugins.md"), "Testing"), 1)}
    assert {name for name in contracts.__all__ if name.endswith("Contract")} == told - {"contract", "---"}


@pytest.mark.parametrize("name", re.findall(r"^\| `(ttsflow[\w.]*)` \|", page("api.md"), re.MULTILINE))
def test_what_is_public_can_be_imported_and_says_what_it_is(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert module.__all__
    for public in module.__all__:
        value = getattr(module, public)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, f"{name}.{public} has no docstring"
    (row,) = [cells for cells in rows(page("api.md"), 2) if cells[0] == f"`{name}`"]
    for mentioned in re.findall(r"`(\w+)`", row[1]):
        assert mentioned in module.__all__ or mentioned in PARTS["engine"]


def test_every_argument_of_pipeline_is_described():
    told = {name for row in rows(page("python.md"), 1) for name in re.findall(r"`(\w+)`", row[0])}
    arguments = inspect.signature(Pipeline).parameters.values()
    assert {one.name for one in arguments if one.kind is not one.VAR_KEYWORD} <= told


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of a run in which much happens."""
    target = tmp_path_factory.mktemp("run") / "here"
    settings = ["strategy=ffs", "strategy.n=6", "strategy.k=2", "engine=fake", "limit=6"]
    run_config(compose([*settings, "budget.run.tokens=150"]), target)
    return target


def test_every_key_of_the_files_is_described(folder):
    text = page("results.md")
    summary = json.loads((folder / "summary.json").read_text())
    result = json.loads((folder / "results.jsonl").read_text().splitlines()[0])

    def told(title, column=0):
        cells = [row[column] for row in rows(section(text, title), column + 1)]
        return set(re.findall(r"`(\w+)`", " ".join(cells)))

    assert {*summary, *summary["usage"]} == told("summary.json")
    assert {field.name for field in dataclasses.fields(Summary)} == set(summary)
    assert set(result) == told("results.jsonl")
    assert {field.name for field in dataclasses.fields(Result)} == set(result)
    assert set(result["usage"]) <= told("results.jsonl", 1)
    assert {field.name for field in dataclasses.fields(Usage)} <= set(result["usage"])
    for name in folder.iterdir():
        assert f"`{name.name}`" in text


def test_every_event_is_described(folder):
    text = section(page("results.md"), "trace.jsonl")
    told = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) for row in rows(text, 3)}
    sources = "".join(file.read_text() for file in (ROOT / "ttsflow").rglob("*.py"))
    kinds = set(re.findall(r"\.event\(\s*\"(\w+)\"", sources)) | set(
        re.findall(r"Note\(\s*\"(\w+)\"", sources)
    )
    assert kinds == set(told) - {"event", "---"}
    for line in (folder / "trace.jsonl").read_text().splitlines():
        event = json.loads(line)
        assert set(event) - {"event", "problem"} <= told[event["event"]]


def test_decisions_are_numbered_and_short():
    files = sorted((DOCS / "decisions").glob("*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for file in files:
        text = file.read_text()
        assert text.startswith(f"# {file.name[:4]} ")
        assert all(f"**{word}.**" in text for word in ("Context", "Decision", "Consequence"))
