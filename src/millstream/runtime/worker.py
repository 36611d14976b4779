"""A worker's side of a tick: caches of fragments, stepped from frontier to frontier.

A cache carries the frontier it is at.  A task says from where to where to step; if the cache is
elsewhere (another process had the bucket, or none did), it is thrown away and built again from the
snapshot and the log.  A task that was done already, because its answer got lost, gives the same
answer again.  So it never matters which process a task lands in, or how often.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from millstream.core.errors import MillstreamError, OutOfMemory, QueryFailed
from millstream.core.instant import Micros
from millstream.core.signed_batch import Instants, SignedBatch, concat
from millstream.operators.call_limit import PROCESS
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import MOST_ENDING, MOST_PAIRS
from millstream.plan.physical import ReceiveExec, SourceExec, sources
from millstream.runtime.circuit import Circuit
from millstream.runtime.exchange import ArrivedRows, read_changes, write_changes, write_contents, write_rows
from millstream.runtime.invocations.keeper import Keepers
from millstream.runtime.invocations.messages import SoupResult, SoupTask
from millstream.runtime.messages import (
    FragmentResult,
    FragmentTask,
    MapResult,
    MapTask,
    Rebuild,
    StageResult,
    StageTask,
)
from millstream.runtime.output_delay import count_released
from millstream.runtime.results import net_rows
from millstream.runtime.schedulers import new_scheduler
from millstream.runtime.source_reader import FeedReader, split_chunk
from millstream.runtime.source_store import StoreReader
from millstream.runtime.stores import Stores
from millstream.runtime.substeps import MOST_ROWS, substeps
from millstream.runtime.warm_up import warm_up
from millstream.state.changelog import write_output
from millstream.state.snapshot import load_arrays, save_arrays

log = logging.getLogger(__name__)

_Key = tuple[str, str, int, int]
"""Database, incarnation of the query, fragment, bucket."""


class FragmentCache:
    """One fragment of one query in one bucket: its circuit, where it reads its sources, and where it is."""

    def __init__(self, task: FragmentTask, circuit: Circuit, readers: Mapping[SourceExec, StoreReader]) -> None:
        self.circuit = circuit
        self.readers = readers
        self.at = task.at
        self.done: tuple[int, FragmentTask, FragmentResult] | None = None

    def can_take(self, task: FragmentTask) -> bool:
        """The task goes on exactly where this cache is."""
        taken = [reader.taken for reader in self.readers.values()]
        return self.at == task.at and all(feed.after == n or feed.upto <= n for feed, n in zip(task.feeds, taken, strict=True))

    def leave(self) -> None:
        for reader in self.readers.values():
            reader.leave()


class Worker:
    """Lives as long as its process; `run_stage` is what a Spark task calls."""

    def __init__(
        self, rows_a_step: int = MOST_ROWS, pairs_a_piece: int = MOST_PAIRS, rows_a_slice: int | None = None, most_ending: int = MOST_ENDING
    ) -> None:
        """`rows_a_slice` is that of every scheduler, where it is not None."""
        self._most_ending = most_ending
        self._rows_a_slice = rows_a_slice
        self._rows_a_step = rows_a_step
        self._pairs_a_piece = pairs_a_piece
        self._evaluator = Evaluator()
        self._caches: dict[_Key, FragmentCache] = {}
        self._stores = Stores()
        self._soups = Keepers(self._evaluator)

    def run_stage(self, task: StageTask) -> StageResult:
        self._forget_dead(task)
        results = tuple(self._guarded(task, fragment) for fragment in task.fragments if fragment.runs_in(task.bucket))
        self._stores.trim(task.bucket)
        return StageResult(task.bucket, results, os.getpid(), self._stores.sizes(task.bucket))

    def run_map(self, task: MapTask) -> MapResult:
        try:
            files = {}
            for split, source in task.sources:
                parts = [split_chunk(source, task.table_dir, chunk, task.buckets, self._evaluator) for chunk in task.chunks]
                path = f"{task.exchange_dir}/{split}-{uuid.uuid4().hex}.arrow"  # the same task may run twice, even at the same time
                by_bucket = [[part[bucket] for part in parts] for bucket in range(task.buckets)]
                write_rows(path, [_one_after_the_other(chunks) for chunks in by_bucket], sum(chunk.rows for chunk in task.chunks))
                files[split] = path
            return MapResult(task.part, files)
        except Exception as error:
            return MapResult(task.part, {}, _as_ours(error))

    def run_soup(self, task: SoupTask) -> SoupResult:
        try:
            return self._soups.run(task)
        except Exception as error:
            return SoupResult(error=_as_ours(error))

    def warm_up(self) -> None:
        """Load the libraries and the kernels that most queries need, before the first rows come."""
        warm_up(self._evaluator)

    def _guarded(self, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        """A failing query fails alone: its error is an answer, not an end of the task."""
        started = time.perf_counter()
        PROCESS.owner = fragment.incarnation
        try:
            result = self._run(task, fragment)
        except Exception as error:
            self._forget((task.database, fragment.incarnation, fragment.number, task.bucket))
            result = FragmentResult(fragment.incarnation, fragment.number, task.bucket, error=_as_ours(error))
        return replace(result, seconds=time.perf_counter() - started)

    def _run(self, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        key = (task.database, fragment.incarnation, fragment.number, task.bucket)
        cache = self._caches.get(key)
        if cache and cache.done and cache.done[:2] == (task.tick, fragment):
            return cache.done[2]
        if fragment.rebuild is not None:
            cache = self._rebuilt(task, fragment, fragment.rebuild)
            self._forget(key)
            self._caches[key] = cache
        elif cache is None or not cache.can_take(fragment):
            self._forget(key)
            return FragmentResult(fragment.incarnation, fragment.number, task.bucket, missing=True)
        else:
            read = FeedReader(task.bucket, fragment.buckets, self._evaluator).read
            for reader, feed in zip(cache.readers.values(), fragment.feeds, strict=True):
                reader.take_in(feed, read)
        result = self._step(cache, task, fragment)
        cache.done = (task.tick, fragment, result)
        return result

    def _rebuilt(self, task: StageTask, fragment: FragmentTask, how: Rebuild) -> FragmentCache:
        scheduler = new_scheduler(task.scheduler)
        scheduler.rows_a_slice = self._rows_a_slice
        read = FeedReader(task.bucket, fragment.buckets, self._evaluator).read
        readers: dict[SourceExec, StoreReader] = {}
        with ExitStack() as undo:
            for source, feed in zip(sources(fragment.fragment.root), fragment.feeds, strict=True):
                readers[source] = self._stores.join(task, fragment, source, feed, read)
                undo.callback(readers[source].leave)
            circuit = Circuit(fragment.fragment.root, self._evaluator, self._pairs_a_piece, scheduler, readers, self._most_ending)
            if how.snapshot is not None:
                circuit.load(load_arrays(snapshot_file(how.snapshot, fragment.number, task.bucket)))
                for position, node in enumerate(circuit.inputs):
                    if isinstance(node, SourceExec):
                        past = readers[node].release(fragment.at)
                        circuit.prime(position, past.instant, past.rows, fragment.at)
            undo.pop_all()
        return FragmentCache(fragment, circuit, readers)

    def _step(self, cache: FragmentCache, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        received = iter(fragment.received)
        batches = []
        for node in cache.circuit.inputs:
            if isinstance(node, ReceiveExec):
                batches.append(read_changes(next(received), task.bucket, SignedBatch.empty(node.schema)))
            else:
                batches.append(cache.readers[node].release(fragment.frontier))
        steps = (cache.circuit.step(part, upto) for part, upto in substeps(batches, fragment.frontier, self._rows_a_step))
        shown = fragment.fragment.sends is not None or fragment.emit != "nothing"
        changes = [part for part in steps if len(part) and shown]
        cache.at = fragment.frontier
        result = FragmentResult(
            fragment.incarnation, fragment.number, task.bucket,
            rows_in=sum(map(len, batches)), rows_out=sum(map(len, changes)), state_rows=cache.circuit.state_rows(),
            waiting_rows=sum(reader.waiting for reader in cache.readers.values()),
            store_bytes=sum(reader.bytes for reader in cache.readers.values()),
            operators=tuple(cache.circuit.profiles()), sources=tuple(reader.news() for reader in cache.readers.values()),
        )  # fmt: skip
        if fragment.snapshot_dir is not None:
            # a number that no record has is used again after a restart, when tasks of the run before may still be writing
            stem = f"{fragment.snapshot_dir}/{task.tick}-{task.database[:8]}"
            save_arrays(snapshot_file(stem, fragment.number, task.bucket), cache.circuit.save())
            result = replace(result, snapshot=stem)
        late = cache.circuit.take_late() if fragment.emit == "changes" else []
        result = self._deliver(changes, late, result, task, fragment)  # last: what fails later would leave an output that nobody names
        if fragment.wants_contents:
            path = f"{task.exchange_dir}/{uuid.uuid4().hex}.arrow"
            write_contents(path, cache.circuit.contents())
            result = replace(result, contents=path)
        return result

    def _deliver(
        self, changes: list[SignedBatch], late: list[Instants], result: FragmentResult, task: StageTask, fragment: FragmentTask
    ) -> FragmentResult:
        """`changes` are those of consecutive spans of time."""
        if fragment.fragment.sends is not None:
            path = f"{task.exchange_dir}/{uuid.uuid4().hex}.arrow"
            write_changes(
                path, concat(changes or [SignedBatch.empty(fragment.fragment.root.schema)]), fragment.fragment.sends, fragment.buckets
            )
            return replace(result, exchange=path, released=count_released([], late, fragment.released_upto))
        if changes and fragment.emit == "net":
            changes = [part for part in [_netted_at(concat(changes), fragment.frontier)] if len(part)]
        output = write_output(fragment.output_dir, changes, fragment.output_columns) if changes else None
        return replace(result, output=output, released=count_released(changes, late, fragment.released_upto))

    def _forget_dead(self, task: StageTask) -> None:
        for key in [key for key in self._caches if key[0] != task.database or key[1] not in task.live]:
            self._forget(key)

    def _forget(self, key: _Key) -> None:
        cache = self._caches.pop(key, None)
        if cache is not None:
            cache.leave()


def snapshot_file(stem: str, fragment: int, bucket: int) -> Path:
    return Path(f"{stem}-{fragment}-{bucket}.npz")


def _netted_at(changes: SignedBatch, instant: Micros) -> SignedBatch:
    rows = net_rows(changes.rows, changes.sign)
    return SignedBatch.arrivals(np.full(rows.num_rows, instant, np.int64), rows)


def _one_after_the_other(parts: list[ArrivedRows]) -> ArrivedRows:
    ts, seq, rows = zip(*parts, strict=True)
    return ArrivedRows(np.concatenate(ts), np.concatenate(seq), pa.concat_batches(rows))


def _as_ours(error: Exception) -> MillstreamError:
    if isinstance(error, MillstreamError):
        return error
    log.error("a query failed", exc_info=error)
    if isinstance(error, MemoryError | duckdb.OutOfMemoryException):  # Arrow's is a MemoryError
        return OutOfMemory(
            f"there is not enough memory for a step of this query: {error}",
            hint="Give it smaller windows or a more selective join condition, the database more buckets, or the machine more memory.",
        )
    return QueryFailed(
        f"{type(error).__name__}: {error}", hint="This is a bug in Millstream or in a library it uses; the log has the details."
    )
