"""Plugins: each is found and isolated; names that clash belong to nobody; mistakes are named."""

import pytest

from ttsflow import config, plugins
from ttsflow.errors import PluginError, UnknownPart
from ttsflow.registry import Registry

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
    with pytest.raises(PluginError, match="is broken"):
        registry.get("verifier", "broken-plugin")
    with pytest.raises(UnknownPart, match="Not loaded: plugin 'broken-plugin'"):
        registry.get("verifier", "something")


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
    with pytest.raises(PluginError, match=r"'engine/vllm\.yaml' is offered by copycat and by ttsflow"):
        config.compose([])


def test_blocked_plugins_are_left_out(install, hook, monkeypatch):
    install("thief", hook("registry.add('stage', 'generate', 'thief:Generate')"))
    monkeypatch.setenv("TTSFLOW_BLOCK", " thief , ")
    assert plugins.reload().get("stage", "generate")
    assert [plugin.blocked for plugin in plugins.plugins()] == [True, False]
    assert plugins.problems() == []


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
