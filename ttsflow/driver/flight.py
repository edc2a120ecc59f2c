"""Problems and operations on their way: what the driver keeps while stages wait for replies."""

from __future__ import annotations

from collections.abc import Callable

from ttsflow.ledger import Account
from ttsflow.lineage import Lineage, Path
from ttsflow.ops import Fork, Generate, Request, Score, Trace, Verdict
from ttsflow.protocols import Observer
from ttsflow.strategies.flow import Steps, run_stage
from ttsflow.types import Candidate, Problem, State, Tokens

__all__ = ["Asked", "Border", "Case", "Flight", "Frame", "Live", "Scoring"]


class Case:
    """One problem in flight.

    ``index`` is its place in the run and its priority, ``live`` counts its requests on the engine,
    ``tree`` holds the tokens decoded for every path. ``prompts`` are those of further engines, as each has
    encoded it, by name.
    """

    __slots__ = (
        "account",
        "flights",
        "index",
        "live",
        "problem",
        "prompt",
        "prompts",
        "root",
        "scorings",
        "tree",
    )

    def __init__(self, index: int, problem: Problem, account: Account) -> None:
        self.index = index
        self.problem = problem
        self.account = account
        self.prompt: Tokens = ()
        self.prompts: dict[str, Tokens] = {}
        self.root: Frame | None = None
        self.live = 0
        self.flights: dict[Flight, None] = {}
        self.scorings: dict[Scoring, None] = {}
        self.tree: dict[Path, int] = {}


class Frame:
    """One stage generator that runs: a problem's root, or one branch of a fork.

    ``serial`` is the longest chain of tokens decoded one after another on its behalf; ``branches``
    and ``ends`` belong to the fork it waits for.
    """

    __slots__ = ("branches", "case", "ends", "lineage", "parent", "serial", "slot", "steps")

    def __init__(self, case: Case, steps: Steps, lineage: Lineage) -> None:
        self.case = case
        self.steps = steps
        self.lineage = lineage
        self.parent: Frame | None = None
        self.slot = 0
        self.serial = 0
        self.branches: list[Frame] = []
        self.ends: dict[int, State] = {}

    def fork(self, op: Fork) -> list[Frame]:
        """Begin the branches of a fork and return them."""
        lineages = self.lineage.fork(len(op.branches))
        for slot, ((stage, state), lineage) in enumerate(zip(op.branches, lineages, strict=True)):
            branch = Frame(self.case, run_stage(stage, state), lineage)
            branch.parent, branch.slot = self, slot
            self.branches.append(branch)
        return self.branches

    def join(self, branch: Frame, state: State) -> tuple[State, ...] | None:
        """Take the end of a branch; once all have ended return them in order, else None."""
        self.ends[branch.slot] = state
        if len(self.ends) < len(self.branches):
            return None
        self.serial += max(branch.serial for branch in self.branches)
        self.lineage.join([branch.lineage for branch in self.branches])
        ends = tuple(self.ends[slot] for slot in range(len(self.branches)))
        self.branches, self.ends = [], {}
        return ends


class Border:
    """Where one continuation ends at the latest.

    ``room`` is what the trajectory may still have in tokens; ``limit`` is that, or less for a step;
    ``separator`` is None for a whole trajectory.
    """

    __slots__ = ("limit", "room", "separator")

    def __init__(self, limit: int, room: int, separator: str | None) -> None:
        self.limit = limit
        self.room = room
        self.separator = separator


class Flight:
    """One generate operation: its traces, and the requests of it that still run."""

    __slots__ = ("changed", "cut", "frame", "live", "observer", "op", "stopped", "template", "traces")

    def __init__(self, frame: Frame, op: Generate, observer: Observer | None) -> None:
        self.frame = frame
        self.op = op
        self.template = op.requests[-1]
        self.observer = observer
        self.traces: list[Trace] = []
        self.live: dict[int, Live] = {}
        self.changed: set[int] = set()
        self.cut: int | None = None
        self.stopped: str | None = None

    @property
    def serial(self) -> int:
        """Tokens that had to be decoded one after another, up to the length that was needed."""
        longest = max((len(trace.tokens) for trace in self.traces), default=0)
        return longest if self.cut is None else min(longest, self.cut)

    def candidates(self) -> tuple[Candidate, ...]:
        """Return the candidates, once all have ended."""
        return tuple(trace.candidate for trace in self.traces if trace.candidate is not None)


class Asked:
    """What a stage asks for at a place of the lineage; ``prefix`` is what stands before its own tokens.

    The prefix leaves the problem's prompt out: the parent's tokens, and those of a probe. ``engine`` is the
    name of the one that decodes.
    """

    __slots__ = ("border", "engine", "id", "path", "prefix", "request", "trace")

    def __init__(
        self,
        id: str,
        request: Request,
        path: Path,
        *,
        border: Border,
        prefix: Tokens,
        decode: Callable[[Tokens], str],
    ) -> None:
        self.id = id
        self.request = request
        self.path = path
        self.border = border
        self.prefix = prefix
        self.engine = request.decoder
        self.trace = Trace(decode)


class Live(Asked):
    """One request of a flight that still runs.

    ``reused`` of its tokens were decoded for another one, ``played`` come from a pool of samples. ``prompt``
    is the problem's, as its engine has encoded it; ``books`` are those of a further engine, None on that of
    the run.
    """

    __slots__ = ("account", "books", "flight", "index", "played", "prompt", "reused")

    def __init__(self, asked: Asked, flight: Flight, prompt: Tokens) -> None:
        for name in Asked.__slots__:
            setattr(self, name, getattr(asked, name))
        self.flight = flight
        self.reused = self.played = 0
        self.prompt = prompt
        self.account = flight.frame.case.account
        self.books = self.account.books(self.engine) if self.engine else None
        self.index = len(flight.traces)
        flight.traces.append(self.trace)
        flight.live[self.index] = self


class Scoring:
    """One score operation: verdicts so far, by the id they were asked under."""

    __slots__ = ("frame", "ids", "op", "verdicts")

    def __init__(self, frame: Frame, op: Score, ids: list[str]) -> None:
        self.frame = frame
        self.op = op
        self.ids = ids
        self.verdicts: dict[str, Verdict] = {}

    @property
    def case(self) -> Case:
        """The problem whose candidates are scored."""
        return self.frame.case
