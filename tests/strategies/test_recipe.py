"""The recipe: every profile against the published tables, and what the article's rule sees first."""

import pytest

from ttsflow.errors import ConfigError
from ttsflow.ops import Generate, Generated, Note
from ttsflow.strategies.recipe import Plan, Recipe, plan
from ttsflow.strategies.watches import FirstFinished
from ttsflow.testing import drive
from ttsflow.types import Usage

#: arXiv 2512.02008, table 2: (horizon, compute) -> what to run with N = 8.
PAPER = {
    ("short", "low"): Plan("ffs", 8, 1),
    ("short", "high"): Plan("majority", 8, 8),
    ("long", "low"): Plan("single", 1, 1),
    ("long", "high"): Plan("majority", 8, 8),
    ("non_reasoning", "low"): Plan("ffs", 8, 1),
    ("non_reasoning", "high"): Plan("majority", 8, 8),
}
#: (horizon, hard) -> what the article runs with N = 8.
ARTICLE = {
    ("short", False): Plan("ffs", 8, 3),
    ("short", True): Plan("ffs", 8, 3),
    ("long", False): Plan("ffs", 8, 4),
    ("long", True): Plan("lfs", 8, 8),
    ("non_reasoning", False): Plan("ffs", 8, 1),
    ("non_reasoning", True): Plan("ffs", 8, 1),
}
MEASURED = {
    ("short", "tokens"): Plan("majority", 8, 8),
    ("short", "latency"): Plan("ffs", 8, 3),
    ("long", "tokens"): Plan("majority", 8, 8),
    ("long", "latency"): Plan("ffs", 8, 4),
    ("non_reasoning", "tokens"): Plan("majority", 8, 8),
    ("non_reasoning", "latency"): Plan("ffs", 8, 3),
}


@pytest.mark.parametrize(("case", "expected"), PAPER.items())
@pytest.mark.parametrize("hard", [False, True])
def test_the_paper_is_the_same_for_easy_and_hard_questions(case, expected, hard):
    horizon, compute = case
    recipe = Recipe(profile="paper_table2", horizon=horizon, compute=compute)
    assert plan(recipe, 8, hard=hard) == expected


@pytest.mark.parametrize(("case", "expected"), ARTICLE.items())
def test_the_article_asks_how_hard_a_question_is(case, expected):
    horizon, hard = case
    assert plan(Recipe(profile="article", horizon=horizon), 8, hard=hard) == expected


@pytest.mark.parametrize(("case", "expected"), MEASURED.items())
def test_what_was_measured_goes_by_the_objective(case, expected):
    horizon, objective = case
    assert plan(Recipe(horizon=horizon, objective=objective), 8) == expected


def test_the_first_of_two_is_allowed_where_short_ones_are_better():
    assert plan(Recipe(), 2) == Plan("ffs", 2, 1)
    assert plan(Recipe(horizon="non_reasoning"), 2) == Plan("ffs", 2, 1)
    assert plan(Recipe(horizon="long"), 2) == Plan("majority", 2, 2)


@pytest.mark.parametrize("n", range(1, 10))
@pytest.mark.parametrize("profile", ["paper_table2", "article", "measured"])
@pytest.mark.parametrize("horizon", ["short", "long", "non_reasoning"])
def test_every_plan_can_be_run(n, profile, horizon):
    for compute in ("low", "high"):
        for objective in ("tokens", "latency"):
            idle = (profile != "paper_table2" and compute == "low") or (
                profile != "measured" and objective == "latency"
            )
            if idle:
                with pytest.raises(ConfigError, match="reads it"):
                    Recipe(n, profile, horizon, compute, objective)
                continue
            recipe = Recipe(n, profile, horizon, compute, objective)
            for hard in (False, True):
                found = plan(recipe, n, hard=hard)
                assert 1 <= found.k <= found.n <= n
                # Never the first alone for a long-horizon model, except where a paper says so.
                if profile == "measured" and horizon == "long" and found.how == "ffs":
                    assert found.k >= n / 2


class Samples:
    """Plays the driver: gives the samples of a list, (length, answer) each, in their order."""

    def __init__(self, kit, samples):
        self.kit = kit
        self.samples = samples
        self.drawn = 0
        self.ops = []

    def __call__(self, op):
        self.ops.append(op)
        if isinstance(op, Note):
            return None
        assert isinstance(op, Generate)
        made = []
        for _ in op.requests:
            length, answer = self.samples[self.drawn]
            made.append(self.kit.cand(self.drawn, answer, length=length))
            self.drawn += 1
        return Generated(tuple(made), Usage())

    @property
    def plan(self):
        (data,) = [op.data for op in self.ops if isinstance(op, Note) and op.kind == "recipe"]
        return data["how"], data["n"], data["k"]

    @property
    def watches(self):
        return [op.watch for op in self.ops if isinstance(op, Generate)]


def run(kit, recipe, samples):
    driver = Samples(kit, samples)
    end = drive(recipe, kit.state(), driver)
    return driver, end


EASY = [(5, "A")] * 8
SPLIT = [(5, a) for a in "AABBABAB"]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (EASY, ("ffs", 8, 4)),
        (SPLIT, ("lfs", 8, 8)),
        ([(5, "A")] * 3 + [(5, "B")] * 5, ("ffs", 8, 4)),
        ([(51, "A")] * 8, ("lfs", 8, 8)),
        # A probe without an answer agrees with none: one answer of four is no agreement.
        ([(5, "A"), (5, None), (5, None), (5, None), *EASY[4:]], ("lfs", 8, 8)),
        ([(5, None)] * 8, ("lfs", 8, 8)),
    ],
)
def test_a_question_is_hard_when_its_probes_disagree_or_are_long(samples, expected, kit):
    driver, end = run(kit, Recipe(profile="article", horizon="long", long_tokens=50), samples)
    assert driver.plan == expected
    assert driver.drawn == 8
    assert (end.answer is None) == all(answer is None for _, answer in samples)


@pytest.mark.parametrize(
    ("budget", "n"),
    [(None, 8), (1000, 8), (40, 8), (39, 7), (25, 5), (20, 4), (12, 4), (1, 4)],
)
def test_a_budget_pays_for_so_many_samples_and_probes_are_samples(budget, n, kit):
    recipe = Recipe(profile="article", horizon="short", budget_tokens=budget)
    driver, end = run(kit, recipe, EASY)
    assert driver.plan == ("ffs", n, 3)
    assert driver.drawn == n
    assert len(end.pool) == 3


def test_no_more_probes_than_samples(kit):
    driver, _ = run(kit, Recipe(2, profile="article", horizon="short", probes=5), EASY)
    assert driver.drawn == 2
    assert driver.plan == ("ffs", 2, 2)


def test_models_that_do_not_reason_are_not_probed(kit):
    driver, _ = run(kit, Recipe(profile="article", horizon="non_reasoning"), EASY)
    assert [len(op.requests) for op in driver.ops if isinstance(op, Generate)] == [8]
    assert driver.watches == [FirstFinished(1)]


def test_probes_that_are_short_enough_end_the_others(kit):
    recipe = Recipe(profile="article", horizon="short", probes=3)
    driver, end = run(kit, recipe, [(2, "A"), (3, "A"), (4, "A"), *[(9, "B")] * 5])
    observer = driver.watches[1].begin(5)
    assert observer.cut == 4
    assert [len(c.tokens) for c in end.pool] == [2, 3, 4]
    assert end.answer.key == "A"


@pytest.mark.parametrize(
    ("recipe", "lengths", "kept"),
    [
        (Recipe(4), [3, 9, 1, 5], [0, 1, 2, 3]),
        (Recipe(4, objective="latency"), [3, 9, 1, 5], [2, 0, 3]),
        (Recipe(4, "article", "long", agree=1.0), [3, 9, 1, 5], [1, 3, 0, 2]),
        (Recipe(4, "paper_table2", "long", "low"), [3], [0]),
    ],
)
def test_what_is_left_for_the_vote(recipe, lengths, kept, kit):
    _, end = run(kit, recipe, [(n, "AB"[i % 2]) for i, n in enumerate(lengths)])
    assert [c.path[0] for c in end.pool] == kept


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"n": 0}, "n"),
        ({"probes": 0}, "probes"),
        ({"agree": 0}, "agree"),
        ({"agree": 1.1}, "agree"),
        ({"long_tokens": 0}, "long_tokens"),
        ({"budget_tokens": 9}, "budget_tokens"),
        ({"profile": "article", "budget_tokens": 0}, "budget_tokens"),
    ],
)
def test_settings_that_make_no_sense(settings, field):
    with pytest.raises(ConfigError) as caught:
        Recipe(**settings)
    assert caught.value.path == field
