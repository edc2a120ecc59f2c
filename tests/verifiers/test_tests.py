import time

import pytest

from ttsflow import Pipeline
from ttsflow.errors import ConfigError
from ttsflow.protocols import Verifier, VerifierPart
from ttsflow.sandbox import runs
from ttsflow.tasks.code import Code
from ttsflow.testing import FakeTask
from ttsflow.testing.contracts import VerifierContract
from ttsflow.types import Answer, Candidate, Problem
from ttsflow.verifiers.tests import CodeTests

DATA = {
    "entry": "add",
    "setup": "ONE = 1\n",
    "tests": ("assert add(1, 2) == 3", "assert add(ONE, -1) == 0"),
    "hidden": ("def check(c):\n    assert c(2, 2) == 4 and c(2, 3) == 5\ncheck(candidate)",),
}
PROBLEM = Problem("add", id="add", data=DATA)
RIGHT = "def add(a, b):\n    return a + b\n"
HALF = "def add(a, b):\n    return 3\n"
LOOP = "def add(a, b):\n    while True: pass\n"


def candidate(code, finish="stop"):
    answer = None if code is None else Answer(code, code)
    return Candidate((0,), (), (1,), code or "", finish=finish, answer=answer)


def pump(verifier, number, seconds=60):
    done, until = {}, time.monotonic() + seconds
    while len(done) < number and time.monotonic() < until:
        for verdict in verifier.step():
            assert verdict.id not in done
            done[verdict.id] = verdict
        time.sleep(0.005)
    return done


def scores(part, *codes, problem=PROBLEM):
    verifier = part.open()
    for number, code in enumerate(codes):
        verifier.submit(str(number), problem, candidate(code))
    done = pump(verifier, len(codes))
    verifier.close()
    assert all(verdict.reason == "" for verdict in done.values())
    return [done[str(number)].scores for number in range(len(codes))]


class TestCode(VerifierContract):
    whole = True

    @pytest.fixture
    def part(self):
        return CodeTests()


def test_it_is_a_verifier_part():
    part = CodeTests()
    assert isinstance(part, VerifierPart)
    verifier = part.open()
    assert isinstance(verifier, Verifier)
    verifier.close()


@pytest.mark.slow
def test_all_tests_or_none():
    assert scores(CodeTests(timeout=20), RIGHT, HALF, "def add(", "x = 1", None) == [(1.0,), *[(0.0,)] * 4]


def test_a_share_of_the_tests():
    assert scores(CodeTests(partial=True, timeout=20), RIGHT, HALF, None) == [(1.0,), (0.5,), (0.0,)]


def test_a_candidate_that_goes_on_or_was_cut_has_no_score():
    verifier = CodeTests().open()
    for finish in ("step", "length"):
        verifier.submit(finish, PROBLEM, candidate(None, finish))
    assert [(verdict.scores, verdict.reason) for verdict in verifier.step()] == [((), "")] * 2


def test_without_examples_a_program_has_to_load():
    problem = Problem("add", data={"entry": "add", "tests": ()})
    assert scores(CodeTests(timeout=20), HALF, "import nowhere", problem=problem) == [(1.0,), (0.0,)]


@pytest.mark.slow
def test_hidden_tests_are_an_oracle():
    with pytest.raises(ConfigError, match="upper bound") as caught:
        CodeTests(which="hidden").open()
    assert caught.value.path == "evaluation"
    oracle = CodeTests(which="hidden", evaluation=True, timeout=20)
    oracle.check()
    special = "def add(a, b):\n    return {(1, 2): 3, (1, -1): 0}[a, b]\n"
    assert scores(oracle, RIGHT, special) == [(1.0,), (0.0,)]
    assert scores(CodeTests(timeout=20), special) == [(1.0,)]
    assert scores(oracle, RIGHT, problem=Problem("add", data={"entry": "add", "tests": ()})) == [()]


@pytest.mark.slow
def test_a_looping_candidate_scores_0_while_the_others_go_on():
    verifier = CodeTests(timeout=0.5, workers=2).open()
    verifier.submit("loop", PROBLEM, candidate(LOOP))
    started = time.monotonic()
    assert verifier.step() == []
    assert time.monotonic() - started < 0.4
    verifier.close()
    patient = CodeTests(timeout=2, workers=2).open()
    for name, code in {"loop": LOOP, "good": RIGHT, "bad": HALF}.items():
        patient.submit(name, PROBLEM, candidate(code))
    done = pump(patient, 3)
    assert {name: verdict.scores for name, verdict in done.items()} == {
        "loop": (0.0,),
        "good": (1.0,),
        "bad": (0.0,),
    }
    assert list(done)[-1] == "loop"
    patient.close()


@pytest.mark.slow
def test_cancelling_ends_the_program():
    verifier = CodeTests(timeout=60, workers=1).open()
    for name in ("running", "waiting"):
        verifier.submit(name, PROBLEM, candidate(LOOP))
    (run,) = verifier._sandbox._running.values()
    verifier.cancel(["running", "waiting", "unknown"])
    verifier.submit("running", PROBLEM, candidate(RIGHT))
    assert pump(verifier, 1)["running"].scores == (1.0,)
    assert run._process.poll() is not None
    verifier.submit("left", PROBLEM, candidate(LOOP))
    verifier.close()
    verifier.close()
    assert verifier.step() == []


@pytest.mark.slow
def test_equal_programs_are_run_once(monkeypatch):
    started = []
    monkeypatch.setattr(
        runs._Run,
        "__init__",
        lambda self, *a, plain=runs._Run.__init__: (started.append(1), plain(self, *a))[1],
    )
    verifier = CodeTests(timeout=20).open()
    for name in ("a", "b"):
        verifier.submit(name, PROBLEM, candidate(RIGHT))
        assert pump(verifier, 1)[name].scores == (1.0,)
    other = Problem("add", id="other", data=DATA | {"tests": ("assert add(1, 1) == 3",)})
    verifier.submit("c", other, candidate(RIGHT))
    assert pump(verifier, 1)["c"].scores == (0.0,)
    assert len(started) == 2


def test_a_broken_sandbox_fails_the_candidate_and_is_asked_again(monkeypatch):
    verifier = CodeTests(timeout=20).open()
    boot = runs._BOOT
    monkeypatch.setattr(runs, "_BOOT", "import nowhere")
    verifier.submit("a", PROBLEM, candidate(RIGHT))
    (verdict,) = pump(verifier, 1).values()
    assert verdict.scores == ()
    assert "the sandbox failed" in verdict.reason
    monkeypatch.setattr(runs, "_BOOT", boot)
    verifier.submit("a", PROBLEM, candidate(RIGHT))
    assert pump(verifier, 1)["a"].scores == (1.0,)


def test_a_process_that_cannot_be_started_fails_its_candidate(monkeypatch):
    verifier = CodeTests().open()

    def fail(*arguments, **settings):
        raise OSError("no files left")

    monkeypatch.setattr(runs.subprocess, "Popen", fail)
    verifier.submit("a", PROBLEM, candidate(RIGHT))
    (verdict,) = verifier.step()
    assert (verdict.scores, "no files left" in verdict.reason) == ((), True)


def test_problems_without_programs_and_ids_in_use_are_refused():
    verifier = CodeTests().open()
    verifier.submit("a", Problem("1 + 1?", id="sum"), candidate(RIGHT))
    with pytest.raises(ValueError, match="'a'"):
        verifier.submit("a", PROBLEM, candidate(RIGHT))
    (verdict,) = verifier.step()
    assert (verdict.scores, "problem sum asks for no program" in verdict.reason) == ((), True)


@pytest.mark.parametrize(
    ("settings", "path"),
    [({"workers": 0}, "workers"), ({"timeout": 0}, "timeout"), ({"memory_mib": 1}, "memory_mib")],
)
def test_settings_are_checked(settings, path):
    with pytest.raises(ConfigError) as caught:
        CodeTests(**settings)
    assert caught.value.path == path


def test_a_task_without_programs_is_refused_and_any_other_can_say_that_it_has_some():
    class Own:
        gives_programs = True

    part = CodeTests()
    part.check_task(Own())
    part.check_task(Code("none.jsonl"))
    with pytest.raises(ConfigError, match=r"task=code.*gives_programs") as caught:
        part.check_task(FakeTask())
    assert caught.value.path == "use"


@pytest.mark.slow
def test_the_best_program_is_chosen_in_a_pipeline(monkeypatch):
    """best_of_n with these scores answers with a program that passes, where there is one."""
    from ttsflow.tasks.plain import Plain
    from ttsflow.testing.fake import FakeEngine

    monkeypatch.setattr(FakeEngine, "decode", lambda self, tokens: RIGHT if sum(tokens) % 3 == 0 else HALF)
    monkeypatch.setattr(Plain, "answer", lambda self, text, problem: Answer(text, text))
    monkeypatch.setattr(Plain, "gives_programs", True, raising=False)
    pipeline = Pipeline("best_of_n", engine={"use": "fake"}, verifier={"use": "tests", "timeout": 20}, n=6)
    assert pipeline.answer(PROBLEM).answer == RIGHT
