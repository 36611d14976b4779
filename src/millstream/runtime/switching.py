"""Another plan for a standing query: its answer changes from that of the old plan to that of the new one with the next instant.

    changes of the old plan ... f │ f + 1: the difference of the two answers, with what happens then │ changes of the new plan ...

What was said up to the frontier f stays said: those who follow the query only see its answer change.  Of a query that answers with a stream
there is no difference: from then on its elements are those of the new plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millstream.core.instant import Micros
from millstream.core.signed_batch import SignedBatch
from millstream.operators.net import netted
from millstream.runtime.results import by_position, net_rows, one_batch, own_columns
from millstream.runtime.running_query import RunningQuery, Switch
from millstream.state.atomic import remove_file
from millstream.state.changelog import Changelog
from millstream.state.output_file import OutputFile, write_output


def difference(at: Micros, before: pa.Table, after: pa.Table) -> Switch:
    """What has to be added to one answer to get the other."""
    rows = one_batch(pa.concat_tables([by_position(before), by_position(after)]))
    signs = np.concatenate([np.full(before.num_rows, -1, np.int8), np.ones(after.num_rows, np.int8)])
    net = netted(SignedBatch(np.full(len(signs), at, np.int64), signs, rows))
    return Switch(at, net.rows, net.sign)


def with_difference(query: RunningQuery, outputs: Sequence[OutputFile]) -> list[OutputFile]:
    """The changes of the next instant, and the difference that is owed, as one output."""
    owed, changelog = query.owes, query.changelog
    assert owed is not None
    instant = owed.at + 1
    natural = changelog.read(files=outputs)
    assert natural.column(0).cast(pa.int64()).to_numpy().tolist() == [instant] * natural.num_rows, "the difference has to come first"
    rows = one_batch(pa.concat_tables([pa.Table.from_batches([owed.rows]), by_position(own_columns(natural))]))
    signs = np.concatenate([owed.signs, natural.column(1).to_numpy()])
    changes = netted(SignedBatch(np.full(len(signs), instant, np.int64), signs, rows))
    delete_outputs(changelog, outputs)
    return [write_output(changelog.directory, [_minus_first(changes)], changelog.columns)] if len(changes) else []


def answer_in(changelog: Changelog, outputs: Sequence[OutputFile]) -> pa.Table:
    """The rows of outputs that hold nothing but arrivals."""
    return own_columns(changelog.read(files=outputs))


def after_switch(now: pa.Table, owed: Switch) -> pa.Table:
    """The answer of the new plan where the changelog still has that of the old one."""
    rows = one_batch(pa.concat_tables([by_position(now), pa.Table.from_batches([owed.rows])]))
    kept = net_rows(rows, np.concatenate([np.ones(now.num_rows, np.int8), owed.signs]))
    return pa.Table.from_batches([kept]).rename_columns(now.column_names)


def delete_outputs(changelog: Changelog, outputs: Sequence[OutputFile]) -> None:
    """Of files that no record names."""
    for output in outputs:
        remove_file(changelog.directory / output.path)


def _minus_first(changes: SignedBatch) -> SignedBatch:
    return changes.take(np.argsort(changes.sign, kind="stable"))
