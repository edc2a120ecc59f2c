"""A learner that picks a strategy per question, against the best fixed strategy in hindsight at equal tokens.

Questions come from four data sets that weigh the same; one is drawn for every place, then a problem of it,
then an order of its recorded samples. The learner knows the data set as its task and the budget left. All
strategies answer the same stream, from outcomes that are worked out beforehand, and every figure is the mean
over streams. For each model and budget:

- The budget is so many mean samples per question. The best fixed strategy at equal tokens is the highest
  accuracy over the same questions of any fixed strategy, or mix of two (each on a fixed share of questions,
  whichever), whose mean tokens are not above those that the learner spent on them; choosing it takes the
  outcomes of all strategies. The worst is the lowest accuracy of any fixed strategy, whatever it costs.
- "learning" is the first 200 questions, "after" are those that follow; the tokens are of the same questions.

The reward is whether the answer is right, or "agreement": the chance, by the votes that the strategy cast,
that its answer is that of the majority of eight (``ttsflow.strategies.urn``), since gold is not known in use.
"nested" rewards also the strategies that never need more samples than the one that ran always draws; they are
replayed on those at no cost. "driven" is ``strategy=auto`` with the same strategies, on the driver and engine
``replay``, for the first streams. Accuracies in %.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from auto_driven import driven
from common import finish
from replay_targets import SETS, STRATEGIES, Cards, stage

from ttsflow.controllers.learner import Learner
from ttsflow.controllers.price import hull
from ttsflow.engines.recorded_paths import shuffled
from ttsflow.engines.replay import Replay
from ttsflow.ledger import Budget
from ttsflow.protocols import Stage
from ttsflow.recordings import Recording, read_recordings
from ttsflow.session import Session
from ttsflow.setup import Setup
from ttsflow.strategies.urn import enumerated
from ttsflow.tasks.recorded import Recorded
from ttsflow.types import Sampling

MODELS = ("R1", "QwQ", "R1DistilQwen", "Dapo-Qwen-32B")
MOST = 8
#: Strategies driven on samples in order, and those that look at lengths, which run on the engine.
IN_ORDER = {
    "single": ["strategy=single"],
    **{name: STRATEGIES[name] for name in ("MV@4", "MV@8", "Adaptive-Consistency", "ESC")},
}
BY_LENGTH = {
    "FFS": ["strategy=ffs", "strategy.n=8", "strategy.k=4"],
    "LFS": ["strategy=lfs", "strategy.n=8", "strategy.k=4"],
}
#: Guesses beforehand, in samples.
ARMS = {"single": 1, "MV@4": 4, "MV@8": 8, "Adaptive-Consistency": 6, "ESC": 6, "FFS": 7, "LFS": 8}
#: The fewest samples that end on their own, and the most that it takes to say what it would have done.
WHOLE = {
    "single": (1, 1),
    "MV@4": (4, 4),
    "MV@8": (8, 8),
    "Adaptive-Consistency": (4, 8),
    "ESC": (4, 8),
    "FFS": (0, 8),
    "LFS": (8, 8),
}
LEARNING = 200


class Outcome(NamedTuple):
    """What a strategy makes of one question: rewards from 0 to 1, and tokens."""

    correct: float
    agreement: float
    tokens: int


Play = Mapping[str, Outcome]


class Asked(NamedTuple):
    """A question of a stream: a problem with its samples in one of the orders that were worked out."""

    dataset: str
    problem: str
    order: int
    play: Play


class Row(NamedTuple):
    """Accuracies in %: the learner, best fixed at equal tokens, worst fixed; a standard error, tokens / 1000.

    The error is of the learner less the best, over streams.
    """

    auto: float
    best: float
    worst: float
    error: float
    tokens: float


def agreement(answers: Sequence[str | None], answer: str | None) -> float:
    """Return the chance that ``answer``, a leading one of these votes, wins once eight are cast."""
    votes = sorted(Counter(a for a in answers if a is not None).values(), reverse=True)
    return enumerated(tuple(votes), MOST - len(answers), 1.0, None)[0] if answer is not None else 0.0


def in_order(recording: Recording, stages: Mapping[str, Stage], orders: int) -> list[dict[str, Outcome]]:
    """Return the outcomes of each order of a problem's samples."""
    plays: list[dict[str, Outcome]] = [{} for _ in range(orders)]
    for name, strategy in stages.items():
        cards = Cards(recording)
        for seed, play in enumerate(plays):
            order = shuffled(len(cards.tokens), recording.id, seed)
            answer, dealt, tokens = cards.play(strategy, order)
            votes = [recording.samples[at].answer for at in order[:dealt]]
            play[name] = Outcome(float(answer in cards.right), agreement(votes, answer), tokens)
    return plays


def by_length(path: str, model: str, name: str, recordings: Mapping[str, Recording]) -> dict[str, Outcome]:
    """Return the outcomes, by problem, of a strategy that takes all samples at once.

    The order of samples only decides ties, so there is one order. The votes are those of the k that are kept.
    """
    task, engine = Recorded(path=path, model=model), Replay(path=path, shuffle=0)
    setup = Setup(stage(BY_LENGTH[name]), engine, task, None, {}, Budget(), Sampling(max_tokens=1 << 40))
    problems = [problem for problem in task.problems() if problem.id in recordings]
    found = {}
    with Session(setup) as session:
        for result in session.run(problems):
            samples = sorted(recordings[result.id].samples, key=lambda sample: sample.tokens)
            valid = [sample.answer for sample in samples if sample.answer is not None]
            votes = valid[:4] if name == "FFS" else valid[-4:]
            answer = result.answer
            chance = agreement(votes, answer)
            found[result.id] = Outcome(float(bool(result.correct)), chance, result.usage.decoded)
    return found


def outcomes(path: str, model: str, orders: int) -> dict[str, dict[str, list[Play]]]:
    """Return plays by data set, problem and order."""
    recordings = {r.id: r for r in read_recordings(path) if r.model == model and r.dataset in SETS}
    stages = {name: stage(overrides) for name, overrides in IN_ORDER.items()}
    lengths = {name: by_length(path, model, name, recordings) for name in BY_LENGTH}
    found: dict[str, dict[str, list[Play]]] = {name: {} for name in SETS}
    for problem, recording in recordings.items():
        fixed = {name: of[problem] for name, of in lengths.items()}
        plays: list[Play] = [{**play, **fixed} for play in in_order(recording, stages, orders)]
        found[recording.dataset][problem] = plays
    return found


def stream(plays: Mapping[str, Mapping[str, list[Play]]], length: int, seed: int) -> list[Asked]:
    """Return the questions; a problem comes again once all of its data set were there."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    decks: dict[str, list[str]] = {name: [] for name in plays}
    questions = []
    for _ in range(length):
        name = rng.choice(SETS)
        if not decks[name]:
            decks[name] = rng.sample([*plays[name]], len(plays[name]))
        problem = decks[name].pop()
        order = rng.randrange(len(plays[name][problem]))
        questions.append(Asked(name, problem, order, plays[name][problem][order]))
    return questions


def follow(
    questions: Sequence[Asked], budget: float, reward: str, seed: int, *, nested: bool
) -> list[Outcome]:
    """Return what comes of the arm that the learner takes for each question."""
    rng = random.Random(seed)  # noqa: S311 - not for secrets
    learner = Learner(ARMS, budget=budget * len(questions), questions=len(questions))
    left, taken = learner.budget or 0.0, []
    for place, (task, _, _, play) in enumerate(questions):
        share = max(0.0, left / (budget * len(questions)))
        features = {"task": task}
        arm = learner.choose(features, share, rng, questions_left=1 - place / len(questions))
        left -= play[arm].tokens
        taken.append(play[arm])
        also = {
            name: (getattr(other, reward), other.tokens)
            for name, other in play.items()
            if nested and contains(arm, name)
        }
        learner.learn(arm, features, getattr(play[arm], reward), play[arm].tokens, also=also)
    return taken


def through(
    questions: Sequence[Asked],
    recordings: Mapping[str, Recording],
    budget: float,
    reward: str,
    *,
    seed: int,
    concurrency: int,
) -> list[Outcome]:
    """Return what comes of the same questions with ``strategy=auto``, the driver and ``replay``."""
    words = {name: [str(cost), *(IN_ORDER | BY_LENGTH)[name]] for name, cost in ARMS.items()}
    with tempfile.TemporaryDirectory() as folder:
        found = driven(
            [(asked.problem, asked.order) for asked in questions],
            recordings,
            words,
            Path(folder),
            reward=reward,
            budget=budget * len(questions),
            seed=seed,
            concurrency=concurrency,
        )
    # The chance by the votes is nothing that a result has.
    return [Outcome(float(correct), math.nan, tokens) for correct, tokens in found]


def contains(ran: str, other: str) -> bool:
    """Return whether what one strategy draws settles, for sure and beforehand, what another would have done.

    Where that depended on the samples, the other would be told of on easy questions only, or on hard ones.
    """
    return other != ran and WHOLE[ran][0] >= WHOLE[other][1]


Run = tuple[Sequence[Asked], Sequence[Outcome]]


def mix(accuracy: Sequence[float], tokens: Sequence[float], spent: float) -> dict[int, float]:
    """Return the shares of questions by strategy that are right most often within ``spent`` tokens."""
    rungs = hull(accuracy, tokens)
    low = max((at for at, rung in enumerate(rungs) if rung.cost <= spent), default=0)
    if low + 1 == len(rungs) or spent < rungs[0].cost:
        return {rungs[low].arm: 1.0}
    share = (spent - rungs[low].cost) / (rungs[low + 1].cost - rungs[low].cost)
    return {rungs[low].arm: 1 - share, rungs[low + 1].arm: share}


def judged(runs: Sequence[Run], part: slice) -> Row:
    """Return the figures of a part of all streams, with the fixed strategies on the same questions."""
    names = list(ARMS)
    streams = [[asked.play for asked in questions[part]] for questions, _ in runs]
    count = sum(map(len, streams))
    by_stream = [[100 * statistics.fmean(p[n].correct for p in plays) for n in names] for plays in streams]
    accuracy = [statistics.fmean(column) for column in zip(*by_stream, strict=True)]
    tokens = [sum(play[name].tokens for plays in streams for play in plays) / count for name in names]
    taken = [outcomes[part] for _, outcomes in runs]
    spent = sum(outcome.tokens for outcomes in taken for outcome in outcomes) / count
    own = [100 * statistics.fmean(outcome.correct for outcome in outcomes) for outcomes in taken]
    shares = mix(accuracy, tokens, spent)
    best = [sum(share * row[arm] for arm, share in shares.items()) for row in by_stream]
    gaps = [mine - theirs for mine, theirs in zip(own, best, strict=True)]
    error = statistics.stdev(gaps) / math.sqrt(len(gaps)) if len(gaps) > 1 else math.nan
    return Row(statistics.fmean(own), statistics.fmean(best), min(accuracy), error, spent / 1000)


def main() -> int:
    """Follow all streams and compare with the targets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="the recorded samples of the models named in this script")
    parser.add_argument("--streams", type=int, default=50)
    parser.add_argument("--length", type=int, default=300, help="questions of a stream")
    parser.add_argument("--orders", type=int, default=20, help="orders of each problem's samples")
    parser.add_argument("--first", type=int, default=1000, help="seed of the first stream")
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[4.0, 8.0], help="mean samples a question"
    )
    parser.add_argument("--driven", type=int, default=0, help="streams that also go through the driver")
    parser.add_argument("--concurrency", type=int, default=1, help="questions in flight, driven")
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--plain", action="store_true", help="also the largest budget without nested rewards")
    arguments = parser.parse_args()
    most = max(arguments.budgets)
    rows = [(reward, True, budget) for reward in ("correct", "agreement") for budget in arguments.budgets]
    if arguments.plain:
        rows.append(("correct", False, most))
    figures: dict[str, list[float]] = {}
    checks: dict[str, bool] = {}
    seeds = range(arguments.first, arguments.first + arguments.streams)
    print(
        f"{'reward':17}{'budget':>7} {'model':15}{'':10}{'auto':>7}{'best':>7}"
        f"{'gap':>14}{'worst':>7}{'tokens/k':>9}"
    )
    for model in arguments.models:
        recordings = {r.id: r for r in read_recordings(arguments.file) if r.model == model}
        plays = outcomes(arguments.file, model, arguments.orders)
        streams = {seed: stream(plays, arguments.length, seed) for seed in seeds}
        one = statistics.fmean(each.play["single"].tokens for asked in streams.values() for each in asked)
        jobs = [(*row, False) for row in rows] + [(*row, True) for row in rows if row[1] and arguments.driven]
        for reward, nested, budget, whole in jobs:
            chosen = [*streams.items()][: arguments.driven if whole else None]
            runs = [
                (
                    asked,
                    through(
                        asked,
                        recordings,
                        budget * one,
                        reward,
                        seed=seed,
                        concurrency=arguments.concurrency,
                    )
                    if whole
                    else follow(asked, budget * one, reward, seed, nested=nested),
                )
                for seed, asked in chosen
            ]
            label = f"{reward}{', driven' if whole else ', nested' if nested else ''}"
            for part, name in ((slice(LEARNING), "learning"), (slice(LEARNING, None), "after")):
                row = judged(runs, part)
                gap = f"{row.auto - row.best:+8.2f}±{row.error:.2f}"
                print(
                    f"{label:17}{budget:7g} {model:15}{name:10}{row.auto:7.2f}{row.best:7.2f}{gap:>14}"
                    f"{row.worst:7.2f}{row.tokens:9.1f}",
                    flush=True,
                )
                figures[f"{label} {budget:g} {model} {name}"] = [round(value, 2) for value in row]
            place = f"{label} {budget:g} {model}"
            checks[f"{place} within 1 of the best"] = row.auto >= row.best - 1
            if budget == most:
                checks[f"{place} 5 above the worst"] = row.auto >= row.worst + 5
    return finish(figures, checks)


if __name__ == "__main__":
    raise SystemExit(main())
