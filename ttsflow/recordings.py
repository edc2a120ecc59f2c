"""Recorded samples: the file format, its reader and its writer.

A file is ``.jsonl`` or ``.jsonl.gz`` and holds one problem a line, with all samples drawn for it::

    {"model": "m", "dataset": "d", "problem": 7, "answer": "204", "samples": [
        {"pred": "204", "tokens": 1551, "correct": true, "finish": "stop", "text": "...", "score": 0.9}]}

``docs/recordings.md`` has every field. Fields that are not known are skipped. The released solutions of
GSM8K (``{"question", "ground_truth", NAME: {"is_correct", "solution"}, ...}``) are read as well.
"""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ttsflow.errors import DataError, suggest
from ttsflow.fields import (
    COUNT,
    FLAG,
    LABEL,
    LOGPROBS,
    NOT_NEGATIVE,
    SCORE,
    TEXT,
    Form,
    Wrong,
    each,
    get,
    shown,
)
from ttsflow.tasks.rows import read_rows
from ttsflow.tasks.solutions import adapted

__all__ = ["Count", "Recording", "Sample", "read_recordings", "write_recordings"]

#: What a sample's tokens are: those recorded, or the words of its text.
Count = Literal["tokens", "words"]

#: How a recorded finish is spelled, and what it means here.
_FINISHES: Mapping[str | None, Literal["stop", "length"]] = {
    None: "stop",
    "STOP": "stop",
    "UNKNOWN": "stop",
    "stop": "stop",
    "CUTOFF": "length",
    "length": "length",
}
_NONE = (None, "", "NO_ANSWER")
_SCORES: Form[float] = Form(f"a list of null or {SCORE.what}", SCORE.read)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True, slots=True)
class Sample:
    """One recorded trajectory.

    ``answer`` is the text of its answer, None when it gave none; ``correct`` is what a grader said, None
    when nobody did. ``tokens`` are those decoded. ``scores`` are a verifier's, one per step or one in
    all. ``logprobs`` (top values, the highest first) and ``certainties`` have one entry per token. What a
    file may hold of each is bounded, see ``ttsflow.fields``.
    """

    answer: str | None
    tokens: int
    correct: bool | None
    finish: Literal["stop", "length"]
    text: str | None = None
    scores: tuple[float | None, ...] = ()
    logprobs: tuple[tuple[float, ...], ...] = ()
    certainties: tuple[float, ...] = ()

    @property
    def said(self) -> str:
        """Its text; where none was recorded its answer in a box, "" without an answer."""
        if self.text:
            return self.text
        return "" if self.answer is None else f"\\boxed{{{self.answer}}}"


@dataclass(frozen=True, slots=True)
class Recording:
    """One problem and its samples, in the order in which they were recorded.

    ``prompt_tokens`` is the length of its prompt, ``prompt`` the ``content_id`` of the prompt's ``repr``:
    enough to know it again, not to read it.
    """

    id: str
    samples: tuple[Sample, ...]
    model: str = ""
    dataset: str = ""
    gold: str | None = None
    prompt_tokens: int | None = None
    prompt: str = ""


def read_recordings(path: str | Path, *, count: Count = "tokens") -> list[Recording]:
    """Return the recordings of a file.

    With ``count`` words a sample has as many tokens as its text has words, and no values per token.
    Raises ``DataError`` that names file and line. Gold answers that are empty count as unknown and are
    warned about once.
    """
    places: dict[str, str] = {}
    recordings, empty = [], []
    for row in read_rows(str(path)):
        try:
            recording = _recording(adapted(row.data), count)
        except Wrong as error:
            raise DataError(f"{row.place}: {error}") from error
        if recording.id in places:
            raise DataError(
                f"{row.place}: the problem {recording.id!r} stands already at {places[recording.id]}"
            )
        places[recording.id] = row.place
        recordings.append(recording)
        if recording.gold is None and row.data.get("answer") is not None:
            empty.append(row.place)
    if empty:
        warnings.warn(
            f"{len(empty)} of {len(recordings)} gold answers are empty and count as unknown; the first is at "
            f"{empty[0]}",
            stacklevel=2,
        )
    return recordings


def write_recordings(path: str | Path, recordings: Iterable[Recording]) -> None:
    """Write a ``.jsonl`` or ``.jsonl.gz`` file; equal recordings give equal bytes.

    Raises ``DataError`` for another ending, and for recordings that could not be read back.
    """
    path = Path(path)
    if not path.name.endswith((".jsonl", ".jsonl.gz")):
        raise DataError(f"{str(path)!r}: recordings are written to a .jsonl or a .jsonl.gz file")
    lines, seen = [], set()
    for recording in recordings:
        try:
            line = _ENCODER.encode(_record(recording))
            lines.append(line.encode() + b"\n")
            same = _recording(json.loads(line), "tokens") == recording
        except (Wrong, TypeError, ValueError) as error:
            raise DataError(f"{recording.id}: {error}") from error
        if not same or recording.id in seen:
            raise DataError(f"{recording.id}: would not be read back as it is, or is there twice")
        seen.add(recording.id)
    content = b"".join(lines)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _recording(data: Mapping[str, Any], count: Count) -> Recording:
    model, dataset = get(data, "model", TEXT, ""), get(data, "dataset", TEXT, "")
    samples = data.get("samples")
    if not isinstance(samples, list) or not samples:
        hint = f"found {shown(samples)}" if "samples" in data else suggest("samples", data)
        raise Wrong(f"`samples` must be a list of one sample or more. {hint}")
    recording = Recording(
        id=_id(data, model, dataset),
        samples=tuple(_numbered(number, item, count) for number, item in enumerate(samples)),
        model=model,
        dataset=dataset,
        gold=_said(get(data, "answer", LABEL, None)),
        prompt_tokens=get(data, "prompt_tokens", COUNT, None),
        prompt=get(data, "prompt", TEXT, ""),
    )
    _check_verdicts(recording)
    return recording


def _id(data: Mapping[str, Any], model: str, dataset: str) -> str:
    """Return ``id`` as it stands, or else model, dataset and problem, the empty ones left out."""
    problem, whole = get(data, "problem", LABEL, ""), get(data, "id", LABEL, "")
    if problem:
        return "/".join(part for part in (model, dataset, problem) if part)
    if not whole:
        raise Wrong(f"there is no field `problem` or `id`. {suggest('problem', data)}")
    return whole


def _numbered(number: int, data: Any, count: Count) -> Sample:
    try:
        return _sample(data, count)
    except Wrong as error:
        raise Wrong(f"sample {number}: {error}") from error


def _sample(data: Any, count: Count) -> Sample:
    if not isinstance(data, Mapping):
        raise Wrong(f"must be an object, found {shown(data)}")
    if "pred" not in data:
        raise Wrong(f"there is no field `pred`; null says there is no answer. {suggest('pred', data)}")
    finish = data.get("finish")
    if not isinstance(finish, str | None) or finish not in _FINISHES:
        known = suggest(str(finish), [name for name in _FINISHES if name])
        raise Wrong(f"there is no finish {shown(finish)}. {known}")
    logprobs, certainties = each(data, "logprobs", LOGPROBS), each(data, "certainties", NOT_NEGATIVE)
    text = get(data, "text", TEXT, None)
    tokens = _tokens(data, text, count)
    answer = _said(get(data, "pred", LABEL, None))
    if answer is not None and not tokens:
        raise Wrong("has an answer, but no token that says it")
    for name, values in (("logprobs", logprobs), ("certainties", certainties)):
        if values and count == "tokens" and len(values) != tokens:
            raise Wrong(f"has {tokens} tokens, but {len(values)} `{name}`")
    return Sample(
        answer=answer,
        tokens=tokens,
        correct=get(data, "correct", FLAG, None),
        finish=_FINISHES[finish],
        text=text,
        scores=_scores(data),
        logprobs=logprobs if count == "tokens" else (),
        certainties=certainties if count == "tokens" else (),
    )


def _tokens(data: Mapping[str, Any], text: str | None, count: Count) -> int:
    if count == "words":
        if text is None:
            raise Wrong("there is no field `text` to count the words of; set `count: tokens`")
        return len(text.split())
    tokens = get(data, "tokens", COUNT, None)
    if tokens is None:
        raise Wrong("there is no field `tokens`; set `count: words` to count the words of `text` instead")
    return tokens


def _scores(data: Mapping[str, Any]) -> tuple[float | None, ...]:
    scores = data.get("scores")
    if scores is not None:
        if not isinstance(scores, list):
            raise Wrong(f"`scores` must be a list, found {shown(scores)}")
        return tuple(get({"scores": score}, "scores", _SCORES, None) for score in scores)
    score = get(data, "score", SCORE, None)
    score = get(data, "rm_score", SCORE, None) if score is None else score
    return () if score is None else (score,)


def _said(answer: str | None) -> str | None:
    """Return an answer, None for the ways to say that there is none."""
    return None if answer in _NONE else answer


def _check_verdicts(recording: Recording) -> None:
    """Refuse an answer that is right in one sample and wrong in another."""
    verdicts: dict[str, tuple[bool, int]] = {}
    for number, sample in enumerate(recording.samples):
        if sample.answer is not None and sample.correct is not None:
            known, first = verdicts.setdefault(sample.answer, (sample.correct, number))
            if known != sample.correct:
                raise Wrong(
                    f"the samples {first} and {number} have the same answer {sample.answer!r}, "
                    "one right and one wrong"
                )


def _record(recording: Recording) -> dict[str, Any]:
    """Return a recording as its line holds it; what says nothing is left out."""
    labels = {"model": recording.model, "dataset": recording.dataset}
    prefix = "".join(f"{part}/" for part in labels.values() if part)
    named = recording.id.startswith(prefix) and recording.id != prefix
    where = {"problem": recording.id.removeprefix(prefix)} if named else {"id": recording.id}
    rest = {"answer": recording.gold, "prompt_tokens": recording.prompt_tokens, "prompt": recording.prompt}
    samples = [_sample_record(sample) for sample in recording.samples]
    return _full({**labels, **where, **rest}) | {"samples": samples}


def _sample_record(sample: Sample) -> dict[str, Any]:
    rest = {
        "correct": sample.correct,
        "finish": None if sample.finish == "stop" else sample.finish,
        "scores": sample.scores,
        "logprobs": sample.logprobs,
        "certainties": sample.certainties,
    }
    text = {} if sample.text is None else {"text": sample.text}
    return {"pred": sample.answer, "tokens": sample.tokens} | text | _full(rest)


def _full(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value not in (None, (), "")}
