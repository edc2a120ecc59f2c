"""Where trajectories and steps end, and what their text is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttsflow.driver.flight import Asked
from ttsflow.driver.settle import Rules
from ttsflow.errors import ConfigError
from ttsflow.ops import Progress, Request
from ttsflow.tasks.extract import PROBE
from ttsflow.tasks.plain import Plain
from ttsflow.testing import FakeTask
from ttsflow.types import Candidate, Problem, Sampling

PROBLEM = Problem("?", id="p")


class Pieces:
    """A tokenizer whose tokens are pieces of text of any length, and an engine that replays them."""

    context = 1000

    def __init__(self, *pieces):
        self.pieces = pieces

    def decode(self, tokens):
        return "".join(self.pieces[token] for token in tokens)

    def decode_from(self, start, limit, stops):
        """Return (tokens, news) of one request: pieces from ``start`` on until something ends it."""
        tokens, text = [], ""
        for token in range(start, len(self.pieces)):
            if len(tokens) == limit:
                return tokens, Progress("r", finish="length")
            tokens.append(token)
            text += self.pieces[token]
            stop = next((stop for stop in stops if stop in text), None)
            if stop is not None:
                return tokens, Progress("r", finish="stop", stop=stop)
        finish = "length" if len(tokens) == limit else "stop"
        return tokens, Progress("r", finish=finish)


def rules_of(engine, stop=(), separator="\n", **sampling):
    task = FakeTask(stop=stop, separator=separator)
    return Rules(engine, task, Sampling(**sampling), 0, 0)


def go(rules, request, path):
    """Carry out one request as the driver does and return its candidate."""
    live = live_of(rules, request, path)
    engine_request = rules.engine_request(live, PROBLEM, (), priority=0, stream=False)
    start = len(request.parent.tokens) if request.parent else 0
    assert len(engine_request.prompt) == start
    tokens, end = rules.engine.decode_from(start, engine_request.max_tokens, engine_request.stop)
    live.trace.tokens.extend(tokens)
    return rules.candidate(PROBLEM, live, (), end)


def live_of(rules, request, path=(0,)):
    prefix = rules.prefix(request)
    border = rules.border(request, (), prefix)
    return Asked("r", request, path, border=border, prefix=prefix, decode=rules.engine.decode)


def whole(rules):
    return go(rules, Request(), (0,))


def steps(rules, **settings):
    """Return all candidates of a trajectory that is decoded step by step."""
    made = [go(rules, Request(None, "step", **settings), (0,))]
    while made[-1].active:
        made.append(go(rules, Request(made[-1], "step", **settings), (*made[-1].path, 0)))
    return made


def test_a_stop_string_that_straddles_two_steps_ends_the_trajectory_where_undivided_text_ends():
    rules = rules_of(Pieces("one", "\n", "\n", "two"), stop=("\n\n",))
    first, last = steps(rules)
    assert first.finish == "step"
    assert last.finish == "stop"
    assert last.text == whole(rules).text == "one"


def test_a_stop_string_may_straddle_a_step_cut_by_its_limit():
    rules = rules_of(Pieces("a", "E", "N", "D", "b"), stop=("END",), max_step_tokens=2)
    made = steps(rules)
    assert [c.text for c in made] == ["aE", "a"]
    assert made[-1].finish == "stop"
    assert made[-1].tokens == (0, 1, 2, 3)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(st.text("ab\n.", min_size=1, max_size=3), min_size=1, max_size=12),
    st.lists(st.sampled_from(["\n\n", "ab", ".", "a.b", "bb"]), unique=True, max_size=2),
    st.integers(1, 4),
)
def test_steps_say_what_undivided_text_says(pieces, stop, limit):
    rules = rules_of(Pieces(*pieces), stop=tuple(stop), max_step_tokens=limit)
    undivided, last = whole(rules), steps(rules)[-1]
    assert (last.text, last.finish) == (undivided.text, undivided.finish) == (last.text, "stop")


def test_what_a_token_says_behind_a_separator_is_kept():
    rules = rules_of(Pieces("1", "\n2", "3\n\n4", "5"))
    made = steps(rules)
    assert [c.text for c in made] == ["1\n2", "1\n23\n\n4", "1\n23\n\n45"]
    assert [c.tokens for c in made] == [(0, 1), (0, 1, 2), (0, 1, 2, 3)]
    assert [c.tokens_new for c in made] == [2, 1, 1]


def test_the_text_before_a_stop_string_is_kept_and_its_tokens_are_counted():
    rules = rules_of(Pieces("x", "y STOP z", "never"), stop=("STOP",))
    made = whole(rules)
    assert made.text == "xy "
    assert made.tokens == (0, 1)
    assert made.finish == "stop"


def test_the_first_of_several_stop_strings_cuts():
    rules = rules_of(Pieces("a", "b;c.", "d"), stop=(".", ";"))
    assert whole(rules).text == "ab"


def test_a_step_cut_by_its_limit_goes_on():
    rules = rules_of(Pieces(*"abcdefg"), max_step_tokens=3)
    made = steps(rules)
    assert [c.finish for c in made] == ["step", "step", "stop"]
    assert made[-1].text == "abcdefg"


def test_a_trajectory_cut_by_its_limit_is_truncated_and_never_finished():
    rules = rules_of(Pieces(*"abcdefg"), max_step_tokens=3, max_tokens=5)
    made = steps(rules)
    assert [c.finish for c in made] == ["step", "length"]
    assert [len(c.tokens) for c in made] == [3, 5]
    assert not made[-1].finished
    assert whole(rules).finish == "length"


def test_a_step_that_uses_the_last_token_of_the_trajectory_is_truncated():
    rules = rules_of(Pieces(*"abcdefg"), max_step_tokens=3, max_tokens=6)
    assert [c.finish for c in steps(rules)] == ["step", "length"]


def test_the_context_limits_as_max_tokens_does():
    engine = Pieces(*"abcdefg")
    engine.context = 4
    assert [c.finish for c in steps(rules_of(engine, max_step_tokens=3))] == ["step", "length"]
    prompt = (0,) * 3
    border = rules_of(engine).border(Request(), prompt, ())
    assert (border.limit, border.room) == (1, 1)


def test_a_request_may_have_a_limit_and_a_separator_of_its_own():
    rules = rules_of(Pieces(*"ab;cd;"), max_step_tokens=100)
    assert [c.text for c in steps(rules, separator=";")] == ["ab;", "ab;cd;", "ab;cd;"]
    assert [len(c.tokens) for c in steps(rules, step_tokens=4)] == [4, 6]


@pytest.mark.parametrize(
    ("news", "finish"),
    [
        (Progress("r", finish="stop"), "stop"),  # the end of text
        (Progress("r", finish="stop", stop="."), "stop"),
        (Progress("r", finish="stop", stop="\n"), "step"),
        (Progress("r", finish="length"), "length"),
        (Progress("r", finish="aborted", reason="why"), "aborted"),
        (Progress("r", finish="failed", reason="why"), "failed"),
    ],
)
def test_ways_to_end_are_never_merged(news, finish):
    rules = rules_of(Pieces("Answer: 4"), stop=(".",))
    live = live_of(rules, Request(None, "step", step_tokens=9))
    live.trace.tokens.append(0)
    made = rules.candidate(PROBLEM, live, (), news)
    assert made.finish == finish
    assert made.finished == (finish == "stop")
    assert made.active == (finish == "step")
    assert (made.answer is not None) == (finish == "stop")
    assert made.reason == news.reason


def test_end_of_text_within_a_step_finishes_also_when_the_step_is_full():
    rules = rules_of(Pieces("a", "b"), max_step_tokens=3)
    (only,) = steps(rules)
    assert only.finish == "stop"


@pytest.mark.parametrize("stop", ["task", "sampling"])
def test_a_separator_that_is_a_stop_string_is_refused(stop):
    task, sampling = (("\n",), ()) if stop == "task" else ((), ("\n",))
    rules = Rules(Pieces("a"), FakeTask(stop=task), Sampling(stop=sampling), 0, 0)
    with pytest.raises(ConfigError, match=r"separator '\\n' is also a stop string"):
        rules.border(Request(None, "step"), (), ())
    assert rules.border(Request(), (), ()).separator is None
    assert rules.border(Request(None, "step", ";"), (), ()).separator == ";"


def test_stop_strings_of_task_and_sampling_are_merged_and_the_separator_joins_for_steps():
    rules = Rules(Pieces("a"), FakeTask(stop=(".", ";")), Sampling(stop=(";", "!")), 0, 0)
    assert rules.stop == (".", ";", "!")

    def stop_of(request):
        return rules.engine_request(live_of(rules, request), PROBLEM, (), priority=0, stream=False).stop

    assert stop_of(Request()) == (".", ";", "!")
    assert stop_of(Request(None, "step")) == (".", ";", "!", "\n")


def test_the_stop_string_that_is_complete_first_cuts_also_when_a_step_came_between():
    rules = rules_of(Pieces("a", "b", "X", ".", "c"), stop=("abX.", "bX"), max_step_tokens=2)
    assert whole(rules).text == steps(rules)[-1].text == "a"


# --- probes ----------------------------------------------------------------------------------------

PIECES = ("x", "Answer: 1", "\n", "\nAnswer: ", "4", "!", "Answer: 7", "Say: ", "<stop>", "5")
WORDS = PIECES.index("\nAnswer: ")
SAY = PIECES.index("Say: ")


class Probed(Pieces):
    """A tokenizer for which a text is one piece."""

    def tokenize(self, text):
        return (self.pieces.index(text),)


def ask(rules, parent, said, *, finish="length", stop=None, **settings):
    """Probe ``parent``, to which the engine says the pieces ``said``; return its candidate."""
    request = Request(parent, "tokens", step_tokens=2, probe=settings.pop("probe", ""))
    live = live_of(rules, request, (*parent.path, 0))
    asked = rules.engine_request(live, PROBLEM, (), priority=0, stream=False)
    assert asked.prompt == live.prefix
    live.trace.tokens.extend(PIECES.index(piece) for piece in said)
    return rules.candidate(PROBLEM, live, (), Progress("r", finish=finish, stop=stop))


def working(*tokens):
    text = "".join(PIECES[token] for token in tokens)
    return Candidate((0,), (), tokens, text, finish="step", extra={"probes": ("4",)})


def test_a_probe_puts_words_behind_the_candidate_and_reads_what_follows():
    rules = rules_of(Probed(*PIECES))
    made = ask(rules, working(0, 2), ["4", "!"])
    assert made.tokens == (0, 2, WORDS, 4, 5)
    assert made.text == "x\n\nAnswer: 4!"
    assert made.answer.key == "4"
    assert made.path == (0, 0)
    assert made.tokens_new == 2
    assert made.finish == "step"
    assert made.extra == {"probes": ("4",)}


def test_the_words_of_a_probe_may_be_its_own():
    rules = rules_of(Probed(*PIECES))
    made = ask(rules, working(0), ["Answer: 7"], probe="Say: ")
    assert made.tokens == (0, SAY, 6)
    assert made.answer.key == "7"


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_probe_is_read_however_it_ended(finish):
    assert ask(rules_of(Probed(*PIECES)), working(0), ["4"], finish=finish).answer.key == "4"


def test_what_the_trajectory_says_is_no_answer_of_the_probe():
    rules = rules_of(Probed(*PIECES))
    assert ask(rules, working(1), ["x"], probe="Say: ").answer is None
    assert ask(rules, working(1), ["!"]).answer is None


def test_thinking_that_the_trajectory_has_left_open_does_not_hide_the_answer_of_a_probe():
    pieces = ("<think>maybe 3 or ", PROBE, "5}", "$.")
    engine = Probed(*pieces)
    rules = Rules(engine, Plain(), Sampling(), 0, 0)
    parent = Candidate((0,), (), (0,), pieces[0], finish="step")
    live = live_of(rules, Request(parent, "tokens", step_tokens=9, probe=""), (0, 0))
    live.trace.tokens.extend([2])
    assert rules.candidate(PROBLEM, live, (), Progress("r", finish="length")).answer.key == "5"
    # A box that is still open says nothing.
    live.trace.tokens.clear()
    assert rules.candidate(PROBLEM, live, (), Progress("r", finish="length")).answer is None


def test_a_stop_string_within_the_words_or_before_them_ends_no_probe():
    rules = rules_of(Probed(*PIECES), stop=("Answer", "<stop>"))
    made = ask(rules, working(1), ["4", "<stop>"], finish="stop", stop="<stop>")
    assert made.finish == "stop"
    assert made.text == "Answer: 1\nAnswer: 4"
    assert made.answer.key == "4"


def test_a_probe_is_limited_by_its_tokens_and_the_context_alone():
    engine = Probed(*PIECES)
    rules = rules_of(engine, max_tokens=2)
    request = Request(working(0, 2), "tokens", step_tokens=5, probe="")
    prefix = rules.prefix(request)
    assert prefix == (0, 2, WORDS)
    assert rules.border(request, (), prefix).limit == 5
    engine.context = 7
    border = rules.border(request, (0,), prefix)
    assert (border.limit, border.room, border.separator) == (3, 3, None)


def test_steps_by_length_end_at_their_length_and_no_separator():
    rules = rules_of(Pieces(*"ab\ncd\nefgh"), max_step_tokens=99)
    made = [go(rules, Request(None, "tokens", step_tokens=4), (0,))]
    while made[-1].active:
        made.append(go(rules, Request(made[-1], "tokens", step_tokens=4), (*made[-1].path, 0)))
    assert [c.text for c in made] == ["ab\nc", "ab\ncd\nef", "ab\ncd\nefgh"]
    assert [c.finish for c in made] == ["step", "step", "stop"]
