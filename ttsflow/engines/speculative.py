"""Decodes likely requests before they are asked for, on seats that would stay empty.

A request is served from what was begun only where prompt, settings and seed are the same, so that it gets the
very tokens it would have got; everything else is dropped and counted. Speculation never holds up a request:
whatever is in its way is ended before it is submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ttsflow.engines.decorated import Decorated
from ttsflow.engines.heads import Heads
from ttsflow.engines.room import EarlyRoom
from ttsflow.engines.step_cost import StepCost
from ttsflow.ops import EngineRequest, Progress
from ttsflow.protocols import Engine, Leaping, leaping
from ttsflow.types import Tokens

__all__ = ["Speculative"]


class _Guess:
    """An expected request: waiting, running, or ended with ``end``; ``heard`` is what it has decoded.

    Each time it is begun it runs under another ``name``.
    """

    __slots__ = ("begun", "chance", "end", "heard", "name", "request", "running", "tokens")

    def __init__(self, request: EngineRequest, chance: float) -> None:
        self.request = request
        self.chance = chance
        self.running = False
        self.begun = 0
        self.name = request.id
        self.heard: list[Progress] = []
        self.tokens = 0
        self.end: Progress | None = None

    def begin(self) -> EngineRequest:
        """Return the request to run."""
        self.running, self.begun = True, self.begun + 1
        self.name = f"{self.request.id}.{self.begun}"
        return replace(self.request, id=self.name)

    def clear(self) -> int:
        """Forget what was decoded; return how many tokens that were."""
        tokens, self.tokens = self.tokens, 0
        self.heard, self.end, self.running = [], None, False
        return tokens

    def told(self, name: str) -> Progress:
        """Return all that was heard as one piece of news of the request ``name``."""
        last = self.heard[-1]
        return Progress(
            name,
            tuple(token for item in self.heard for token in item.tokens),
            last.finish,
            last.stop,
            tuple(entry for item in self.heard for entry in item.logprobs),
            last.cached,
            last.reason,
            tuple(value for item in self.heard for value in item.certainties),
            sum(item.reused for item in self.heard),
            sum(item.played for item in self.heard),
        )


class Speculative(Decorated):
    """An ``Expecting`` engine. With ``curve`` it begins nothing that is not worth its time.

    With ``keep`` requests that read the same prompt as one that was begun early begin with what it had
    decoded when it was asked for: with a whole step where something behind it was begun as well, with that
    share of any other; they go on under their own seeds.
    """

    def __init__(self, inner: Engine, *, curve: bool = True, keep: float | None = None) -> None:
        super().__init__(inner)
        self._heads = None if keep is None else Heads(keep)
        self._by_prompt: dict[Tokens, _Guess] = {}
        self.on_end: Callable[[EngineRequest, Progress], None] | None = None
        self._cost = StepCost() if curve else None
        # The published way has no limit but that of what runs.
        self._room = EarlyRoom(inner if keep is None else None)
        # One that lets requests in knows more of its room than how many seats there are.
        self._fits: Callable[[EngineRequest], bool] = getattr(inner, "fits", self._has_seat)
        self._crowded: Callable[[], bool] = getattr(inner, "crowded", self._lacks_seats)
        self._leaping: Leaping | None = leaping(inner)
        self._guesses: dict[str, _Guess] = {}
        self._by_seed: dict[int, _Guess] = {}
        self._running: dict[str, _Guess] = {}
        self._real: dict[str, str] = {}
        self._inside: dict[str, str] = {}
        self._news: list[Progress] = []
        self._fresh = 0
        self._books: dict[str, list[int]] = {}
        self.begun = self.taken = 0

    # --- what may come ------------------------------------------------------------------------------

    def expect(self, request: EngineRequest, chance: float) -> None:
        """Say that a request may come, with this chance; said again, the chance is a new one."""
        guess = self._guesses.get(request.id)
        if guess is None:
            guess = self._guesses[request.id] = _Guess(
                request if request.stream else replace(request, stream=True), chance
            )
            self._by_seed[request.seed] = guess
            if self._heads is not None:
                self._by_prompt.setdefault(request.prompt, guess)
            self._keep(guess)
        elif (chance > 0) != (guess.chance > 0):
            guess.chance = chance
            self._keep(guess)
        guess.chance = chance

    def retract(self, ids: Sequence[str]) -> None:
        """Say that expected requests will not come; what they have decoded is dropped."""
        for name in ids:
            guess = self._guesses.pop(name, None)
            if guess is not None:
                self._forget(guess)
                self._drop(guess)
                self._room.leave(name)

    def collect(self, problem: str) -> tuple[int, int]:
        """Return the tokens decoded early that a problem has adopted and dropped since last asked."""
        if self._heads is not None:
            self._heads.forget(problem)
        adopted, dropped = self._books.pop(problem, (0, 0))
        return adopted, dropped

    # --- what does come -----------------------------------------------------------------------------

    def submit(self, request: EngineRequest) -> None:
        """Queue a request, or go on with the expected one that it is."""
        if request.id in self._real:
            msg = f"request id {request.id!r} is in use"
            raise ValueError(msg)
        guess = self._by_seed.get(request.seed)
        if guess is not None and _same(guess.request, request):
            self._adopt(guess, request)
            return
        heads = self._heads
        head = None if heads is None else heads.of(request)
        if heads is not None and head is not None and request.aside is None:
            if self._went_on(request, head):
                self._news.append(heads.whole(request, head))
                self._real[request.id] = ""
                return
            request, part = heads.part(request, head)
            self._news += [] if part is None else [part]
        self._real[request.id] = self._inside[request.id] = request.id
        self._start(request)

    def _start(self, request: EngineRequest) -> None:
        self._fresh += 1
        self._room.enter(request)
        self.inner.submit(request)

    def _adopt(self, guess: _Guess, request: EngineRequest) -> None:
        name = guess.name
        del self._guesses[guess.request.id]
        self._forget(guess)
        self._room.leave(guess.request.id)
        self._count(request.problem, guess.tokens, 0)
        self._came(guess)
        if self._heads is not None and guess.heard:
            self._heads.know(request, guess.told(""))
        self.taken += guess.running
        if guess.end is not None:
            self._news.append(guess.told(request.id))
            self._real[request.id] = ""
            return
        if not guess.running:
            self._real[request.id] = self._inside[request.id] = request.id
            self._start(request)
            return
        del self._running[name]
        self._real[request.id], self._inside[name] = name, request.id
        if guess.heard:
            self._news.append(guess.told(request.id))

    def _went_on(self, request: EngineRequest, head: Progress) -> bool:
        """Whether a step has ended and something behind it was begun."""
        behind = self._by_prompt.get(request.prompt + head.tokens) if head.stop is not None else None
        return behind is not None and bool(behind.heard)

    def _forget(self, guess: _Guess) -> None:
        self._by_seed.pop(guess.request.seed, None)
        if self._by_prompt.get(guess.request.prompt) is guess:
            del self._by_prompt[guess.request.prompt]

    def _with_part(self, guess: _Guess) -> EngineRequest:
        """Begin what is expected, with a part of what was begun for the same prompt before."""
        request = guess.begin()
        if self._heads is None:
            return request
        first, head = self._by_prompt.get(request.prompt), self._heads.of(request)
        if head is None and first is not None and first is not guess and first.heard:
            head = first.told("")
        if head is None or head.reused:
            return request
        request, part = self._heads.part(request, head)
        guess.heard = [] if part is None else [part]
        return request

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now; no news of them follows."""
        gone = set(ids)
        self._news = [news for news in self._news if news.id not in gone]
        names = [name for known in ids if (name := self._real.pop(known, None)) is not None]
        inside = [name for name in names if self._inside.pop(name, None) is not None]
        for name in inside:
            self._room.leave(name)
        if inside:
            self.inner.abort(inside)

    def step(self) -> list[Progress]:
        """Begin what pays, advance by one iteration and return the news of what was asked for."""
        self._make_way()
        self._begin()
        news, self._news = self._news, []
        if self._inside:
            inner = self._advance()
            self._room.hear(inner)
            for item in inner:
                told = self._hear(item)
                if told is not None:
                    news.append(told)
        elif self._leaping is not None:
            self._leaping.advanced = 0
        for item in news:
            if item.finish is not None:
                name = self._real.pop(item.id, None)
                self._inside.pop(name or "", None)
        return news

    def _hear(self, item: Progress) -> Progress | None:
        """Return the news of a request by the name it was asked for under; None for one that was not."""
        known = self._inside.get(item.id)
        if known is not None:
            return item if known == item.id else item._replace(id=known)
        guess = self._running.get(item.id)
        if guess is None:
            return None
        guess.heard.append(item)
        guess.tokens += len(item.tokens)
        if item.finish is not None:
            guess.end = end = guess.told(item.id)
            del self._running[item.id]
            self._keep(guess)
            if self.on_end is not None:
                self.on_end(guess.request, end)
        return None

    def counters(self) -> dict[str, float]:
        """Return how many requests were begun early, and how many of them were asked for."""
        return {"begun_early": self.begun, "begun_early_and_used": self.taken}

    def reset(self) -> None:
        """Forget everything."""
        self.begun = self.taken = 0
        self._guesses.clear()
        self._by_seed.clear()
        self._running.clear()
        self._real.clear()
        self._inside.clear()
        self._news.clear()
        self._books.clear()
        self._by_prompt.clear()
        self._room.clear()
        if self._heads is not None:
            self._heads.clear()
        super().reset()

    # --- seats and memory ---------------------------------------------------------------------------

    def _has_seat(self, request: EngineRequest) -> bool:
        del request
        return len(self._inside) + len(self._running) < self.capacity

    def _lacks_seats(self) -> bool:
        return len(self._inside) + len(self._running) > self.capacity

    def _make_way(self) -> None:
        """End speculation, the least likely first, until whatever was asked for has its place."""
        while self._running and self._crowded():
            self._drop(min(self._running.values(), key=lambda guess: guess.chance))

    def _begin(self) -> None:
        """Begin the likeliest of what is expected while there is room and it pays."""
        if not self._inside or len(self._inside) + len(self._running) >= self.capacity:
            return
        waiting = [g for g in self._guesses.values() if not g.running and g.end is None and g.chance > 0]
        waiting.sort(key=lambda guess: -guess.chance)
        for guess in waiting:
            request = guess.request
            if not (self._pays(guess) and self._fits(request) and self._room.has(request, guess.chance)):
                return
            begun = self._with_part(guess)
            self._running[guess.name] = guess
            self.begun += 1
            self._room.leave(request.id)
            self._start(begun)

    def _pays(self, guess: _Guess) -> bool:
        if self._cost is None or guess.chance >= 1:
            return True
        return bool(self._cost.pays(guess.chance, len(self._inside)))

    def _drop(self, guess: _Guess) -> None:
        """End what is expected, or forget how it ended; it may be begun again."""
        self._came(guess)
        if self._running.pop(guess.name, None) is not None:
            self.inner.abort([guess.name])
            self._room.leave(guess.name)
        self._count(guess.request.problem, 0, guess.clear())
        if guess.request.id in self._guesses:
            self._keep(guess)

    def _keep(self, guess: _Guess) -> None:
        """Keep the place of what is expected in the KV cache, as long as it may come and does not run."""
        if guess.name in self._running:
            return
        if guess.chance > 0:
            self._room.hold(guess.request, guess.tokens)
        else:
            self._room.leave(guess.request.id)

    def _came(self, guess: _Guess) -> None:
        if self._cost is not None and guess.running:
            self._cost.came(guess.tokens)

    def _count(self, problem: str, adopted: int, dropped: int) -> None:
        books = self._books.setdefault(problem, [0, 0])
        books[0] += adopted
        books[1] += dropped

    # --- what a step costs --------------------------------------------------------------------------

    def _advance(self) -> list[Progress]:
        """Advance the engine, and see what the iteration cost."""
        if self._cost is None:
            return self.inner.step()
        batch = min(len(self._inside) + len(self._running), self.capacity)
        fresh, self._fresh = self._fresh, 0
        before = self.now()
        news = self.inner.step()
        iterations = 1 if self._leaping is None else self._leaping.advanced
        if iterations:
            seconds = (self.now() - before) / iterations
            if fresh:
                # The first iteration of a new request reads its prompt.
                self._cost.began(batch, fresh, seconds)
            else:
                self._cost.observe(batch, seconds)
        return news


def _same(guess: EngineRequest, request: EngineRequest) -> bool:
    """Whether two requests decode the same: all but what says who asks, and how it is reported."""
    return replace(guess, id="", priority=0, stream=False) == replace(
        request, id="", priority=0, stream=False
    )
