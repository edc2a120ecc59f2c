"""What every model that vLLM has loaded into this process shares: its text, its requests, its life."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from ttsflow.engines.vllm_translate import template
from ttsflow.errors import ConfigError, EngineDead
from ttsflow.types import Message, Tokens

__all__ = ["VLLMCore"]

#: A text that no tokenizer with a space of its own merges with what follows.
_ANCHOR = "\n"

Live = TypeVar("Live")
News = TypeVar("News")


class VLLMCore(Generic[Live, News]):
    """A model on vLLM's synchronous engine; ``Live`` is what is kept of a request, ``News`` what it gives.

    ``dead`` is set once vLLM has failed: everything but ``close`` is then over.
    """

    def __init__(self, core: Any, chat_template: str | None) -> None:
        self.dead = False
        self.closed = False
        self._live: dict[str, Live] = {}
        self._news: list[News] = []
        self._arrivals = itertools.count()
        self._core: Any = core
        self._tokenizer: Any = core.get_tokenizer()
        self._template = template(chat_template)
        self._iterations = 0

    # --- text and tokens ----------------------------------------------------------------------------

    def _chat(self, turns: Sequence[Message], *, answers: bool, missing: tuple[str, str]) -> str:
        """Return turns as the chat template writes them; with ``answers`` the model is about to speak.

        Without a template ``missing``, a text and a path, is raised as ``ConfigError``.
        """
        if not (self._template or self._tokenizer.chat_template):
            raise ConfigError(*missing)
        text = self._tokenizer.apply_chat_template(
            [{"role": turn.role, "content": turn.content} for turn in turns],
            chat_template=self._template,
            add_generation_prompt=answers,
            tokenize=False,
        )
        return str(text)

    def _ids(self, text: str, *, special: bool) -> Tokens:
        return tuple(self._tokenizer(text, add_special_tokens=special).input_ids)

    def _text(self, tokens: Sequence[int], *, special: bool) -> str:
        return str(
            self._tokenizer.decode(
                list(tokens), skip_special_tokens=not special, clean_up_tokenization_spaces=False
            )
        )

    def _behind(self, text: str) -> Tokens:
        """Return the token ids of a text that follows another one: no special tokens, no space before it."""
        tokens, anchor = self._ids(text, special=False), self._ids(_ANCHOR, special=False)
        if self._text((*anchor, *tokens), special=True) == _ANCHOR + text:
            return tokens
        # SentencePiece takes every text for the start of one and puts a space before it.
        both = self._ids(_ANCHOR + text, special=False)
        return both[len(anchor) :] if both[: len(anchor)] == anchor else tokens

    # --- requests -----------------------------------------------------------------------------------

    def _check_new(self, name: str) -> None:
        """Raise ``ValueError`` for an id in use."""
        if name in self._live or any(_id(news) == name for news in self._news):
            raise ValueError(f"request id in use: {name}")

    def _add(self, name: str, prompt: Tokens, settings: Callable[[], Any], priority: int = 0) -> str | None:
        """Give vLLM a request; return why it refused, None when it did not.

        ``settings`` makes vLLM's parameters, which vLLM may refuse as well.
        """
        from vllm.inputs import tokens_input  # noqa: PLC0415 - loaded by now

        try:
            self._core.add_request(
                name,
                tokens_input(list(prompt)),
                settings(),
                # vLLM breaks ties of priority by arrival; a count keeps the order of submission.
                arrival_time=float(next(self._arrivals)),
                priority=priority,
            )
        except Exception as error:  # noqa: BLE001 - vLLM's refusals have no common base; one request is lost
            self._core.abort_request([name])
            return str(error).partition("\n")[0]
        return None

    def abort(self, ids: Sequence[str]) -> None:
        """End requests now; no news of them follows, and what they held is free at once."""
        gone = set(ids)
        self._news = [news for news in self._news if _id(news) not in gone]
        live = [known for known in dict.fromkeys(ids) if self._live.pop(known, None)]
        if live and not (self.dead or self.closed):
            self._core.abort_request(live)

    def _advance(self) -> tuple[list[News], Sequence[Any]]:
        """Run one iteration; return what was held back so far, and vLLM's outputs. Raises ``EngineDead``."""
        if self.dead or self.closed:
            raise EngineDead("the vLLM engine is closed" if self.closed else "the vLLM engine died earlier")
        news, self._news = self._news, []
        if not self._live:
            return news, ()
        self._iterations += 1
        try:
            return news, self._core.step()
        except BaseException as error:
            # Also when interrupted: a half-made step leaves the batch in no known state.
            self.dead = True
            if not isinstance(error, Exception):
                raise
            raise EngineDead(f"vLLM stopped: {type(error).__name__}: {error}") from error

    # --- life ---------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget the prefix cache, and abort whatever is left. Raises ``EngineDead`` if that fails."""
        if self.dead or self.closed:
            raise EngineDead("the vLLM engine is closed or died earlier")
        self.abort([*self._live, *(_id(news) for news in self._news)])
        self._arrivals = itertools.count()
        self._iterations = 0
        if not self._core.reset_prefix_cache():
            self.dead = True
            raise EngineDead("vLLM could not reset its prefix cache")

    def close(self) -> None:
        """Free the model and its memory, so that another engine can be opened in this process."""
        if self.closed:
            return
        self.closed = True
        self._live.clear()
        self._news.clear()
        core, self._core = self._core, None
        core.engine_core.shutdown()
        core.renderer.shutdown()
        del core
        gc.collect()


def _id(news: Any) -> str:
    name: str = news.id
    return name
