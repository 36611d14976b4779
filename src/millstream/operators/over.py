"""f(...) OVER (PARTITION BY ... ORDER BY ... frame): each row with results over the rows around it, exact at every instant.

    batch ─► slots: (partition, instant), equal rows netted
               └─► rows that the slot's changes can touch, as they were   ──► their results ──► -
                   changes enter the partition's ordered multiset
                   the same rows, as they are                             ──► their results ──► +
    netted: what is the same before and after has not changed

A step costs its changes, times the rows whose frames see them, times the frames' rows where those are summed up (frames of
neighbours share that).  Numbers and positions need no frame, and a row that is looked up costs O(log rows).

Sums are the aggregates of GROUP BY: from target to target rows enter and leave the frame, as if it were a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch, concat
from millstream.kernels import over_frames
from millstream.kernels.arrow_buffers import frozen
from millstream.kernels.compiled import Ints
from millstream.kernels.over_frames import (
    AFTER_ALL,
    AFTER_PEERS,
    AT_OFFSET,
    BEFORE_ALL,
    CODE,
    CONTEXT,
    FIRST_PEER,
    INTERVALS,
    POSITION,
    SIGN,
    SIZE,
    SLOT,
    TARGETS,
)
from millstream.operators.aggregates import aggregates_for
from millstream.operators.aggregates.aggregate import Changes
from millstream.operators.net import NetOp
from millstream.operators.operator import Arrays, Contents, Operator
from millstream.operators.sorted_partitions import Slots, SortedPartitions, never_there
from millstream.plan.logical import AggregateCall
from millstream.plan.ordering import LOOKING, NUMBERING, Frame, Offset, OverCall, SortKey

_ROOM = 1 << 16


class OverOp(Operator):
    def __init__(self, schema: Schema, partition_by: Sequence[str], order_by: Sequence[SortKey], calls: Sequence[OverCall]) -> None:
        self.schema = Schema(schema.fields + tuple(Field(call.name, call.type) for call in calls))
        self._input_schema = schema
        self._calls = tuple(calls)
        self._partitions = SortedPartitions(schema, partition_by, order_by)
        self._frames = _Frames(calls)
        self._descending = bool(order_by) and order_by[0].descending
        self._floating = bool(order_by) and pa.types.is_floating(schema[order_by[0].column].type)
        self._room = _Room(self._frames, _ROOM)
        self._net = NetOp(self.schema)

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        if len(batch) == 0:
            return SignedBatch.empty(self.schema)
        slots = self._partitions.slots(batch)
        parts = [self._changes(slots, seen) for seen in self._followed(slots)]
        self._partitions.forget()
        return self._net.step(concat(parts), frontier) if parts else SignedBatch.empty(self.schema)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        raise InternalError("OVER keeps its input, not its answer")

    def save(self) -> Arrays:
        return self._partitions.save()

    def load(self, arrays: Arrays) -> None:
        self._partitions.load(arrays)

    def state_rows(self) -> int:
        return self._partitions.rows

    # --- a step -------------------------------------------------------------------------------

    def _followed(self, slots: Slots) -> Iterator[_Seen]:
        """Applies the changes; gives the targets of all slots in order, as many at a time as there is room for."""
        partitions, store, frames, progress = self._partitions, self._partitions.store, self._frames, np.zeros(6, np.int64)
        while True:
            state = over_frames.follow(
                slots.start, slots.part, slots.code, slots.delta, partitions.nodes, partitions.roots, partitions.path,
                frames.specs, frames.lookups, frames.wants_peers, store.arena, store.spans, store.prefixes,
                self._descending, self._floating, progress, *self._room.arrays,
            )  # fmt: skip
            if state == over_frames.OUT_OF_NODES:
                partitions.grow()
                continue
            if state == over_frames.NEVER_THERE:
                raise never_there()
            if progress[TARGETS]:
                yield self._room.seen(progress)
            elif state == over_frames.FULL:
                self._room = _Room(frames, 2 * self._room.size)
            progress[TARGETS : CONTEXT + 1] = 0
            if state == over_frames.DONE:
                return

    def _changes(self, slots: Slots, seen: _Seen) -> SignedBatch:
        """Each target with its results, entering or leaving."""
        columns = self._partitions.store.columns(seen.targets[:, CODE])
        sums = self._sums(seen)
        columns += [sums[call.name] if call.name in sums else self._result(call, seen) for call in self._calls]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow())
        return SignedBatch(slots.instant[seen.targets[:, SLOT]], seen.targets[:, SIGN].astype(np.int8), rows)

    # --- results ------------------------------------------------------------------------------

    def _result(self, call: OverCall, seen: _Seen) -> pa.Array:
        if call.function in NUMBERING:
            return pa.array(self._number(call, seen), call.type)
        if call.function in LOOKING:
            codes = seen.looked[:, self._frames.lookup_of(call)]
            if call.function in ("is_lag", "is_lead"):
                return pa.array(codes >= 0)
            assert call.argument is not None
            somewhere = np.where(codes >= 0, codes, seen.targets[:, CODE])  # any row that is there, where none is meant
            found = self._partitions.store.column(somewhere, self._input_schema.names.index(call.argument))
            return pa.compute.if_else(pa.array(codes >= 0), found, pa.scalar(None, found.type))
        frame = seen.frames[:, self._frames.spec_of(call)]
        return pa.array(frame[:, 1] - frame[:, 0])

    def _number(self, call: OverCall, seen: _Seen) -> npt.NDArray[Any]:
        targets = seen.targets
        position, size, before, upto = (targets[:, i] for i in (POSITION, SIZE, FIRST_PEER, AFTER_PEERS))
        match call.function:
            case "row_number":
                return (position + 1).astype(np.int32)
            case "rank":
                return (before + 1).astype(np.int32)
            case "dense_rank":
                store = self._partitions.store
                return over_frames.distinct_peers(
                    targets, seen.frames, self._frames.spec_of(call), seen.shift, seen.context, store.arena, store.spans, store.prefixes
                ).astype(np.int32)
            case "percent_rank":
                return before / np.maximum(size - 1, 1)
            case "cume_dist":
                return upto / size
            case "ntile":
                return _tiles(position, size, call.parameter)
        raise AssertionError(f"{call.function} gives no number")

    def _sums(self, seen: _Seen) -> dict[str, pa.Array]:
        """The results of all aggregates, by name."""
        results: dict[str, pa.Array] = {}
        for frame in dict.fromkeys(call.frame for call in self._calls if _is_summed(call)):
            calls = [call for call in self._calls if _is_summed(call) and call.frame == frame]
            slid = seen.slid(self._frames.specs_by_frame[frame])
            asked = tuple(AggregateCall(call.name, call.function, call.argument, call.type) for call in calls)
            for call, aggregate in zip(asked, aggregates_for(asked, self._input_schema), strict=True):
                assert call.argument is not None
                aggregate.reserve(len(seen.shift))
                argument = self._partitions.store.column(slid.row, self._input_schema.names.index(call.argument))
                results[call.name] = aggregate.add(slid.changes, [argument]).take(slid.after)
        return results


def _is_summed(call: OverCall) -> bool:
    return call.function not in NUMBERING | LOOKING and call.argument is not None


def _tiles(position: Ints, size: Ints, tiles: int) -> npt.NDArray[np.int32]:
    """As even as can be, the larger ones first."""
    length, larger = size // tiles, size % tiles
    border = larger * (length + 1)
    tile = np.where(position < border, position // (length + 1), larger + (position - border) // np.maximum(length, 1))
    return (tile + 1).astype(np.int32)


class _Frames:
    """The different frames of all calls, as the kernel reads them."""

    def __init__(self, calls: Sequence[OverCall]) -> None:
        self.specs_by_frame = {frame: i for i, frame in enumerate(dict.fromkeys(call.frame for call in calls))}
        self._lookups = {lookup: i for i, lookup in enumerate(dict.fromkeys(self._lookup(c) for c in calls if c.function in LOOKING))}
        context = {call.frame for call in calls if _is_summed(call) or call.function == "dense_rank"}
        self.specs: Ints = np.array([_spec(frame, summed=frame in context) for frame in self.specs_by_frame], np.int64)
        self.lookups: Ints = np.array(list(self._lookups), np.int64).reshape(-1, over_frames.LOOKUP_WIDTH)
        by_peers = {"rank", "dense_rank", "percent_rank", "cume_dist"}
        self.wants_peers = any(call.frame.unit == "range" or call.function in by_peers for call in calls)

    def spec_of(self, call: OverCall) -> int:
        return self.specs_by_frame[call.frame]

    def lookup_of(self, call: OverCall) -> int:
        return self._lookups[self._lookup(call)]

    def _lookup(self, call: OverCall) -> tuple[int, int]:
        at = {"last_value": -1, "nth_value": call.parameter}.get(call.function, 1)
        return self.spec_of(call), at


def _spec(frame: Frame, *, summed: bool) -> list[int]:
    start = BEFORE_ALL if frame.start is None else AT_OFFSET
    stop = AFTER_ALL if frame.stop is None else AT_OFFSET
    return [int(frame.unit == "range"), start, _word(frame.start), stop, _word(frame.stop), int(summed)]


def _word(offset: Offset) -> int:
    """An offset in a word; a double's bits."""
    return int(np.float64(offset).view(np.int64)) if isinstance(offset, float) else int(offset or 0)


class _Room:
    """Where the kernel writes."""

    def __init__(self, frames: _Frames, size: int) -> None:
        self.size = size
        self.targets: Ints = np.empty((size, over_frames.TARGET_WIDTH), np.int64)
        self.frames: Ints = np.empty((size, len(frames.specs), 2), np.int64)
        self.looked: Ints = np.empty((size, len(frames.lookups)), np.int64)
        self.shift: Ints = np.empty(size, np.int64)
        self.context: Ints = np.empty(4 * size, np.int64)

    @property
    def arrays(self) -> tuple[Ints, ...]:
        return self.targets, self.frames, self.looked, self.shift, self.context

    def seen(self, progress: Ints) -> _Seen:
        n = int(progress[TARGETS])
        return _Seen(
            self.targets[:n], self.frames[:n], self.looked[:n], self.shift[: progress[INTERVALS]], self.context[: progress[CONTEXT]]
        )  # fmt: skip


@dataclass(frozen=True)
class _Slid:
    """The rows that enter and leave a frame from target to target."""

    row: Ints
    changes: Changes
    after: npt.NDArray[np.int32]  # place of each target's frame in what an aggregate says


@dataclass(frozen=True)
class _Seen:
    """Some targets (kernels/over_frames.py)."""

    targets: Ints
    frames: Ints
    looked: Ints
    shift: Ints
    context: Ints

    def slid(self, f: int) -> _Slid:
        most = 2 * len(self.context) + 2 * len(self.shift)
        row, sign = np.empty(most, np.int64), np.empty(most, np.int8)
        group, slot, rows = np.empty(most, np.int64), np.empty(most, np.int32), np.empty(2 * most, np.int64)
        of_target = np.empty(len(self.targets), np.int32)
        n, slots = over_frames.slide_frames(
            self.targets, self.frames, f, self.shift, self.context, row, sign, group, slot, rows, of_target
        )  # fmt: skip
        changes = Changes(
            frozen(slot[:n].astype(np.int64)), frozen(group[:n]), frozen(slot[:n]), frozen(sign[:n]), slots, frozen(rows[: 2 * slots])
        )  # fmt: skip
        return _Slid(row[:n], changes, 2 * of_target + 1)
