import pytest

from ttsflow.errors import ConfigError
from ttsflow.types import Candidate, Problem, Sampling, State, Usage


@pytest.mark.parametrize(
    ("field", "wrong", "edges"),
    [
        ("temperature", [-0.1, float("nan")], [0.0, 2.0]),
        ("top_p", [0.0, 1.1], [1.0]),
        ("top_k", [-1], [0]),
        ("min_p", [-0.1, 1.1], [0.0, 1.0]),
        ("max_tokens", [0], [1]),
        ("max_step_tokens", [0], [1]),
        ("stop", [("",), ("a", "")], [(), ("a",)]),
    ],
)
def test_sampling_settings_are_checked(field, wrong, edges):
    for value in wrong:
        with pytest.raises(ConfigError) as caught:
            Sampling(**{field: value})
        assert caught.value.path == field
    for value in edges:
        assert getattr(Sampling(**{field: value}), field) == value


def test_joules_are_missing_until_a_meter_ran():
    assert (Usage() + Usage()).joules is None
    assert (Usage(joules=1.5) + Usage()).joules == 1.5
    assert (Usage(joules=1.5) + Usage(joules=2.0)).joules == 3.5


@pytest.mark.parametrize("finish", [None, "step", "stop", "length", "aborted", "failed"])
def test_a_candidate_can_go_on_only_at_a_step_border_and_is_finished_only_by_itself(finish):
    candidate = Candidate((0,), (), finish=finish)
    assert candidate.active == (finish == "step")
    assert candidate.finished == (finish == "stop")


def test_randomness_of_a_state_depends_on_seed_problem_tag_and_round_alone():
    def draw(seed=0, id="p", tag="t", **changes):
        return State(Problem("?", id=id), seed, **changes).rng(tag).random()

    assert draw() == draw(stopped="x", last=True)
    assert len({draw(), draw(seed=1), draw(id="q"), draw(tag="u"), draw(round=1)}) == 5
