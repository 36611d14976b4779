"""f(...) OVER (PARTITION BY ... ORDER BY ... frame): each row with results over the rows around it, exact at every instant.

    batch ─► slots: (partition, instant), equal rows netted
               ├─► results over all rows of the partition, before and after: where they change, every row is touched
               └─► rows that the slot's changes can touch, as they were ──┐
                   changes enter the partition's ordered multiset         ├─► results, side by side ─► -, + where they differ
                   the same rows, as they are                           ──┘

A step costs its changes, times the rows whose frames see them, times the frames' rows where those are summed up (frames of
neighbours share that).  Numbers and positions need no frame, a row that is looked up costs O(log rows), and frames that begin with
the first row go on from what is known of the whole partition: operators/over_sums.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import InternalError
from millstream.core.instant import Micros
from millstream.core.schema import Field, Schema
from millstream.core.signed_batch import SignedBatch, Signs
from millstream.kernels import over_frames, over_walks
from millstream.kernels.compiled import Ints
from millstream.kernels.over_frames import (
    AFTER_ALL,
    AFTER_PEERS,
    AS_IT_WAS,
    AT_OFFSET,
    BEFORE_ALL,
    CODE,
    CONTEXT,
    DENSE,
    FIRST_PEER,
    INTERVALS,
    PHASE,
    POSITION,
    TARGETS,
)
from millstream.kernels.row_store import RowStore
from millstream.operators.aggregates.aggregate import grown
from millstream.operators.net import netted
from millstream.operators.operator import Arrays, Contents, Operator
from millstream.operators.over_sums import BoundedFrames, RunningFrames, Summed, WholeFrames
from millstream.operators.over_targets import Flags, Room, Seen
from millstream.operators.sorted_partitions import Slots, SortedPartitions, never_there
from millstream.plan.ordering import LOOKING, NUMBERING, Frame, Offset, OverCall, SortKey

_ROOM = 1 << 15
_NEAR = 16
"""So many rows around a target are rather copied than looked up."""


class OverOp(Operator):
    def __init__(self, schema: Schema, partition_by: Sequence[str], order_by: Sequence[SortKey], calls: Sequence[OverCall]) -> None:
        self.schema = Schema(schema.fields + tuple(Field(call.name, call.type) for call in calls))
        self._input_schema = schema
        self._calls = tuple(calls)
        self._partitions = SortedPartitions(schema, partition_by, order_by)
        self._frames = _Frames(calls)
        self._descending = bool(order_by) and order_by[0].descending
        self._floating = bool(order_by) and pa.types.is_floating(schema[order_by[0].column].type)
        self._distinct: Ints = np.zeros(0, np.int64)  # sort keys in each partition, if anybody counts them
        self._room = Room(_ROOM, len(self._frames.specs), len(self._frames.lookups))
        store = self._partitions.store
        whole = [call for call in calls if _is_summed(call) and call.frame.is_whole]
        self._whole = WholeFrames(whole, schema, store) if whole else None
        self._running = [RunningFrames(some, spec, schema, store) for spec, some in self._frames.summed(lambda f: f.start is None)]
        self._bounded = [BoundedFrames(some, spec, schema, store) for spec, some in self._frames.summed(lambda f: f.start is not None)]

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        if len(batch) == 0:
            return SignedBatch.empty(self.schema)
        slots, rank = self._partitions.slots(batch).by_partition()
        self._reserve()
        changes = [self._changes(slots, seen) for seen in self._followed(slots)]
        out = self._by_instant(slots, rank, changes) if changes else SignedBatch.empty(self.schema)
        self._partitions.forget()
        exact = self._partitions.told_apart and all(change.netted for change in changes)
        return out if exact else netted(out)

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        raise InternalError("OVER keeps its input, not its answer")

    def save(self) -> Arrays:
        return self._partitions.save()

    def load(self, arrays: Arrays) -> None:
        self._partitions.load(arrays)
        self._reserve()
        held = self._partitions.held()
        if self._whole is not None:
            self._whole.step(held)
        for running in self._running:
            running.load(held)
        if self._frames.counts_keys:
            store, part = self._partitions.store, np.repeat(held.part, np.diff(held.start))
            over_walks.count_keys(part, held.code, store.arena, store.spans, store.prefixes, self._distinct)

    def state_rows(self) -> int:
        return self._partitions.rows

    def _reserve(self) -> None:
        partitions = len(self._partitions.roots)
        if partitions > len(self._distinct):
            self._distinct = grown(self._distinct, partitions)
            for running in self._running:
                running.reserve(partitions)
            if self._whole is not None:
                self._whole.reserve(partitions)

    # --- a step -------------------------------------------------------------------------------

    def _followed(self, slots: Slots) -> Iterator[Seen]:
        """Applies the changes; gives the targets of all slots in order, as many slots at a time as there is room for."""
        partitions, store, frames, progress = self._partitions, self._partitions.store, self._frames, np.zeros(7, np.int64)
        all_changed = self._whole.step(slots) if self._whole is not None else np.zeros(len(slots), np.uint8)
        most = int(np.diff(slots.start).max(initial=0))
        places, found = np.empty((most, 2), np.int64), np.empty((most, 2), np.int64)
        while True:
            state = over_frames.follow(
                slots.start, slots.part, slots.code, slots.delta, all_changed, partitions.nodes, partitions.roots, partitions.path,
                frames.specs, frames.lookups, frames.manner, store.arena, store.spans, store.prefixes, self._descending, self._floating,
                self._distinct, places, found, progress, *self._room.arrays,
            )  # fmt: skip
            if state == over_frames.NEVER_THERE:
                raise never_there()
            if state == over_frames.OUT_OF_NODES:
                partitions.grow()
            elif progress[PHASE] == AS_IT_WAS and progress[INTERVALS]:  # whole slots
                yield self._room.seen(progress)
                progress[TARGETS : CONTEXT + 1] = 0
            elif state == over_frames.FULL:
                self._room = self._room.doubled()
            if state == over_frames.DONE:
                return

    def _changes(self, slots: Slots, seen: Seen) -> _Changes:
        """The targets whose results change, leaving and entering."""
        store, n = self._partitions.store, len(seen.targets)
        columns = self._columns(slots, seen)
        was, now = np.empty(n, np.int64), np.empty(n, np.int64)
        pairs, twice = over_walks.pair_targets(seen.targets, seen.intervals, store.arena, store.spans, was, now)
        was, now = was[:pairs], now[:pairs]
        both, changed = np.flatnonzero((was >= 0) & (now >= 0)), np.zeros(pairs, np.uint8)
        for column in columns:
            changed[both] |= column.differs(was[both], now[both])
        told, sign = np.empty(n, np.int64), np.empty(n, np.int8)
        n = over_walks.told(was, now, changed, told, sign)
        told, results = told[:n], [column.take(told[:n]) for column in columns]
        netted = not twice and all(column.is_exact for column in columns)
        return _Changes(seen.targets[told, CODE], seen.slot_of(told), sign[:n], results, netted)

    def _by_instant(self, slots: Slots, rank: Ints, changes: Sequence[_Changes]) -> SignedBatch:
        slot, sign = np.concatenate([some.slot for some in changes]), np.concatenate([some.sign for some in changes])
        instant, code = slots.instant[slot], np.concatenate([some.code for some in changes])
        results = [pa.concat_arrays(column) for column in zip(*(some.results for some in changes), strict=True)]
        if (instant[1:] < instant[:-1]).any():
            order = over_walks.by_rank(slot, rank)
            instant, sign, code = instant[order], sign[order], code[order]
            results = [column.take(pa.array(order)) for column in results]
        columns = self._partitions.store.columns(code) + results
        return SignedBatch(instant, sign, pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow()))

    # --- results ------------------------------------------------------------------------------

    def _columns(self, slots: Slots, seen: Seen) -> list[_Column]:
        sums: dict[str, Summed] = self._whole.summed(seen) if self._whole is not None else {}
        for running in self._running:
            sums |= running.summed(seen, slots)
        for bounded in self._bounded:
            sums |= bounded.summed(seen)
        return [sums[call.name] if call.name in sums else self._column(call, seen) for call in self._calls]

    def _column(self, call: OverCall, seen: Seen) -> _Column:
        if call.function in NUMBERING:
            return _Numbers(_number(call, seen), call.type)
        if call.function in LOOKING:
            codes = seen.looked[:, self._frames.lookup_of(call)]
            if call.argument is None:
                return _Numbers(codes >= 0, call.type)
            return _Looked(codes, self._partitions.store, self._input_schema.names.index(call.argument))
        frame = seen.frames[:, self._frames.spec_of(call)]
        return _Numbers(frame[:, 1] - frame[:, 0], call.type)


@dataclass(frozen=True)
class _Changes:
    """Rows that leave and enter, slot by slot."""

    code: Ints
    slot: Ints
    sign: Signs
    results: list[pa.Array]
    netted: bool


class _Column(Protocol):
    """What a call gives for each target."""

    def differs(self, was: Ints, now: Ints) -> Flags:
        """Where two targets have different results."""

    def take(self, targets: Ints) -> pa.Array: ...

    @property
    def is_exact(self) -> bool:
        """It says that results differ only if they do."""


@dataclass(frozen=True)
class _Numbers:
    values: npt.NDArray[Any]
    type: pa.DataType
    is_exact = True

    def differs(self, was: Ints, now: Ints) -> Flags:
        differs: Flags = self.values[was] != self.values[now]
        return differs

    def take(self, targets: Ints) -> pa.Array:
        return pa.array(self.values[targets].astype(self.type.to_pandas_dtype()))


@dataclass(frozen=True)
class _Looked:
    """The value of a column in another row."""

    codes: Ints
    store: RowStore
    place: int
    is_exact = True

    def differs(self, was: Ints, now: Ints) -> Flags:
        one, other = self.codes[was], self.codes[now]
        differs: Flags = one != other
        unlike = np.flatnonzero(differs)
        differs[unlike] = ~self.store.same(one[unlike], other[unlike], self.place)
        return differs

    def take(self, targets: Ints) -> pa.Array:
        return self.store.column(self.codes[targets], self.place)


def _number(call: OverCall, seen: Seen) -> npt.NDArray[Any]:
    position, before, upto = (seen.targets[:, i] for i in (POSITION, FIRST_PEER, AFTER_PEERS))
    match call.function:
        case "row_number":
            return position + 1
        case "rank":
            return before + 1
        case "dense_rank":
            return seen.targets[:, DENSE]
        case "percent_rank":
            return before / np.maximum(seen.size - 1, 1)
        case "cume_dist":
            return upto / seen.size
        case "ntile":
            return _tiles(position, seen.size, call.parameter)
    raise AssertionError(f"{call.function} gives no number")


def _tiles(position: Ints, size: Ints, tiles: int) -> Ints:
    """As even as can be, the larger ones first."""
    length, larger = size // tiles, size % tiles
    border = larger * (length + 1)
    return np.where(position < border, position // (length + 1), larger + (position - border) // np.maximum(length, 1)) + 1


# --- frames -----------------------------------------------------------------------------------


def _is_summed(call: OverCall) -> bool:
    """count(*) is the length of its frame, unless that is all rows."""
    return call.function not in NUMBERING | LOOKING and (call.argument is not None or call.frame.is_whole)


class _Frames:
    """The different frames of all calls, as the kernel reads them."""

    def __init__(self, calls: Sequence[OverCall]) -> None:
        self._calls = tuple(calls)
        self._specs = {frame: i for i, frame in enumerate(dict.fromkeys(call.frame for call in calls))}
        self._lookups = {lookup: i for i, lookup in enumerate(dict.fromkeys(self._lookup(c) for c in calls if c.function in LOOKING))}
        self.specs: Ints = np.array([self._spec(frame) for frame in self._specs], np.int64)
        self.lookups: Ints = np.array(list(self._lookups), np.int64).reshape(-1, over_frames.LOOKUP_WIDTH)
        self.counts_keys = any(call.function == "dense_rank" for call in calls)
        self.manner: Ints = np.array([len(self.specs), len(self.lookups), *self._peers_and_running(), *self._reach()], np.int64)

    def spec_of(self, call: OverCall) -> int:
        return self._specs[call.frame]

    def lookup_of(self, call: OverCall) -> int:
        return self._lookups[self._lookup(call)]

    def summed(self, wanted: Callable[[Frame], bool]) -> list[tuple[int, list[OverCall]]]:
        """Specs of these frames, except over all rows, and the calls that are summed up over them."""
        found: dict[int, list[OverCall]] = {}
        for call in self._calls:
            if _is_summed(call) and not call.frame.is_whole and wanted(call.frame):
                found.setdefault(self.spec_of(call), []).append(call)
        return list(found.items())

    def _lookup(self, call: OverCall) -> tuple[int, int]:
        at = {"last_value": -1, "nth_value": call.parameter}.get(call.function, 1)
        return self.spec_of(call), at

    def _spec(self, frame: Frame) -> list[int]:
        start = BEFORE_ALL if frame.start is None else AT_OFFSET
        stop = AFTER_ALL if frame.stop is None else AT_OFFSET
        calls = [call for call in self._calls if call.frame == frame]
        summed = not frame.is_whole and any(map(_is_summed, calls))
        wanted = summed or any(call.function not in NUMBERING for call in calls)
        touches_all = any(call.function in NUMBERING for call in calls)
        return [int(frame.unit == "range"), start, _word(frame.start), stop, _word(frame.stop), int(wanted), int(summed), int(touches_all)]

    def _peers_and_running(self) -> tuple[bool, bool]:
        by_peers = {"rank", "dense_rank", "percent_rank", "cume_dist"}
        wants_peers = any(call.frame.unit == "range" or call.function in by_peers for call in self._calls)
        return wants_peers, self.counts_keys or bool(self.summed(lambda frame: frame.start is None))

    def _reach(self) -> tuple[int, int]:
        """Rows before and behind a target that are as good as always asked for."""
        offsets = [offset or 0 for frame in self._specs if frame.unit == "rows" for offset in (frame.start, frame.stop)]
        near = [0, *(int(offset) for offset in offsets if abs(offset) <= _NEAR)]
        return -min(near), max(near)


def _word(offset: Offset) -> int:
    """An offset in a word; a double's bits."""
    return int(np.float64(offset).view(np.int64)) if isinstance(offset, float) else int(offset or 0)
