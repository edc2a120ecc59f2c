"""What siblings begin with where one continuation is begun for all of them, as published.

FastTTS (arXiv 2509.00195, section 4.1 and its code): a beam goes on past the end of its step while others
still run. When it survives, its copies get the whole steps that it has decoded since, and of the step it is
in the middle of a share. So copies are no independent samples.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ttsflow.ops import EngineRequest, Progress
from ttsflow.types import Tokens

__all__ = ["Heads"]


class Heads:
    """What was decoded first behind a prompt; requests that read the same prompt begin with it.

    Prompts are compared as they are: copies that have got the same whole step share what follows it as well.
    """

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._known: dict[str, dict[Tokens, Progress]] = {}

    def know(self, request: EngineRequest, told: Progress) -> None:
        """Take in what a request has decoded by now; what it has got from another one says nothing new."""
        if told.tokens and not told.reused:
            self._known.setdefault(request.problem, {})[request.prompt] = told

    def of(self, request: EngineRequest) -> Progress | None:
        """Return what was decoded first behind the prompt of a request."""
        return self._known.get(request.problem, {}).get(request.prompt)

    def whole(self, request: EngineRequest, head: Progress) -> Progress:
        """Return the news of a request that gets all of a step."""
        return head._replace(id=request.id, cached=0, reused=len(head.tokens))

    def part(self, request: EngineRequest, head: Progress) -> tuple[EngineRequest, Progress | None]:
        """Return what is left of a request that begins with a share of a step, and the news of that share.

        Never with its end, so that no stop string is within.
        """
        kept = min(math.floor(self._keep * len(head.tokens)), request.max_tokens - 1)
        if kept < 1 or request.aside is not None:
            return request, None
        part = Progress(
            request.id,
            head.tokens[:kept],
            logprobs=head.logprobs[:kept],
            certainties=head.certainties[:kept],
            reused=kept,
        )
        prompt = request.prompt + head.tokens[:kept]
        return replace(request, prompt=prompt, max_tokens=request.max_tokens - kept), part

    def forget(self, problem: str) -> None:
        """Forget a problem."""
        self._known.pop(problem, None)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
