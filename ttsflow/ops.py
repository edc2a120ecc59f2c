"""All a stage may ask, and all it may hear.

A stage yields one of these operations and is resumed with its reply. It never meets an engine, a
clock or a file; the driver carries out what is asked.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ttsflow.lineage import Path
from ttsflow.types import Answer, Candidate, Finish, Sampling, State, Tokens, Usage

if TYPE_CHECKING:
    from ttsflow.choice import ChooserPart
    from ttsflow.control import ControllerPart
    from ttsflow.protocols import Outlook, Stage, Watch

__all__ = [
    "Choose",
    "Chosen",
    "Decision",
    "Earned",
    "EngineRequest",
    "Fork",
    "Generate",
    "Generated",
    "Learn",
    "Note",
    "Offer",
    "Op",
    "Progress",
    "Quotation",
    "Quote",
    "Request",
    "Score",
    "Scored",
    "Trace",
    "Unit",
    "Verdict",
]

#: ``whole``: until the trajectory ends. ``step``: until the next step border. ``tokens``: a step that only
#: its number of tokens ends.
Unit = Literal["whole", "step", "tokens"]


@dataclass(frozen=True, slots=True)
class Request:
    """One continuation: of ``parent``, or of the problem's prompt when it is None.

    With ``unit`` step it ends after ``separator`` (None: the task's own) or after ``step_tokens``
    tokens (None: the limit per step of the run's sampling), whichever comes first.

    A ``probe`` is text put behind the parent that makes the model answer at once ("": the task's own
    words). Its candidate is parsed for an answer however it ended, and is not meant to be continued.
    ``greedy`` takes the likeliest tokens whatever the run's sampling says.

    ``engine`` names one of the run's further engines. None: the one that the parent's tokens are of, and that
    of the run where there is no parent. A parent of another engine fails the problem: their tokens differ.
    """

    parent: Candidate | None = None
    unit: Unit = "whole"
    separator: str | None = None
    step_tokens: int | None = None
    probe: str | None = None
    greedy: bool = False
    engine: str | None = None

    @property
    def decoder(self) -> str:
        """The name of the engine that decodes it, "" for the engine of the run."""
        if self.engine is not None:
            return self.engine
        return "" if self.parent is None else self.parent.engine

    @property
    def aside(self) -> str | None:
        """What the candidate is when it is no part of the search: thrown away after it was read."""
        if self.probe is not None:
            return "probe"
        return "rollout" if self.greedy else None


@dataclass(frozen=True, slots=True)
class Generate:
    """Ask for continuations; reply: ``Generated``. ``watch`` may abort, add or end them midway.

    ``outlook`` says what will follow, where the stages around know it; ``scored`` that all candidates go to
    the verifier next, so that it may have each of them as soon as it has ended.
    """

    requests: tuple[Request, ...]
    watch: Watch | None = None
    outlook: Outlook | None = None
    scored: bool = False


@dataclass(frozen=True, slots=True)
class Generated:
    """One candidate per request, in the order asked for, then those a watch launched.

    ``stopped`` is a reason when a budget refused or ended the requests.
    """

    candidates: tuple[Candidate, ...]
    spent: Usage
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """Ask the verifier for step scores of ``candidates``; reply: ``Scored``."""

    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """One verdict per candidate, in the order asked for."""

    verdicts: tuple[Verdict, ...]
    spent: Usage


class Verdict(NamedTuple):
    """A verifier's word on one candidate: one score per non-empty step, None where it has none.

    ``tokens`` counts tokens the verifier read or wrote; ``reason`` says why it failed.
    """

    id: str
    scores: tuple[float | None, ...]
    tokens: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Fork:
    """Run (stage, state) pairs side by side; reply: their final states, in order."""

    branches: tuple[tuple[Stage, State], ...]


@dataclass(frozen=True, slots=True)
class Quote:
    """Ask what ``samples`` more samples would cost and what is left; reply: ``Quotation``.

    ``reserve`` is the share of a limit below which the stage takes its funds for low. ``by`` is the part of a
    controller that is asked as well; its word is in the ``offers`` of the reply. ``also`` are numbers of
    samples that it is asked about before that, at the same funds; nothing is set aside for them. ``timed``
    asks how long so many more samples take, and sets nothing aside for them.
    """

    samples: int = 0
    reserve: float = 0.0
    by: ControllerPart | None = None
    timed: int = 0
    also: tuple[int, ...] = ()


class Offer(NamedTuple):
    """A controller's word on more samples: what they cost, and what they have to be worth.

    ``price`` is the expected cost in ``unit``, ``margin`` what it may be above that; both are None and 0
    while nothing is known. Samples that promise less stability for a unit of cost than ``rate`` are not worth
    it. ``refused`` says why they are not granted, whatever they are worth; None when they are. ``alpha`` is
    the concentration of the urn that foresees votes, where the controller learns it (``Tally``). ``later``:
    what is refused may be granted when no problem waits for a first sample any more (``Wait``).
    """

    unit: str
    price: float | None
    margin: float = 0.0
    rate: float = 0.0
    refused: str | None = None
    alpha: float | None = None
    later: bool = False

    @property
    def expected(self) -> float | None:
        """What is set aside for them, in ``unit``: price and margin."""
        return None if self.price is None else self.price + self.margin


@dataclass(frozen=True, slots=True)
class Tally:
    """Tell the controller ``by`` how far samples agree; reply: None.

    ``more`` samples, drawn after ``drawn`` of the problem, brought ``fresh`` answers not seen before. One
    without an answer counts as an answer that nobody shares.
    """

    by: ControllerPart
    drawn: int
    more: int
    fresh: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until no problem waits for its first sample any more; reply: None, then.

    ``by`` is the controller that refused samples until ``later``. Meanwhile other problems are begun in the
    place of this one. At the end those that wait go on in the order of the problems.
    """

    by: ControllerPart


@dataclass(frozen=True, slots=True)
class Quotation:
    """Prices and funds by budget unit. A unit without a limit is absent from ``left`` and ``limit``.

    ``price`` is the expected cost of the samples asked for, from the mean over this run so far; a
    unit is absent from it until something was measured. ``spent`` is the problem's usage so far. ``offers``
    are those of the controller that was asked, by samples. ``takes`` are the seconds, with a margin, that the
    samples of ``timed`` take from now on; None before the first have ended.
    """

    price: Mapping[str, float]
    left: Mapping[str, float]
    limit: Mapping[str, float]
    spent: Usage
    offers: Mapping[int, Offer] = field(default_factory=dict)
    takes: float | None = None

    def short(self, asked: Quote) -> str | None:
        """Return why the funds are low for what was asked; None when they are not."""
        for unit, left in self.left.items():
            limit = self.limit[unit]
            price = self.price.get(unit, 0.0)
            if left <= 0 or left < asked.reserve * limit:
                return f"funds low: {max(left, 0.0):.6g} of {limit:.6g} {unit} left"
            if price > left:
                return f"funds low: {asked.samples} samples cost {price:.6g} {unit}, {left:.6g} left"
        return None


@dataclass(frozen=True, slots=True)
class Choose:
    """Ask the chooser ``by`` which of its arms to run on the problem; reply: ``Chosen``.

    ``rng`` is all the chance there is in the choice, ``features`` what the stage knows of the problem.
    ``before`` is what the problem had spent when the stage began: what it spends from there on is the cost of
    the arm. ``samples`` is the most that each arm draws.
    """

    by: ChooserPart
    rng: random.Random
    features: Mapping[str, float | str] = field(default_factory=dict)
    before: Usage = field(default_factory=Usage)
    samples: Mapping[str, int] = field(default_factory=dict)


class Chosen(NamedTuple):
    """A chooser's word: the ``arm`` to run, None where none is affordable, and then why (``refused``).

    ``expected`` is what the arm is expected to cost in all, None while nothing is known; ``number`` is to be
    given back with ``Learn``.
    """

    arm: str | None
    expected: float | None = None
    refused: str | None = None
    number: int = 0


class Earned(NamedTuple):
    """What an arm came to: its answer, the reward from 0 to 1 (None: not known), and what it used.

    ``usage`` is None for the arm that ran, whose usage the driver knows.
    """

    answer: Answer | None
    reward: float | None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Learn:
    """Tell what came of a choice, by arm: of the one that ran, and of others known with it; reply: None."""

    number: int
    arms: Mapping[str, Earned]


@dataclass(frozen=True, slots=True)
class Note:
    """Tell the trace something, such as which candidates were pruned and why; reply: None."""

    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)


Op = Generate | Score | Fork | Quote | Tally | Wait | Choose | Learn | Note


# --- between driver and watches -------------------------------------------------------------------


class Trace:
    """What a watch sees of one running request; the driver keeps it up to date.

    ``tokens`` are the ids decoded so far by this request, ``logprobs`` and ``certainties`` belong to them
    where they were asked for. ``candidate`` is set when it has ended.
    """

    __slots__ = ("_decode", "_searched", "candidate", "certainties", "logprobs", "tokens")

    def __init__(self, decode: Callable[[Tokens], str]) -> None:
        self.tokens: list[int] = []
        self.logprobs: list[Mapping[int, float]] = []
        self.certainties: list[float] = []
        self.candidate: Candidate | None = None
        self._decode = decode
        self._searched: dict[str, tuple[int, int | None]] = {}

    def find(self, marker: str) -> int | None:
        """Return after how many tokens the text of this request first holds ``marker``; None: not yet."""
        done, place = self._searched.get(marker, (0, None))
        while place is None and done < len(self.tokens):
            done += 1
            # A marker of n characters is spread over n tokens at most.
            tail = self.tokens[max(0, done - len(marker)) : done]
            place = done if marker in self._decode(tuple(tail)) else None
        self._searched[marker] = (done, place)
        return place


class Decision(NamedTuple):
    """What a watch wants: indices to ``abort``, requests to ``launch``, or ``done`` (abort the rest).

    ``cut`` is a length in tokens beyond which no trace was needed; it bounds the serial tokens.
    ``reason`` is recorded when anything is ended early.
    """

    abort: tuple[int, ...] = ()
    launch: int = 0
    done: bool = False
    cut: int | None = None
    reason: str = ""


# --- between driver and engines -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineRequest:
    """One sequence to decode, complete in itself.

    ``max_tokens`` and ``stop`` are final (limits and stop strings of task, sampling and step already
    merged); of ``sampling`` an engine reads temperature, top_p, top_k and min_p. A lower ``priority``
    runs earlier. With ``stream`` every engine step reports new tokens; otherwise one report at the
    end suffices. ``logprobs`` asks for that many top log-probabilities per token, ``certainty`` for the
    distance of each token's distribution from the uniform one. ``problem`` and ``path`` say whose
    sample it is: together with the run's seed they made ``seed``. ``aside`` is that of the ``Request``.
    """

    id: str
    prompt: Tokens
    sampling: Sampling
    seed: int
    max_tokens: int
    stop: tuple[str, ...] = ()
    logprobs: int = 0
    priority: int = 0
    stream: bool = False
    certainty: bool = False
    problem: str = ""
    path: Path = ()
    aside: str | None = None


class Progress(NamedTuple):
    """News of one request: ``tokens`` decoded since the last news, and ``finish`` once it has ended.

    ``finish`` is stop (end of text, ``stop`` None; or the stop string named by ``stop``), length, or
    failed with a ``reason``. Tokens of a stop string, and one end-of-text token, are part of
    ``tokens``: they were decoded. ``cached`` counts prompt tokens served from the prefix cache; it comes with
    ``finish``, so that nobody knows it of a request that was aborted.
    ``certainties`` are KL(uniform || p) in nats, p the model's own distribution of each token. ``reused``
    counts those of ``tokens`` that were decoded for another request in this run, and are in its books;
    ``played`` those that come from a pool of samples, and are in the books as if they were decoded.
    """

    id: str
    tokens: Tokens = ()
    finish: Finish | None = None
    stop: str | None = None
    logprobs: tuple[Mapping[int, float], ...] = ()
    cached: int = 0
    reason: str = ""
    certainties: tuple[float, ...] = ()
    reused: int = 0
    played: int = 0
