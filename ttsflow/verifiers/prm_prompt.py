"""The prompt of a process reward model, and the token of each step at which it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ttsflow.engines.pooler import Pooler
from ttsflow.errors import ConfigError
from ttsflow.types import Candidate, Problem, Tokens
from ttsflow.verifiers.batch import steps_of
from ttsflow.verifiers.pooled import Text, Unreadable
from ttsflow.verifiers.prompting import filled, question_of, turns_of

if TYPE_CHECKING:
    from ttsflow.verifiers.prm import PRM

__all__ = ["Writer"]

#: Stands for the steps while a template is filled in: a character that no text has and none strips.
_MARK = "\ue000"


class _Frame(NamedTuple):
    """What stands before and after the steps; ``special``: the tokenizer puts its own tokens around it."""

    head: str
    tail: str
    special: bool


class Writer:
    """Writes the prompts of one model. Raises ``ConfigError`` when its tokenizer has no such tag."""

    def __init__(self, part: PRM, pooler: Pooler, separator: str) -> None:
        self._part = part
        self._pooler = pooler
        self._separator = separator
        tag = pooler.continuation(part.tag) if part.apart else pooler.tokenize(part.tag)[-1:]
        if not part.apart and not _says(pooler.decode(tag), part.tag):
            raise ConfigError(
                f"{part.tag!r} is no single token of this model; give the text of one, or set `apart`", "tag"
            )
        self._tag: Tokens = tag
        self._heads: dict[str, int] = {}

    def __call__(self, problem: Problem, candidate: Candidate) -> Text:
        """Return the prompt of a candidate. Raises ``Unreadable``."""
        steps = steps_of(candidate.text, self._separator)
        if not steps:
            return Text((), ())
        frame = self._frame(question_of(problem))
        made = self._apart(frame, steps) if self._part.apart else self._whole(frame, steps)
        shift = -1 if self._part.at == "before" else 0
        places = tuple(place + shift for place in made.places)
        assert len(places) == len(steps)
        return made._replace(places=places)

    def _frame(self, question: str) -> _Frame:
        template = self._part.template
        values = {"question": question, "steps": _MARK, "bos": self._pooler.bos}
        if isinstance(template, str):
            text = filled(template, values)
        else:
            text = self._pooler.render(turns_of(template, values))
        head, mark, tail = text.rpartition(_MARK)
        if not mark:
            raise Unreadable("the chat template of the verifier's model leaves the steps out")
        # A template that writes the first token itself must not get a second one.
        plain = isinstance(template, str) and not (self._pooler.bos and head.startswith(self._pooler.bos))
        return _Frame(head, tail, plain)

    def _step(self, number: int, step: str) -> str:
        """Return a step as the model sees it, the tag left as a mark."""
        return filled(self._part.step, {"number": str(number), "step": step.strip(), "tag": _MARK})

    def _whole(self, frame: _Frame, steps: Sequence[str]) -> Text:
        """Tokenize everything at once, as for models trained on text; find the tags by their token."""
        body = "".join(
            self._step(number, step).replace(_MARK, self._part.tag) for number, step in enumerate(steps, 1)
        )
        tokens = self._pooler.tokenize(frame.head + body + frame.tail, special=frame.special)
        places = [place for place, token in enumerate(tokens) if token == self._tag[0]]
        if len(places) != len(steps):
            # The question may have the tag in it: the tags of the steps are those behind it.
            places = places[self._tags_in(frame) :]
        if len(places) != len(steps):
            raise Unreadable(
                f"the verifier's prompt has the tag {self._part.tag!r} as a token {len(places)} times for "
                f"{len(steps)} steps; a step that holds the tag's text cannot be scored, and a tag that "
                "grows together with the text around it needs `apart`"
            )
        made = Text(tokens, tuple(places))
        self._check_borders(steps, made)
        return made

    def _check_borders(self, steps: Sequence[str], made: Text) -> None:
        """Raise ``Unreadable`` where a tag stands elsewhere than behind its step.

        The verifier's tokenizer is not that of the model that wrote the text. As many tags as steps may still
        be others: one inside a step, in place of one that grew together with what stands next to it.
        """
        start, pending, body = 0, "", ""
        wrong: tuple[int, str] | None = None
        for number, (step, place) in enumerate(zip(steps, made.places, strict=True), 1):
            before, _, after = self._step(number, step).partition(_MARK)
            said = _bare(self._pooler.decode(made.tokens[start : place + 1]))
            wanted = _bare(pending + before + self._part.tag)
            # Before the first step there is the question.
            if wrong is None and not (said == wanted or (number == 1 and said.endswith(wanted))):
                wrong = number, said[-40:]
            body += wanted
            start, pending = place + 1, after
        if wrong is None:
            return
        number, said = wrong
        faithful = body in _bare(self._pooler.decode(made.tokens))
        # Of a tokenizer that changes what it reads only the tags can be compared.
        if faithful or any(self._tag[0] in self._pooler.tokenize(step) for step in steps):
            raise Unreadable(
                f"the border of step {number} is lost in the verifier's tokens: they have the tag "
                f"{self._part.tag!r} behind {said.removesuffix(_bare(self._part.tag))!r}, which is not where "
                "the step ends. A step that holds the tag's text cannot be scored, and a tag that grows "
                "together with the text around it needs `apart`"
            )

    def _tags_in(self, frame: _Frame) -> int:
        if frame.head not in self._heads:
            self._heads = {frame.head: self._pooler.tokenize(frame.head).count(self._tag[0])}
        return self._heads[frame.head]

    def _apart(self, frame: _Frame, steps: Sequence[str]) -> Text:
        """Tokenize head, steps and tags one by one, as models were trained that saw tokens put together."""
        tokens = list(self._pooler.tokenize(frame.head, special=frame.special))
        places = []
        for number, step in enumerate(steps, 1):
            before, _, after = self._step(number, step).partition(_MARK)
            tokens += self._pooler.continuation(before)
            tokens += self._tag
            places.append(len(tokens) - 1)
            tokens += self._pooler.continuation(after) if after else ()
        tokens += self._pooler.continuation(frame.tail) if frame.tail else ()
        return Text(tuple(tokens), tuple(places))


def _bare(text: str) -> str:
    """Return a text without white space, of which tokenizers add and take some."""
    return "".join(text.split())


def _says(token: str, tag: str) -> bool:
    """Whether a token is the tag, but for a space that the tokenizer puts before every word."""
    return token == tag or (bool(tag.strip()) and token.strip() == tag.strip())
