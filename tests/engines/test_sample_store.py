"""The file of a pool: what goes in comes out, and what is wrong with a file is said."""

import os
import shutil
import sqlite3
import warnings
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttsflow.engines import pool_file
from ttsflow.engines.pool_file import VERSION, check_pool, opened, pool_path
from ttsflow.engines.sample_store import SampleStore
from ttsflow.engines.samples import (
    Sample,
    Texts,
    key_of,
    pack,
    pack_mappings,
    texts_of,
    unpack,
    unpack_mappings,
)
from ttsflow.engines.vllm import VLLM
from ttsflow.errors import ConfigError
from ttsflow.ops import EngineRequest
from ttsflow.testing import FakeEnginePart
from ttsflow.types import Sampling

TEXTS = Texts("model", '{"a": 1}')


def request(seed=1, **changes):
    asked = {"id": "a", "prompt": (1, 2), "sampling": Sampling(), "seed": seed, "max_tokens": 9}
    return EngineRequest(**{**asked, **changes})


@pytest.fixture
def file(tmp_path):
    return tmp_path / "samples.pool"


@pytest.fixture
def store(file):
    store = SampleStore(file)
    yield store
    store.close()


def refused(call, *args):
    with pytest.raises(ConfigError) as caught:
        call(*args)
    assert caught.value.path == "engine.pool"
    return caught.value.message


# --- what goes in comes out ---------------------------------------------------------------------------

FLOATS = st.floats(allow_nan=False)


@pytest.mark.slow
@given(
    st.lists(st.dictionaries(st.integers(0, 2**31 - 1), FLOATS, max_size=4), max_size=5), st.integers(1, 5)
)
def test_log_probabilities_come_out_as_they_went_in(mappings, most):
    found = unpack_mappings(pack_mappings(mappings), most)
    assert [list(mapping.items()) for mapping in found] == [list(one.items())[:most] for one in mappings]


@given(st.lists(st.integers(-(2**31), 2**31 - 1)))
def test_numbers_come_out_as_they_went_in(numbers):
    assert unpack("i", pack("i", numbers)) == tuple(numbers)


def test_numbers_are_the_same_bytes_on_every_machine():
    assert pack("i", [1, 258]) == bytes([1, 0, 0, 0, 2, 1, 0, 0])
    assert pack("d", [1.0]) == bytes([0, 0, 0, 0, 0, 0, 0xF0, 0x3F])


def test_a_sample_is_found_again_after_the_file_was_closed(file):
    sample = Sample((3, 4), True, "\n", 2, True, ({3: -0.1, 5: -2.0}, {4: -0.2, 6: -3.0}), (1.5, 2.5))
    first = SampleStore(file)
    first.add(TEXTS, request(), sample, "text")
    assert first.find(TEXTS, request(), 0, certain=False) is None, "nothing is there before it is committed"
    first.close()
    first.close()
    second = SampleStore(file)
    assert second.find(TEXTS, request(), 2, certain=True) == sample
    assert second.find(TEXTS, request(), 1, certain=False) == Sample(
        (3, 4), True, "\n", 1, False, ({3: -0.1}, {4: -0.2})
    )
    assert second.find(TEXTS, request(), 3, certain=True) is None
    assert second.find(TEXTS, request(2), 0, certain=False) is None
    second.close()
    assert second.find(TEXTS, request(), 0, certain=False) is None
    assert list(file.parent.iterdir()) == [file]


def test_a_name_is_made_of_all_that_decides_and_stays_the_same():
    """Another name for the same request would lose every pool there is."""
    asked = request(sampling=Sampling(temperature=0.5, top_k=4), stop=("\n", "x"))
    assert key_of(TEXTS.digest, asked).hex() == "d1ca830ff1b19f05492e7e9c1ccb90f3"
    assert key_of(Texts("other name", TEXTS.settings).digest, asked) == key_of(TEXTS.digest, asked)


# --- what an engine's texts depend on -----------------------------------------------------------------


def test_settings_that_change_no_text_are_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr("ttsflow.engines.vllm_texts._device", lambda: ["cpu"])
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(bytes(2 << 20))
    plain = VLLM(str(tmp_path))

    def changed(**settings):
        return texts_of(VLLM(**{"model": str(tmp_path), **settings})).digest != texts_of(plain).digest

    template = "{{ messages }}"
    for time in (
        {"seats": 3},
        {"kv_gib": 2.0},
        {"partial_blocks": 4},
        {"chat_template": template},
        {"args": {"gpu_memory_utilization": 0.5}},
        {"args": {"max_logprobs": 40}},
        {"args": {"enable_prefix_caching": False}},
    ):
        assert not changed(**time), time
    for text in (
        {"dtype": "float16"},
        {"context": 99},
        {"block_size": 64},
        {"args": {"quantization": "fp8"}},
    ):
        assert changed(**text), text
    copy = shutil.copytree(tmp_path, tmp_path / "copy")
    assert not changed(model=str(copy)), "where it lies does not matter"
    (copy / "config.json").write_text('{"a": 1}')
    assert changed(model=str(copy))
    shutil.copy2(tmp_path / "config.json", copy / "config.json")
    os.utime(copy / "model.safetensors", (1, 1))
    assert changed(model=str(copy)), "other weights"
    assert texts_of(plain).name == str(tmp_path)


@pytest.mark.slow
def test_the_revision_of_a_model_from_the_hub_counts(monkeypatch):
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("ttsflow.engines.vllm_texts._device", lambda: ["cpu"])
    told = {texts_of(VLLM("some/model", args={"revision": name})).digest for name in ("a", "b")}
    assert len(told) == 2


def test_of_an_engine_that_says_nothing_every_setting_counts():
    class Plain:
        def __init__(self, **settings):
            self.__dict__.update(settings)

    assert texts_of(Plain(seats=1)).digest != texts_of(Plain(seats=2)).digest
    assert texts_of(Plain(model="m", seats=1)).name == "m"
    assert texts_of(FakeEnginePart(capacity=1)) == texts_of(FakeEnginePart(capacity=2))


# --- files that are none ------------------------------------------------------------------------------


def test_a_pool_of_another_version_is_told_with_what_to_do(file):
    SampleStore(file).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    message = refused(SampleStore, file)
    assert f"of version {VERSION + 1}, and this ttsflow reads version {VERSION}" in message
    assert "--export" in message
    assert refused(check_pool, str(file)) == message


def test_other_files_are_refused(file, tmp_path):
    file.write_text("a letter " * 200)
    assert "not a database" in refused(SampleStore, file)
    assert file.read_text().startswith("a letter")
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE mine(a)")
    assert "something else" in refused(SampleStore, other)
    assert "is a folder" in refused(check_pool, str(tmp_path))
    assert "does not exist" in refused(check_pool, str(tmp_path / "no" / "samples.pool"))
    assert "name of a file" in refused(pool_path, " ")


def test_a_check_makes_no_file(file):
    check_pool(str(file))
    assert not file.exists()
    file.touch()
    SampleStore(file).close()
    check_pool(str(file))


def test_a_disk_without_room_is_told_at_once(file, monkeypatch):
    full = shutil.disk_usage(file.parent)._replace(free=4000)
    monkeypatch.setattr(pool_file.shutil, "disk_usage", lambda _: full)
    assert "no space is left" in refused(check_pool, str(file))
    assert "no space is left" in refused(SampleStore, file)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anything")
def test_a_file_or_folder_that_cannot_be_written_is_told_at_once(file):
    SampleStore(file).close()
    file.chmod(0o444)
    assert "writable" in refused(check_pool, str(file))
    file.chmod(0o644)
    file.parent.chmod(0o555)
    try:
        assert "writable" in refused(check_pool, str(file))
    finally:
        file.parent.chmod(0o755)


def test_a_database_that_may_only_be_read_is_told_at_once(file, monkeypatch):
    SampleStore(file).close()
    connect = sqlite3.connect

    def only_read(path, **settings):
        return connect(f"file:{path}?mode=ro", uri=True, **settings)

    monkeypatch.setattr(pool_file.sqlite3, "connect", only_read)
    message = refused(check_pool, str(file))
    assert "readonly" in message
    assert "have to be writable" in message


def test_somebody_else_who_writes_all_the_time_is_told(file, monkeypatch):
    SampleStore(file).close()
    monkeypatch.setattr(pool_file, "_WAIT_SECONDS", 0.05)
    with closing(opened(file)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert "wait for it" in refused(SampleStore, file)


# --- what goes wrong later ----------------------------------------------------------------------------


def test_a_full_disk_ends_writing_and_nothing_else(store, file):
    store.add(TEXTS, request(1), Sample((1,), True), "")
    store.commit()
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    large = Sample(tuple(range(9000)), True)
    store.add(TEXTS, request(2), large, "")
    with pytest.warns(UserWarning, match="full; the run goes on without it"):
        store.commit()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.add(TEXTS, request(3), large, "")
        store.commit()
    assert (store.written, store.unwritten) == (1, 2)
    assert store.find(TEXTS, request(1), 0, certain=False) is None
    store.close()
    assert SampleStore(file).find(TEXTS, request(1), 0, certain=False) == Sample((1,), True)


@pytest.mark.parametrize("column", ["tokens = x'01'", "logprobs = x'01', top = 3", "certainties = x'01'"])
def test_a_sample_that_cannot_be_read_is_none(store, column):
    told = Sample((1,), True, None, 1, True, ({1: -1.0},), (0.5,))
    store.add(TEXTS, request(), told, "")
    store.commit()
    store.connection.execute(f"UPDATE samples SET {column}")
    with pytest.warns(UserWarning, match="cannot be read"):
        assert store.find(TEXTS, request(), 1, certain=True) is None


@pytest.mark.parametrize("tokens", ["x''", "x'01000000'"])
def test_a_sample_with_other_tokens_than_it_says_is_none(store, tokens):
    store.add(TEXTS, request(), Sample((1, 2), True), "")
    store.commit()
    store.connection.execute(f"UPDATE samples SET tokens = {tokens}")
    with pytest.warns(UserWarning, match="not as many tokens"):
        assert store.find(TEXTS, request(), 0, certain=False) is None


def test_a_file_that_is_broken_midway_is_no_end_of_a_run(store, file):
    for seed in range(300):
        store.add(TEXTS, request(seed), Sample(tuple(range(50)), True), "text" * 20)
    store.commit()
    store.close()
    raw = bytearray(file.read_bytes())
    raw[4096:] = bytes(len(raw) - 4096)
    file.write_bytes(raw)
    broken = SampleStore(file)
    with pytest.warns(UserWarning, match="goes on without it"):
        assert broken.find(TEXTS, request(4), 0, certain=False) is None
    broken.add(TEXTS, request(4), Sample((1,), True), "")
    broken.close()
    assert broken.unwritten == 1
