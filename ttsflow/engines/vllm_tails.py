"""Partly filled KV blocks for vLLM: copied aside when a text ends, and into the block of what follows it.

vLLM asks a connector what of a prompt lies outside its prefix cache. This one answers from a store in the
same memory, so that a continuation computes its new tokens alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata
from vllm.v1.kv_cache_interface import FullAttentionSpec

from ttsflow.engines.tails import Tails, common
from ttsflow.errors import ModelError

__all__ = ["TailStore", "attach"]

#: Tokens that others have to be spared before they wait a step for the first that reads them: on two cores a
#: step costs as much as reading 50 to 80.
_WORTH = 80


class _Copy(NamedTuple):
    """One block to be copied."""

    source: int
    target: int


class _Reader(NamedTuple):
    """A text that begins in this step, and its blocks."""

    request: Any
    blocks: list[int]


class TailStore(KVConnectorBase_V1):  # type: ignore[misc]  # Any to mypy
    """The scheduler's side of a connector and, since both are in this process, the copying as well.

    ``caches`` are the KV caches of all layers, blocks first.
    """

    def __init__(self, scheduler: Any, caches: list[Any], places: int) -> None:
        # Not initialised as a connector of a transfer: there is no other side, and no configuration of one.
        self._scheduler = scheduler
        self._size: int = scheduler.block_size
        self._caches = caches
        self._store = [cache.new_empty((places, *cache.shape[1:])) for cache in caches]
        self._tails = Tails(places)
        self._found: dict[str, tuple[int, int]] = {}
        self._worth: dict[tuple[str, int], bool] = {}
        self._readers: list[_Reader] = []
        self._wanted: dict[tuple[str, int], _Reader] = {}
        self._ready: dict[tuple[str, int], _Reader] = {}
        self._saves: dict[int, int] = {}
        self._loads: list[_Copy] = []
        #: Tokens that were not computed again.
        self.saved = 0

    # --- what vLLM's scheduler asks -----------------------------------------------------------------

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        """Return how many tokens behind the cached blocks can be copied; one at least is left to compute.

        None when another text that begins in this step reads the same ones: it waits for that.
        """
        if not _plain(request):
            return 0, False
        self._remember()
        prefix = self._prefix(request, num_computed_tokens)
        rest = request.all_token_ids[num_computed_tokens : request.num_tokens - 1][: self._size]
        place, count = self._tails.find(prefix, rest)
        for reader in self._readers:
            if self._reads(reader, prefix, num_computed_tokens, rest) <= count:
                continue
            key = reader.request.request_id, num_computed_tokens
            if key not in self._worth:
                self._worth[key] = self._spared(reader, prefix, num_computed_tokens) >= _WORTH
            if self._worth[key]:
                self._wanted[key] = reader
                return None, False
        self._found[request.request_id] = place, num_computed_tokens // self._size
        return count, False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Take in that a request begins, and where its blocks are."""
        found = self._found.pop(request.request_id, None)
        if found is None:
            return
        place, index = found
        held = blocks.get_block_ids()[0]
        self._readers.append(_Reader(request, held))
        if num_external_tokens:
            self.saved += num_external_tokens
            self._loads.append(_Copy(place, held[index]))

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:  # noqa: ARG002 - vLLM's name
        """Copy what this step needs: nothing has been written to a block yet that was given up before it."""
        self._remember()
        self._ready, self._wanted = self._wanted, {}
        self._copy(self._caches, self._store, [_Copy(block, place) for place, block in self._saves.items()])
        self._copy(self._store, self._caches, self._loads)
        self._saves.clear()
        self._loads.clear()
        self._found.clear()
        self._readers.clear()
        self._worth.clear()
        return KVConnectorMetadata()

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:
        """Keep the tail of a text that has ended."""
        computed = request.num_computed_tokens
        whole = computed // self._size
        # Also of one that was aborted: that is how vLLM ends what has reached a stop string.
        if _plain(request) and whole < len(block_ids):
            tail = tuple(request.all_token_ids[whole * self._size : computed])
            self._keep(self._prefix(request, whole * self._size), tail, block_ids[whole])
        return False, None

    def reset_cache(self) -> bool:
        """Forget all."""
        self._tails.clear()
        self._saves.clear()
        self._wanted.clear()
        self._ready.clear()
        return True

    # --- what a worker would do; here the scheduler's side copies by itself ---------------------------

    def start_load_kv(self, forward_context: Any, **settings: Any) -> None:
        """Do nothing."""

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Do nothing."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **settings: Any) -> None:
        """Do nothing."""

    def wait_for_save(self) -> None:
        """Do nothing."""

    # --- copying ------------------------------------------------------------------------------------

    def _reads(self, reader: _Reader, prefix: Any, begin: int, tokens: Any) -> int:
        """Return how many of ``tokens``, from ``begin`` on, another text reads behind the same prefix."""
        request = reader.request
        if request.num_tokens <= begin or self._prefix(request, begin) != prefix:
            return 0
        return common(request.all_token_ids[begin : begin + self._size], tokens)

    def _spared(self, reader: _Reader, prefix: Any, begin: int) -> int:
        """Return how many tokens all that wait, and the one that is asked about, are spared by ``reader``."""
        spared = 0
        for request in self._scheduler.waiting:
            if _plain(request) and request.num_tokens > begin and self._prefix(request, begin) == prefix:
                rest = request.all_token_ids[begin : request.num_tokens - 1][: self._size]
                _, count = self._tails.find(prefix, rest)
                spared += max(0, self._reads(reader, prefix, begin, rest) - count)
        return spared

    def _remember(self) -> None:
        """Keep what others have waited for; it was read in the step before."""
        for (_, begin), (request, blocks) in self._ready.items():
            tail = request.all_token_ids[begin : min(begin + self._size, request.num_computed_tokens)]
            self._keep(self._prefix(request, begin), tuple(tail), blocks[begin // self._size])
        self._ready.clear()

    def _keep(self, prefix: Any, tail: tuple[int, ...], block: int) -> None:
        place = self._tails.keep(prefix, tail)
        if place is not None:
            self._saves[place] = block

    def _prefix(self, request: Any, computed: int) -> Any:
        return request.block_hashes[computed // self._size - 1] if computed else request.cache_salt

    def _copy(self, sources: list[Any], targets: list[Any], copies: list[_Copy]) -> None:
        if not copies:
            return
        device = self._caches[0].device
        read = torch.tensor([copy.source for copy in copies], device=device)
        write = torch.tensor([copy.target for copy in copies], device=device)
        for source, target in zip(sources, targets, strict=True):
            target.index_copy_(0, write, source.index_select(0, read))


def attach(core: Any, places: int) -> TailStore:
    """Give a loaded vLLM engine a store of so many tails; it is reset with the prefix cache.

    Raises ``ModelError`` for one without a prefix cache, and for one whose KV cache is not in this process or
    not that of full attention alone.
    """
    engine = core.engine_core.engine_core
    scheduler = engine.scheduler
    groups = scheduler.kv_cache_config.kv_cache_groups
    worker = getattr(getattr(engine.model_executor, "driver_worker", None), "worker", None)
    if not core.vllm_config.cache_config.enable_prefix_caching:
        raise ModelError("partial_blocks goes on from the prefix cache, which `args` switches off")
    if worker is None or core.vllm_config.parallel_config.world_size > 1:
        raise ModelError("partial_blocks needs a model on one device; leave it at 0 with several")
    if len(groups) != 1 or type(groups[0].kv_cache_spec) is not FullAttentionSpec:
        raise ModelError("partial_blocks needs a model with full attention in every layer; leave it at 0")
    if scheduler.connector is not None:
        raise ModelError("partial_blocks and `args.kv_transfer_config` exclude each other")
    store = TailStore(scheduler, list(worker.model_runner.kv_caches), places)
    plain = scheduler.reset_prefix_cache

    def reset_prefix_cache(*args: Any, **settings: Any) -> bool:
        store.reset_cache()
        return bool(plain(*args, **settings))

    scheduler.reset_prefix_cache = reset_prefix_cache
    scheduler.connector = store
    return store


def _plain(request: Any) -> bool:
    """Whether the tokens alone say what a request's KV cache holds."""
    return request.lora_request is None and not request.mm_features and request.prompt_embeds is None
