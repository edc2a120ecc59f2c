"""Composing: what comes out, what is refused and how, mounted strategies, and no trace left behind."""

import itertools
import threading
from functools import cache

import pytest
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.version import VersionBase

from ttsflow import Pipeline, plugins
from ttsflow.build import build, explain, fill, walk
from ttsflow.composing.assemble import assemble
from ttsflow.composing.mount import references
from ttsflow.config import compose, compose_run, strategy, to_yaml
from ttsflow.errors import ConfigError, PluginError
from ttsflow.ledger import Budget
from ttsflow.registry import config_folder
from ttsflow.types import Sampling

STRATEGIES = [entry.name for entry in plugins.load().entries("strategy")]

#: All of them, and without `slow` one of each sort: what costs more than composing its own file once.
SORTS = [
    pytest.param(
        name,
        marks=[] if name in {"majority", "ffs", "dynasor", "beam_search", "recipe"} else pytest.mark.slow,
    )
    for name in STRATEGIES
]


def built(mapping):
    return build("stage", mapping, "strategy", plugins.load())


@cache
def shipped(name):
    """Return the part that a shipped strategy is; the tests below share it."""
    return built(compose([f"strategy={name}"])["strategy"])


@pytest.fixture
def folder(tmp_path):
    """Return a function that writes config files into a user's folder, its name with a space."""
    root = tmp_path / "my configs"

    def write(**files):
        for path, text in files.items():
            file = root / f"{path.replace('__', '/')}.yaml"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return str(root)

    return write


# --- what comes out ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_config_is_plain_resolved_and_in_order():
    mapping = compose(["strategy=ffs", "strategy.n=8", "engine=fake", "sampling.top_k=7"])
    assert list(mapping)[:2] == ["strategy", "variables"]
    assert list(mapping["strategy"]["stages"]) == ["sample", "keep", "answer"]
    assert mapping["strategy"]["stages"]["sample"]["n"] == 8
    assert "n" not in mapping["strategy"]
    assert mapping["variables"]["n"] == 8
    assert mapping["verifier"] is None
    assert mapping["engine"] == {"use": "fake"}
    assert mapping["sampling"]["top_k"] == 7
    unset = {"reserve": None, "fallback": None, "breaker": None}
    assert mapping["budget"] == {"problem": {}, "run": {}, **unset}
    assert (mapping["seed"], mapping["limit"], mapping["trace"]) == (0, None, True)
    assert mapping["choices"]["strategy"] == "ffs"
    assert mapping["choices"]["engine"] == "fake"
    assert type(mapping["strategy"]) is dict
    assert type(mapping["strategy"]["stages"]["sample"]) is dict


def test_a_setting_that_no_file_mentions_needs_no_plus():
    stages = compose(["strategy.stages.sample.total=3", "engine=fake", "engine.capacity=2"])
    assert stages["strategy"]["stages"]["sample"]["total"] == 3
    assert stages["engine"] == {"use": "fake", "capacity": 2}


@pytest.mark.slow
def test_a_part_without_a_file_is_chosen_by_its_name(install, hook):
    install(
        "my-judge",
        hook(
            "registry.add('verifier', 'my_judge', 'my_judge:J')", "registry.add('strategy', 'thinker', 'x:Y')"
        ),
    )
    assert compose(["verifier=my_judge", "verifier.k=3"])["verifier"] == {"use": "my_judge", "k": 3}
    with pytest.raises(PluginError, match="strategy 'thinker' of my-judge cannot be loaded"):
        built(compose(["strategy=thinker"])["strategy"])


@pytest.mark.slow
def test_two_runs_in_one_second_have_two_folders():
    assert compose_run().folder != compose_run().folder
    assert str(compose_run(["hydra.run.dir=here/there"]).folder) == "here/there"


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_builds_and_is_what_explain_says(name):
    part = shipped(name)
    plain = explain(part, plugins.load())
    assert built(plain) == part
    assert dict(walk(part)) == dict(walk(built(plain)))


@pytest.mark.parametrize(
    "option",
    sorted(o for o in plugins.load().options if "/" in o and not o.startswith(("strategy/", "experiment/"))),
)
def test_every_config_file_builds_and_says_what_it_is(option):
    group, name = option.split("/")
    registry = plugins.load()
    # What was recorded belongs to one engine, whose file it reads.
    engine = ["engine=replay"] if name == "recorded" else []
    # What a machine takes is for its owner to say, and what may be spent for who pays.
    owner = {
        "meter/model": ["meter.busy_watts=65"],
        "budget/dollar_cap": ["budget.run.money=2"],
        "budget/energy_first": ["budget.run.joules=5"],
    }
    mapping = compose([f"{group}={name}", *engine, *owner.get(option, [])])[group]
    if group in ("engine", "task", "load", "meter") or (group == "verifier" and mapping):
        assert build(group, mapping, group, registry)
    elif group == "cost":
        assert all(build("cost", cost, name, registry) for name, cost in mapping.items())
    elif group == "sampling":
        assert fill(Sampling, mapping, group, registry)
    elif group == "budget":
        assert fill(Budget, mapping, group, registry) is not None
    [entry] = [entry for entry in registry.choices(group) if entry.name == name]
    assert entry.doc


@pytest.mark.parametrize("name", SORTS)
def test_explain_can_be_pasted_into_a_file(name, folder):
    part = shipped(name)
    where = folder(strategy__pasted=to_yaml(explain(part, plugins.load())))
    assert built(compose(["strategy=pasted"], where)["strategy"]) == part


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_n_and_says_what_it_is(name):
    mapping = compose([f"strategy={name}", "strategy.n=9"])
    assert {**mapping["strategy"], **mapping["variables"]}["n"] == 9
    assert {"what", "source", "cost"} <= set(plugins.load().find("strategy", name).notes)


def test_the_order_of_stages_survives_yaml():
    mapping = {"use": "sequence", "stages": {"z": {"x": 1}, "a": {"y": "\n\n"}}}
    assert to_yaml(mapping).splitlines()[:3] == ["use: sequence", "stages:", "  z:"]


@pytest.mark.slow
def test_what_is_kept_of_a_composition_changes_nothing(folder):
    first = compose(["strategy=dvts", "engine=fake"])
    compose(["strategy=dvts", "engine=fake", "engine.capacity=3", "strategy.stages.answer=null"])
    compose(["strategy=dvts", "engine=fake", "strategy.stages.answer.use=dedup", "~budget.run", "seed=3"])
    assert compose(["strategy=dvts", "engine=fake"]) == first
    for n in (3, 4):
        where = folder(strategy__mine=f"defaults: [majority, _self_]\nn: {n}\n")
        assert compose(["strategy=mine"], where)["variables"]["n"] == n
        assert compose(["strategy=mine"], where)["variables"]["n"] == n


@pytest.mark.slow
def test_what_is_kept_is_made_anew_when_its_files_change_or_more_than_files_decide(
    folder, monkeypatch, tmp_path
):
    def named(where):
        return compose(["strategy=mine", "strategy.k=3"], where)["variables"].get("n")

    where = folder(
        strategy__mine="defaults: [/extra@_here_: one, _self_]\nuse: sequence\nk: 1\n"
        "stages: {a: {use: generate, n: '${strategy.n}', total: '${strategy.k}'}}\n",
        extra__one="n: 5\n",
    )
    assert named(where) == named(where) == 5
    folder(extra__one="n: 6\n")
    assert named(where) == named(where) == 6
    (tmp_path / "my configs" / "extra" / "one.yaml").unlink()
    with pytest.raises(ConfigError, match="there is no extra 'one'"):
        named(where)
    folder(extra__one="n: '${oc.env:HOW_MANY}'\n")
    for number in ("7", "8"):
        monkeypatch.setenv("HOW_MANY", number)
        assert named(where) == number
    for place in ("a", "b"):
        (tmp_path / place).mkdir()
        monkeypatch.chdir(tmp_path / place)
        run = compose_run(["hydra.run.dir=${hydra.runtime.cwd}/here"])
        assert run.folder == tmp_path / place / "here"


def test_a_setting_with_the_name_of_a_group_of_ones_own_chooses_its_file(folder):
    where = folder(extra__one="# @package strategy\nn: 3\n")
    for number in (1, 2):
        mapping = compose(["+extra=one", f"seed={number}"], where)
        assert (mapping["variables"]["n"], mapping["seed"]) == (3, number)
    with pytest.raises(ConfigError, match="extra"):
        compose(["+extra=one"])


def test_a_defaults_list_may_refer_to_a_choice(folder):
    where = folder(
        extra__fake="n: 7\n",
        strategy__mine="defaults: [majority, {/extra@_here_: '${engine}'}]\n",
    )
    assert compose(["strategy=mine", "engine=fake"], where)["variables"]["n"] == 7
    with pytest.raises(ConfigError, match="there is no extra 'vllm'"):
        compose(["strategy=mine"], where)


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "path", "message"),
    [
        (
            "strategy=majorty",
            "strategy",
            "there is no strategy 'majorty'. Did you mean 'majority'? Known: adaptive",
        ),
        ("+strategy=foo", "strategy", "there is no strategy 'foo'. Known: adaptive_consistency, atest"),
        ("+strategy=ffs", "strategy", "write strategy=NAME without `+`"),
        ("strategy=null", "", "a group takes the name of one of its files"),
        ("~strategy", "strategy", "it cannot be removed"),
        ("~seed", "seed", "it cannot be removed"),
        ("strategy=a,b", "", "gives several values. To sweep over them, add -m."),
        ("strategy.n=range(1,4)", "", "gives several values"),
        ("strategy.nn=8", "strategy.nn", "Did you mean 'n'? Known: n, stages"),
        ("+strategy.nn=8", "strategy.nn", "Did you mean 'n'? Known: n, stages"),
        ("++strategy.nn=8", "strategy.nn", "Did you mean 'n'? Known: n, stages"),
        ("strategy.stages.votes=null", "strategy.stages.votes", "no setting 'votes'. Known: answer, sample"),
        ("strategy.use=sequnce", "strategy.use", "there is no stage 'sequnce'. Did you mean 'sequence'"),
        ("strategy.n=${strategy.m}", "strategy.n", "refers to 'm', which strategy lacks. Known: n, stages"),
        ("strategy.n=???", "strategy.", "it has no default, and has to be set"),
        ("nn=8", "nn", "there is no setting 'nn'"),
        ("+nn=8", "nn", "there is no setting 'nn'"),
        ("++sede=8", "sede", "Did you mean 'seed'"),
        ("+strategies=ffs", "strategies", "Did you mean 'strategy'"),
        ("engin=fake", "engin", "Did you mean 'engine'"),
        ("seed.x=1", "seed.x", "Nothing can be set below it"),
        ("verifier=nnone", "verifier", "there is no verifier 'nnone'. Did you mean 'none'"),
        ("hydra.rum.dir=x", "hydra.rum", "Did you mean 'run'"),
        ("n=[1", "", "'n=[1' cannot be read"),
        ("strategy", "", "'strategy' cannot be read"),
    ],
)
def test_mistakes_are_named_with_their_place_and_the_nearest_match(override, path, message):
    with pytest.raises(ConfigError) as caught:
        compose([override])
    assert message in str(caught.value)
    assert caught.value.path.startswith(path)
    assert bool(caught.value.path) == bool(path)
    assert caught.value.exit_code == 2


def test_types_are_checked_where_a_variable_ends_up():
    with pytest.raises(ConfigError, match=r"strategy\.stages\.sample\.n: .* Write 1000\."):
        built(compose(["strategy.n=1e3"])["strategy"])


# --- the user's own folder --------------------------------------------------------------------------


def test_a_strategy_of_ones_own_builds_on_a_shipped_one(folder):
    where = folder(
        strategy__mine="defaults: [beam_search, _self_]\n"
        "stages: {search: {until: {use: agreed, share: 0.8, at_least: 3}}}\n"
    )
    mapping = compose(["strategy=mine", "strategy.n=8"], where)
    search = mapping["strategy"]["stages"]["search"]
    assert search["until"] == {"use": "agreed", "share": 0.8, "at_least": 3}
    assert search["stages"]["step"]["n"] == 8
    assert list(mapping["strategy"]["stages"]) == ["search", "answer"]
    assert built(mapping["strategy"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "defaults: [beam_serch, _self_]\n",
            "'beam_serch', which 'strategy/mine' asks for. Did you mean 'beam_search'",
        ),
        (
            "use: sequence\nn: 4\nm: 3\nstages: {a: {use: generate, n: '${strategy.n}'}}\n",
            "'m' is no setting of",
        ),
        (
            "use: sequence\nstages: {a: {use: generate, n: '${strategy.n}'}}\n",
            "refers to 'n', which strategy lacks",
        ),
        ("use: [\n", "not valid YAML"),
        ("- a\n", "strategy"),
        ("stages: {}\n", "`use` is missing"),
    ],
)
def test_mistakes_in_ones_own_files(folder, text, message):
    with pytest.raises(ConfigError) as caught:
        compose(["strategy=mine"], folder(strategy__mine=text))
    assert message in str(caught.value)


def test_a_file_may_not_hide_an_installed_one(folder):
    with pytest.raises(
        ConfigError, match=r"'strategy/majority\.yaml' in .*my configs has the name of an installed"
    ):
        compose([], folder(strategy__majority="use: sequence\n"))


def test_a_folder_must_exist(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        compose([], str(tmp_path / "nowhere"))


@pytest.mark.parametrize("word", ["experiment=small", "+experiment=small"])
def test_an_experiment_changes_several_things_at_once(folder, word):
    where = folder(
        experiment__small="# @package _global_\n"
        "defaults: [{override /strategy: ffs}, {override /engine: fake}]\n"
        "seed: 7\nsampling: {temperature: 0.1}\n"
    )
    mapping = compose([word], where)
    assert (mapping["seed"], mapping["sampling"]["temperature"]) == (7, 0.1)
    assert mapping["choices"]["strategy"] == "ffs"


EXPERIMENTS = sorted(o.partition("/")[2] for o in plugins.load().options if o.startswith("experiment/"))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_job_of_a_shipped_experiment_can_be_run(name):
    file = config_folder("ttsflow.conf").joinpath("experiment", f"{name}.yaml")
    params = yaml.safe_load(file.read_text())["hydra"]["sweeper"]["params"]
    words = [[f"{key}={value.strip()}" for value in str(values).split(",")] for key, values in params.items()]
    jobs = list(itertools.product(*words))
    assert len(jobs) > 5
    for job in jobs:
        assert assemble(compose([*job, f"experiment={name}"])).limit


# --- strategies inside strategies -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", SORTS)
def test_every_strategy_can_stand_inside_another(name, folder):
    where = folder(
        strategy__outer="use: sequence\nn: 8\nstages:\n"
        "  last: {use: aggregate, how: majority}\n"
        f"  first: {{use: strategy, name: {name}, n: '${{strategy.n}}'}}\n"
        f"  again: {{use: strategy, name: {name}, after: first}}\n"
    )
    part = built(compose(["strategy=outer", "strategy.stages.first.after=last"], where)["strategy"])
    assert list(part.stages) == ["last", "first", "again"]
    assert part.stages["first"] == built(strategy(name, {"n": 8}))
    assert part.stages["again"] == shipped(name)


def test_a_strategy_by_name_takes_nested_settings():
    mapping = strategy("beam_search", {"n": 8, "stages": {"search": {"stages": {"funds": None}}}})
    assert mapping["stages"]["search"]["stages"]["funds"] is None
    assert mapping["stages"]["search"]["stages"]["keep"]["into"] == 8
    assert "n" not in mapping
    assert strategy("majority") == compose([])["strategy"]


@pytest.mark.parametrize(
    ("name", "overrides", "path", "message"),
    [
        ("majorty", {}, "strategy.name", "there is no strategy 'majorty'. Did you mean 'majority'"),
        ("a b", {}, "strategy.name", "cannot be the name of a strategy"),
        ("majority", {"nn": 1}, "strategy.nn", "in the strategy 'majority': 'nn' is no setting"),
        ("majority", {"stages": {"votes": None}}, "strategy.stages.votes", "no stage 'votes' to remove"),
        ("majority", {"n": "${strategy.x}"}, "strategy.", "refers to 'x'"),
    ],
)
def test_mistakes_in_mounted_strategies(name, overrides, path, message):
    with pytest.raises(ConfigError) as caught:
        strategy(name, overrides)
    assert message in str(caught.value)
    assert caught.value.path.startswith(path)


@pytest.mark.slow
def test_a_strategy_may_not_stand_inside_itself(folder):
    where = folder(
        strategy__ping="use: sequence\nstages: {a: {use: strategy, name: pong}}\n",
        strategy__pong="use: sequence\nstages: {a: {use: strategy, name: ping}}\n",
    )
    with pytest.raises(ConfigError, match=r"the strategy '(ping|pong)' stands inside itself: p.ng -> p.ng"):
        compose(["strategy=ping"], where)
    with pytest.raises(ConfigError, match="the name of a strategy is wanted, got null"):
        compose(["strategy=x"], folder(strategy__x="use: sequence\nstages: {a: {use: strategy}}\n"))


def test_a_whole_file_may_be_a_mounted_strategy(folder):
    where = folder(strategy__short="use: strategy\nname: majority\nn: 3\n")
    assert compose(["strategy=short"], where)["strategy"] == strategy("majority", {"n": 3})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("${strategy.n}", {"n"}),
        ("${strategy[n]}", {"n"}),
        ("${oc.select:strategy.n,4}", {"n"}),
        ("a ${strategy.n} b ${strategy.k}", {"n", "k"}),
        ("${other.n}", set()),
        ("${my_strategy.n}", set()),
        ("strategy.n", set()),
        ("${..n}", {"n"}),
        ("${.n}", set()),
        ("${...n}", set()),
    ],
)
def test_references_are_found(text, names):
    assert references({"stages": {"n": 1}, "a": {"b": text}}) == names


# --- and no trace left behind -----------------------------------------------------------------------


def test_composing_leaves_hydra_as_it_was():
    GlobalHydra.instance().clear()
    VersionBase.instance().getbase()
    before = set(ConfigStore.instance().repo), VersionBase.instance().getbase(), GlobalHydra.instance().hydra
    compose(["strategy=ffs"])
    with pytest.raises(ConfigError):
        compose(["strategy=nosuch"])
    after = set(ConfigStore.instance().repo), VersionBase.instance().getbase(), GlobalHydra.instance().hydra
    assert after == before


@pytest.mark.slow
def test_threads_may_compose_at_once():
    results = {}

    def work(number):
        results[number] = compose([f"strategy.n={number}"])["variables"]["n"]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {1: 1, 2: 2, 3: 3, 4: 4}


# --- where a value comes from -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "path", "origin"),
    [
        (["strategy=beam_search", "strategy.depth=0"], "strategy.stages.search.at_most", "strategy.depth"),
        (
            ["strategy=varying_granularity", "strategy.first_rounds=0"],
            "strategy.stages.fine.at_most",
            "strategy.first_rounds",
        ),
        (["strategy=beam_search", "strategy.n=6"], "strategy.stages.search.stages.keep.into", "strategy.n"),
        (["strategy=ffs", "strategy.k=20"], "strategy.stages.sample.watch.k", "strategy.k"),
        (["strategy=majority", "strategy.n=1e3"], "strategy.stages.sample.n", "strategy.n"),
    ],
)
def test_an_error_names_the_variable_that_was_set(words, path, origin):
    with pytest.raises(ConfigError) as caught:
        assemble(compose([*words, "engine=fake", "verifier=fake"]))
    assert caught.value.path == path
    assert caught.value.message.endswith(f" `{origin}` sets it.")


def test_a_value_that_was_set_in_its_own_place_comes_from_nowhere_else():
    with pytest.raises(ConfigError) as caught:
        assemble(compose(["strategy=ffs", "strategy.stages.sample.n=0", "engine=fake"]))
    assert "sets it" not in caught.value.message


def test_a_strategy_inside_another_and_one_of_python_name_their_variables_too():
    mounted = {"use": "sequence", "stages": {"inner": {"use": "strategy", "name": "ffs", "k": 20}}}
    with pytest.raises(ConfigError, match=r"`strategy\.stages\.inner\.k` sets it") as caught:
        Pipeline(mounted, engine="fake")
    assert caught.value.path == "strategy.stages.inner.stages.sample.watch.k"
    with pytest.raises(ConfigError, match=r"`strategy\.depth` sets it"):
        Pipeline("beam_search", engine="fake", verifier="fake", depth=0)
    own = {"use": "sequence", "m": 0, "stages": {"s": {"use": "generate", "n": "${..m}"}}}
    relative = {**own, "stages": {"s": {"use": "generate", "n": "${...m}"}}}
    for strategy_ in (relative, {**own, "stages": {"s": {"use": "generate", "n": "${strategy.m}"}}}):
        with pytest.raises(ConfigError, match=r"`strategy\.m` sets it"):
            Pipeline(strategy_, engine="fake")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('n: 4\nstages:\n  s: {use: generate, n: "${n}"}\n', "strategy.n"),
        ('m: 4\nn: 4\nstages:\n  s: {use: generate, n: "${n}"}\n', "strategy.n"),
        ('stages:\n  s: {use: generate, n: "${n}"}\n', "strategy.stages.s.n"),
    ],
)
def test_a_variable_that_is_written_without_its_place_is_told_where_it_is(text, path, folder):
    with pytest.raises(ConfigError, match=r"\$\{strategy\.n\}") as caught:
        compose(["strategy=mine"], folder(strategy__mine=f"use: sequence\n{text}"))
    assert caught.value.path == path
    assert "${n}" in caught.value.message


def test_a_strategy_of_ones_own_is_named_with_the_folder_to_give(tmp_path, monkeypatch):
    folder = tmp_path / "conf" / "strategy"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("defaults: [majority, _self_]\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"conf/strategy/mine.yaml is read with --config-dir conf\. "):
        compose(["strategy=mine"])
    assert compose(["strategy=mine"], "conf")["strategy"]["use"] == "sequence"
