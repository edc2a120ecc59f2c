import pytest

from ttsflow.build import build
from ttsflow.errors import ConfigError
from ttsflow.plugins import load
from ttsflow.strategies.aggregate import Aggregate
from ttsflow.strategies.apart import Apart
from ttsflow.strategies.flow import Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.testing import run_fake


def test_its_stages_begin_anew_and_what_was_there_stands_in_front(kit):
    old = kit.cand(0, "A")
    driver = kit.Driver()
    state = driver.run(Apart({"more": GenerateStage(2)}), kit.state(old, answer=old.answer))
    assert state.pool[0] is old
    assert len(state.pool) == 3
    assert state.answer == old.answer


def test_what_was_there_goes_only_for_something_new(kit):
    old, driver = kit.cand(0, "A"), kit.Driver()
    state = driver.run(Apart({"more": GenerateStage(2)}, keep=False), kit.state(old))
    assert len(state.pool) == 2
    assert old not in state.pool
    refused = kit.Driver(grant=0, stopped="budget")
    assert refused.run(Apart({"more": GenerateStage(2)}, keep=False), kit.state(old)).pool == (old,)


def test_without_stages_it_is_refused():
    with pytest.raises(ConfigError, match="at least one stage"):
        Apart({})


def test_no_sample_is_drawn_twice():
    twice = Sequence({"a": GenerateStage(2), "b": Apart({"c": GenerateStage(2)}), "vote": Aggregate()})
    once = Sequence({"a": GenerateStage(4), "vote": Aggregate()})
    results = [run_fake(stage) for stage in (twice, once)]
    told = [{n: (r.answer, r.path_tokens, r.candidates) for n, r in run.items()} for run in results]
    assert told[0] == told[1]


def test_a_search_behind_whole_samples_searches():
    search = {"use": "repeat", "at_most": 3, "stages": {"step": {"use": "generate", "n": 2, "unit": "step"}}}
    whole = {"use": "generate", "n": 2}

    def requests(second):
        mapping = {"use": "sequence", "stages": {"first": whole, "second": second}}
        results = run_fake(build("stage", mapping, "", load()))
        return [result.usage.requests for result in results.values()]

    assert set(requests(search)) == {2}
    assert min(requests({"use": "apart", "stages": {"search": search}})) > 2
