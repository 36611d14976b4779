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
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

from millstream.core.errors import MillstreamError, OutOfMemory, QueryFailed
from millstream.core.instant import Micros
from millstream.core.signed_batch import SignedBatch, concat
from millstream.operators.evaluator import Evaluator
from millstream.operators.join import MOST_ENDING, MOST_PAIRS
from millstream.operators.pending import PendingRows
from millstream.operators.state_bytes import state_bytes
from millstream.plan.physical import ReceiveExec, SourceExec
from millstream.runtime.circuit import Circuit
from millstream.runtime.exchange import read_changes, read_rows, write_changes, write_contents, write_rows
from millstream.runtime.messages import (
    FragmentResult,
    FragmentTask,
    MapResult,
    MapTask,
    Rebuild,
    SourceFeed,
    StageResult,
    StageTask,
)
from millstream.runtime.output_delay import count_released
from millstream.runtime.results import net_rows
from millstream.runtime.schedulers import new_scheduler
from millstream.runtime.source_reader import Timed, read_bucket, split_chunk
from millstream.runtime.substeps import MOST_ROWS, substeps
from millstream.runtime.warm_up import warm_up
from millstream.state.changelog import write_output
from millstream.state.snapshot import load_arrays, save_arrays

log = logging.getLogger(__name__)


class FragmentCache:
    """One fragment of one query in one bucket: its circuit, the rows that wait, and where it is."""

    def __init__(self, task: FragmentTask, circuit: Circuit) -> None:
        self.circuit = circuit
        self.pending = {i: PendingRows(node.schema) for i, node in enumerate(self.circuit.inputs) if isinstance(node, SourceExec)}
        self.at = task.at
        self.taken = dict.fromkeys(self.pending, -1)  # the last sequence number taken in, per source
        self.done: tuple[int, FragmentTask, FragmentResult] | None = None

    def can_take(self, task: FragmentTask) -> bool:
        """The task goes on exactly where this cache is."""
        gapless = all(feed.after == taken or feed.upto <= taken for feed, taken in zip(task.feeds, self.taken.values(), strict=True))
        return self.at == task.at and gapless


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
        self._caches: dict[tuple[str, str, int, int], FragmentCache] = {}

    def run_stage(self, task: StageTask) -> StageResult:
        self._forget_dead(task)
        results = tuple(self._guarded(task, fragment) for fragment in task.fragments if task.bucket == 0 or not fragment.fragment.single)
        return StageResult(task.bucket, results, os.getpid())

    def run_map(self, task: MapTask) -> MapResult:
        try:
            files = {}
            for split, source in task.sources:
                parts = [split_chunk(source, task.table_dir, chunk, task.buckets, self._evaluator) for chunk in task.chunks]
                path = f"{task.exchange_dir}/{split}-{task.part}.arrow"
                by_bucket = [[part[bucket] for part in parts] for bucket in range(task.buckets)]
                write_rows(path, [_joined(chunks) for chunks in by_bucket])
                files[split] = path
            return MapResult(task.part, files)
        except Exception as error:
            return MapResult(task.part, {}, _as_ours(error))

    def warm_up(self) -> None:
        """Load the libraries and the kernels that most queries need, before the first rows come."""
        warm_up(self._evaluator)

    def _guarded(self, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        """A failing query fails alone: its error is an answer, not an end of the task."""
        started = time.perf_counter()
        try:
            result = self._run(task, fragment)
        except Exception as error:
            self._caches.pop((task.database, fragment.incarnation, fragment.number, task.bucket), None)
            result = FragmentResult(fragment.incarnation, fragment.number, task.bucket, error=_as_ours(error))
        return replace(result, seconds=time.perf_counter() - started)

    def _run(self, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        key = (task.database, fragment.incarnation, fragment.number, task.bucket)
        cache = self._caches.get(key)
        if cache and cache.done and cache.done[:2] == (task.tick, fragment):
            return cache.done[2]
        if fragment.rebuild is not None:
            cache = self._caches[key] = self._rebuilt(task, fragment, fragment.rebuild)
        elif cache is None or not cache.can_take(fragment):
            self._caches.pop(key, None)
            return FragmentResult(fragment.incarnation, fragment.number, task.bucket, missing=True)
        else:
            self._take_in(cache, task, fragment.feeds)
        result = self._step(cache, task, fragment)
        cache.done = (task.tick, fragment, result)
        return result

    def _rebuilt(self, task: StageTask, fragment: FragmentTask, how: Rebuild) -> FragmentCache:
        scheduler = new_scheduler(task.scheduler)
        scheduler.rows_a_slice = self._rows_a_slice or scheduler.rows_a_slice
        circuit = Circuit(fragment.fragment.root, self._evaluator, self._pairs_a_piece, scheduler, self._most_ending)
        cache = FragmentCache(fragment, circuit)
        self._take_in(cache, task, fragment.feeds)
        if how.snapshot is not None:
            cache.circuit.load(load_arrays(snapshot_file(how.snapshot, fragment.number, task.bucket)))
            for position, pending in cache.pending.items():
                past = pending.release(fragment.at)
                cache.circuit.prime(position, past.instant, past.rows, fragment.at)
        return cache

    def _take_in(self, cache: FragmentCache, task: StageTask, feeds: tuple[SourceFeed, ...]) -> None:
        for (position, pending), feed in zip(cache.pending.items(), feeds, strict=True):
            if feed.upto <= cache.taken[position]:
                continue  # a rebuilt cache has them already
            source = cache.circuit.inputs[position]
            assert isinstance(source, SourceExec)
            for path in feed.exchange:
                pending.add(SignedBatch.arrivals(*read_rows(path, task.bucket)))
            for arrived in read_bucket(source, feed.table_dir, feed.chunks, task.bucket, task.buckets, self._evaluator):
                pending.add(arrived)
            cache.taken[position] = feed.upto

    def _step(self, cache: FragmentCache, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        received = iter(fragment.received)
        batches = []
        for position, node in enumerate(cache.circuit.inputs):
            if isinstance(node, ReceiveExec):
                batches.append(read_changes(next(received), task.bucket, SignedBatch.empty(node.schema)))
            else:
                batches.append(cache.pending[position].release(fragment.frontier))
        steps = (cache.circuit.step(part, upto) for part, upto in substeps(batches, fragment.frontier, self._rows_a_step))
        shown = fragment.fragment.sends is not None or fragment.emit != "nothing"
        changes = [part for part in steps if len(part) and shown]
        cache.at = fragment.frontier
        result = FragmentResult(
            fragment.incarnation, fragment.number, task.bucket,
            rows_in=sum(map(len, batches)), rows_out=sum(map(len, changes)), state_rows=cache.circuit.state_rows(),
            waiting_rows=sum(map(len, cache.pending.values())), waiting_bytes=state_bytes(cache.pending),
            operators=tuple(cache.circuit.profiles()),
        )  # fmt: skip
        result = self._deliver(changes, result, task, fragment)
        if fragment.snapshot_dir is not None:
            stem = f"{fragment.snapshot_dir}/{task.tick}"
            save_arrays(snapshot_file(stem, fragment.number, task.bucket), cache.circuit.save())
            result = replace(result, snapshot=stem)
        if fragment.wants_contents:
            path = f"{task.exchange_dir}/{uuid.uuid4().hex}.arrow"
            write_contents(path, cache.circuit.contents())
            result = replace(result, contents=path)
        return result

    def _deliver(self, changes: list[SignedBatch], result: FragmentResult, task: StageTask, fragment: FragmentTask) -> FragmentResult:
        """`changes` are those of consecutive spans of time."""
        if fragment.fragment.sends is not None:
            path = f"{task.exchange_dir}/{uuid.uuid4().hex}.arrow"
            write_changes(
                path, concat(changes or [SignedBatch.empty(fragment.fragment.root.schema)]), fragment.fragment.sends, task.buckets
            )
            return replace(result, exchange=path)
        if changes and fragment.emit == "net":
            changes = [part for part in [_netted_at(concat(changes), fragment.frontier)] if len(part)]
        if not changes:
            return result
        released = count_released(changes, fragment.released_upto)
        return replace(result, output=write_output(fragment.output_dir, changes, fragment.output_columns), released=released)

    def _forget_dead(self, task: StageTask) -> None:
        for key in [key for key in self._caches if key[0] != task.database or key[1] not in task.live]:
            del self._caches[key]


def snapshot_file(stem: str, fragment: int, bucket: int) -> Path:
    return Path(f"{stem}-{fragment}-{bucket}.npz")


def _netted_at(changes: SignedBatch, instant: Micros) -> SignedBatch:
    rows = net_rows(changes.rows, changes.sign)
    return SignedBatch.arrivals(np.full(rows.num_rows, instant, np.int64), rows)


def _joined(parts: list[Timed]) -> Timed:
    return np.concatenate([ts for ts, _ in parts]), pa.concat_batches([rows for _, rows in parts])


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
