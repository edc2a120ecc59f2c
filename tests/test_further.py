"""Several engines of a run, from config to folder: what is refused, opened, written and read again."""

import json
import re
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import yaml
from jsonschema import Draft202012Validator

from ttsflow import Pipeline
from ttsflow.analysis.record import recorded
from ttsflow.analysis.show import show_problem
from ttsflow.analysis.tree import grow, read_events
from ttsflow.authoring.strategy import trial_words
from ttsflow.checks import check
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose, to_yaml
from ttsflow.costs.prices import Money
from ttsflow.display import remarks
from ttsflow.engines import warm
from ttsflow.errors import ConfigError, DataError
from ttsflow.json_schema import file_schema
from ttsflow.plugins import load
from ttsflow.run import run_config
from ttsflow.runs.kept import read_results
from ttsflow.session import Session
from ttsflow.testing import FakeEngine, FakeEnginePart

FAKE = ("strategy=model_cascade", "engine=fake", "+engine@engines.large=fake", "limit=4")


@pytest.fixture(autouse=True)
def _cold():
    warm.close_all()
    yield
    warm.close_all()


def setup_of(*words):
    return assemble(compose([*FAKE, *words]))


# --- config -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["+engine@engines.large=fake", "engines.large.capacity=3"],
        ["engines.large.use=fake", "engines.large.capacity=3"],
        ["engines.large={use: fake, capacity: 3}"],
    ],
)
def test_three_ways_to_write_it(words):
    setup = assemble(compose(["strategy=model_cascade", "engine=fake", *words]))
    assert setup.engines == {"large": FakeEnginePart(capacity=3)}


def test_a_file_may_bring_them(tmp_path):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "pair.yaml").write_text(
        "# @package _global_\n"
        "defaults:\n"
        "  - /engine@engines.large: fake\n"
        "  - override /strategy: model_cascade\n"
        "  - override /engine: fake\n"
        "engines: {large: {capacity: 5}}\n"
    )
    mapping = compose(["experiment=pair"], str(tmp_path))
    assert assemble(mapping).engines == {"large": FakeEnginePart(capacity=5)}


def test_what_was_resolved_builds_the_same_run(tmp_path):
    setup = setup_of("engines.large.capacity=3")
    run_config(compose([*FAKE, "engines.large.capacity=3"]), tmp_path / "run")
    again = assemble(yaml.safe_load((tmp_path / "run" / "config.yaml").read_text()))
    assert again == setup
    assert again.fingerprint == setup.fingerprint
    assert to_yaml(compose([*FAKE])["engines"]) == "large:\n  use: fake\n"


def test_engines_are_part_of_the_fingerprint_and_none_leaves_it_as_it_was():
    assert setup_of().fingerprint != setup_of("engines.large.capacity=3").fingerprint
    alone = assemble(compose(["engine=fake"]))
    assert replace(alone, engines={}).fingerprint == alone.fingerprint


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["strategy=model_cascade", "engine=fake"],
            "strategy.stages.second.then.stages.sample.engine: there is no engine 'large' under `engines`.",
        ),
        (
            [*FAKE, "strategy.engine=larg"],
            "'larg' under `engines`. Did you mean 'large'? Known: large. One is added with +engine@",
        ),
        (
            [*FAKE, "+engine@engines.more=fake"],
            "engines.more: no stage of this strategy asks for it. Those named are: large.",
        ),
        (
            ["engine=fake", "+engine@engines.large=fake"],
            "engines.large: no stage of this strategy asks for it. `generate` has the setting `engine`.",
        ),
        ([*FAKE, "strategy.engine=''"], "engine: a name is wanted; null means the engine of the run."),
        ([*FAKE, "engines.large.seats=3"], "engines.large.seats: 'fake' has no setting 'seats'."),
        ([*FAKE, "engines.large=fake"], "engines.large: an engine is a mapping with the key `use`, got"),
        ([*FAKE, "engines.large.pool=a.pool"], "engines.large.pool: only the engine of the run has it;"),
        ([*FAKE, "engine.memory=auto"], "engine.memory: a plan shares the memory between one engine and"),
        (
            [*FAKE, "meter=model", "meter.busy_watts=65"],
            "attribution: joules are shared by tokens, and a token of one model takes more than",
        ),
        (
            [*FAKE, "engines.large.logprobs=5", "record=9"],
            "record: this needs 9 log-probabilities per token;",
        ),
        ([*FAKE, "cost=money"], "cost.money: it prices the tokens of one model, and this run has 2 engines."),
        (
            [*FAKE, "cost.work.use=flops", "cost.work.model=smollm2-135m"],
            "Give each its own: cost.work.use=by_engine, with a cost model under `run` and one under",
        ),
    ],
)
def test_refused_before_anything_loads(words, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        assemble(compose(words))


def test_prices_name_the_engines_of_the_run():
    settings = "{use: by_engine, run: {use: money, output: 1.0}, engines: {%s: {use: money, output: 9.0}}}"
    words = "cost.money=" + settings
    assert setup_of(words % "large").costs["money"].engines == {"large": Money(output=9.0)}
    with pytest.raises(ConfigError, match=r"cost\.money\.engines\.larg: this run has no engine 'larg'"):
        setup_of(words % "larg")


@pytest.mark.parametrize("place", ["engine", "engines.large"])
@pytest.mark.parametrize("name", ["sim", "replay"])
def test_virtual_time_stands_alone(place, name):
    words = ["engine=fake", "+engine@engines.large=fake"]
    words[place != "engine"] = words[place != "engine"].rpartition("=")[0] + f"={name}"
    with pytest.raises(ConfigError, match=f"{place}: its time is virtual, and it cannot know"):
        assemble(compose(["strategy=model_cascade", *words]))


@dataclass(frozen=True)
class Limited(FakeEnginePart):
    """An engine that can do less."""

    less: str = "abort"
    virtual: ClassVar[bool] = True

    @property
    def capabilities(self):
        value = 0.5 if self.less == "temperature" else False
        return replace(super().capabilities, **{self.less: value})


@pytest.mark.parametrize(
    ("less", "words", "message"),
    [
        ("seeds", [], "engines.large: this engine takes no seeds"),
        ("temperature", [], "sampling.temperature: `engines.large` takes at most 0.5, got 0.8."),
        ("abort", ["budget.run.tokens=500"], "budget: `engines.large` cannot end a request"),
        (
            "abort",
            ["strategy.stages.second.then.stages.sample.watch={use: first_finished}"],
            "strategy.stages.second.then.stages.sample.watch: `engines.large` cannot end a request",
        ),
        (
            "token_prompts",
            ["strategy.stages.second.then.stages.sample.unit=step"],
            "strategy.stages.second.then.stages.sample: `generate` continues trajectories",
        ),
    ],
)
def test_each_engine_is_held_to_what_it_is_asked(less, words, message):
    setup = setup_of(*words)
    with pytest.raises(ConfigError, match=re.escape(message)):
        check(replace(setup, engines={"large": Limited(less=less)}))
    watch = [word.replace("second.then.stages.sample", "sample") for word in words if "stages" in word]
    check(replace(setup_of(*watch), engines={"large": Limited(less=less)}) if watch else setup)


def test_a_step_that_another_engine_would_have_to_take_is_refused():
    stages = {
        "first": {"use": "generate", "unit": "step"},
        "second": {"use": "generate", "unit": "step", "engine": "large"},
    }
    told = "strategy.stages.second.engine: it would go on with candidates that 'first' has begun on the"
    with pytest.raises(ConfigError, match=re.escape(told)):
        Pipeline({"use": "sequence", "stages": stages}, engine="fake", engines={"large": "fake"})
    stages["first"], stages["second"] = stages["second"], stages["first"]
    Pipeline({"use": "sequence", "stages": stages}, engine="fake", engines={"large": "fake"})


# --- a run ------------------------------------------------------------------------------------------


def test_the_folder_tells_the_engines_apart_and_is_read_again(tmp_path):
    words = [*FAKE, "strategy.m=2", "engines.large.capacity=3", "budget.problem.tokens=120", "trace=true"]
    summary = run_config(compose(words), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "results.jsonl").read_text().splitlines()]
    large = [line["usage"]["engines"]["large"] for line in lines if line["usage"]["engines"]]
    assert large
    assert all({*one} == {"prompt", "cached", "output", "aborted", "requests", "decoded"} for one in large)
    total = summary.usage["engines"]["large"]
    assert total["decoded_tokens"] == sum(one["output"] + one["aborted"] for one in large) > 0
    assert total["requests"] == sum(one["requests"] for one in large)
    events = [json.loads(line) for line in (tmp_path / "run" / "trace.jsonl").read_text().splitlines()]
    assert total["decoded_tokens"] == sum(
        event["tokens_new"] for event in events if event.get("engine") == "large"
    )
    read, broken = read_results(tmp_path / "run" / "results.jsonl")
    assert not broken
    assert sum(found.usage.of("large").decoded for found, _ in read.values()) == total["decoded_tokens"]
    assert any(f"{total['decoded_tokens']:,} of the decoded tokens" in line for line in remarks(summary))
    # Going on with it keeps them.
    file = tmp_path / "run" / "results.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    (tmp_path / "run" / "summary.json").unlink()
    again = run_config(compose(words), tmp_path / "run", resume=True)
    assert again.usage["engines"] == summary.usage["engines"]


def test_a_tree_says_who_decoded_what(tmp_path, capsys):
    run_config(compose(FAKE), tmp_path / "run")
    trees = {name: grow(name, events) for name, events in read_events(tmp_path / "run").items()}
    nodes = [node for tree in trees.values() for node in tree.roots]
    assert all((node.engine == "large") == (node.path[0] >= 8) for node in nodes)
    asked = next(name for name, tree in trees.items() if len(tree.roots) > 8)
    show_problem(tmp_path / "run", asked, width=40)
    told = capsys.readouterr().out
    assert told.count("engine large") == 4


def test_a_schema_knows_their_settings():
    validator = Draft202012Validator(file_schema(None, load()))
    assert validator.is_valid({"engines": {"large": {"use": "fake", "capacity": 3}}})
    assert not validator.is_valid({"engines": {"large": {"use": "fake", "seats": 3}}})
    assert not validator.is_valid({"engines": ["large"]})


def test_what_begins_as_a_cascade_is_told_to_be_tried_with_two_engines():
    assert trial_words("model_cascade") == ["engines.large.use=fake"]
    assemble(compose(["strategy=model_cascade", "engine=fake", *trial_words("model_cascade")]))


def test_results_from_before_there_were_several_are_read(tmp_path):
    run_config(compose(["engine=fake", "limit=2"]), tmp_path / "run")
    file = tmp_path / "run" / "results.jsonl"
    file.write_text(file.read_text().replace('"engines": {}, ', ""))
    assert '"engines"' not in file.read_text()
    read, broken = read_results(file)
    assert (len(read), broken) == (2, [])


def test_a_recording_is_of_one_model(tmp_path):
    run_config(compose([*FAKE, "engines.large.capacity=3"]), tmp_path / "run")
    recordings, left_out = recorded(tmp_path / "run")
    assert {len(one.samples) for one in recordings} == {8}
    assert left_out["of a further engine"] > 0
    words = ["engine=sim", f"engine.paths={{use: trace, run: '{tmp_path / 'run'}'}}", "task=arithmetic"]
    with pytest.raises((ConfigError, DataError), match="a trace of one engine alone is played"):
        run_config(compose([*words, "limit=4", "hardware=rtx4090"]), tmp_path / "again")


class Opened(FakeEnginePart):
    """Counts what is opened."""

    engines: ClassVar[list] = []

    def open(self):
        engine = FakeEngine(capacity=self.capacity)
        self.engines.append(engine)
        return engine


@pytest.mark.parametrize(("seats", "opened"), [(16, 1), (5, 2)])
def test_equal_settings_are_one_engine_and_every_token_is_booked(seats, opened):
    Opened.engines.clear()
    setup = replace(setup_of(), engine=Opened(), engines={"large": Opened(capacity=seats)})
    problems = list(setup.task.problems())[:6]
    with Session(setup) as session:
        results = list(session.run(problems))
    assert len(Opened.engines) == opened
    assert sum(one.usage.decoded for one in results) == sum(engine.decoded for engine in Opened.engines)
    assert all(one.usage.of("large").requests in {0, 4} for one in results)
    if opened == 2:
        assert sum(one.usage.of("large").decoded for one in results) == Opened.engines[1].decoded


@pytest.mark.parametrize("seats", [16, 5])
def test_a_judge_may_ask_any_engine_of_the_run(seats):
    """Its own settings decide which; what it reads and writes is not in the books of the stages."""
    words = ["verifier=judge", "verifier.engine.use=fake", f"verifier.engine.capacity={seats}"]
    stages = {
        "small": {"use": "generate", "n": 2},
        "large": {"use": "generate", "n": 2, "engine": "large"},
        "judge": {"use": "verify"},
        "vote": {"use": "aggregate", "how": "weighted"},
    }
    mapping = compose(["engine=fake", *words, "task=arithmetic"])
    mapping |= {"strategy": {"use": "sequence", "stages": stages}, "variables": {}}
    setup = assemble(mapping | {"engines": {"large": {"use": "fake", "capacity": 5}}})
    with Session(setup) as session:
        engines = {id(item.engine): item.engine for item in warm._held}
        results = list(session.run(list(setup.task.problems())[:6]))
    assert len(engines) == 2
    assert all(one.usage.verifier > 0 for one in results)
    booked = sum(one.usage.decoded for one in results)
    asked = sum(engine.decoded for engine in engines.values())
    assert booked < asked < booked + sum(one.usage.verifier for one in results)


def test_python_takes_them_by_name_or_as_a_mapping():
    for large in ("fake", {"use": "fake", "capacity": 3}):
        pipeline = Pipeline("model_cascade", engine="fake", engines={"large": large}, n=3, m=2)
        usage = pipeline.run([f"{i} + 1 =" for i in range(6)]).summary.usage
        assert usage["engines"]["large"]["requests"] > 0
    with pytest.raises(ConfigError, match=r"engines\.large\.model: a model is needed"):
        Pipeline("model_cascade", engine="fake", engines={"large": {}})
