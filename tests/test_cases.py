"""What goes wrong in tools of this kind, case by case: the right behaviour of each.

Every test carries the ids of the cases it stands for; ``pytest tests/test_cases.py -k C10`` runs one. The
letters are answer extraction (A), equivalence (B), votes (C), budgets and books (F), metrics (I).
"""

import random
import sys
import threading
from collections import Counter

import pytest

from ttsflow import Pipeline
from ttsflow.errors import ConfigError
from ttsflow.ledger import Budget
from ttsflow.metrics import maj_at_k, mean_at_k, pass_at_k, pass_hat_k, rates
from ttsflow.ops import Progress
from ttsflow.protocols import Capabilities
from ttsflow.strategies.aggregate import Aggregate, voters
from ttsflow.strategies.flow import Repeat, Sequence
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.probe import Probe
from ttsflow.strategies.select import Select
from ttsflow.strategies.stability import Consistent, WindowAgreed, chance_of_lead
from ttsflow.strategies.until import Agreed, AllFinished
from ttsflow.strategies.verify import Verify
from ttsflow.strategies.watches import FirstFinished
from ttsflow.tasks import grade
from ttsflow.tasks.extract import extract
from ttsflow.tasks.grade import MathVerify, correct, gold_text
from ttsflow.tasks.keys import decided, key_of
from ttsflow.tasks.plain import Plain
from ttsflow.testing import FakeEngine, FakeTask, drive, run_fake
from ttsflow.types import Answer, Candidate, Problem, Sampling, State
from ttsflow.verifiers.batch import Batched

FAKE = {"use": "fake"}
LETTERS = tuple((letter, f"text {letter}") for letter in "ABCDEFGHIJ")
SECTIONS = {
    "A": (1, 3, 5, 6, 7, 9, 11, 12, 14, 15, 17, 19, 20, 21, 23, 25, 27, 29, 31, 32, 34),
    "B": (1, 2, 4, 6, 7, 9, 10, 12, 14, 15, 16, 18),
    "C": (1, 2, 4, 6, 7, 9, 10, 13, 14, 15, 17, 19),
    "F": (1, 3, 4, 7, 9, 10, 11, 12, 14, 15, 16, 18),
    "I": (1, 3, 5),
}
IDS = [f"{letter}{number}" for letter, numbers in SECTIONS.items() for number in numbers]

CASES = {}


def case(*names):
    """Register a test for the cases ``names``."""

    def register(test):
        CASES.update(dict.fromkeys(names, test))
        return test

    return register


@pytest.mark.parametrize("name", IDS)
def test_case(name):
    CASES[name]()


def test_every_case_has_a_test_and_every_test_a_case():
    assert sorted(CASES) == sorted(IDS)


# --- A: answer extraction --------------------------------------------------------------------------


def reads(text, kind="math", choices=()):
    """Return the key of the answer that a text gives."""
    found = extract(text, kind, choices)
    return None if found is None else found.key


@case("A1")
def braces_are_counted():
    assert extract(r"\boxed{\frac{1}{2}}", "math").text == r"\frac{1}{2}"


@case("A3")
def a_box_that_is_still_open_is_no_answer():
    assert reads(r"so it is \boxed{12") is None
    assert reads(r"the answer is 7, that is \boxed{12", "number") is None


@case("A5")
def the_last_well_formed_box_counts():
    assert reads(r"\boxed{1} ... Note: always use boxed") == "1"
    assert reads(r"\boxed{1} ... Note: always use \boxed{") == "1"


@case("A6")
def a_mention_of_the_box_without_braces_is_none():
    mention = "Mark your solution with \\boxed "
    for text in (
        mention + r"It is \boxed{7}.",
        r"It is \boxed{7}. " + mention,
        mention + r"\boxed{7} " + mention,
    ):
        assert reads(text) == "7"


@case("A7")
def boxes_are_not_merged():
    assert reads(r"The answer is \boxed{4}. wait, \boxed{5}") == "5"
    assert reads(r"\boxed{840} and \boxed{840}") == "840"


@case("A9")
def whatever_stands_in_a_box_is_read():
    boxes = {" 42 ": "42", "1234": "1234", r"\text{73}": "73", "-5": "-5"}
    for kind in ("number", "math"):
        assert {box: reads(rf"\boxed{{{box}}}", kind) for box in boxes} == boxes


@case("A11")
def a_word_is_no_option():
    assert reads(r"\boxed{Both}", "choice", LETTERS) is None


@case("A12")
def a_heading_is_no_answer():
    assert reads("### Step 1: add\n2+2\n### Step 2: check\n\\boxed{4}", "number") == "4"
    assert reads("### Step 1: add\n2+2\n### Step 2: check\n\\boxed{4}") == "4"


@case("A14")
def thinking_left_open_is_no_answer():
    for kind in ("number", "math", "choice", "text"):
        assert reads("<think>maybe the answer is 9\nstill going", kind, LETTERS) is None


@case("A15")
def one_answer_has_one_key_however_it_is_stated():
    assert reads(r"The answer is $\boxed{4}$.") == reads("The answer is 4.") == "4"


@case("A17")
def thousands_and_fractions_are_whole_numbers():
    for kind in ("number", "math"):
        assert reads("1,234", kind) == "1234"
        assert reads("-1/2", kind) == "-1/2"


@case("A19")
def currency_and_trailing_zeros_are_no_difference():
    assert correct(extract("It costs $29.00", "number"), "29", "number") is True


@case("A20")
def the_box_is_read_first():
    assert reads(r"The domain is \boxed{[2,5)}") == "[2, 5)"


@case("A21")
def nothing_never_equals_nothing():
    assert correct(None, None, "number") is None
    assert FakeTask().correct(None, Problem("?")) is None
    run = Pipeline("single", engine=FAKE, chat=False, sampling={"max_tokens": 1}).run(["?"])
    assert run.results[0].answer is None
    assert run.results[0].correct is None
    assert correct(None, "5", "number") is False


@case("A23")
def the_gold_of_a_worked_solution_is_its_result():
    assert (
        gold_text("He pays 80,000 + 50,000 = <<80000+50000=130000>>130,000\n#### 70000", "number") == "70000"
    )


@case("A25")
def a_word_in_a_box_is_no_unit():
    assert reads(r"\boxed{\text{east}}") == "east"


@case("A27", "A29", "A31", "A32", "A34")
def an_option_is_a_label_of_this_question():
    options = {
        "The answer is B because a car moves.": "B",
        "Antwort:\n\nAntwort: C": "C",
        "Answer seems to be A.\n\nAnswer: A": "A",
        "So it is option J. Dog is not an answer": "J",
        "It is not B, the answer is D": "D",
    }
    assert {text: reads(text, "choice", LETTERS) for text in options} == options


# --- B: normalisation and equivalence --------------------------------------------------------------


def same(one, other, kind="math"):
    return key_of(one, kind) == key_of(other, kind)


@case("B1")
def a_comma_between_groups_of_three_separates_thousands():
    assert same("1,000", "1000")
    assert same("1,000", "1000", "number")


@case("B2")
def any_other_comma_separates_a_list():
    assert not same("12", "1,2")
    assert correct(Answer("1,2", key_of("1,2", "math")), "12", "math") is False


@case("B4")
def open_and_closed_differ():
    assert not same("(1,2)", "[1,2]")
    assert not same("(1,2)", "(2,1)")


@case("B6")
def votes_are_grouped_by_key_so_that_the_order_of_comparing_does_not_matter():
    assert same("x<3", r"(-\infty,3)")
    texts = ["x<3", r"(-\infty,3)", "1/2", "0.5", "3", "(3)"]
    for kind in ("math", "number"):
        keys = [key_of(text, kind) for text in texts]
        equal = [[one == other for other in keys] for one in keys]
        assert equal == [list(row) for row in zip(*equal, strict=True)]


@case("B7")
def numbers_are_compared_exactly():
    assert not same(r"1/2^{99}", r"1/2^{98}")
    assert decided(key_of(r"1/2^{99}", "math"), key_of(r"1/2^{98}", "math")) is False


@case("B9")
def a_bare_gold_answer_is_read_and_an_unreadable_one_is_said():
    assert gold_text(r"\dfrac{9}{7}", "math")
    assert correct(Answer("9/7", key_of("9/7", "math")), r"\dfrac{9}{7}", "math") is True
    with pytest.raises(ConfigError, match="gold"):
        Plain(({"prompt": "?", "gold": "no number"},), kind="number").problems()


@case("B10")
def a_bare_letter_is_the_gold_of_a_choice():
    answer = extract(r"\boxed{A}", "choice", LETTERS)
    assert correct(answer, "A", "choice", LETTERS) is True


@case("B12")
def an_escaped_currency_sign_is_read():
    assert reads(r"It costs \$3.50", "number") == reads(r"It costs \$3.50") == "7/2"


@case("B14")
def precision_is_a_setting_and_does_not_depend_on_the_digits_given():
    third = key_of("1/3", "number")
    digits = [key_of(text, "number") for text in ("0.333", "0.333333", "0.3333333333333333")]
    assert [decided(key, third, 0.0) for key in digits] == [False] * 3
    assert [decided(key, third, 0.01) for key in digits] == [True] * 3


@case("B15")
def a_number_in_words_of_latex_is_a_number():
    assert same(r"\text{13}", "13")


@case("B16")
def emphasis_is_no_part_of_an_answer():
    assert reads("Final Answer: **73**") == "73"
    assert reads("Final Answer: **73**", "number") == "73"


@case("B18")
def in_a_thread_a_failure_is_no_verdict_and_never_wrong():
    body = "print(json.dumps(dict(error='ValueError') if 'bad' in line else dict(equal=True)), flush=True)"
    ready = "import json, sys\nprint(json.dumps(dict(ready=True)), flush=True)"
    code = f"{ready}\nfor line in sys.stdin:\n    {body}"
    worker, before, verdicts = MathVerify(command=lambda: [sys.executable, "-c", code]), grade._worker, []
    grade._worker = worker
    try:
        for said in ("x^2", "bad + x"):
            answer = Answer(said, key_of(said, "math"))
            thread = threading.Thread(target=lambda a=answer: verdicts.append(correct(a, "x*x", "math")))
            thread.start()
            thread.join()
    finally:
        grade._worker = before
        worker.close()
        grade.failures.clear()
    assert verdicts == [True, None]


# --- C: votes --------------------------------------------------------------------------------------


def cand(path, answer=None, *, finish="stop", score=None, length=3, **changes):
    return Candidate(
        (path,),
        (),
        (7,) * length,
        "7" * length,
        finish=finish,
        answer=None if answer is None else answer if isinstance(answer, Answer) else Answer(answer, answer),
        score=score,
        **changes,
    )


def pool_of(*answers):
    return State(Problem("?"), pool=tuple(cand(i, a) for i, a in enumerate(answers)))


def vote(state, **settings):
    """Return the key of the answer that a vote gives, and its weights."""
    notes = []
    end = drive(Aggregate(**settings), state, lambda op: notes.append(op.data))
    return end.answer and end.answer.key, notes[0].get("weights")


@case("C1")
def when_all_abstain_it_goes_on():
    state = pool_of(None, None, None, None)
    for condition in (Consistent(), Consistent("majority", 0.5), WindowAgreed(4), Agreed(0.5, 1)):
        assert condition(state) is None
    assert vote(state) == (None, {})
    cut = Sampling(max_tokens=1)
    loop = Repeat({"s": GenerateStage(1, total=6)}, at_most=6, until=Consistent())
    results = run_fake(Sequence({"rounds": loop, "vote": Aggregate()}), sampling=cut)
    assert {r.usage.requests for r in results.values()} == {6}
    assert {r.answer for r in results.values()} == {None}


@case("C2")
def an_empty_answer_is_an_abstention():
    class Empty(FakeTask):
        def answer(self, text, problem):
            found = super().answer(text, problem)
            return found if found and found.key in "34" else Answer("", "")

    strategy = Sequence({"s": GenerateStage(8), "vote": Aggregate()})
    results = run_fake(strategy, task=Empty(size=20))
    assert {r.answer for r in results.values()} <= {"3", "4", None}

    class Nothing(FakeTask):
        def answer(self, text, problem):
            return Answer("", "")

    results = run_fake(strategy, task=Nothing())
    assert {(r.answer, r.outcome) for r in results.values()} == {(None, "abstained")}


@case("C4")
def votes_are_keyed_by_the_answer_alone():
    judged = zip(["42", "42", "42", "43", "43"], [1.0, 0.0, 1.0, 0.0, 0.0], strict=True)
    state = State(Problem("?"), pool=tuple(cand(i, a, score=s) for i, (a, s) in enumerate(judged)))
    assert vote(state) == ("42", {"42": 3.0, "43": 2.0})
    assert vote(state, how="weighted") == ("42", {"42": 2.0, "43": 0.0})
    assert vote(state, how="best")[0] == "42"


@case("C6")
def a_tie_is_decided_by_a_named_rule():
    pool = [cand(0, "a", score=0.1, length=5), cand(1, "b", score=0.9, length=4)]
    for ties, winner in (("first", "a"), ("shortest", "b"), ("score", "b")):
        for seed in range(5):
            order = random.Random(seed).sample(pool, 2)
            assert vote(State(Problem("?"), pool=tuple(order)), ties=ties)[0] == winner


@case("C7")
def forms_of_one_answer_vote_together():
    texts = ["0.5", r"\frac{1}{2}", "1/2", "3", "3"]
    state = pool_of(*(extract(rf"\boxed{{{text}}}", "math") for text in texts))
    assert vote(state) == ("1/2", {"1/2": 3.0, "3": 2.0})


@case("C9")
def different_fractions_vote_apart():
    answers = [extract(rf"\boxed{{\frac{{1}}{{{n}}}}}", "math") for n in (2, 3)]
    assert vote(pool_of(*answers))[1] == {"1/2": 1.0, "1/3": 1.0}


@case("C10")
def a_missing_score_is_left_out_and_never_negative():
    steps = {(0,): [], (1,): [0.3], (2,): [0.2]}
    verifier = Batched(lambda batch: [steps[candidate.path] for _, candidate in batch])
    given = [cand(i, a) for i, a in enumerate("AAB")]
    stages = {"given": Given(given), "score": Verify(), "vote": Aggregate(how="weighted")}
    results = run_fake(Sequence(stages), verifier=verifier)
    assert {r.answer for r in results.values()} == {"A"}
    pool = tuple(c.with_(score=s) for c, s in zip(given, (None, 0.3, 0.2), strict=True))
    assert vote(State(Problem("?"), pool=pool), how="weighted") == ("A", {"A": 0.3, "B": 0.2})


class Given:
    """A stage that puts candidates into the pool."""

    def __init__(self, pool):
        self.pool = tuple(pool)

    def __call__(self, state):
        return state.with_(pool=self.pool)


@case("C13")
def a_failed_sample_is_recorded_as_failed_and_does_not_vote():
    class OneFails(FakeEngine):
        def submit(self, request):
            super().submit(request)
            if request.path == (0,):
                self.doomed = request.id

        def step(self):
            news = [item for item in super().step() if item.id != self.doomed]
            if self.doomed in self._running:
                self.abort([self.doomed])
                news.append(Progress(self.doomed, finish="failed", reason="call failed: Answer: 9"))
            return news

    strategy = Sequence({"s": GenerateStage(3), "see": Sees(), "vote": Aggregate()})
    results = run_fake(strategy, FakeTask(size=1).problems(), engine=OneFails())
    (pool,) = strategy.stages["see"].pools.values()
    assert [c.finish for c in pool] == ["failed", "stop", "stop"]
    assert pool[0].answer is None
    assert [c.path for c in voters(pool)] == [(1,), (2,)]
    assert results["fake-0"].answer in "01234"


class Sees:
    """A stage that changes nothing and keeps the pools it has seen, by problem."""

    def __init__(self):
        self.pools = {}

    def __call__(self, state):
        self.pools[state.problem.id] = state.pool
        return state


@case("C14")
def the_configured_rule_decides():
    given = Given([cand(0, "A", score=0.9), cand(1, "B", score=0.2), cand(2, "B", score=0.2)])
    answers = {}
    for how in ("majority", "weighted", "best"):
        results = run_fake(
            Sequence({"given": given, "vote": Aggregate(how=how)}), FakeTask(size=1).problems()
        )
        answers[how] = results["fake-0"].answer
    assert answers == {"majority": "B", "weighted": "A", "best": "A"}


@case("C15")
def every_candidate_is_judged():
    seen = []

    def score(batch):
        seen.extend(candidate.path for _, candidate in batch)
        return [[candidate.path[0] / 10] for _, candidate in batch]

    stages = {
        "given": Given(cand(i, str(i)) for i in range(5)),
        "score": Verify(),
        "vote": Aggregate(how="best"),
    }
    results = run_fake(Sequence(stages), FakeTask(size=1).problems(), verifier=Batched(score))
    assert sorted(seen) == [(i,) for i in range(5)]
    assert results["fake-0"].answer == "4"


@case("C17")
def rates_are_told_apart_by_their_names():
    samples = [("4", True)] * 33 + [("5", False)] * 31
    found = rates([samples])[64]
    assert found == pytest.approx({"mean@k": 33 / 64, "pass@k": 1.0, "pass^k": 0.0, "maj@k": 1.0})
    assert mean_at_k([right for _, right in samples]) == 33 / 64
    assert pass_at_k(64, 33, 1) == pass_hat_k(64, 33, 1) == 33 / 64
    assert maj_at_k([33, 31], [1, 0], 0, 64) == 1.0


@case("C19")
def half_of_the_votes_is_no_lead():
    assert Agreed(0.5, 1)(pool_of(*"AABB")) is None
    assert Agreed(0.5, 1)(pool_of(*"AB")) is None
    assert Agreed(0.5, 1)(pool_of("A")) is not None
    assert Consistent("majority", 0.5)(pool_of(*"AABB")) is None
    assert Aggregate(least=0.51)
    assert vote(pool_of(*"AABB"), least=0.51)[0] is None
    assert vote(pool_of("A"), least=0.51)[0] == "A"


# --- F: budgets, early stops, books ----------------------------------------------------------------


class Scripted:
    """An engine with seats for all, whose samples have the lengths and answers of a list, by their path."""

    capabilities = Capabilities()
    capacity = 1000
    context = 10**6

    def __init__(self, *samples):
        self.samples = samples
        self.running = {}
        self.decoded = self.steps = 0

    def now(self):
        return float(self.steps)

    def encode(self, prompt):
        return (0,)

    def tokenize(self, text):
        return (0,)

    def decode(self, tokens):
        return "".join(f"Answer: {token - 1}" if token else "x" for token in tokens)

    def submit(self, request):
        self.running[request.id] = (request, 0)

    def abort(self, ids):
        for name in ids:
            self.running.pop(name, None)

    def step(self):
        self.steps += 1
        news = []
        for name, (request, done) in list(self.running.items()):
            length, answer = self.samples[request.path[0]]
            self.running[name] = request, done + 1
            self.decoded += 1
            last = done + 1 == length
            token = 0 if answer is None or not last else answer + 1
            news.append(Progress(name, (token,), "stop" if last else None))
            if last:
                del self.running[name]
        return news

    def reset(self):
        self.running.clear()

    close = reset


def first_finish(n, k, ties="first"):
    keep = Select(by="tokens", keep=k, answered=True)
    return Sequence(
        {"s": GenerateStage(n, watch=FirstFinished(k)), "keep": keep, "vote": Aggregate(ties=ties)}
    )


def only(strategy, engine, **settings):
    (result,) = run_fake(strategy, FakeTask(size=1).problems(), engine=engine, **settings).values()
    return result


@case("F1")
def every_trajectory_is_counted_up_to_the_cut():
    result = only(first_finish(3, 1), Scripted((100, 1), (500, 2), (900, 3)))
    assert (result.usage.decoded, result.usage.serial, result.answer) == (300, 100, "1")


@case("F3")
def those_without_an_answer_cost_and_a_tie_has_a_rule():
    samples = [(50, None), (100, 7), (120, 8), (900, 8)]
    result = only(first_finish(4, 2), Scripted(*samples))
    assert (result.usage.decoded, result.usage.serial, result.answer) == (390, 120, "7")
    # Whichever was recorded first, the shorter one wins when that is the rule.
    turned = Scripted(*samples[::-1])
    assert only(first_finish(4, 2), turned).answer == "8"
    assert only(first_finish(4, 2, "shortest"), turned).answer == "7"
    assert only(first_finish(4, 2, "shortest"), Scripted(*samples)).answer == "7"


@case("F4")
def every_strategy_answers_a_plain_call():
    verified = {"best_of_n", "weighted_best_of_n"}
    for strategy in ("single", "majority", "ffs", "lfs", "adaptive_consistency", "esc", "recipe", *verified):
        verifier = "fake" if strategy in verified else None
        pipeline = Pipeline(strategy, engine=FAKE, verifier=verifier, n=4, chat=False)
        assert pipeline.answer("1 + 2 =").outcome == "answered"


@case("F7")
def the_chance_of_the_lead_is_exact():
    values = {(3, 0): 0.9375, (4, 0): 0.96875, (4, 1): 0.8906, (5, 1): 0.9375, (7, 1): 0.9805}
    for counts, value in values.items():
        assert float(chance_of_lead(*counts)) == pytest.approx(value, abs=5e-5)
        stops = Consistent()(pool_of(*["A"] * counts[0], *["B"] * counts[1])) is not None
        assert stops == (counts in {(4, 0), (7, 1)})


@case("F9")
def probes_are_counted():
    engine = FakeEngine()
    stages = {
        "start": GenerateStage(1, unit="tokens", step_tokens=3),
        "rounds": Repeat(
            {"probe": Probe(window=9, tokens=4), "go_on": GenerateStage(1, unit="tokens", step_tokens=3)},
            at_most=50,
            until=AllFinished(),
        ),
        "see": Sees(),
        "vote": Aggregate(),
    }
    results = run_fake(Sequence(stages), engine=engine)
    assert sum(r.usage.decoded for r in results.values()) == engine.decoded
    asked = 0
    for name, result in results.items():
        (candidate,) = stages["see"].pools[name]
        # A first chunk, then a probe and a chunk each.
        probes = (result.usage.requests - 1) // 2
        asked += probes
        assert probes <= result.usage.decoded - len(candidate.tokens) <= 4 * probes
    assert asked


@case("F10")
def a_budget_is_kept_and_said():
    strategy = Sequence({"s": GenerateStage(8), "vote": Aggregate()})
    result = only(strategy, Scripted(*[(9000, 1)] * 8), budget=Budget(problem={"tokens": 8000}))
    assert result.usage.decoded == 8000
    assert result.stopped == "budget: 8000 tokens per problem spent"
    result = only(strategy, Scripted(*[(9000, 1)] * 8), budget=Budget(problem={"seconds": 100}))
    assert result.stopped == "budget: 100 seconds per problem spent"
    assert result.outcome == "truncated"


@case("F11")
def a_strategy_that_reads_log_probabilities_refuses_an_engine_without():
    for strategy in ("deepconf", "deepconf_online", "cisc"):
        with pytest.raises(ConfigError, match="log-probabilities per token; this engine gives none"):
            Pipeline(strategy, engine={"use": "fake", "logprobs": 0})
    with pytest.raises(ConfigError, match="certainty"):
        Pipeline("self_certainty", engine={"use": "fake", "certainty": False})


@case("F12")
def usage_is_the_sum_over_all_samples():
    strategy = Sequence({"s": GenerateStage(3), "vote": Aggregate()})
    usage = only(strategy, Scripted((5, 1), (6, 2), (7, None))).usage
    assert (usage.prompt, usage.output, usage.aborted, usage.requests) == (3, 18, 0, 3)
    assert (usage.decoded, usage.serial) == (18, 7)


class Hears(FakeEngine):
    """Keeps the requests it was sent."""

    def submit(self, request):
        self.heard = [*getattr(self, "heard", []), request]
        super().submit(request)


@case("F14")
def what_is_set_reaches_the_engine():
    engine = Hears()
    sampling = Sampling(temperature=0.3, top_p=0.9, top_k=5, min_p=0.1, max_tokens=17)
    for strategy in (
        first_finish(3, 2),
        Sequence({"s": GenerateStage(3), "v": Verify(), "a": Aggregate(how="best")}),
    ):
        run_fake(strategy, engine=engine, sampling=sampling)
    assert {request.sampling for request in engine.heard} == {sampling}
    assert {request.max_tokens for request in engine.heard} == {17}


@case("F15")
def a_value_that_was_set_is_never_overridden_and_a_conflict_is_an_error():
    setup = Pipeline(
        "beam_search",
        engine=FAKE,
        verifier="fake",
        n=8,
        width=2,
        depth=7,
        sampling={"temperature": 0.0, "max_tokens": 99},
    ).setup
    search = setup.strategy.stages["search"]
    assert (search.at_most, search.stages["step"].n, search.stages["keep"].copies) == (7, 8, 2)
    assert (setup.sampling.temperature, setup.sampling.max_tokens) == (0.0, 99)
    for conflict in ({"n": 2, "width": 4}, {"n": 6, "width": 4}):
        with pytest.raises(ConfigError, match=r"use \d|at least the width"):
            Pipeline("beam_search", engine=FAKE, verifier="fake", **conflict)
    with pytest.raises(ConfigError, match="k=9 of n=8"):
        Pipeline("ffs", engine=FAKE, n=8, k=9)


@case("F16")
def so_many_samples_are_drawn_for_every_question():
    pipeline = Pipeline("best_of_n", engine=FAKE, verifier="fake", n=5, chat=False)
    run = pipeline.run([{"prompt": f"{i} + 1 =", "gold": str(i + 1)} for i in range(3)])
    assert [result.usage.requests for result in run.results] == [5, 5, 5]
    assert run.summary.accuracy is not None
    assert (run.summary.problems, run.summary.usage["requests"]) == (3, 15)


@case("F18")
def every_candidate_has_its_own_count_of_tokens():
    events = []

    class Watcher:
        enabled = True

        def event(self, kind, problem, data):
            if kind == "candidate":
                events.append((problem, data["tokens_new"]))

        def flush(self):
            pass

    stages = {"step": GenerateStage(4, unit="step"), "score": Verify(), "keep": Select(into=4, copies=2)}
    search = Repeat(stages, at_most=5, until=AllFinished())
    results = run_fake(Sequence({"search": search, "answer": Aggregate(how="weighted")}), trace=Watcher())
    assert all(tokens > 0 for _, tokens in events)
    totals = Counter()
    for problem, tokens in events:
        totals[problem] += tokens
    assert dict(totals) == {name: result.usage.decoded for name, result in results.items()}


# --- I: metrics ------------------------------------------------------------------------------------


@case("I1")
def more_samples_than_there_are_say_nothing():
    for rate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match="k <= n"):
            rate(2, 0, 5)
    with pytest.raises(ValueError, match="k <= n"):
        maj_at_k([2], [0], 0, 5)
    assert pass_at_k(2, 0, 2) == 0.0


@case("I3")
def samples_are_counted_and_never_questions():
    questions = [[("1", True)]] * 50 + [[("2", False)]] * 114
    assert rates(questions)[1]["pass@k"] == pytest.approx(50 / 164)
    with pytest.raises(ValueError, match="k <= n"):
        rates(questions, [10])


@case("I5")
def the_number_of_samples_is_always_reported():
    questions = [[("1", True)] * 12]
    assert list(rates(questions)) == [1, 2, 4, 8, 12]
    assert list(rates(questions, [3])) == [3, 12]
