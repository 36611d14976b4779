"""Who of many wants a row: the changes of a stream's window, once for each standing selection that they concern.

Row for row, no state: what has entered for somebody leaves for the same.  The selections come and go while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.schema import Schema
from millstream.core.signed_batch import SignedBatch
from millstream.kernels.compiled import Ints
from millstream.kernels.predicate_index import PredicateIndex
from millstream.operators.evaluator import Evaluator
from millstream.operators.operator import Contents, Operator
from millstream.plan.selection import Wanted


class MatchOp(Operator):
    def __init__(self, below: Schema, schema: Schema, evaluator: Evaluator) -> None:
        self.schema = schema
        self._types = {field.name: field.type for field in below}
        self._evaluator = evaluator
        self._index = PredicateIndex(self._types)
        self._wanted: dict[int, Wanted] = {}
        self._conditional: dict[int, Wanted] = {}
        self.only: int | None = None
        """Whose contents are asked for."""

    def want(self, wanted: Sequence[Wanted]) -> None:
        """From now on these, and no others."""
        new = {each.member: each for each in wanted}
        for member in [member for member, each in self._wanted.items() if new.get(member) != each]:
            self._index.remove(member)
            del self._wanted[member]
        for member, each in new.items():
            if member not in self._wanted:
                self._index.add(member, each.factors)
        self._wanted = new
        self._conditional = {member: each for member, each in new.items() if each.conditions}

    def step(self, batch: SignedBatch, frontier: Micros) -> SignedBatch:
        rows, members = self._matches(self._index, self._conditional, batch.rows)
        order = np.argsort(rows, kind="stable")
        return batch.take(rows[order]).with_rows(self._told(batch.rows, rows[order], members[order]))

    def contents(self, input_contents: Contents) -> pa.RecordBatch:
        rows = input_contents()
        one = [self._wanted[self.only]] if self.only in self._wanted else []
        index = PredicateIndex(self._types)
        for each in one:
            index.add(each.member, each.factors)
        found, members = self._matches(index, {each.member: each for each in one if each.conditions}, rows)
        return self._told(rows, found, members)

    def _matches(self, index: PredicateIndex, conditional: dict[int, Wanted], rows: pa.RecordBatch) -> tuple[Ints, Ints]:
        """(row, member) of all that is wanted, in order of members and then of rows."""
        found, members = index.probe(rows)
        if not conditional or not len(found):
            return found, members
        kept = np.ones(len(found), np.bool_)
        for member, each in conditional.items():
            mine = slice(int(np.searchsorted(members, member, "left")), int(np.searchsorted(members, member, "right")))
            if mine.start < mine.stop:
                some = rows.select([column for column, _ in each.names]).take(pa.array(found[mine]))
                named = some.rename_columns([name for _, name in each.names])
                kept[mine] = self._evaluator.mask(named, " AND ".join(f"({condition})" for condition in each.conditions))
        return found[kept], members[kept]

    def _told(self, rows: pa.RecordBatch, found: Ints, members: Ints) -> pa.RecordBatch:
        columns = [*rows.take(pa.array(found)).columns, pa.array(members)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.to_arrow())
