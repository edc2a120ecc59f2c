"""The stage that runs a particle filter again and again, each time beside a particle of the last one."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ttsflow_particles.resample import Resample, log_weight, tag
from ttsflow_particles.weights import shares

from ttsflow.errors import ConfigError
from ttsflow.lineage import Path
from ttsflow.ops import Op
from ttsflow.protocols import Stage
from ttsflow.strategies.flow import Sequence, Steps, run_stage
from ttsflow.types import Candidate, State

__all__ = ["Gibbs"]

_Seen = dict[Path, Candidate]


@dataclass(frozen=True, slots=True)
class Gibbs:
    """Runs a particle filter ``iterations`` times; from the second one on beside a reference particle.

    Source: particle Gibbs, arXiv 2502.01618 and Andrieu et al. 2010

    ``stages`` are one round, a step and its scores; at most ``at_most`` rounds make a pass, and the last
    one completes. The reference is drawn by weight from the particles of the pass before. In round t it
    stands among the others as it was after t steps, so that weights of equal depth are compared; one that
    draws it goes on from there with samples of its own, and the reference itself lives on whatever is drawn.
    The pool ends as the particles of the last pass, its reference among them. With one iteration this is
    particle filtering.
    """

    stages: Mapping[str, Stage]
    at_most: int
    iterations: int = 2
    resample: Resample = field(default_factory=Resample)

    needs: ClassVar[frozenset[str]] = frozenset({"scores", "steps"})

    def __post_init__(self) -> None:
        if not self.stages:
            raise ConfigError("a round needs at least one stage.", "stages")
        for name in ("at_most", "iterations"):
            if getattr(self, name) < 1:
                raise ConfigError(f"at least one is needed, got {getattr(self, name)}.", name)
        if self.iterations > 1 and self.resample.how != "multinomial":
            raise ConfigError(
                "beside a reference only independent draws keep the distribution: write `multinomial`.",
                "resample.how",
            )

    def __call__(self, state: State) -> Steps:
        """Run all passes; what the pool held before stays in front."""
        outer, seen = state, _Seen()
        reference: tuple[Candidate, ...] = ()
        particles: tuple[Candidate, ...] = ()
        for number in range(self.iterations):
            state = state.with_(pool=(), stopped=None)
            state, held = yield from self._pass(state, reference, number, seen)
            if held is None and number and state.stopped:
                break  # a pass that was cut short is worth less than the whole one before
            particles = state.pool + (() if held is None else (held,))
            if state.stopped:
                break
            reference = self._chosen(state, particles, number, seen)
        return state.with_(
            pool=outer.pool + particles,
            round=outer.round,
            last=outer.last,
            stopped=state.stopped or outer.stopped,
        )

    def _pass(
        self, state: State, reference: tuple[Candidate, ...], number: int, seen: _Seen
    ) -> Generator[Op, Any, tuple[State, Candidate | None]]:
        """Run one filter; return its state and the reference with its weight, None where there is none."""
        body, held = Sequence(self.stages), None
        for depth in range(self.at_most):
            state = state.with_(round=depth, last=depth == self.at_most - 1)
            state = yield from run_stage(body, state)
            if state.stopped:
                return state, None
            seen.update({candidate.path: candidate for candidate in state.pool})
            before, held = held, _at(reference, depth)
            if held is not None:
                held = held.with_(extra=before.extra if before else {})
            pool = self.resample.weighed((*state.pool, *([held] if held else [])))
            state, held = state.with_(pool=pool[: len(state.pool)]), pool[-1] if held else None
            if not any(candidate.active for candidate in pool):
                break
            drawn = self.resample.drawn(pool, len(state.pool), state.rng(tag(pool, number)))
            if drawn is not None:
                yield self.resample.note(pool, drawn)
                state = state.with_(pool=drawn)
                held = held and self.resample.fresh(held)
        return state, held

    def _chosen(
        self, state: State, particles: tuple[Candidate, ...], number: int, seen: _Seen
    ) -> tuple[Candidate, ...]:
        """Return the next reference as it was after each of its steps; nothing when none has a weight."""
        weights = shares([log_weight(candidate) for candidate in particles])
        if not weights:
            return ()
        (chosen,) = state.rng(f"reference {number}").choices(particles, weights)
        return tuple(seen[chosen.path[:length]] for length in range(1, len(chosen.path) + 1))


def _at(reference: tuple[Candidate, ...], depth: int) -> Candidate | None:
    """Return a reference after ``depth`` + 1 steps; it stays at its last one."""
    return reference[min(depth, len(reference) - 1)] if reference else None
