"""``ttsflow doctor``: what held a run back, and the setting to change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from ttsflow.analysis.runs import check_one, read_mapping
from ttsflow.budget import TRIPPED
from ttsflow.errors import DataError
from ttsflow.listing import wide_console

__all__ = ["Finding", "diagnose", "show_findings"]

#: From here on a share is worth a word: of iterations in which requests waited, of tokens that were dropped,
#: of time that went into verifying, of seats that were empty.
_WAITED, _DROPPED, _VERIFYING, _EMPTY = 0.1, 0.3, 0.5, 0.5
#: A KV cache that was so full at its peak is full; below so much of the time a device is idle, and below such
#: a share of hits a prefix cache did not help.
_FULL, _IDLE, _MISSED = 0.9, 0.5, 0.5
#: Shares of samples that were cut, and of problems that were deferred, from which on that is named.
_CUT = 0.05


class Finding(NamedTuple):
    """What held a run back, how much, and what to change."""

    what: str
    seen: str
    change: str


class _Run(NamedTuple):
    """A run's summary and the settings of its engine and verifier."""

    work: Mapping[str, float]
    usage: Mapping[str, float]
    engine: Mapping[str, Any]
    verifier: Mapping[str, Any]
    exact: Mapping[str, Any]
    concurrency: int
    error: str
    summary: Mapping[str, float]


def diagnose(folder: Path) -> list[Finding]:
    """Return what held a run back. Raises ``DataError`` for a folder without a whole run."""
    return list(_findings(_read(folder)))


def show_findings(folder: Path) -> None:
    """Print what held a run back, and the figures it was seen in; errors as ``diagnose``."""
    run = _read(folder)
    console = wide_console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in {**_shares(run), **run.work}.items():
        table.add_row(
            name.replace("_", " "), f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"
        )
    console.print(table)
    console.print()
    found = list(_findings(run))
    for finding in found:
        console.print(Text(f"{finding.what}: {finding.seen}", style="bold"))
        console.print(Text(f"  {finding.change}"))
    if not found:
        console.print("nothing held this run back that its figures show")


def _read(folder: Path) -> _Run:
    check_one(folder)
    summary, config = (read_mapping(folder / name) for name in ("summary.json", "config.yaml"))
    work = _numbers(summary.get("work"))
    if not work:
        raise DataError(
            f"{folder}: this run has no figures of its engine. It failed before its end, or was made by a "
            "version that kept none; run it again."
        )
    engine, verifier, exact = config.get("engine"), config.get("verifier"), summary.get("exact")
    concurrency = config.get("concurrency")
    return _Run(
        work,
        _numbers(summary.get("usage")),
        engine if isinstance(engine, Mapping) else {},
        verifier if isinstance(verifier, Mapping) else {},
        exact if isinstance(exact, Mapping) else {},
        concurrency if isinstance(concurrency, int) else 1,
        str(summary.get("error") or ""),
        _numbers(summary),
    )


def _numbers(given: Any) -> dict[str, float]:
    items = given.items() if isinstance(given, Mapping) else ()
    return {k: v for k, v in items if isinstance(v, int | float) and not isinstance(v, bool)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def _shares(run: _Run) -> dict[str, float]:
    """Return the shares that findings rest on."""
    work, usage = run.work, run.usage
    verifier, generator = work.get("verifier_seconds", 0.0), work.get("generator_seconds", 0.0)
    computed, saved = work.get("verifier_computed_tokens", 0.0), work.get("verifier_saved_tokens", 0.0)
    return {
        "share_of_prompts_cached": _share(usage.get("cached_tokens", 0.0), usage.get("prompt_tokens", 0.0)),
        "share_of_tokens_dropped": _share(usage.get("dropped_tokens", 0.0), usage.get("decoded_tokens", 0.0)),
        "share_of_time_verifying": _share(verifier, verifier + generator),
        "share_of_verifier_tokens_saved": _share(saved, computed + saved),
        "share_of_steps_waited": _share(work.get("delayed_steps", 0.0), work.get("iterations", 0.0)),
    }


def _findings(run: _Run) -> Iterator[Finding]:
    if run.error.startswith(TRIPPED):
        yield Finding(
            "breaker",
            f"the run was ended: {run.error.removeprefix(TRIPPED)}",
            "Why is the `reason` of the last problems in results.jsonl; mend that and run again. Where such "
            "ends are to be expected, raise budget.breaker.last or budget.breaker.share.",
        )
    yield from _ends(run)
    yield from _memory(run)
    yield from _plan(run)
    yield from _prefixes(run)
    yield from _verifying(run)
    yield from _speculating(run)
    yield from _batch(run)
    yield from _device(run)
    differ = run.exact.get("differ")
    if differ:
        yield Finding(
            "other answers",
            f"{len(differ)} of {run.exact.get('checked')} problems came to something else on the plain "
            "engine",
            "On vLLM the last bits of a product depend on the batch; engine.dtype=float32 makes it rare. On "
            "any other engine this is a mistake worth reporting.",
        )


def _ends(run: _Run) -> Iterator[Finding]:
    """Say that many samples were cut, or that many problems had none."""
    cut = run.summary.get("truncation_rate", 0.0)
    if cut > _CUT:
        yield Finding(
            "limits",
            f"{cut:.0%} of the samples were cut by a limit",
            "A cut sample has no vote. Raise sampling.max_tokens, or the context of the engine.",
        )
    deferred = _share(run.summary.get("deferred", 0.0), run.summary.get("problems", 0.0))
    if deferred > _CUT:
        yield Finding(
            "budget",
            f"{deferred:.0%} of the problems had no sample",
            "Raise budget.run, or lower strategy.n or limit. With budget.reserve and budget.fallback=single "
            "problems have one sample when funds are low; strategy=atest_reserve shares them out from the "
            "start.",
        )


def _memory(run: _Run) -> Iterator[Finding]:
    work, shares = run.work, _shares(run)
    back, waited = work.get("preempted", 0.0), shares["share_of_steps_waited"]
    blocks = f"a KV cache of {work.get('kv_blocks', 0):,.0f} blocks"
    if back:
        yield Finding(
            "memory",
            f"with {blocks} {back:,.0f} sequences were sent back and read again",
            "More room: engine.kv_gib, engine.memory=auto. Or fewer at once: engine.prefix_order=true lets "
            "in what fits, concurrency is how many problems are in flight.",
        )
    elif waited > _WAITED:
        yield Finding(
            "memory",
            f"in {waited:.0%} of the iterations requests waited for room in {blocks}",
            "Raise engine.kv_gib or engine.seats, or let engine.memory=auto share the device anew.",
        )


def _plan(run: _Run) -> Iterator[Finding]:
    """Say that a plan rested on other rounds than came, where that gives another one."""
    work = run.work
    if not work.get("replanned"):
        return
    seen = (
        f"steps had {work['seen_step']:.0f} tokens where {work['planned_step']:.0f} were planned, of "
        f"{work['seen_candidates']:.0f} candidates at once where {work['planned_candidates']:.0f} were"
    )
    caches = f"{work['replanned_kv_gib']:g} GiB for the generator"
    if "replanned_verifier_kv_gib" in work:
        caches += f" and {work['replanned_verifier_kv_gib']:g} for the verifier"
    yield Finding(
        "plan",
        seen,
        f"The KV caches would be {caches} then: engine.memory={{step: {work['seen_step']:.0f}}} plans the "
        "next run with such steps. An open engine keeps the cache it has.",
    )


def _full(run: _Run) -> bool:
    return run.work.get("kv_peak", 0.0) >= _FULL


def _prefixes(run: _Run) -> Iterator[Finding]:
    """Say that beginnings of prompts had been thrown out, where reading prompts is what costs."""
    work = run.work
    rate, queried = work.get("prefix_hit_rate"), work.get("prefix_queried_tokens", 0.0)
    if rate is None or rate >= _MISSED or not _full(run) or queried <= run.usage.get("decoded_tokens", 0.0):
        return
    yield Finding(
        "prefix cache",
        f"{rate:.0%} of {queried:,.0f} prompt tokens were found in the prefix cache; the KV cache was full",
        "What was thrown out is read again: engine.prefix_order=true puts side by side what shares a prefix, "
        "a lower concurrency or a higher engine.kv_gib keeps more of it.",
    )


def _verifying(run: _Run) -> Iterator[Finding]:
    shares = _shares(run)
    share, saved = shares["share_of_time_verifying"], shares["share_of_verifier_tokens_saved"]
    if share <= _VERIFYING:
        return
    if "verifier_computed_tokens" in run.work and not saved:
        key = "prefix_cache" if run.verifier.get("use") == "simulated" else "cache"
        change = (
            f"It reads every candidate from its first token: verifier.{key}=true keeps what it read before."
        )
    else:
        change = "Verify less often (longer steps), take a smaller verifier, or one of fewer bits."
    yield Finding("verifier", f"{share:.0%} of the time went into verifying", change)


def _speculating(run: _Run) -> Iterator[Finding]:
    dropped = _shares(run)["share_of_tokens_dropped"]
    if dropped > _DROPPED:
        used = _share(run.usage.get("adopted_tokens", 0.0), run.usage.get("output_tokens", 0.0))
        yield Finding(
            "speculation",
            f"{dropped:.0%} of what was decoded was begun early and dropped; {used:.0%} of what was used had "
            "been begun early",
            "Where steps cost by their batch: engine.speculation={depth: 1, tiers: 4}. With "
            "engine.eager_verify=true more is known of who survives.",
        )


def _batch(run: _Run) -> Iterator[Finding]:
    batch, seats = run.work.get("mean_batch"), run.engine.get("seats")
    if batch is None or not isinstance(seats, int) or batch >= _EMPTY * seats:
        return
    early = "" if run.engine.get("speculation") else ", engine.speculation=true"
    change = (
        f"Fill the seats: a higher concurrency{early}; or give the memory that they hold to something else."
    )
    if _full(run):
        # More in flight would only be sent back.
        change = "It is memory that they lack: the KV cache was full at its peak. Raise engine.kv_gib first."
    yield Finding(
        "batch",
        f"{batch:.1f} sequences ran at once on {seats} seats, with {run.concurrency} problems in flight",
        change,
    )


def _device(run: _Run) -> Iterator[Finding]:
    gpu, cpu = run.work.get("gpu_utilisation"), run.work.get("cpu_utilisation")
    if gpu is not None and gpu < _IDLE:
        yield Finding(
            "device",
            f"a kernel ran on the GPU in {gpu:.0%} of the time",
            "It waited for what runs on the CPUs: a verifier or a task that works there, small batches, or "
            "tokenizing. More problems in flight (concurrency) hide it.",
        )
    if cpu is not None and cpu < _IDLE:
        yield Finding(
            "device",
            f"this process used {cpu:.0%} of the machine's cores",
            "Let vLLM have all of them: OMP_NUM_THREADS is set to their number unless it is set already. Or "
            "something else on this machine takes them.",
        )
