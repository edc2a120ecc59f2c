"""Recorded samples as trajectories that an engine in virtual time plays."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from ttsflow.errors import ConfigError, EngineDead
from ttsflow.library import Library
from ttsflow.lineage import content_id, rng_of
from ttsflow.ops import EngineRequest, Progress
from ttsflow.recordings import Sample
from ttsflow.types import Prompt, Tokens

__all__ = ["RecordedPaths", "sample_number", "shuffled"]

_SHIFT = 32
_PLACE = (1 << _SHIFT) - 1


def shuffled(count: int, problem: str, seed: int) -> list[int]:
    """Return the order in which ``seed`` deals the ``count`` recorded samples of a problem."""
    order = list(range(count))
    rng_of(seed, problem, "replay", 0).shuffle(order)
    return order


def sample_number(token: int) -> int:
    """Return the number, within its file, of the sample that a token id belongs to."""
    return token >> _SHIFT


class _Play:
    """One request: the sample it plays, and how far."""

    __slots__ = ("base", "done", "finish", "length", "request", "sample", "stop")

    #: Nothing can follow a recorded sample.
    last = None

    def __init__(self, request: EngineRequest, number: int, sample: Sample) -> None:
        self.request = request
        self.sample = sample
        self.base = number << _SHIFT
        self.length = sample.tokens
        self.finish: Literal["stop", "length"] = sample.finish
        self.stop: str | None = None
        self.done = 0

    def tokens(self, upto: int) -> Tokens:
        """Return the ids of the tokens from what is done up to ``upto``.

        Where there is a text, every token stands for its own part of it.
        """
        if self.sample.text:
            return tuple(range(self.base + self.done, self.base + upto))
        return (self.base,) * (upto - self.done)

    def news(self, upto: int, *, ended: bool) -> Progress:
        """Return the news of having grown to ``upto`` tokens."""
        request, sample, tokens, done = self.request, self.sample, self.tokens(upto), self.done
        self.done = upto
        logprobs: tuple[Mapping[int, float], ...] = ()
        if request.logprobs:
            # Which tokens they belong to was not recorded, only their order.
            logprobs = tuple(dict(enumerate(e[: request.logprobs])) for e in sample.logprobs[done:upto])
        certainties = sample.certainties[done:upto] if request.certainty else ()
        if ended:
            return Progress(request.id, tokens, self.finish, self.stop, logprobs, 0, "", certainties)
        return Progress(request.id, tokens, logprobs=logprobs, certainties=certainties)


class RecordedPaths:
    """Plays the samples of a library; sample number i of a problem is the i-th, or that of a shuffled order.

    Token ids say which sample they are of (``sample_number``) and nothing else.
    """

    context = _PLACE

    def __init__(
        self,
        recorded: Library,
        *,
        shuffle: int | None = None,
        cut_votes: bool = False,
        current: Callable[[], Library] | None = None,
    ) -> None:
        self._library = recorded
        self._shuffle = shuffle
        self._cut_votes = cut_votes
        self._current = current
        self._prompts = {r.prompt: r.prompt_tokens for r in recorded.recordings.values() if r.prompt}
        self._orders: dict[str, Sequence[int]] = {}

    def reset(self) -> None:
        """Raise ``EngineDead`` when the file has changed."""
        if self._current is not None and self._current() is not self._library:
            raise EngineDead(f"{self._library.name} has changed since it was read")

    def encode(self, prompt: Prompt) -> Tokens:
        """Return as many zeros as the prompt had tokens where that was recorded, else nothing."""
        recording = self._library.recordings.get(prompt) if isinstance(prompt, str) else None
        known = recording.prompt_tokens if recording else self._prompts.get(content_id(repr(prompt)))
        return (0,) * (known or 0)

    def tokenize(self, text: str) -> Tokens:
        """Refuse: nothing can be put behind a recorded sample."""
        del text
        raise ConfigError("recorded samples cannot be continued or asked again; use an engine with a model.")

    def decode(self, tokens: Tokens) -> str:
        """Return the part of a recorded text that the tokens stand for, in proportion.

        A sample without a text gives its answer in a box when it is whole, and nothing before.
        """
        if not tokens:
            return ""
        sample = self._library.samples[tokens[0] >> _SHIFT][1]
        if not sample.text:
            return sample.said if len(tokens) >= sample.tokens else ""
        start, size = tokens[0] & _PLACE, len(sample.text)
        end = start + len(tokens)
        return sample.text[start * size // sample.tokens : end * size // sample.tokens]

    def play(self, request: EngineRequest, context: int) -> _Play:
        """Return what a request plays, and where that ends. Raises ``ConfigError`` when none was recorded."""
        number = self._number(request)
        sample = self._library.samples[number][1]
        run = _Play(request, number, sample)
        if self._cut_votes and sample.answer is not None:
            run.finish = "stop"
        if request.stop and sample.text:
            places = [
                (sample.text.find(stop) + len(stop), stop) for stop in request.stop if stop in sample.text
            ]
            if places:
                place, run.stop = min(places)
                run.finish, run.length = "stop", -(-place * sample.tokens // len(sample.text))
        room = min(request.max_tokens, context - len(request.prompt))
        if room < run.length:
            run.finish, run.length, run.stop = "length", max(0, room), None
        return run

    def _number(self, request: EngineRequest) -> int:
        """Return the number, within the file, of the sample that a request asks for."""
        name, path = request.problem, request.path
        recording = self._library.recordings.get(name)
        if recording is None:
            raise ConfigError(self._unknown(name), "engine.path")
        if len(path) != 1:
            raise ConfigError("recorded samples cannot be continued; use an engine with a model.", "engine")
        count = len(recording.samples)
        if path[0] >= count:
            raise ConfigError(
                f"sample {path[0] + 1} of the problem {name!r} is asked for, but {count} are recorded in "
                f"{self._library.name}. All stages of a strategy together draw from them, and one that was "
                f"ended early is used up; lower `strategy.n` to {count} or less, or record more.",
                "engine.path",
            )
        return self._library.first[name] + self._order(name, count)[path[0]]

    def _order(self, name: str, count: int) -> Sequence[int]:
        if self._shuffle is None:
            return range(count)
        if name not in self._orders:
            self._orders[name] = shuffled(count, name, self._shuffle)
        return self._orders[name]

    def _unknown(self, name: str) -> str:
        known = list(self._library.recordings)
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or known[:1]
        return (
            f"no samples of the problem {name!r} are recorded in {self._library.name}, which holds "
            f"{len(known)} problems such as {near[0]!r}. Engine and task must be of one file: "
            "`engine.path` and `task.path` with task=recorded, or a file that was recorded with this task."
        )
