"""Between ttsflow's requests and vLLM's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttsflow.ops import EngineRequest, Progress
from ttsflow.types import Finish

if TYPE_CHECKING:
    from vllm.outputs import RequestOutput

    from ttsflow.engines.vllm_certainty import Certainties

__all__ = ["params", "progress", "template"]


def template(setting: str | None) -> str | None:
    """Return the text of a chat template given as text or as a file."""
    if setting is None or "{" in setting:
        return setting
    return Path(setting).expanduser().read_text()


def params(request: EngineRequest, room: int, certainties: Certainties | None = None) -> Any:
    """Return vLLM's sampling parameters; ``certainties`` are filled as tokens are sampled."""
    from vllm.sampling_params import RequestOutputKind, SamplingParams  # noqa: PLC0415 - loaded by now

    from ttsflow.engines.vllm_certainty import KEY  # noqa: PLC0415 - loaded by now

    sampling = request.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        seed=request.seed,
        max_tokens=room,
        stop=list(request.stop),
        include_stop_str_in_output=True,
        logprobs=request.logprobs or None,
        output_kind=RequestOutputKind.DELTA if request.stream else RequestOutputKind.FINAL_ONLY,
        skip_special_tokens=True,
        extra_args=None if certainties is None else {KEY: certainties},
    )


def progress(
    output: RequestOutput, request: EngineRequest, certainties: Certainties | None = None
) -> Progress:
    """Return the news in a vLLM output."""
    (sample,) = output.outputs
    finish: Finish | None = None
    reason = ""
    if output.finished:
        if sample.finish_reason in ("stop", "length"):
            finish = sample.finish_reason
        else:
            finish, reason = "failed", f"vLLM ended the request: {sample.finish_reason}"
    return Progress(
        id=output.request_id,
        tokens=tuple(sample.token_ids),
        finish=finish,
        # A number is a further end-of-text token of the model (chat models have two).
        stop=sample.stop_reason if isinstance(sample.stop_reason, str) else None,
        logprobs=tuple(_top(entries, request.logprobs) for entries in sample.logprobs or ()),
        cached=output.num_cached_tokens or 0,
        reason=reason,
        certainties=() if certainties is None else certainties.take(len(sample.token_ids)),
    )


def _top(entries: Mapping[int, Any], count: int) -> dict[int, float]:
    """Return the ``count`` highest log-probabilities, best first.

    vLLM adds the sampled token where it is not among them; it would be one entry too many.
    """
    ranked = sorted(((token, entry.logprob) for token, entry in entries.items()), key=lambda pair: -pair[1])
    return dict(ranked[:count])
