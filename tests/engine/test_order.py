"""Jobs of a sweep share the engine; their order changes no number, that of cached tokens included."""

import json
from pathlib import Path

import pytest

from ttsflow import cli
from ttsflow.engines import warm

pytestmark = pytest.mark.engine

ENGINE = ["engine.dtype=float32", "engine.seats=16", "engine.context=1024", "engine.kv_gib=0.25"]


def test_the_order_of_two_jobs_changes_no_number(engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["task.size=2", "sampling.max_tokens=36", "strategy.n=4", "verifier=equations", *ENGINE]
    found = []
    for name, order in (("one", "majority,beam_search"), ("two", "beam_search,majority")):
        sweep = ["run", "-q", "-m", f"strategy={order}", *small, f"hydra.sweep.dir={name}"]
        assert cli.main(sweep) == 0
        assert warm.acquire(warm._held[0].part) is engine
        counted = {}
        for path in Path(name).glob("*/results.jsonl"):
            for line in path.read_text().splitlines():
                record = json.loads(line)
                usage = {key: value for key, value in record["usage"].items() if key != "seconds"}
                counted[path.parent.name, record["id"]] = (record["answer"], record["text"], usage)
        found.append(counted)
    assert len(found[0]) == 4
    assert found[0] == found[1]
