"""The stage that runs one of several strategies on each question, and learns which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ttsflow.controllers.chooser import Learning, LearningChooser
from ttsflow.errors import ConfigError, suggest
from ttsflow.ops import (
    Choose,
    Chosen,
    Earned,
    Generate,
    Generated,
    Learn,
    Note,
    Op,
    Quote,
    Request,
    Score,
    Scored,
)
from ttsflow.parts import walk
from ttsflow.protocols import Reply, Stage
from ttsflow.strategies.aggregate import Aggregate, voters
from ttsflow.strategies.flow import Steps, run_stage
from ttsflow.strategies.generate import MOST
from ttsflow.strategies.nested import extent, plain, replayed, width
from ttsflow.strategies.reduce import reduce_scores
from ttsflow.strategies.worth import stability
from ttsflow.types import Candidate, State, Usage

__all__ = ["Auto"]

#: Most samples of a vote that is foreseen; for more it takes long.
_LARGEST = 64


@dataclass(frozen=True, slots=True)
class Auto:
    """Runs one of its ``arms`` on each question: the one that earns most for its price, as far as is learnt.

    ``costs`` are what arms cost in proportion to each other, by name; default: the samples that an arm draws
    at most. What they really cost is learnt. The cheapest is the fallback when funds run out.

    ``reward`` is what an arm earns on a question, from 0 to 1. agreement: the chance, by the votes in its
    final pool, that its answer wins a vote of ``votes`` samples (``worth.stability``); an answer that does
    not lead them earns 0. correct: 1 when the answer is right by the task's gold answer, else 0. score: what
    the verifier says of the candidate that stands for the answer (its last score, cut off at 0 and 1), asked
    once for each question. Without an answer it is 0.

    With ``probe`` so many samples are drawn before the choice, and the share of them that gave the leading
    answer is a feature. They are the first samples of the arm, if it draws whole ones and lets them end.
    ``features`` are those that make a sort of question: `task`, `prompt_tokens`, `budget_left`, or a key of
    the problem's data.

    Where what the arm drew settles what another one would have come to, the learner is told that as well,
    unless the reward is the score.
    """

    arms: Mapping[str, Stage]
    costs: Mapping[str, float] = field(default_factory=dict)
    reward: Literal["agreement", "correct", "score"] = "agreement"
    votes: int = 8
    probe: int = 0
    features: tuple[str, ...] = ("task", "prompt_tokens")
    learning: Learning = field(default_factory=Learning)

    def __post_init__(self) -> None:
        if not self.arms:
            raise ConfigError("at least one strategy is needed to choose from.", "arms")
        self._check_costs()
        if not 1 <= self.votes <= _LARGEST:
            raise ConfigError(f"a vote of 1 to {_LARGEST} samples is foreseen, got {self.votes}.", "votes")
        if not 0 <= self.probe <= MOST:
            raise ConfigError(f"between 0 and {MOST:,} samples are drawn, got {self.probe:,}.", "probe")
        if len(set(self.features)) < len(self.features):
            raise ConfigError(f"a feature stands there twice: {', '.join(self.features)}.", "features")
        if "agreement" in self.features:
            raise ConfigError("the agreement of a probe is a feature whenever `probe` is set.", "features")
        for name, arm in self.arms.items() if self.reward == "agreement" else ():
            _check_votes(name, arm)

    def _check_costs(self) -> None:
        for name, cost in self.costs.items():
            if name not in self.arms:
                raise ConfigError(f"there is no arm '{name}'. {suggest(name, self.arms)}", f"costs.{name}")
            if not 0 < cost < float("inf"):
                raise ConfigError(f"a cost lies above 0 and is finite, got {cost}.", f"costs.{name}")

    @property
    def needs(self) -> frozenset[str]:
        """A verifier, where it says what an arm has earned."""
        return frozenset({"verifier"}) if self.reward == "score" else frozenset()

    @property
    def demand(self) -> int | None:
        """Trajectories that it starts itself."""
        return self.probe or None

    @property
    def chooser(self) -> LearningChooser:
        """The chooser that is asked."""
        return self._chooser({name: width(arm) for name, arm in self.arms.items()})

    def _chooser(self, widths: Mapping[str, int]) -> LearningChooser:
        # With a probe no arm is cheaper than that.
        costs = {name: max(self.probe, self.costs.get(name, most)) for name, most in widths.items()}
        arms = tuple(sorted((name, float(cost)) for name, cost in costs.items()))
        features = (*self.features, *(("agreement",) if self.probe else ()))
        return LearningChooser(self.learning, arms, self.reward, features)

    def __call__(self, state: State) -> Steps:
        """Choose, run, and tell what it came to."""
        probes: tuple[Candidate, ...] = ()
        if self.probe:
            yield Quote(self.probe)
            got: Generated = yield Generate((Request(),) * self.probe)
            probes = got.candidates
            if not probes:
                return state.with_(spent=got.spent, stopped=got.stopped or state.stopped)
        widths = {name: width(arm) for name, arm in self.arms.items()}
        chosen: Chosen = yield Choose(
            self._chooser(widths),
            state.rng("auto"),
            self._features(state, probes),
            state.spent,
            {name: max(1, most - len(probes)) for name, most in widths.items()},
        )
        yield Note("auto", {"arm": chosen.arm, "expected": chosen.expected, "reason": chosen.refused})
        if chosen.arm is None:
            if not probes:
                return state.with_(stopped=chosen.refused)
            state = state.with_(pool=state.pool + probes, ended=chosen.refused)
            return (yield from run_stage(Aggregate(), state))
        drawn = [*probes]
        end = yield from _following(run_stage(self.arms[chosen.arm], state), [*probes], drawn)
        earned = dict(self._others(chosen.arm, state, drawn))
        reward = (yield from self._scored(end)) if self.reward == "score" else self._agreement(end)
        earned[chosen.arm] = Earned(end.answer, reward)
        yield Learn(chosen.number, earned)
        yield Note("reward", {"arms": {name: told.reward for name, told in earned.items()}})
        return end

    def _features(self, state: State, probes: Sequence[Candidate]) -> dict[str, float | str]:
        data = state.problem.data
        found: dict[str, float | str] = {name: str(data[name]) for name in self.features if name in data}
        if probes:
            votes = Counter(c.answer.key for c in voters(probes) if c.answer)
            found["agreement"] = max(votes.values(), default=0) / len(probes)
        return found

    def _others(self, ran: str, state: State, drawn: Sequence[Candidate]) -> Iterator[tuple[str, Earned]]:
        """Yield what other arms would have come to, of those that are settled by any samples of this one.

        Where it depended on the samples, others would be told of on easy questions only, or on hard ones.
        """
        certain = max(self.probe, extent(self.arms[ran]).fewest)
        samples = _in_row(drawn)
        for name, arm in self.arms.items():
            most = extent(arm).most
            if name == ran or self.reward == "score" or most is None or not 0 < most <= certain:
                continue
            found = replayed(arm, state, samples)
            if found is not None:
                end, dealt = found
                # A probe is paid for whatever is chosen.
                used = samples[: max(dealt, self.probe)]
                yield name, Earned(end.answer, self._agreement(end), _usage(used))

    def _agreement(self, end: State) -> float | None:
        """Return how sure the votes are of the answer; None where the task says whether it is right."""
        if self.reward == "correct":
            return None
        if end.answer is None:
            return 0.0
        votes = Counter(c.answer.key for c in voters(end.pool) if c.answer)
        if not votes or votes[end.answer.key] < max(votes.values()):
            return 0.0
        drawn = max(votes.total(), len({candidate.path for candidate in end.pool}))
        return stability(votes.values(), self.votes, drawn=drawn)

    def _scored(self, end: State) -> Generator[Op, Reply, float | None]:
        """Return the verifier's word on the candidate that stands for the answer."""
        if end.chosen is None or end.answer is None:
            return 0.0
        got: Scored = yield Score((end.chosen,))
        score = reduce_scores(got.verdicts[0].scores, "last")
        return None if score is None else min(1.0, max(0.0, score))


def _following(steps: Steps, ready: list[Candidate], drawn: list[Candidate]) -> Steps:
    """Run an arm: what it draws is taken from ``ready`` first, and whole samples are kept in ``drawn``."""
    reply: Any = None
    while True:
        try:
            op = steps.send(reply)
        except StopIteration as end:
            state: State = end.value
            return state
        if not plain(op):
            reply = yield op
            continue
        given, missing = ready[: len(op.requests)], op.requests[len(ready) :]
        del ready[: len(op.requests)]
        # Also without any that is missing: the reply says what is spent, and whether a budget is.
        reply = yield Generate(missing, outlook=op.outlook, scored=op.scored)
        drawn += reply.candidates
        reply = Generated((*given, *reply.candidates), reply.spent, reply.stopped)


def _usage(used: Sequence[Candidate]) -> Usage:
    """Return what samples take that are drawn side by side, but for time."""
    lengths = [len(candidate.tokens) for candidate in used]
    prompt = sum(len(candidate.prompt) for candidate in used)
    return Usage(prompt=prompt, output=sum(lengths), serial=max(lengths, default=0), requests=len(used))


def _in_row(samples: Sequence[Candidate]) -> list[Candidate]:
    """Return the samples from the first on that nobody else drew in between."""
    ordered = sorted(samples, key=lambda sample: sample.path)
    return [sample for place, sample in enumerate(ordered) if sample.path == (ordered[0].path[0] + place,)]


def _check_votes(name: str, arm: Stage) -> None:
    """Refuse an arm whose answers are not those of a vote."""
    ends = [part for _, part in walk(arm) if isinstance(part, Aggregate)]
    if any(part.how == "best" for part in ends):
        raise ConfigError(
            "this strategy takes the answer of the highest score, whatever the votes: `agreement` would say "
            "that it earns little. Set `reward` to correct or score.",
            f"arms.{name}",
        )
    if not ends and getattr(arm, "stages", None):
        raise ConfigError(
            "no stage of this strategy chooses an answer, so that `agreement` rewards nothing; end it with "
            "`aggregate`.",
            f"arms.{name}",
        )
