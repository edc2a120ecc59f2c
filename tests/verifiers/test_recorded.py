import pytest

from ttsflow.config import compose
from ttsflow.errors import ConfigError, DataError
from ttsflow.pipeline import Pipeline
from ttsflow.protocols import Verifier, VerifierPart
from ttsflow.recordings import Recording, Sample, write_recordings
from ttsflow.run import run_config
from ttsflow.testing.contracts import PartContract
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.recorded import Recorded


def sample(answer, *scores):
    return Sample(answer, 5, None, "stop", scores=scores)


@pytest.fixture
def file(tmp_path):
    def make(*samples, name="r.jsonl"):
        recordings = [Recording("p", (sample("9", 0.9),), gold="9"), Recording("q", samples, gold="1")]
        write_recordings(tmp_path / name, recordings)
        return str(tmp_path / name)

    return make


class TestContract(PartContract):
    @pytest.fixture
    def part(self):
        return Recorded()


def pipeline(strategy, file, **settings):
    return Pipeline(
        strategy,
        engine={"use": "replay", "path": file},
        task={"use": "recorded", "path": file},
        verifier={"use": "recorded", "path": file},
        **settings,
    )


def candidate(number, *, shift=32, path=(0,)):
    return Candidate(path, (), (number << shift,), "", finish="stop")


def test_it_keeps_the_protocols(file):
    part = Recorded(file(sample("1", 0.5)))
    assert isinstance(part, VerifierPart)
    assert isinstance(part.open(), Verifier)


def test_scores_are_found_by_the_sample(file):
    verifier = Recorded(file(sample("1", 0.5, None), sample("2"))).open()
    verifier.submit("a", Problem("q", id="q"), candidate(1))
    verifier.submit("b", Problem("q", id="q"), candidate(2, path=(1,)))
    verifier.submit("c", Problem("p", id="p"), candidate(0))
    verifier.cancel(["c", "unknown"])
    # A sample without a score has a missing one: no reason, so it is not failed.
    assert verifier.step() == [("a", (0.5, None), 0, ""), ("b", (None,), 0, "")]
    assert verifier.step() == []
    verifier.submit("a", Problem("q", id="q"), candidate(1))
    with pytest.raises(ValueError, match="already waiting"):
        verifier.submit("a", Problem("q", id="q"), candidate(1))
    verifier.close()
    verifier.close()
    assert verifier.step() == []


@pytest.mark.parametrize("number", [0, 7])
def test_a_sample_of_another_file_is_an_error(file, number):
    verifier = Recorded(file(sample("1", 0.5))).open()
    with pytest.raises(
        ConfigError, match="needs an engine that plays the samples of the same path"
    ) as caught:
        verifier.submit("a", Problem("q", id="q"), candidate(number))
    assert caught.value.path == "verifier.path"


def test_another_engine_is_an_error(file):
    with pytest.raises(ConfigError, match="is none of"):
        Recorded(file(sample("1", 0.5))).open().submit("a", Problem("q", id="q"), candidate(65, shift=0))


@pytest.mark.parametrize(
    ("strategy", "settings"), [("best_of_n", {}), ("weighted_majority", {"transform": "sigmoid"})]
)
def test_a_missing_score_neither_wins_nor_votes_nor_fails(tmp_path, strategy, settings):
    samples = (sample("2"), sample("2"), sample("1", -3.0), sample("2", -4.0))
    write_recordings(tmp_path / "r.jsonl", [Recording("q", samples, gold="1")])
    [result] = pipeline(strategy, str(tmp_path / "r.jsonl"), n=4, **settings).run().results
    assert (result.answer, result.outcome, result.correct) == ("1", "answered", True)


def test_without_any_score_there_is_no_answer_and_no_failure(file):
    # The only sample of problem p has a score, that of q has none.
    results = {result.id: result for result in pipeline("best_of_n", file(sample("1")), n=1).run().results}
    assert (results["p"].answer, results["q"].answer, results["q"].outcome) == ("9", None, "abstained")


def test_a_file_without_scores_is_refused(tmp_path):
    write_recordings(tmp_path / "r.jsonl", [Recording("q", (sample("1"),), gold="1")])
    with pytest.raises(ConfigError, match="holds no scores") as caught:
        pipeline("best_of_n", str(tmp_path / "r.jsonl"), n=1).run()
    assert caught.value.path == "verifier.path"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="there is no file") as caught:
        Recorded(str(tmp_path / "no.jsonl")).open()
    assert caught.value.path == "verifier.path"


def test_counts_are_known():
    with pytest.raises(ConfigError, match="count"):
        Recorded(count="bytes")


@pytest.mark.parametrize(
    ("words", "accuracy"),
    [
        (["strategy=majority"], 0.93),
        (["strategy=best_of_n", "verifier=recorded"], 0.94),
        (["strategy=weighted_best_of_n", "verifier=recorded"], 0.94),
        (["strategy=best_of_n", "verifier=answer", "verifier.evaluation=true"], 0.96),
    ],
    ids=["majority", "best", "weighted", "any"],
)
@pytest.mark.slow
def test_the_samples_with_rewards(words, accuracy, data_file, tmp_path):
    file = data_file("traces/reward_scored_math100_n8.jsonl.gz")
    chosen = ["engine=replay", f"engine.path={file}", "engine.count=words", "task=recorded", "strategy.n=8"]
    summary = run_config(compose([*chosen, *words]), tmp_path / "run")
    assert (summary.accuracy, summary.failed, summary.coverage) == (accuracy, 0, 1.0)
