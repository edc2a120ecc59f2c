import argparse
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.analysis import horizon
from ttsflow.analysis.advice import advise
from ttsflow.analysis.findings import print_profile
from ttsflow.analysis.graded import graded
from ttsflow.analysis.horizon import verdict
from ttsflow.analysis.lengths import profile
from ttsflow.analysis.profiling import main, profiles
from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.errors import ConfigError, DataError
from ttsflow.listing import wide_console
from ttsflow.plugins import load
from ttsflow.recordings import Recording, Sample, write_recordings
from ttsflow.run import run_config

ROOT = Path(__file__).parents[2]

TYPES = {
    "R1": "short-horizon",
    "QwQ": "short-horizon",
    "Dapo-Qwen-32B": "short-horizon",
    "R1DistilQwen": "long-horizon",
    "Qwen3-235B": "non-reasoning",
}


def question(number, samples, **fields):
    """Return a recording; a sample is (tokens, right), right None for one without an answer."""
    made = tuple(
        one
        if isinstance(one, Sample)
        else Sample(None if one[1] is None else str(one), one[0], one[1], "stop")
        for one in samples
    )
    return Recording(**{"id": str(number), "samples": made, "gold": "1"} | fields)


def model(bias, tokens, *, questions=150, n=8, seed=0, **fields):
    """Return a made-up model: ``bias`` above 0 makes longer traces of a question less often right."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(questions):
        relative = rng.normal(size=n)
        lengths = tokens * np.exp(0.5 * rng.normal() + 0.3 * relative)
        chance = 1 / (1 + np.exp(bias * relative + 2 * rng.normal()))
        right = rng.random(n) < chance
        samples = [(int(length), bool(one)) for length, one in zip(lengths, right, strict=True)]
        made.append(question(number, samples, **fields))
    return made


# --- the rule -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bias", "tokens", "kind"),
    [
        (1.5, 9000, "short-horizon"),
        (0.0, 9000, "long-horizon"),
        (-1.5, 9000, "long-horizon"),
        (0.0, 300, "non-reasoning"),
        (1.5, 300, "non-reasoning"),
    ],
)
def test_made_up_models_are_told_apart(bias, tokens, kind):
    found = verdict(graded(model(bias, tokens)))
    assert (found.kind, found.nearest) == (kind, kind)
    assert found.shares[kind] >= horizon.SURE
    assert found.shorter.low <= found.shorter.value <= found.shorter.high
    assert (found.shorter.value > 0.6) == (bias > 0)
    assert (found.shorter.value < 0.4) == (bias < 0)


@pytest.mark.parametrize("scale", [2, 10])
def test_the_relation_to_length_is_the_same_in_any_unit(scale):
    one, other = (verdict(graded(model(1, tokens, seed=3))) for tokens in (2000, 2000 * scale))
    assert one.shorter.value == pytest.approx(other.shorter.value, abs=2e-3)


def test_pairs_worked_out_by_hand():
    (one,) = graded([question(0, [(10, True), (20, False), (10, False), (30, True)])])
    assert one.pairs == (1.5, 4)
    assert one.accuracy == 0.5
    (one,) = graded([question(0, [(10, True), (20, None), (5, None), (30, False)])])
    assert one.pairs == (2, 3)


def test_the_shortest_with_an_answer_is_worth_what_it_is():
    gains = [[(10, True), (20, False)], [(10, False), (20, True)], [(5, None), (10, True)], [(5, None)] * 2]
    found = [one.gain for one in graded([question(number, samples) for number, samples in enumerate(gains)])]
    assert found == [0.5, -0.5, 0.5, 0.0]
    (tied,) = graded([question(0, [(10, True), (10, False), (20, False), (20, False)])])
    assert tied.gain == 0.25


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=4), min_size=1, max_size=4
    )
)
def test_any_recording_has_a_verdict(questions):
    found = verdict(graded([question(number, samples) for number, samples in enumerate(questions)]), draws=20)
    assert found.kind in {*horizon.KINDS, "undecided"}
    assert (found.shorter is None) == (found.mixed == 0)
    assert found.shorter is None or 0 <= found.shorter.low <= found.shorter.high <= 1


def test_few_questions_are_undecided():
    found = verdict(graded(model(3, 9000, questions=8)))
    assert (found.kind, found.nearest) == ("undecided", "short-horizon")
    found = verdict(graded([question(number, [(9000, True)] * 8) for number in range(50)]))
    assert (found.kind, found.nearest, found.shorter) == ("undecided", None, None)
    found = verdict(graded([question(number, [(90 + number, True)] * 8) for number in range(50)]))
    assert (found.kind, found.shorter) == ("non-reasoning", None)


def test_a_type_that_few_resamples_share_is_undecided():
    kinds = {}
    for seed in range(8):
        found = verdict(graded(model(0.3, 9000, questions=25, seed=seed)))
        assert (found.kind == "undecided") == (found.shares[found.nearest] < horizon.SURE)
        kinds.setdefault(found.kind, found)
    assert "undecided" in kinds


def test_resampling_is_the_same_every_time():
    questions = graded(model(1, 9000))
    assert verdict(questions) == verdict(questions)


def test_a_thinking_part_makes_a_trace_long():
    thinking = Sample("1", 200, True, "stop", text="<think>so</think> 1")
    questions = [question(number, [thinking, (300, False), (100, False), thinking]) for number in range(20)]
    assert verdict(graded(questions)).kind == "long-horizon"


def test_where_a_limit_cut_much_the_relation_to_length_decides():
    """A model that reasons, recorded with a limit below what counts as long."""
    cut = model(1.5, 3000)
    cut = [
        question(one.id, [s if s.tokens < 4000 else Sample(None, 4000, False, "length") for s in one.samples])
        for one in cut
    ]
    found = profile(graded(cut))
    assert found.verdict.kind == "short-horizon"
    assert found.cut > 0.2
    assert not found.verdict.short


@pytest.mark.parametrize(("heap", "cut"), [(2, 0), (3, 3), (9, 9)])
def test_a_heap_at_the_greatest_length_is_a_limit(heap, cut):
    samples = [(number, True) for number in range(1, 11)] + [(2, True)] + [(50, False)] * heap
    (one,) = graded([question(0, samples)])
    assert one.cut.sum() == cut


def test_equal_lengths_everywhere_are_no_limit():
    (one,) = graded([question(0, [(5, True)] * 4 + [(9, False)] * 4)])
    assert not one.cut.any()


# --- cells and what spoils them -----------------------------------------------------------------------


def test_cells_worked_out_by_hand():
    easy = question(0, [(10, True), (20, True), (30, True), (40, False)])
    hard = question(1, [(100, False), (200, False), (300, True), (300, False), (400, False)])
    found = profile(graded([easy, hard]))
    assert found.difficulty == pytest.approx((0.75 + 0.2) / 2)
    cells = {(cell.questions, cell.traces): (cell.right, cell.samples) for cell in found.cells}
    assert cells == {
        ("easy", "short"): (2, 2), ("easy", "long"): (1, 2),
        ("hard", "short"): (0, 2), ("hard", "long"): (0, 1),
    }  # fmt: skip
    assert found.tokens == {"mean": pytest.approx(1400 / 9), "easy": 25, "hard": 300}
    fixed = {(cell.questions, cell.traces): (cell.right, cell.samples) for cell in found.fixed}
    assert fixed == {
        ("easy", "short"): (0, 0), ("easy", "long"): (0, 0),
        ("hard", "short"): (0, 1), ("hard", "long"): (1, 4),
    }  # fmt: skip
    assert [cell.accuracy for cell in found.fixed] == [None, None, 0, 0.25]
    assert found.cells[0].ci95 == (pytest.approx(0.342, abs=1e-3), 1.0)


@pytest.mark.slow
def test_samples_recorded_alike_are_not_odd():
    for seed in range(5):
        assert profile(graded(model(1, 9000, questions=40, seed=seed))).oddity is None


def test_a_place_recorded_unlike_the_others_is_found():
    """Seen in recorded samples: one of eight was drawn without thinking, and the type rested on it."""
    questions = []
    for one in model(1.5, 9000, questions=60):
        samples = list(one.samples)
        samples[2] = Sample("0", 500, False, "stop")
        questions.append(question(one.id, samples))
    found = profile(graded(questions))
    assert found.oddity.places == (2,)
    assert found.oddity.signs == ("sample 3 shorter than the others in 100%",)
    assert found.verdict.kind != "short-horizon"
    assert found.oddity.without.kind == "short-horizon"


def test_places_that_lack_answers_are_found():
    questions = []
    for one in model(0, 9000, questions=60):
        samples = [Sample(None, s.tokens, False, "stop") if at < 2 else s for at, s in enumerate(one.samples)]
        questions.append(question(one.id, samples))
    found = profile(graded(questions))
    assert found.oddity.signs == ("samples 1, 2 without an answer in 100%",)
    assert found.missing == 0.25


# --- advice -------------------------------------------------------------------------------------------


def words(kind, n=8, **wanted):
    return [
        one.words
        for one in advise(kind, n)
        if all(getattr(one, key) == value for key, value in wanted.items())
    ]


KINDS = (*horizon.KINDS, "undecided")
WORDS = sorted({one.words for kind in KINDS for n in (1, 2, 3, 8) for one in advise(kind, n)})


@pytest.mark.parametrize("settings", WORDS)
def test_advice_can_be_typed(settings):
    mapping = compose([*settings.split(), "engine=fake"])
    build("stage", mapping["strategy"], "strategy", load())
    assert mapping["variables"].get("k", 0) <= mapping["variables"]["n"] <= 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 16])
def test_every_profile_budget_and_objective_has_advice(kind, n):
    assert {(one.profile, one.budget, one.objective) for one in advise(kind, n)} == {
        (profile, budget, objective)
        for profile in ("paper_table2", "article", "measured")
        for budget in ("low", "high")
        for objective in ("tokens", "latency")
    }


def test_advice_follows_the_recipes():
    first = "strategy=ffs strategy.k=1 strategy.n=8"
    for kind in ("short-horizon", "non-reasoning"):
        assert set(words(kind, profile="paper_table2", budget="low")) == {first}
    assert set(words("long-horizon", profile="paper_table2", budget="low")) == {"strategy=single"}
    for kind in horizon.KINDS:
        assert set(words(kind, profile="paper_table2", budget="high")) == {"strategy=majority strategy.n=8"}
        assert words(kind, profile="measured", budget="high", objective="tokens") == [
            "strategy=majority strategy.n=8"
        ]
    assert words("short-horizon", profile="measured", budget="high", objective="latency") == [
        "strategy=ffs strategy.k=3 strategy.n=8"
    ]
    assert set(words("non-reasoning", profile="article", budget="high")) == {first}
    assert set(words("long-horizon", profile="article", questions="hard", budget="high")) == {
        "strategy=majority strategy.n=8"
    }


@pytest.mark.parametrize("kind", ["long-horizon", "undecided"])
def test_the_first_of_many_is_never_advised_by_measurement_for_long_horizon(kind):
    assert not any("strategy.k=1 " in one for one in words(kind, profile="measured"))


# --- the command --------------------------------------------------------------------------------------


def run(argv, capsys):
    assert main(argv, argparse.ArgumentParser()) == 0
    return capsys.readouterr().out


@pytest.fixture
def file(tmp_path):
    """Return a file with two models, one of them on two data sets."""
    path = tmp_path / "samples.jsonl"
    short = [
        Recording(f"a/{d}/{one.id}", one.samples, "a", d, "1") for d in ("x", "y") for one in model(1.5, 9000)
    ]
    plain = [Recording(f"b/x/{one.id}", one.samples, "b", "x", "1") for one in model(0, 300)]
    write_recordings(path, [*short, *plain])
    return str(path)


@pytest.mark.slow
def test_a_block_per_model(file, capsys):
    out = run([file], capsys)
    assert out.index("a: short-horizon") < out.index("b: non-reasoning")
    for text in (
        "questions (x, y)",
        "how sure: of 2,000 resamples",
        "95 % interval",
        "strategy=ffs strategy.k=3",
    ):
        assert text in out
    out = run([file, "--model", "b"], capsys)
    assert "a: " not in out
    assert "traces are short: 0.0% are over 8,192 tokens" in out


@pytest.mark.slow
def test_json_has_every_figure(file, capsys):
    first, second = json.loads(run([file, "--json", "--n", "4"], capsys))
    assert (first["model"], first["type"], second["type"]) == ("a", "short-horizon", "non-reasoning")
    assert first["reasons"]
    assert first["verdict"]["shares"]["short-horizon"] > 0.9
    assert {cell["questions"] + cell["traces"] for cell in first["cells"]} == {
        "easyshort", "easylong", "hardshort", "hardlong",
    }  # fmt: skip
    assert all("n=16" not in line["words"] for line in first["advice"])
    (only,) = json.loads(run([file, "--json", "--model", "a", "--dataset", "x"], capsys))
    assert only["questions"] * 2 == first["questions"]


@pytest.mark.slow
def test_what_is_not_there_is_refused(file, tmp_path):
    with pytest.raises(ConfigError, match=r"--model: there is no model 'c'. Known: a, b"):
        profiles(file, model="c")
    with pytest.raises(ConfigError, match=r"--dataset: there is no dataset 'y'. Known: x"):
        profiles(file, model="b", dataset="y")
    with pytest.raises(ConfigError, match="--n: at least one sample"):
        main([file, "--n", "0"], argparse.ArgumentParser())
    with pytest.raises(DataError):
        profiles(str(tmp_path / "none.jsonl"))
    bare = tmp_path / "bare.jsonl"
    write_recordings(bare, [question(0, [Sample("3", 5, None, "stop")])])
    with pytest.raises(DataError, match="none of the 1 questions has samples that were graded"):
        profiles(str(bare))


@pytest.mark.slow
def test_questions_that_were_not_graded_are_left_out_and_said(tmp_path, capsys):
    path = tmp_path / "some.jsonl"
    bare = [question(f"u{number}", [Sample("3", 5, None, "stop")], gold=None) for number in range(3)]
    write_recordings(path, [*model(0, 300), *bare])
    assert "! 3 questions were not graded and are left out" in run([str(path)], capsys)


@pytest.mark.slow
def test_a_run_is_read(tmp_path, capsys):
    settings = ["engine=fake", "task.size=12", "strategy.n=6"]
    run_config(compose(["strategy=majority", *settings]), tmp_path / "all")
    (found,) = profiles(str(tmp_path / "all"))
    assert (found.questions, found.samples, found.ended, found.model) == (12, 72, 0, "fake")
    run_config(compose(["strategy=ffs", "strategy.k=2", *settings]), tmp_path / "first")
    assert "samples were ended early by the run's strategy" in run([str(tmp_path / "first")], capsys)
    with pytest.raises(ConfigError, match=r"there is no config.yaml"):
        profiles(str(tmp_path))


@pytest.mark.slow
def test_every_kind_of_profile_is_printed(tmp_path):
    sets = [
        model(1.5, 9000),
        model(3, 9000, questions=8),
        [question(number, [(9000, True)] * 3) for number in range(20)],
        [question(0, [(5, True)])],
    ]
    for recordings in sets:
        with (console := wide_console()).capture() as captured:
            print_profile(profile(graded(recordings)), console)
        assert "the model: " in captured.get()


# --- recorded samples ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded(data_file):
    return {found.model: found for found in profiles(str(data_file("traces/sampled_answers.jsonl.gz")))}


@pytest.mark.slow
def test_the_types_of_the_recorded_models(recorded):
    assert {name: found.verdict.kind for name, found in recorded.items()} == TYPES
    assert all(found.verdict.shares[TYPES[name]] > 0.8 for name, found in recorded.items())


@pytest.mark.slow
def test_the_recorded_types_do_not_hang_on_one_number(recorded):
    shorter = {name: found.verdict.shorter.value for name, found in recorded.items()}
    low = max(shorter[name] for name, kind in TYPES.items() if kind != "short-horizon")
    high = min(shorter[name] for name, kind in TYPES.items() if kind == "short-horizon")
    assert low < 0.52 < horizon.EFFECT < 0.59 < high


@pytest.mark.slow
def test_what_two_of_the_recorded_types_rest_on_is_said(recorded):
    """Both would be short-horizon without the samples that were recorded unlike the others."""
    odd = {name: found.oddity for name, found in recorded.items() if found.oddity}
    assert {name: one.places for name, one in odd.items()} == {
        "Qwen3-235B": (0, 1, 2, 3, 7),
        "R1DistilQwen": (6,),
    }
    assert {one.without.kind for one in odd.values()} == {"short-horizon"}


@pytest.mark.slow
def test_a_limit_does_not_hide_that_a_model_reasons(data_file):
    file = str(data_file("traces/sampled_answers.jsonl.gz"))
    (found,) = profiles(file, model="R1", dataset="math500")
    assert (found.verdict.kind, found.verdict.long, found.cut > 0.2) == ("short-horizon", 0, True)


def test_an_instruct_model_with_short_traces_is_non_reasoning(data_file):
    file = str(data_file("traces/reward_scored_math100_n8.jsonl.gz"))
    (found,) = profiles(file, count="words")
    assert found.verdict.kind == "non-reasoning"


# --- the page -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_page_has_the_figures(recorded):
    page = (ROOT / "docs" / "profile.md").read_text()
    for name, found in recorded.items():
        what = found.verdict
        cells = [
            name, what.kind, f"{what.shorter.value:.1%}", f"{what.shorter.low:.0%}-{what.shorter.high:.0%}",
            f"{what.long:.1%}", f"{found.cut:.1%}", f"{100 * what.first.value:+.1f}",
            f"{what.shares[what.kind]:.0%}",
        ]  # fmt: skip
        assert "| " + " | ".join(cells) + " |" in page


def test_the_page_has_every_option_and_the_rule():
    page = (ROOT / "docs" / "profile.md").read_text()
    main_parser = argparse.ArgumentParser()
    with pytest.raises(SystemExit):
        main(["--nothing"], main_parser)
    for action in main_parser._actions:
        for option in action.option_strings:
            assert f"`{option}" in page or option in {"-h", "--help"}
    for number in (
        f"{horizon.EFFECT:.0%}",
        f"{horizon.LONG:,}",
        f"{horizon.OFTEN:.0%}",
        f"{horizon.DRAWS:,}",
    ):
        assert number in page
