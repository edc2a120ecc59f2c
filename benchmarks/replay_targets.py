"""Voting and adaptive stopping on recorded samples of four models, against figures known beforehand.

Every problem's samples are put into random order, 1,000 times, and the shipped strategies draw from
them: accuracy in %, samples and tokens, each the mean over the four data sets of eight samples a problem.
The stages are driven directly, without an engine, since 1,000 orders of 1,032 problems are millions of
runs; some orders are repeated on the engine ``replay`` and must agree in every answer and every token.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

from common import finish

from ttsflow.build import build
from ttsflow.config import compose
from ttsflow.engines.recorded_paths import shuffled
from ttsflow.engines.replay import Replay
from ttsflow.ledger import Budget
from ttsflow.ops import Generate, Generated, Op
from ttsflow.plugins import load
from ttsflow.protocols import Stage
from ttsflow.recordings import Recording, read_recordings
from ttsflow.session import Session
from ttsflow.setup import Setup
from ttsflow.tasks.recorded import Recorded
from ttsflow.testing import drive
from ttsflow.types import Answer, Candidate, Problem, Sampling, State, Usage

SETS = ("aime2024", "aime2025-i", "aime2025-ii", "gpqa")

STRATEGIES = {
    "MV@8": ["strategy=majority", "strategy.n=8"],
    "MV@4": ["strategy=majority", "strategy.n=4"],
    "Adaptive-Consistency": ["strategy=adaptive_consistency", "strategy.n=8"],
    "ESC": ["strategy=esc", "strategy.n=8", "strategy.window=4"],
    "ladder": ["strategy=ladder", "strategy.n=8"],
}


class Figures(NamedTuple):
    """Accuracy in %, mean samples and mean tokens in thousands."""

    accuracy: float
    samples: float
    tokens: float


#: Ties to the first answer; samples without one count towards n and never vote.
TARGETS = {
    "MV@8": {
        "R1": Figures(79.19, 8, 78.5),
        "QwQ": Figures(77.04, 8, 106.4),
        "R1DistilQwen": Figures(67.74, 8, 87.9),
        "Dapo-Qwen-32B": Figures(49.40, 8, 45.4),
    },
    "MV@4": {
        "R1": Figures(75.83, 4, 39.2),
        "QwQ": Figures(74.39, 4, 53.2),
        "R1DistilQwen": Figures(65.43, 4, 44.0),
        "Dapo-Qwen-32B": Figures(47.43, 4, 22.7),
    },
    "Adaptive-Consistency": {
        "R1": Figures(79.19, 5.73, 64.0),
        "QwQ": Figures(77.04, 5.64, 83.1),
        "R1DistilQwen": Figures(67.74, 6.22, 76.8),
        "Dapo-Qwen-32B": Figures(49.40, 6.19, 40.0),
    },
    "ESC": {
        "R1": Figures(79.19, 5.89, 65.9),
        "QwQ": Figures(77.04, 5.77, 85.3),
        "R1DistilQwen": Figures(67.74, 6.39, 78.7),
        "Dapo-Qwen-32B": Figures(49.40, 6.38, 41.4),
    },
    "ladder": {
        "R1": Figures(79.15, 4.27, 49.5),
        "QwQ": Figures(76.97, 4.28, 64.9),
        "R1DistilQwen": Figures(67.70, 4.90, 64.5),
        "Dapo-Qwen-32B": Figures(49.41, 4.92, 33.7),
    },
}


def stage(overrides: Sequence[str]) -> Stage:
    """Return a shipped strategy."""
    return build("stage", compose(overrides)["strategy"], "strategy", load())


class Cards:
    """One problem's samples, ready to be dealt in any order without being made again.

    ``cards[i][place]`` is the i-th recorded sample when it stands at ``place`` of the order.
    """

    def __init__(self, recording: Recording) -> None:
        self.problem = Problem(recording.id, id=recording.id, gold=recording.gold)
        self.tokens = [sample.tokens for sample in recording.samples]
        self.kinds = [(sample.finish, sample.answer) for sample in recording.samples]
        self.known: dict[tuple[object, ...], tuple[str | None, int]] = {}
        self.right = {sample.answer for sample in recording.samples if sample.correct}
        self.cards = [
            [
                Candidate(
                    (place,),
                    (),
                    finish=sample.finish,
                    answer=None if sample.answer is None else Answer(sample.answer, sample.answer),
                )
                for place in range(len(recording.samples))
            ]
            for sample in recording.samples
        ]

    def play(self, strategy: Stage, order: Sequence[int]) -> tuple[str | None, int, int]:
        """Return the answer, the samples and the tokens of one run.

        Two orders that put equal answers at equal places are one to these strategies, and run once.
        """
        kind = tuple(self.kinds[i] for i in order)
        if kind not in self.known:
            self.known[kind] = self._run(strategy, order)
        answer, dealt = self.known[kind]
        return answer, dealt, sum(self.tokens[i] for i in order[:dealt])

    def _run(self, strategy: Stage, order: Sequence[int]) -> tuple[str | None, int]:
        dealt = 0

        def deal(op: Op) -> Generated | None:
            nonlocal dealt
            if not isinstance(op, Generate):
                return None
            places = range(dealt, dealt + len(op.requests))
            dealt += len(op.requests)
            return Generated(tuple(self.cards[order[place]][place] for place in places), Usage())

        end = drive(strategy, State(self.problem), deal)
        return None if end.answer is None else end.answer.text, dealt


def simulate(job: tuple[str, str, str, int]) -> Figures:
    """Return the figures of one strategy and model over many orders."""
    path, model, name, shuffles = job
    strategy = stage(STRATEGIES[name])
    groups: dict[str, list[Cards]] = defaultdict(list)
    for recording in read_recordings(path):
        if recording.model == model and recording.dataset in SETS:
            groups[recording.dataset].append(Cards(recording))
    means = []
    for group in groups.values():
        accuracy = samples = tokens = 0
        for cards in group:
            for seed in range(shuffles):
                order = shuffled(len(cards.tokens), cards.problem.id, seed)
                answer, used, spent = cards.play(strategy, order)
                accuracy += answer in cards.right
                samples += used
                tokens += spent
        runs = len(group) * shuffles
        means.append((100 * accuracy / runs, samples / runs, tokens / runs / 1000))
    return Figures(*(math.fsum(column) / len(means) for column in zip(*means, strict=True)))


def agrees(path: str, model: str, name: str, seeds: Sequence[int]) -> bool:
    """Return whether the engine ``replay`` gives the same answers and tokens in every order."""
    strategy = stage(STRATEGIES[name])
    wanted = {r.id: Cards(r) for r in read_recordings(path) if r.model == model and r.dataset in SETS}
    for seed in seeds:
        engine, task = Replay(path=path, shuffle=seed), Recorded(path=path, model=model)
        setup = Setup(strategy, engine, task, None, {}, Budget(), Sampling(max_tokens=1 << 40))
        problems = [problem for problem in task.problems() if problem.id in wanted]
        with Session(setup) as session:
            for result in session.run(problems):
                cards = wanted[result.id]
                answer, used, spent = cards.play(strategy, shuffled(len(cards.tokens), result.id, seed))
                if (answer, used, spent) != (result.answer, result.usage.requests, result.usage.decoded):
                    return False
    return True


def main() -> int:
    """Simulate, compare with the targets, and check a share against the engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", help="the recorded samples of the models named in this script")
    parser.add_argument("--shuffles", type=int, default=1000)
    parser.add_argument("--checked", type=int, default=2, help="orders repeated on the engine")
    arguments = parser.parse_args()
    jobs = [
        (arguments.file, model, name, arguments.shuffles)
        for name, models in TARGETS.items()
        for model in models
    ]
    with ProcessPoolExecutor() as pool:
        found = dict(zip(((job[2], job[1]) for job in jobs), pool.map(simulate, jobs), strict=True))
    checks: dict[str, bool] = {}
    print(f"{'':22}{'':15}{'accuracy':>18}{'samples':>16}{'tokens/k':>18}")
    for (name, model), got in found.items():
        target = TARGETS[name][model]
        pairs = zip(got, target, strict=True)
        print(f"{name:22}{model:15}" + "".join(f"{value:9.2f} ({known:6.2f})" for value, known in pairs))
        checks[f"{name} {model}"] = _close(got, target)
    seeds = range(arguments.checked)
    for name in STRATEGIES:
        checks[f"{name} on the engine"] = agrees(arguments.file, "R1", name, seeds)
    figures: Mapping[str, object] = {f"{name} {model}": [*got] for (name, model), got in found.items()}
    return finish(figures, checks)


def _close(got: Figures, target: Figures) -> bool:
    return (
        abs(got.accuracy - target.accuracy) <= 0.2
        and abs(got.samples - target.samples) <= 0.03
        and abs(got.tokens / target.tokens - 1) <= 0.01
    )


if __name__ == "__main__":
    raise SystemExit(main())
