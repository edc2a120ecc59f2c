"""Which strategy, and how wide, by the kind of model: the recipe of arXiv 2512.02008 and two others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ttsflow.errors import ConfigError
from ttsflow.ops import Note
from ttsflow.protocols import Stage
from ttsflow.strategies.aggregate import Aggregate, voters
from ttsflow.strategies.flow import Sequence, Steps, run_stage
from ttsflow.strategies.generate import GenerateStage
from ttsflow.strategies.idle import refuse_idle
from ttsflow.strategies.select import Select
from ttsflow.strategies.watches import FirstFinished
from ttsflow.types import State

__all__ = ["Horizon", "Plan", "Profile", "Recipe", "plan"]

Profile = Literal["paper_table2", "article", "measured"]

#: What ``ttsflow profile`` says of a model.
Horizon = Literal["short", "long", "non_reasoning"]


class Plan(NamedTuple):
    """What to run: the first or last ``k`` of ``n`` to finish vote, or all of them."""

    how: Literal["single", "majority", "ffs", "lfs"]
    n: int
    k: int


#: Which profile reads a setting that the others do not.
_READERS: Mapping[str, Profile] = {
    "compute": "paper_table2",
    "objective": "measured",
    "probes": "article",
    "agree": "article",
    "long_tokens": "article",
    "budget_tokens": "article",
}


@dataclass(frozen=True, slots=True)
class Recipe:
    """Chooses single, majority, FFS or LFS for a model whose ``horizon`` is known.

    ``profile`` paper_table2 (arXiv 2512.02008, table 2) goes by ``compute``, low or high, whatever the
    question. article looks at ``probes`` samples of the question first: it is hard when fewer than the
    share ``agree`` of them give one answer, or they are longer than ``long_tokens`` on average; with
    ``budget_tokens`` the number of samples is what the budget pays for at their mean length, those
    included, ``n`` at most. measured goes by ``objective``, tokens or latency.
    """

    n: int = 8
    profile: Profile = "measured"
    horizon: Horizon = "short"
    compute: Literal["low", "high"] = "high"
    objective: Literal["tokens", "latency"] = "tokens"
    probes: int = 4
    agree: float = 0.75
    long_tokens: int = 8000
    budget_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ConfigError(f"at least one sample is needed, got {self.n}.", "n")
        if self.probes < 1:
            raise ConfigError(f"at least one probe is needed, got {self.probes}.", "probes")
        if not 0 < self.agree <= 1:
            raise ConfigError(f"a share lies above 0 and up to 1, got {self.agree}.", "agree")
        if self.long_tokens < 1:
            raise ConfigError(f"must be at least 1, got {self.long_tokens}.", "long_tokens")
        for name, profile in _READERS.items():
            refuse_idle(self, self.profile == profile, name, f"`profile: {profile}`")
        if self.budget_tokens is not None and self.budget_tokens < 1:
            raise ConfigError(f"at least one token is needed, got {self.budget_tokens}.", "budget_tokens")

    @property
    def demand(self) -> int:
        """New trajectories of a problem that it may start."""
        return self.n

    def __call__(self, state: State) -> Steps:
        """Choose and run."""
        if self.profile != "article" or self.horizon == "non_reasoning":
            chosen = plan(self, self.n)
        else:
            probe = GenerateStage(min(self.probes, self.n))
            state = yield from run_stage(probe, state)
            lengths = [len(candidate.tokens) for candidate in state.pool]
            mean = math.fsum(lengths) / len(lengths) if lengths else 0.0
            paid = self.n if self.budget_tokens is None or not mean else int(self.budget_tokens / mean)
            # What has been drawn has been paid for, and counts.
            most = max(1, min(self.n, max(paid, len(lengths))))
            chosen = plan(self, most, hard=not self._agreed(state) or mean > self.long_tokens)
        yield Note("recipe", {"profile": self.profile, **chosen._asdict()})
        return (yield from run_stage(_strategy(chosen), state))

    def _agreed(self, state: State) -> bool:
        """Return whether enough of all probes give one answer; one without an answer agrees with none."""
        votes = Counter(c.answer.key for c in voters(state.pool) if c.answer)
        return bool(votes) and max(votes.values()) / len(state.pool) >= self.agree


def plan(recipe: Recipe, n: int, *, hard: bool = False) -> Plan:
    """Return what a recipe runs with ``n`` samples; ``hard`` is read by the profile article alone."""
    return _PROFILES[recipe.profile](recipe, n, hard=hard)


def _paper_table2(recipe: Recipe, n: int, *, hard: bool) -> Plan:
    del hard
    if recipe.compute == "high":
        return Plan("majority", n, n)
    return Plan("single", 1, 1) if recipe.horizon == "long" else Plan("ffs", n, 1)


def _article(recipe: Recipe, n: int, *, hard: bool) -> Plan:
    if recipe.horizon == "long":
        return Plan("lfs", n, n) if hard else Plan("ffs", n, max(1, n // 2))
    return Plan("ffs", n, 1 if recipe.horizon == "non_reasoning" else min(3, n))


def _measured(recipe: Recipe, n: int, *, hard: bool) -> Plan:
    del hard
    shorter_is_better = recipe.horizon != "long"
    if recipe.objective == "latency":
        # On a long-horizon model the first to finish alone falls below a single sample.
        return Plan("ffs", n, min(3, n) if shorter_is_better else min(n, max(3, math.ceil(n / 2))))
    # With two samples a majority is the first sample; the first to finish is better.
    return Plan("ffs", n, 1) if shorter_is_better and n == 2 else Plan("majority", n, n)


_PROFILES = {"paper_table2": _paper_table2, "article": _article, "measured": _measured}


def _strategy(chosen: Plan) -> Stage:
    """Return the stages of a plan; probes that the pool holds already count as samples."""
    watch = FirstFinished(chosen.k) if chosen.how == "ffs" else None
    stages: dict[str, Stage] = {"sample": GenerateStage(chosen.n, total=chosen.n, watch=watch)}
    if chosen.how in {"ffs", "lfs"}:
        prefer: Literal["most", "least"] = "most" if chosen.how == "lfs" else "least"
        stages["keep"] = Select("tokens", keep=chosen.k, prefer=prefer, answered=True)
    stages["answer"] = Aggregate("majority")
    return Sequence(stages)
