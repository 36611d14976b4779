"""A store that keeps rows added up by panes (plan/physical.py, Panes) instead of the rows themselves.

    arrive ─► wait for the frontier ─► open pane, added up as far as it goes ─► closed: rows for windows, at its last instant

Whoever reads it reads partial rows, as it would read rows of a stream.  A pane may come in several parts: where two readers have come one
after the other, and the later one looked further back; and where a sum of BIGINT might not fit, whose rows then stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.core.instant import Micros
from millstream.core.signed_batch import SignedBatch, merge_by_instant
from millstream.kernels.compiled import Ints
from millstream.kernels.key_table import KeyTable
from millstream.kernels.pane_groups import PaneGroups
from millstream.operators.pending import PendingRows
from millstream.plan.physical import PartialCall, SourceExec
from millstream.runtime.messages import SourceFeed
from millstream.runtime.source_store import Read, SourceStore


class PaneStore(SourceStore):
    def __init__(self, source: SourceExec, since: Micros) -> None:
        super().__init__(source, since)
        assert source.panes is not None
        self._panes = source.panes
        self._pending = PendingRows(source.panes.rows)
        self._open: list[SignedBatch] = []  # parts of panes that have not ended, by their last instants

    def admits(self, feed: SourceFeed, columns: Sequence[str]) -> bool:
        """What is here of a pane that the log has only a part of, nobody else would see."""
        cut = self.between(max(feed.since, self.since), feed.whole_from - 1 + self._panes.slide_us)
        return super().admits(feed, columns) and not cut

    def extend(self, feed: SourceFeed, columns: Sequence[str], read: Read) -> None:
        if feed.since < self.since:
            older = [batch.filter(batch.instant >= feed.since) for batch in read(feed, -1, self.since, self.did)]
            parts = self._added_up(older)
            closed = int(np.searchsorted(parts.instant, self.at, "right"))
            self._put_before(parts.slice(0, closed))
            self._open += [parts.slice(closed, len(parts))] if closed < len(parts) else []
            self.since = feed.since
        self.take_in(feed, read)

    def take_in(self, feed: SourceFeed, read: Read) -> None:
        if feed.upto <= self.taken:
            return
        new_from = max(self.since, self.at + 1)
        for batch in read(feed, self.taken, None, self.did):
            self._pending.add(batch.filter(batch.instant >= new_from))
        self.taken = feed.upto

    def advance(self, frontier: Micros) -> None:
        if frontier <= self.at:
            return
        released = self._pending.release(frontier)
        self.at = frontier
        if len(released):
            self._open.append(self._added_up([released]))
        ended = [part for part in self._open if int(part.instant[0]) <= frontier]
        if ended:
            cuts = [int(np.searchsorted(part.instant, frontier, "right")) for part in ended]
            going_on = [part.slice(cut, len(part)) for part, cut in zip(ended, cuts, strict=True) if cut < len(part)]
            self._open = [part for part in self._open if int(part.instant[0]) > frontier] + going_on
            self._append(self._together([part.slice(0, cut) for part, cut in zip(ended, cuts, strict=True)]))

    def trim(self) -> None:
        """What is left begins with a whole pane, or with the part of one with which it began before; nothing older is left, or whoever
        looks further back would have it twice."""
        before = self.since
        super().trim()
        if self.since > before:
            self.since = max(before, self.since // self._panes.slide_us * self._panes.slide_us)
            self._cut_before(self.since)

    @property
    def bytes(self) -> int:
        return super().bytes + sum(part.nbytes for part in self._open)

    def _added_up(self, batches: Sequence[SignedBatch]) -> SignedBatch:
        """Rows of the stream, by pane and group."""
        slide, calls = self._panes.slide_us, self._panes.calls
        full = [batch for batch in batches if len(batch)]
        if not full:
            return SignedBatch.empty(self.schema)
        last = np.concatenate([batch.instant for batch in full])
        last = (last // slide + 1) * slide - 1
        rows = pa.concat_batches([batch.rows for batch in full])
        arguments = {call.name: _argument(call, rows) for call in calls}
        if not self._fit(arguments):
            return self._one_by_one(last, rows, arguments)
        functions = [call.function if call.function != "count" or call.argument else "count_all" for call in calls]
        return self._grouped(last, rows, arguments, functions)

    def _together(self, parts: Sequence[SignedBatch]) -> SignedBatch:
        """Parts of the same panes, as one for each group."""
        if len(parts) == 1:
            return parts[0]
        all_ = merge_by_instant(parts)
        arguments = {call.name: all_.rows.column(call.name) for call in self._panes.calls}
        if not self._fit(arguments):
            return all_
        functions = ["sum" if call.function == "count" else call.function for call in self._panes.calls]
        return self._grouped(all_.instant, all_.rows, arguments, functions)

    def _fit(self, arguments: dict[str, pa.Array]) -> bool:
        """Whether every sum of some of these is a BIGINT."""
        for call in self._panes.calls:
            column = arguments[call.name]
            if call.function == "sum" and pa.types.is_integer(column.type) and len(column) > column.null_count:
                ends = pc.min_max(column).as_py()
                if max(-ends["min"], ends["max"]) * len(column) >= 1 << 63:
                    return False
        return True

    def _one_by_one(self, last: Ints, rows: pa.RecordBatch, arguments: dict[str, pa.Array]) -> SignedBatch:
        """A part for each row."""
        columns = [rows.column(key) for key in self._panes.keys]
        columns += [
            _counted(call, arguments[call.name]) if call.function == "count" else arguments[call.name] for call in self._panes.calls
        ]
        schema = self.schema.to_arrow()
        cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        part = SignedBatch.arrivals(last, pa.RecordBatch.from_arrays(cast, schema=schema))
        return part if (last[1:] >= last[:-1]).all() else part.take(np.argsort(last, kind="stable"))

    def _grouped(self, last: Ints, rows: pa.RecordBatch, arguments: dict[str, pa.Array], functions: Sequence[str]) -> SignedBatch:
        """One row for each pane and group; a function for each call."""
        if not (last[1:] >= last[:-1]).all():
            order = np.argsort(last, kind="stable")
            last, rows = last[order], rows.take(pa.array(order))
            arguments = {name: column.take(pa.array(order)) for name, column in arguments.items()}
        table = KeyTable([rows.column(key).type for key in self._panes.keys]) if self._panes.keys else None
        codes = table.encode([rows.column(key) for key in self._panes.keys]) if table is not None else np.zeros(len(last), np.int64)
        groups = PaneGroups(last, codes, table.capacity if table is not None else 1)
        keys = table.decode(codes[groups.first]) if table is not None else []
        columns = keys + [
            groups.added_up(arguments[call.name], function) for call, function in zip(self._panes.calls, functions, strict=True)
        ]
        schema = self.schema.to_arrow()
        cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
        return SignedBatch.arrivals(last[groups.first], pa.RecordBatch.from_arrays(cast, schema=schema))


def _counted(call: PartialCall, argument: pa.Array) -> pa.Array:
    return pa.array(np.ones(len(argument), np.int64)) if call.argument is None else argument.is_valid().cast(pa.int64())


def _argument(call: PartialCall, rows: pa.RecordBatch) -> pa.Array:
    if call.argument is None:
        return pa.array(np.zeros(rows.num_rows, np.int8))
    column = rows.column(call.argument)
    return column.cast(call.type) if call.function == "sum" else column
