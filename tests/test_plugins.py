"""Plugins: each is found and isolated; names that clash belong to nobody; mistakes are named."""

import sys

import pytest

from ttsflow import cli, config, plugins
from ttsflow.errors import PluginError, UnknownPart
from ttsflow.hookspecs import API_VERSION
from ttsflow.registry import Registry
from ttsflow.run import run_config

HOOK = "from ttsflow.hookspecs import hookimpl\n@hookimpl\ndef ttsflow_register(registry):\n"

PART = """
from dataclasses import dataclass
@dataclass(frozen=True)
class Shout:
    '''Shouts.'''
    volume: int = 11
    def __call__(self, state):
        return state
"""


def test_a_plugin_adds_parts_and_configs(install, hook):
    registry = install(
        "loud-plugin",
        hook(
            "registry.add('stage', 'shout', 'loud_plugin.parts:Shout')",
            "registry.add_configs('loud_plugin.conf')",
        ),
        {
            "parts.py": PART,
            "conf/__init__.py": "",
            "conf/strategy/loud.yaml": "# What: noise\nuse: sequence\nn: 3\n"
            "stages: {s: {use: shout, volume: '${strategy.n}'}}\n",
        },
        version="2.5",
    )
    assert registry.get("stage", "shout").__name__ == "Shout"
    assert registry.find("strategy", "loud").provider == "loud-plugin"
    assert registry.find("strategy", "loud").doc == "noise"
    plugin = next(p for p in plugins.plugins() if p.name == "loud-plugin")
    assert (plugin.version, plugin.error, plugin.packages) == ("2.5", None, ("loud_plugin.conf",))
    assert plugins.problems() == []
    assert config.compose(["strategy=loud"])["strategy"]["stages"] == {"s": {"use": "shout", "volume": 3}}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import no_such_module_at_all", "No module named 'no_such_module_at_all'"),
        ("", "no function `ttsflow_register` marked with"),
        ("def ttsflow_register(registry): pass", "no function `ttsflow_register` marked with"),
        (
            "from ttsflow.hookspecs import hookimpl\n@hookimpl\ndef ttsflow_regster(registry): pass",
            "there is no hook 'ttsflow_regster'. Did you mean 'ttsflow_register'",
        ),
        (
            "from ttsflow.hookspecs import hookimpl\n@hookimpl\ndef ttsflow_register(reg): pass",
            "ttsflow_register",
        ),
    ],
)
def test_a_broken_plugin_is_reported_and_harms_nothing(install, source, message):
    registry = install("broken-plugin", source)
    assert registry.get("stage", "sequence")
    [problem] = plugins.problems()
    assert problem.startswith("plugin 'broken-plugin' of broken-plugin (broken_plugin) is broken: ")
    assert message in problem
    assert problem.endswith(". Mend or uninstall broken-plugin; TTSFLOW_BLOCK=broken-plugin leaves it out.")
    with pytest.raises(PluginError, match="is broken"):
        registry.get("verifier", "broken-plugin")
    with pytest.raises(UnknownPart, match="Not loaded: plugin 'broken-plugin'"):
        registry.get("verifier", "something")


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("2", "it was written for plugin API 2, and this ttsflow has plugin API 1. Install a newer ttsflow."),
        (
            "0",
            "it was written for plugin API 0, and this ttsflow has plugin API 1. Install a newer one of it.",
        ),
        ("'1.0'", "its `ttsflow_api` is '1.0'; it is the number of a plugin API, such as 1."),
        ("True", "its `ttsflow_api` is True; it is the number of a plugin API, such as 1."),
    ],
)
def test_a_plugin_for_another_api_is_refused_before_its_hook_is_called(install, hook, version, message):
    # Its hook has a name that this API does not know: that is not what is wrong with it.
    source = hook("1 / 0").replace("ttsflow_register", "ttsflow_parts")
    registry = install("modern", f"ttsflow_api = {version}\n{source}")
    [problem] = plugins.problems()
    assert problem == (
        f"plugin 'modern' of modern (modern) is broken: {message} "
        "Mend or uninstall modern; TTSFLOW_BLOCK=modern leaves it out."
    )
    with pytest.raises(PluginError, match=r"written for plugin API|number of a plugin API"):
        registry.get("stage", "modern")


def test_one_whose_hook_is_refused_leaves_nothing_behind(install, hook, tmp_path):
    """Its entry point has the name of another one, which is loaded after it."""
    install("aaa", hook("pass").replace("(registry)", "(anything)"))
    install("zzz", hook("registry.add('watch', 'two', 'x:Y')"))
    points = next(tmp_path.glob("*/zzz-1.0.dist-info")) / "entry_points.txt"
    points.write_text("[ttsflow]\naaa = zzz\n")
    registry = plugins.reload()
    [problem] = plugins.problems()
    assert problem.startswith("plugin 'aaa' of aaa (aaa) is broken: ")
    assert registry.find("watch", "two").provider == "zzz"


def test_name_and_version_are_those_at_the_head_of_the_metadata(install, hook, tmp_path):
    install("told", hook("pass"))
    metadata = next(tmp_path.glob("*/told-1.0.dist-info")) / "METADATA"
    metadata.write_text(metadata.read_text() + "\n\nName: of something else\nVersion: 9\n")
    plugins.reload()
    assert [(p.provider, p.version) for p in plugins.plugins() if p.name == "told"] == [("told", "1.0")]


def test_a_plugin_for_this_api_and_one_that_does_not_say_are_taken(install, hook):
    install("silent", hook("registry.add('watch', 'one', 'x:Y')"))
    install("modern", f"ttsflow_api = {API_VERSION}\n" + hook("registry.add('watch', 'two', 'x:Y')"))
    assert plugins.problems() == []
    assert {"one", "two"} <= {entry.name for entry in plugins.load().entries("watch")}


def test_what_a_plugin_offered_before_it_broke_raises_its_error(install, hook):
    registry = install("half", hook("registry.add('stage', 'first', 'half:First')", "1 / 0"))
    with pytest.raises(PluginError, match="ZeroDivisionError"):
        registry.get("stage", "first")
    assert "first" not in {entry.name for entry in registry.entries("stage")}


@pytest.mark.parametrize(
    "line",
    [
        "registry.add('stagee', 'x', 'a:B')",
        "registry.add('stage', 'x', 'no_colon')",
        "registry.add_configs('half.nowhere')",
        "registry.add('stage', 'x', 'a:B'); registry.add('stage', 'x', 'a:B')",
    ],
)
def test_a_plugin_with_a_bad_registration_adds_nothing(install, hook, line):
    registry = install("half", hook("registry.add('stage', 'good', 'half:Good')", line))
    assert "good" not in {entry.name for entry in registry.entries("stage")}
    with pytest.raises(PluginError, match="plugin 'half' of half"):
        registry.get("stage", "good")


@pytest.mark.parametrize("names", [("aaa", "zzz"), ("zzz", "aaa")])
def test_two_plugins_with_one_name_are_an_error_naming_both(install, hook, names):
    for name in names:
        install(
            name, hook("registry.add('verifier', 'umpire', 'x:Y')", f"registry.add('watch', '{name}', 'x:Y')")
        )
    registry = plugins.load()
    with pytest.raises(PluginError, match="verifier 'umpire' is registered by aaa and by zzz"):
        registry.get("verifier", "umpire")
    found = {entry.name: entry.provider for entry in registry.entries("watch")}
    assert {name for name, provider in found.items() if provider != "ttsflow"} == {"aaa", "zzz"}
    assert "first_finished" in found
    assert len(plugins.problems()) == 1


def test_a_plugin_cannot_replace_a_builtin_part(install, hook):
    registry = install("thief", hook("registry.add('stage', 'generate', 'thief:Generate')"))
    with pytest.raises(PluginError, match="by thief and by ttsflow"):
        registry.get("stage", "generate")


def test_two_providers_of_one_config_file_are_an_error(install, hook):
    install(
        "copycat",
        hook("registry.add_configs('copycat.conf')"),
        {"conf/__init__.py": "", "conf/engine/vllm.yaml": "use: fake\n"},
    )
    message = (
        "the config file 'engine/vllm.yaml' is offered by copycat and by ttsflow; "
        "uninstall one, or name it in TTSFLOW_BLOCK."
    )
    with pytest.raises(PluginError) as caught:
        config.compose([])
    assert [str(caught.value)] == plugins.problems() == [message]


def test_blocked_plugins_are_left_out(install, hook, monkeypatch):
    install("thief", hook("registry.add('stage', 'generate', 'thief:Generate')"))
    monkeypatch.setenv("TTSFLOW_BLOCK", " thief , ")
    assert plugins.reload().get("stage", "generate")
    assert [plugin.blocked for plugin in plugins.plugins()] == [True, False]
    assert plugins.problems() == []


def test_a_trace_says_what_each_plugin_offers_and_what_became_of_it(install, hook, monkeypatch, capsys):
    install("loud", hook("registry.add('watch', 'one', 'x:Y')", "registry.add_configs('loud.conf')"))
    install("quiet", hook("registry.add('watch', 'two', 'x:Y')"))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("TTSFLOW_TRACE", "1")
    monkeypatch.setenv("TTSFLOW_BLOCK", "quiet")
    plugins.reload()
    lines = [line.removeprefix("TTSFLOW_TRACE: ") for line in capsys.readouterr().err.splitlines()]
    loud, quiet = (
        lines.index("plugin 'loud', loud 1.0 (loud)"),
        lines.index("plugin 'quiet', quiet 1.0 (quiet)"),
    )
    assert lines[loud + 1].startswith("  ttsflow_register(registry) took ")
    assert lines[loud + 2 : loud + 4] == [
        "  registry.add('watch', 'one', 'x:Y')",
        "  registry.add_configs('loud.conf')",
    ]
    assert lines[loud + 4].startswith("  failed: plugin 'loud' of loud (loud) is broken: ")
    assert lines[quiet + 1] == "  left out: TTSFLOW_BLOCK names it"
    monkeypatch.setenv("TTSFLOW_TRACE", "0")
    plugins.reload()
    assert capsys.readouterr().err == ""


def test_block_names_that_do_nothing_are_reported(monkeypatch, install):
    del install  # clears the cache afterwards
    monkeypatch.setenv("TTSFLOW_BLOCK", "thieff,ttsflow")
    plugins.reload()
    first, second = plugins.problems()
    assert "names 'thieff', which is not installed" in first
    assert "names 'ttsflow', which cannot be left out" in second
    assert plugins.load().get("stage", "generate")


def test_builtins_are_found_without_an_entry_point():
    registry, found = plugins._discover([], set())
    assert isinstance(registry, Registry)
    assert registry.get("stage", "generate")
    assert [plugin.name for plugin in found] == ["ttsflow"]


def calls_of_pluggy(work):
    """Return the functions of pluggy that are called while ``work()`` goes on."""
    calls = []

    def profile(frame, event, arg):
        if event == "call" and "pluggy" in frame.f_code.co_filename:
            calls.append(f"{frame.f_code.co_name} from {frame.f_back.f_code.co_filename}")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


@pytest.mark.slow
def test_a_run_calls_nothing_of_pluggy(tmp_path):
    summaries = []
    settings = ["strategy=beam_search", "verifier=fake", "engine=fake", "strategy.depth=4", "limit=4"]
    mapping = config.compose(settings)
    # What is imported for the first time is rewritten by pytest, which calls pluggy.
    run_config(mapping, tmp_path / "before")
    assert calls_of_pluggy(lambda: summaries.append(run_config(mapping, tmp_path / "run"))) == []
    assert summaries[0].usage["decoded_tokens"] > 500
    assert len(calls_of_pluggy(plugins.reload)) > 10, "they are counted"


LEAVE_OUT = "Mend or uninstall {0}; TTSFLOW_BLOCK={0} leaves it out."
FAULTS = {
    "fails to import": (
        {"away": "import no_such_module_at_all"},
        "plugin 'away' of away (away) is broken: ModuleNotFoundError: No module named "
        "'no_such_module_at_all'. " + LEAVE_OUT.format("away"),
    ),
    "clashes": (
        {
            "one": HOOK + "    registry.add('verifier', 'umpire', 'x:Y')\n",
            "two": HOOK + "    registry.add('verifier', 'umpire', 'x:Y')\n",
        },
        "verifier 'umpire' is registered by one and by two; uninstall one, or name it in TTSFLOW_BLOCK.",
    ),
    "misspells the hook": (
        {"typo": HOOK.replace("ttsflow_register", "ttsflow_regster") + "    pass\n"},
        "plugin 'typo' of typo (typo) is broken: there is no hook 'ttsflow_regster'. Did you mean "
        "'ttsflow_register'? Known: ttsflow_register. " + LEAVE_OUT.format("typo"),
    ),
    "repeats a strategy": (
        {"copycat": HOOK + "    registry.add_configs('copycat.conf')\n"},
        (
            "the config file 'strategy/majority.yaml' is offered by copycat and by ttsflow; "
            "uninstall one, or name it in TTSFLOW_BLOCK."
        ),
    ),
    "is for another API": (
        {"modern": "ttsflow_api = 7\n" + HOOK + "    pass\n"},
        "plugin 'modern' of modern (modern) is broken: it was written for plugin API 7, and this ttsflow has "
        f"plugin API {API_VERSION}. Install a newer ttsflow. " + LEAVE_OUT.format("modern"),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("sources", "message"), FAULTS.values(), ids=FAULTS)
def test_whatever_is_wrong_is_told_by_the_command_and_blocking_helps(  # noqa: PLR0917 - fixtures
    sources, message, install, capsys, monkeypatch, tmp_path
):
    for name, source in sources.items():
        files = {"conf/__init__.py": "", "conf/strategy/majority.yaml": "use: sequence\n"}
        install(name, source, files)
    run = ["run", "-q", "engine=fake", "strategy=ffs", "limit=1"]
    assert cli.main(["plugins"]) == 0
    assert " ".join(capsys.readouterr().out.split()).split("problem: ")[1:] == [message]
    repeated = "config file" in message
    # Only what they provide is missing; which of two equal files is meant, nobody can say.
    assert cli.main([*run, f"hydra.run.dir={tmp_path}/with it"]) == (2 if repeated else 0)
    told = capsys.readouterr().err
    assert f"warning: {message}\n" in told
    assert (f"error: {message}" in told) == repeated
    for name in sources:
        monkeypatch.setenv("TTSFLOW_BLOCK", name)
        plugins.reload()
        assert plugins.problems() == []
        assert cli.main([*run, f"hydra.run.dir={tmp_path}/without {name}"]) == 0
        assert capsys.readouterr().err == ""
