"""The answer that a query's changes add up to, where no operator keeps it: a piece at a time, and from what was known the last time.

    changelog   ├── added up when it was asked before ──┼── piece ──┼── piece ──┤ upto
                              rows, at                     what these change

So the first question costs the changes so far, each once, and the next one only those since; memory is that of the answer and of a piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.runtime.results import by_position, net_rows, one_batch, own_columns, undone
from millstream.state.changelog import Changelog

_PIECE = 1 << 20


@dataclass(frozen=True)
class SoFar:
    """The answer at an instant."""

    at: Micros
    rows: pa.Table


def added_up(changelog: Changelog, upto: Micros, known: SoFar | None) -> SoFar | None:
    """The answer at `upto`, of which the changelog holds everything; None if it was folded beyond that meanwhile."""
    if known is not None and known.at > upto:
        before = undone(known.rows, changelog.read(since=upto, until=known.at))
        return SoFar(upto, before) if changelog.folded_to <= upto else None
    so_far = known or _nothing(changelog)
    while so_far.at < upto:
        if so_far.at > NEVER_BEFORE and changelog.folded_to > so_far.at:
            so_far = _nothing(changelog)  # what came next is no longer known one by one
        changes, at = changelog.read_some(so_far.at, upto, max(_PIECE, 2 * so_far.rows.num_rows))
        if so_far.at > NEVER_BEFORE and changelog.folded_to > so_far.at:
            continue
        so_far = SoFar(at, _changed(so_far.rows, changes))
    return so_far if changelog.folded_to <= upto else None


def _nothing(changelog: Changelog) -> SoFar:
    return SoFar(NEVER_BEFORE, own_columns(changelog.read(until=NEVER_BEFORE)))


def _changed(rows: pa.Table, changes: pa.Table) -> pa.Table:
    if not changes.num_rows:
        return rows
    both = pa.concat_tables([by_position(rows), by_position(own_columns(changes))])
    left = net_rows(one_batch(both), np.concatenate([np.ones(rows.num_rows, np.int8), changes.column(1).to_numpy()]))
    return pa.Table.from_batches([left]).rename_columns(rows.column_names)
