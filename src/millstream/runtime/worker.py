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
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from millstream.core.errors import MillstreamError, OutOfMemory, QueryFailed, StorageFailed
from millstream.core.instant import Micros
from millstream.core.signed_batch import Instants, SignedBatch, concat
from millstream.operators.call_limit import PROCESS
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import MOST_ENDING, MOST_PAIRS
from millstream.plan.physical import Exec, ReceiveExec, SourceExec, sources
from millstream.runtime.caches import Caches
from millstream.runtime.circuit import Circuit
from millstream.runtime.common_circuit import CommonCircuit, FragmentCache
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
from millstream.runtime.stage_clock import CLOCK, Stage, added, timed, with_python
from millstream.runtime.store_reader import StoreReader
from millstream.runtime.stores import Stores
from millstream.runtime.substeps import MOST_ROWS
from millstream.runtime.warm_up import warm_up
from millstream.state.output_file import sync_outputs, write_output
from millstream.state.snapshot import load_arrays, save_arrays

log = logging.getLogger(__name__)

_Work = Callable[[StageTask, FragmentTask], FragmentResult | None]


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
        self._caches = Caches()
        self._stores = Stores()
        self._soups = Keepers(self._evaluator)

    def run_stage(self, task: StageTask) -> StageResult:
        started = time.perf_counter()
        CLOCK.taken()
        self._caches.forget_dead(task)
        self._caches.arrange(task, partial(self._new_circuit, task))
        mine = [fragment for fragment in task.fragments if fragment.runs_in(task.bucket)]
        # all have their rows before the first goes on: its circuit may be that of others
        fed = [self._guarded(task, fragment, self._fed) for fragment in mine]
        results: list[tuple[FragmentTask, FragmentResult]] = []
        for fragment, (result, seconds, stages) in zip(mine, fed, strict=True):
            if result is None:
                result, more, later = self._guarded(task, fragment, self._run)
                assert result is not None
                seconds, stages = seconds + more, added(stages, later)
            stages = with_python(stages, seconds)
            results.append((fragment, replace(result, seconds=result.seconds + seconds, stages=stages)))
        self._stores.trim(task.bucket)
        stores, common = self._stores.sizes(task.bucket), self._caches.common_parts(task)
        durable = _made_durable(results)
        return StageResult(task.bucket, durable, os.getpid(), stores, common, time.perf_counter() - started, CLOCK.taken())

    def run_map(self, task: MapTask) -> MapResult:
        started = time.perf_counter()
        CLOCK.taken()
        try:
            files = {}
            for split, source in task.sources:
                parts = [split_chunk(source, task.table_dir, chunk, task.buckets, self._evaluator) for chunk in task.chunks]
                path = f"{task.exchange_dir}/{split}-{uuid.uuid4().hex}.arrow"  # the same task may run twice, even at the same time
                by_bucket = [[part[bucket] for part in parts] for bucket in range(task.buckets)]
                write_rows(path, [_one_after_the_other(chunks) for chunks in by_bucket], sum(chunk.rows for chunk in task.chunks))
                files[split] = path
            seconds = time.perf_counter() - started
            return MapResult(task.part, files, seconds=seconds, stages=with_python(CLOCK.taken(), seconds))
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

    def _guarded(
        self, task: StageTask, fragment: FragmentTask, work: _Work
    ) -> tuple[FragmentResult | None, float, dict[Stage, float]]:  # fmt: skip
        """A failing query fails alone: its error is an answer, not an end of the task.  And the seconds that it took, also by stage."""
        started = time.perf_counter()
        PROCESS.owner = fragment.incarnation
        try:
            result = work(task, fragment)
        except Exception as error:
            self._caches.forget(task, fragment)
            result = FragmentResult(fragment.incarnation, fragment.number, task.bucket, error=_as_ours(error))
        return result, time.perf_counter() - started, CLOCK.taken()

    def _fed(self, task: StageTask, fragment: FragmentTask) -> FragmentResult | None:
        """Its cache takes in the rows that are new; an answer if there is nothing more to do."""
        cache = self._caches.get(task, fragment)
        if cache and cache.done and cache.done[:2] == (task.tick, fragment):
            return cache.done[2]
        if fragment.rebuild is not None:
            return None
        if cache is None or not cache.can_take(fragment):
            self._caches.forget(task, fragment)
            return FragmentResult(fragment.incarnation, fragment.number, task.bucket, missing=True)
        read = FeedReader(task.bucket, fragment.buckets, self._evaluator).read
        with CLOCK.stage("operators"):  # where windows and panes keep their rows
            for reader, feed in zip(cache.readers, fragment.feeds, strict=True):
                reader.take_in(feed, read)
        return None

    def _run(self, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        if fragment.rebuild is not None:
            self._caches.put(task, fragment, self._rebuilt(task, fragment, fragment.rebuild))
        cache = self._caches.get(task, fragment)
        assert cache is not None
        result = self._step(cache, task, fragment)
        cache.done = (task.tick, fragment, result)
        return result

    def _rebuilt(self, task: StageTask, fragment: FragmentTask, how: Rebuild) -> FragmentCache:
        read = FeedReader(task.bucket, fragment.buckets, self._evaluator).read
        readers: dict[SourceExec, StoreReader] = {}
        with ExitStack() as undo:
            for source, feed in zip(sources(fragment.fragment.root), fragment.feeds, strict=True):
                readers[source] = self._stores.join(task, fragment, source, feed, read)
                undo.callback(readers[source].leave)
            circuit = self._new_circuit(task, fragment.fragment.root, readers)
            if how.snapshot is not None:
                circuit.load(load_arrays(snapshot_file(how.snapshot, fragment.number, task.bucket)))
                for source, reader in readers.items():
                    past = reader.release(fragment.at)
                    circuit.prime(source, past.instant, past.rows, fragment.at)
            undo.pop_all()
        return FragmentCache(fragment, CommonCircuit(circuit, readers, fragment.at, self._rows_a_step))

    def _new_circuit(self, task: StageTask, root: Exec, readers: dict[SourceExec, StoreReader]) -> Circuit:
        scheduler = new_scheduler(task.scheduler)
        scheduler.rows_a_slice = self._rows_a_slice
        return Circuit(root, self._evaluator, self._pairs_a_piece, scheduler, readers, self._most_ending)

    def _step(self, cache: FragmentCache, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        cache.want(fragment.selections)
        common = cache.common
        received = dict(zip(cache.receives, fragment.received, strict=True))

        def read(leaf: SourceExec | ReceiveExec) -> SignedBatch:
            if isinstance(leaf, SourceExec):
                return common.readers[leaf].release(fragment.frontier)
            return read_changes(received.get(leaf, ()), task.bucket, SignedBatch.empty(leaf.schema))

        shown = fragment.fragment.sends is not None or fragment.emit != "nothing"
        with CLOCK.stage("operators"):
            turn = common.run(cache, fragment, read, shown=shown)
        result = FragmentResult(
            fragment.incarnation, fragment.number, task.bucket,
            rows_in=turn.rows_in, rows_out=sum(map(len, turn.changes)), state_rows=common.circuit.state_rows(cache.outlet),
            waiting_rows=sum(reader.waiting for reader in cache.readers), store_bytes=sum(reader.bytes for reader in cache.readers),
            seconds=turn.seconds_before, operators=common.profiles(cache),
            sources=tuple(reader.news(cache.owner) for reader in cache.readers),
        )  # fmt: skip
        if fragment.snapshot_dir is not None:
            # a number that no record has is used again after a restart, when tasks of the run before may still be writing
            stem = f"{fragment.snapshot_dir}/{task.tick}-{task.database[:8]}"
            with CLOCK.stage("write"):
                save_arrays(snapshot_file(stem, fragment.number, task.bucket), common.circuit.save(cache.outlet))
            result = replace(result, snapshot=stem)
        late = common.late(cache) if fragment.emit == "changes" else []
        result = self._deliver(
            cache, turn.changes, late, result, task, fragment
        )  # last: what fails later would leave an output that nobody names
        if fragment.wants_contents:
            path = f"{task.exchange_dir}/{uuid.uuid4().hex}.arrow"
            write_contents(path, common.circuit.contents(cache.outlet))
            result = replace(result, contents=path)
        return result

    def _deliver(
        self, cache: FragmentCache, changes: list[SignedBatch], late: list[Instants], result: FragmentResult, task: StageTask,
        fragment: FragmentTask,
    ) -> FragmentResult:  # fmt: skip
        """`changes` are those of consecutive spans of time."""
        spread = fragment.fragment.sends
        if spread is not None:

            def write() -> str:
                path = f"{task.exchange_dir}/{uuid.uuid4().hex}.arrow"
                write_changes(path, concat(changes or [SignedBatch.empty(cache.root.schema)]), spread, fragment.buckets)
                return path

            released = count_released([], late, fragment.released_upto)
            return replace(result, exchange=cache.common.sent(cache, spread, task.exchange_dir, write), released=released)
        if changes and fragment.emit == "net":
            changes = [part for part in [_netted_at(concat(changes), fragment.frontier)] if len(part)]
        with CLOCK.stage("write"):
            output = write_output(fragment.output_dir, changes, fragment.output_columns, sync=False) if changes else None
        return replace(result, output=output, released=count_released(changes, late, fragment.released_upto))


@timed("sync")
def _made_durable(results: Sequence[tuple[FragmentTask, FragmentResult]]) -> tuple[FragmentResult, ...]:
    """All outputs at once, at the end: one after the other they would take most of the time where there are many queries.

    A result that is given again is made durable again: the task that gave it first may not have come so far.
    """
    paths = [Path(fragment.output_dir) / result.output.path for fragment, result in results if result.output is not None]
    try:
        sync_outputs(paths)
    except StorageFailed as error:
        return tuple(replace(result, error=error) if result.output is not None else result for _, result in results)
    return tuple(result for _, result in results)


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
