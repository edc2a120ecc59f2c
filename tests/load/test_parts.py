"""The kind `load`: built by name, from the shipped files, as fields of other parts; none of it wired in."""

from dataclasses import dataclass, field

import pytest
import yaml

from ttsflow import plugins
from ttsflow.build import build, explain, fill
from ttsflow.builtin import PARTS
from ttsflow.errors import ConfigError, UnknownPart
from ttsflow.load.idle import NoLoad
from ttsflow.load.written import TraceLoad
from ttsflow.registry import config_folder, config_options
from ttsflow.sensors import LoadMonitor, LoadPart

FILES = {
    option.partition("/")[2]: yaml.safe_load(file.read_text("utf-8"))
    for option, file in config_options(config_folder("ttsflow.conf"))
    if option.startswith("load/")
}


def test_every_part_has_a_file_with_all_its_settings():
    assert set(FILES) == set(PARTS["load"])
    for name, mapping in FILES.items():
        part = build("load", mapping, "load", plugins.load())
        assert isinstance(part, LoadPart)
        assert explain(part, plugins.load()) == mapping, name


def test_none_is_always_zero():
    part = NoLoad()
    part.check()
    monitor = part.open()
    assert isinstance(monitor, LoadMonitor)
    assert monitor.read(5.0, 3) == 0.0
    monitor.close()


@dataclass(frozen=True)
class Controller:
    load: LoadPart = field(default_factory=NoLoad)


def test_a_part_may_hold_one():
    made = fill(Controller, {"load": {"use": "trace", "levels": [0, 1]}}, "", plugins.load())
    assert made.load == TraceLoad((0.0, 1.0))


def test_mistakes_name_the_setting():
    registry = plugins.load()
    with pytest.raises(UnknownPart, match="Did you mean 'cpu'"):
        build("load", {"use": "cpus"}, "load", registry)
    with pytest.raises(ConfigError, match=r"load\.levels\.1: a load lies"):
        build("load", {"use": "trace", "levels": [0, 2]}, "load", registry)
    with pytest.raises(ConfigError, match=r"load\.per: .*problem"):
        build("load", {"use": "trace", "levels": [0], "per": "question"}, "load", registry)
