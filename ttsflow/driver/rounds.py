"""What may follow in a search: its rounds, who has ended in them, and the requests that may come next."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterator

from ttsflow.driver.flight import Asked, Case, Flight
from ttsflow.lineage import Lineage, Path
from ttsflow.ops import EngineRequest
from ttsflow.protocols import Outlook
from ttsflow.types import Candidate

__all__ = ["Hope", "Round", "rounds_of"]


class Hope:
    """A request that may be asked for; ``outlook`` is that of the round in which it would run.

    ``lineage`` is that of the frame in which it would run; ``scored``: whether all go to the verifier there.
    ``candidate`` is what came of it, once it has ended.
    """

    __slots__ = (
        "asked",
        "candidate",
        "case",
        "chance",
        "depth",
        "kids",
        "lineage",
        "outlook",
        "request",
        "scored",
        "share",
    )

    def __init__(
        self,
        within: Round | Hope,
        asked: Asked,
        request: EngineRequest,
        outlook: Outlook | None,
        depth: int,
    ) -> None:
        self.case: Case = within.case
        self.lineage: Lineage = within.lineage
        self.scored: bool = within.scored
        self.candidate: Candidate | None = None
        self.asked = asked
        self.request = request
        self.outlook = outlook
        self.depth = depth
        self.chance = 0.0
        self.share = 1.0
        self.kids: dict[Path, Hope] = {}

    def whole(self) -> Iterator[Hope]:
        """Yield this hope and all that build on it."""
        yield self
        for kid in self.kids.values():
            yield from kid.whole()


class Round:
    """One round of a search, or a part of it that goes on apart: who has ended, and what may follow.

    ``lineage`` numbers what follows: that of the frame, or of the branch in which the part will go on.
    ``hopes`` are those of the next round, by the path of their parent. ``ranked`` are the scores of the
    parents of all that have ended, in ascending order.
    """

    __slots__ = (
        "case",
        "ended",
        "hopes",
        "lineage",
        "outlook",
        "parents",
        "pending",
        "ranked",
        "scored",
        "scores",
        "seen",
    )

    def __init__(self, flight: Flight, lineage: Lineage, outlook: Outlook, requests: int) -> None:
        self.case: Case = flight.frame.case
        self.scored = flight.op.scored
        self.lineage = lineage
        self.outlook = outlook
        self.pending = requests
        self.ended: dict[Path, Candidate] = {}
        self.scores: dict[Path, float | None] = {}
        self.parents: dict[Path, float | None] = {}
        self.ranked: list[float] = []
        self.hopes: dict[Path, dict[Path, Hope]] = {}
        self.seen = 0

    def ends(self, candidate: Candidate, parent: float | None) -> None:
        """Take in who has ended, and the score of its parent."""
        self.ended[candidate.path] = candidate
        self.parents[candidate.path] = parent
        if parent is not None:
            insort(self.ranked, parent)

    def whole(self) -> Iterator[Hope]:
        """Yield all hopes, and all that build on them."""
        for hopes in self.hopes.values():
            for hope in hopes.values():
                yield from hope.whole()

    def moves(self, lineage: Lineage) -> None:
        """Go on in a branch, whose numbers are the same."""
        self.lineage = lineage
        for hope in self.whole():
            hope.lineage = lineage


def rounds_of(flight: Flight, outlook: Outlook | None) -> list[Round]:
    """Return the rounds that an operation begins: one, or one for each part that will go on apart."""
    if outlook is None:
        return []
    frame, size = flight.frame, outlook.size
    if size is None:
        return [Round(flight, frame.lineage, outlook, len(flight.live))]
    sizes = Counter(index // size for index in flight.live)
    # What the branches will be given; until then nobody asks for children of what ends here.
    lineages = frame.lineage.fork(-(-len(flight.op.requests) // size))
    return [Round(flight, lineage, outlook, sizes[part]) for part, lineage in enumerate(lineages)]
