"""What is wrong with a config is said before anything is loaded or written."""

import pytest

from ttsflow import Pipeline
from ttsflow.composing.assemble import assemble
from ttsflow.config import compose
from ttsflow.engines import warm
from ttsflow.errors import ConfigError
from ttsflow.protocols import Capabilities
from ttsflow.run import run_config
from ttsflow.testing import FakeEnginePart


@pytest.fixture(autouse=True)
def no_engine_is_left_warm():
    yield
    warm.close_all()


def config(**changes):
    """Return a config that works, with some of its keys changed."""
    return {
        "strategy": stage(use="aggregate"),
        "engine": {"use": "fake"},
        "task": {"use": "arithmetic", "size": 2},
        **changes,
    }


def stage(**settings):
    return {"use": "sequence", "stages": {"s": {"use": "generate"}, "x": settings}}


SIM = {"use": "sim", "hardware": {"memory_gib": 24, "bandwidth": 1008, "tflops": 165}}

WRONG = [
    (
        {"strategy": stage(use="aggregate", how="best")},
        "strategy.stages.x",
        "no stage of the strategy gives any",
    ),
    ({"strategy": stage(use="verify")}, "strategy.stages.x", "no verifier is set"),
    ({"strategy": stage(use="select", keep=2)}, "strategy.stages.x", "no stage of the strategy gives any"),
    ({"budget": {"run": {"euros": 5}}}, "budget.run.euros", "no cost model"),
    ({"budget": {"run": {"tokens": 0}}}, "budget.run.tokens", "above 0"),
    (
        {"strategy": stage(use="generate", unit="step", separator=".")},
        "strategy.stages.x.separator",
        "also a stop string",
    ),
    (
        {"strategy": stage(use="generate", unit="step"), "sampling": {"stop": ["\n"]}},
        "strategy.stages.x.separator",
        "also a stop string",
    ),
    ({"limit": 0}, "limit", "at least one problem"),
    ({"concurrency": 0}, "concurrency", "at least one problem"),
    ({"strategy": stage(use="generate", n=0)}, "strategy.stages.x.n", "at least one sample"),
    (
        {"strategy": stage(use="generate", multiple_of=0)},
        "strategy.stages.x.multiple_of",
        "at least 1, got 0",
    ),
    ({"strategy": stage(use="genrate")}, "strategy.stages.x.use", "Did you mean 'generate'"),
    ({"engine": {"use": "fake", "capacity": 0}}, "engine.capacity", "at least 1"),
    ({"task": {"use": "arithmetic", "size": 0}}, "task.size", "between 1 and"),
    ({"verifier": {"use": "tests"}}, "verifier.use", "are none"),
    ({"verifier": {"use": "simulated", "scores": {"use": "tests"}}}, "verifier.scores.use", "are none"),
    (
        {"verifier": {"use": "simulated", "scores": {"use": "tests", "which": "hidden"}}},
        "verifier.scores.evaluation",
        "upper bound",
    ),
    ({"verifier": {"use": "judge", "top": 21}}, "verifier", "needs 21 log-probabilities"),
    (
        {"verifier": {"use": "judge", "engine": {"use": "fake"}, "top": 21}},
        "verifier.engine",
        "needs 21 log-probabilities",
    ),
    ({"verifier": {"use": "judge"}, "engine": {"use": "replay"}}, "verifier", "plays back"),
    (
        {"verifier": {"use": "judge", "read": "score"}, "engine": SIM, "task": {"use": "simulated"}},
        "verifier",
        "answer no question",
    ),
    ({"verifier": {"use": "countdown"}}, "verifier.use", "set verifier=equations"),
    *(
        (
            {"verifier": {"use": verifier}, "task": {"use": task}},
            "verifier.use",
            f"set verifier={suited}",
        )
        for verifier, task, suited in (
            ("equations", "countdown", "countdown"),
            ("equations", "simulated", "simulated"),
            ("countdown", "simulated", "simulated"),
            ("equations", "code", "tests"),
        )
    ),
    (
        {"verifier": {"use": "equations"}, "task": {"use": "countdown"}},
        "verifier.use",
        "set verifier=countdown",
    ),
    (
        {"verifier": {"use": "equations"}, "task": {"use": "simulated"}},
        "verifier.use",
        "set verifier=simulated",
    ),
    (
        {"verifier": {"use": "countdown"}, "task": {"use": "simulated"}},
        "verifier.use",
        "set verifier=simulated",
    ),
    (
        {"verifier": {"use": "simulated", "scores": {"use": "countdown"}}},
        "verifier.scores.use",
        "set verifier=equations",
    ),
    ({"verifier": {"use": "judge", "engine": SIM}}, "verifier.engine", "answer no question"),
]


@pytest.mark.parametrize(("changes", "path", "text"), WRONG)
def test_what_is_wrong_is_said_before_anything_is_loaded_or_written(
    changes, path, text, tmp_path, monkeypatch
):
    def opened(part):
        raise AssertionError("the engine was opened")

    monkeypatch.setattr(FakeEnginePart, "open", opened)
    with pytest.raises(ConfigError) as caught:
        run_config(config(**changes), tmp_path / "run")
    assert caught.value.path == path
    assert text in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_log_probabilities_that_the_engine_does_not_give_are_refused_before_it_is_opened(
    tmp_path, install, hook
):
    install(
        "needy",
        hook('registry.add("watch", "needy", "needy.part:Needy")'),
        {
            "part.py": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Needy:\n"
            "    logprobs: int = 20\n    def begin(self, size):\n        return lambda *news: None\n"
        },
    )
    strategy = stage(use="generate", watch={"use": "needy"})
    with pytest.raises(ConfigError, match=r"needs 20 log-probabilities per token.* gives none") as caught:
        run_config(config(strategy=strategy, engine={"use": "fake", "logprobs": 0}), tmp_path / "none")
    assert caught.value.path == "strategy.stages.x.watch"
    assert run_config(config(strategy=strategy), tmp_path / "enough").status == "complete"


@pytest.mark.parametrize(
    ("missing", "changes", "path"),
    [
        ({"seeds": False}, {}, "engine"),
        ({"token_prompts": False}, {"strategy": stage(use="generate", unit="step")}, "strategy.stages.x"),
        ({"abort": False}, {"budget": {"run": {"tokens": 9}}}, "budget"),
        (
            {"abort": False},
            {"strategy": stage(use="generate", watch={"use": "first_finished"})},
            "strategy.stages.x.watch",
        ),
    ],
)
def test_an_engine_that_lacks_what_is_needed_is_refused(missing, changes, path, tmp_path, monkeypatch):
    assert run_config(config(**changes), tmp_path / "works").status == "complete"
    monkeypatch.setattr(FakeEnginePart, "capabilities", Capabilities(**missing))
    with pytest.raises(ConfigError) as caught:
        run_config(config(**changes), tmp_path / "lacks")
    assert caught.value.path == path


def test_a_pipeline_refuses_a_judge_that_its_engine_cannot_answer_when_it_is_made():
    with pytest.raises(ConfigError, match="needs 21 log-probabilities"):
        Pipeline("best_of_n", engine={"use": "fake"}, verifier={"use": "judge", "top": 21})


def test_a_judge_with_an_engine_of_its_own_asks_nothing_of_the_one_of_the_run():
    verifier = {"use": "judge", "engine": {"use": "fake"}}
    assert assemble(config(verifier=verifier, engine={"use": "fake", "logprobs": 0})).verifier


def test_a_task_of_a_plugin_can_say_that_its_answers_are_programs(install, hook):
    install(
        "writes",
        hook('registry.add("task", "writes", "writes.part:Writes")'),
        {
            "part.py": "from dataclasses import dataclass\nfrom ttsflow.testing import FakeTask\n"
            "@dataclass(frozen=True)\nclass Writes(FakeTask):\n    gives_programs = True\n"
        },
    )
    assert assemble(config(task={"use": "writes"}, verifier={"use": "tests"})).verifier


@pytest.mark.parametrize("steps", [None, "sums", "game", "poems"])
def test_a_task_of_a_plugin_can_say_what_its_steps_are(steps, install, hook):
    install(
        "stepped",
        hook('registry.add("task", "stepped", "stepped.part:Stepped")'),
        {
            "part.py": "from dataclasses import dataclass\nfrom ttsflow.testing import FakeTask\n"
            f"@dataclass(frozen=True)\nclass Stepped(FakeTask):\n    steps = {steps!r}\n"
        },
    )
    for verifier, kind in (("equations", "sums"), ("countdown", "game")):
        mapping = config(task={"use": "stepped"}, verifier={"use": verifier})
        if steps in (None, kind):
            assert assemble(mapping).verifier
        else:
            with pytest.raises(ConfigError, match="the steps of this task are"):
                assemble(mapping)


def loop(**stages):
    """Return a search whose loop has these stages."""
    return {"use": "sequence", "stages": {"search": {"use": "repeat", "at_most": 3, "stages": stages}}}


WHOLE = {"use": "generate", "n": 4}
STEP = {**WHOLE, "unit": "step"}
SCORE, KEEP = {"use": "verify"}, {"use": "select", "by": "score", "into": 4, "copies": 2}


@pytest.mark.parametrize(
    ("strategy", "name", "text"),
    [
        (
            loop(step={"use": "generate", "n": 4}, score=SCORE, keep=KEEP),
            "keep",
            "no stage of the strategy makes any",
        ),
        (
            loop(
                step={"use": "generate", "n": 4},
                score=SCORE,
                keep={"use": "branch", "how": "rebase", "into": 4},
            ),
            "keep",
            "set `unit: step`",
        ),
        (loop(score=SCORE, step=STEP, keep=KEEP), "keep", "what 'step' has just made has none"),
        (loop(score=SCORE, step=STEP, keep={"use": "select", "keep": 2}), "keep", "between the two"),
    ],
)
def test_stages_that_would_do_nothing_where_they_stand_are_refused(strategy, name, text):
    with pytest.raises(ConfigError) as caught:
        assemble(config(strategy=strategy, verifier={"use": "fake"}))
    assert caught.value.path == f"strategy.stages.search.stages.{name}"
    assert text in caught.value.message


@pytest.mark.parametrize(
    "strategy",
    [
        loop(step=STEP, score=SCORE, keep=KEEP),
        loop(score=SCORE, keep=KEEP, step=STEP),
        loop(score=SCORE, step=STEP, keep={"use": "select", "by": "tokens", "keep": 2}),
        loop(step=STEP, inner={"use": "each", "stages": {"score": SCORE}}, keep=KEEP),
    ],
)
def test_stages_in_an_order_that_works_are_let_be(strategy):
    assert assemble(config(strategy=strategy, verifier={"use": "fake"}))


@pytest.mark.parametrize("engine", ["fake", "vllm"])
def test_recorded_problems_are_for_an_engine_that_plays_recordings(engine):
    with pytest.raises(ConfigError, match="set engine=replay") as caught:
        assemble(compose([f"engine={engine}", "task=recorded", "task.model=R1"]))
    assert caught.value.path == "task"
