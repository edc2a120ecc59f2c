"""Confidence where a verifier is asked for."""

import pytest

from ttsflow import Pipeline
from ttsflow.errors import ConfigError
from ttsflow.protocols import VerifierPart
from ttsflow.types import Candidate, Problem
from ttsflow.verifiers.confidence import ConfidenceScore

PROBLEM = Problem("?", id="p")


def cand(**changes):
    return Candidate((0,), (), (1, 2), "12", finish="stop", **changes)


def scores(part, *candidates):
    verifier = part.open()
    for number, candidate in enumerate(candidates):
        verifier.submit(str(number), PROBLEM, candidate)
    found = [verdict.scores for verdict in verifier.step()]
    verifier.close()
    return found


def test_one_score_per_candidate_and_none_where_nothing_is_known():
    known = cand(logprobs=({1: -1.0, 2: -3.0}, {1: -4.0}))
    assert scores(ConfidenceScore(), known, cand()) == [(3.0,), ()]
    assert scores(ConfidenceScore("self_certainty"), cand(certainties=(1.0, 2.0)), known) == [(1.5,), ()]
    assert scores(ConfidenceScore("lowest_group", group=1), known) == [(2.0,)]
    assert scores(ConfidenceScore(top=1), known) == [(2.5,)]


def test_what_the_engine_must_give():
    assert isinstance(ConfidenceScore(), VerifierPart)
    assert (ConfidenceScore(top=7).logprobs, ConfidenceScore().certainty) == (7, False)
    assert ConfidenceScore("self_certainty").logprobs == 0
    assert ConfidenceScore("self_certainty").certainty is True


@pytest.mark.parametrize(("settings", "field"), [({"group": 0}, "group"), ({"top": 0}, "top")])
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        ConfidenceScore(**settings)
    assert caught.value.path == field


def test_any_strategy_can_use_it():
    fake = {"use": "fake"}
    run = Pipeline("best_of_n", engine=fake, verifier="confidence", n=4, chat=False).run(["1 + 2 ="])
    assert run.results[0].outcome == "answered"


def test_an_engine_that_gives_no_log_probabilities_is_refused():
    with pytest.raises(ConfigError, match="needs 20 log-probabilities") as caught:
        Pipeline("best_of_n", engine={"use": "fake", "logprobs": 0}, verifier="confidence")
    assert caught.value.path == "verifier"
