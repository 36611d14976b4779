"""Relations on the driver: bags that users change, each change at an instant.

A change takes effect one microsecond after the greatest frontier of any stream, or at a later instant
of the user's choice; before there is any frontier it has been so since ever.  One at a later instant waits
until time has come there: others may still come before it, and what it does follows from what it finds then.  So the
changes that a relation's log gets come in the order of their instants.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.core.errors import BindError, InstantPassed
from millstream.core.instant import Micros, format_instant
from millstream.language.catalog import RelationEntry
from millstream.operators.evaluator import Evaluator
from millstream.runtime.constants import Assignment
from millstream.runtime.relation_changes import Change, Delete, Take, Update, effect, from_saved, put, to_saved
from millstream.runtime.relation_rows import RelationRows
from millstream.runtime.rows import table_of
from millstream.state.location import Location
from millstream.state.relation_log import RelationLog
from millstream.state.scheduled import Place, ScheduledChanges

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Moment:
    """When a change takes effect, and when one does that nobody asks a later instant for."""

    instant: Micros
    earliest: Micros


@dataclass
class _Open:
    entry: RelationEntry
    log: RelationLog
    scheduled: ScheduledChanges
    held: RelationRows | None = None  # what the log adds up to, once it was needed

    def rows(self) -> RelationRows:
        if self.held is None:
            self.held = self.rows_from_log()
        return self.held

    def rows_from_log(self) -> RelationRows:
        return RelationRows(self.entry.schema, self.entry.primary_key, self.log.contents())


class Relations:
    """The caller has the engine's lock."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._open: dict[str, _Open] = {}
        self._evaluator = Evaluator()

    def open(self, entry: RelationEntry) -> None:
        relation_log = RelationLog.open(self._location, entry.name, entry.schema)
        scheduled = ScheduledChanges(relation_log.directory, relation_log.last_scheduled)
        self._open[entry.name] = _Open(entry, relation_log, scheduled)

    def close(self, name: str) -> None:
        self._open.pop(name).log.close()

    def close_all(self) -> None:
        for name in list(self._open):
            self.close(name)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._open))

    def log(self, name: str) -> RelationLog:
        return self._open[name].log

    def maintain(self, name: str, settled: Micros, taken_in: int | None) -> None:
        """What was before the instant that every reader has passed is folded into one bag."""
        relation_log = self.log(name)
        relation_log.fold(settled)
        relation_log.compact(upto_seq=taken_in)
        relation_log.vacuum()

    def contents(self, name: str, at: Micros | None = None) -> pa.Table:
        return self.log(name).contents(at)

    def insert(self, name: str, rows: object, moment: Moment) -> int:
        """With a primary key a row takes the place of the one with the same key."""
        entry = self._open[name].entry
        change = put(table_of(rows, entry.schema, name), entry)
        self._change(name, change, moment)
        return len(change.rows)

    def delete_rows(self, name: str, rows: object, moment: Moment) -> int:
        """Take one copy of each given row away; rows that are not there are not an error."""
        return self._change(name, Take(table_of(rows, self._open[name].entry.schema, name)), moment)

    def delete(self, name: str, predicate_sql: str | None, moment: Moment) -> int:
        return self._change(name, Delete(predicate_sql), moment)

    def update(self, name: str, assignments: Mapping[str, Assignment], predicate_sql: str | None, moment: Moment) -> int:
        """The values of `assignments` are computed over the old row."""
        return self._change(name, Update(assignments, predicate_sql), moment)

    def exchange(self, name: str, old: pa.Table, new: pa.Table, instant: Micros) -> None:
        """`old` rows, which are there, leave and `new` ones enter; whoever asks has checked them."""
        self._append(self._open[name], old, new, instant)

    def bring_to(self, name: str, instant: Micros) -> None:
        """Whatever was to happen up to the instant happens, each change at its own."""
        relation = self._open[name]
        for waiting in relation.scheduled.upto(instant):
            done = relation.log.last_scheduled
            try:
                # the log may have it already, if only taking it off the list failed
                if done is None or waiting.place > done:
                    self._apply(relation, from_saved(waiting.description, waiting.rows, relation.entry), waiting.instant, waiting.place)
            except BindError as error:  # it was right when it was given, and is not any more; nobody waits for it now
                log.error("a change of a relation failed at its instant", extra={"relation": name, "reason": str(error)})
            relation.scheduled.remove(waiting)

    def _change(self, name: str, change: Change, moment: Moment) -> int:
        """Returns how many rows leave; for a change that is to wait, as far as that is known."""
        relation = self._open[name]
        relation.log.require_in_order(moment.instant)
        if moment.instant > moment.earliest:
            if isinstance(change, Update) and not relation.scheduled.upto(moment.instant):
                effect(change, relation.rows, relation.entry, self._evaluator)  # raises what would go wrong if nothing else came before
            relation.scheduled.add(moment.instant, *to_saved(change, relation.entry))
            return 0
        self.bring_to(name, moment.instant)
        return self._apply(relation, change, moment.instant)

    def _apply(self, relation: _Open, change: Change, instant: Micros, scheduled: Place | None = None) -> int:
        old, new = effect(change, relation.rows, relation.entry, self._evaluator)
        self._append(relation, old, new, instant, scheduled)
        return len(old)

    def _append(self, relation: _Open, old: pa.Table, new: pa.Table, instant: Micros, scheduled: Place | None = None) -> None:
        if old.num_rows + new.num_rows:
            held, relation.held = relation.held, None  # in doubt, the log knows
            diff = np.concatenate([np.full(old.num_rows, -1, np.int8), np.ones(new.num_rows, np.int8)])
            relation.log.append(pa.concat_tables([old, new]), diff, instant, scheduled=scheduled)
            if held is not None:
                held.apply(old, new)
                relation.held = held


def effective_instant(earliest: Micros, asked: Micros | None) -> Moment:
    """When a change of a relation takes effect (interface, fine print 2 and 14)."""
    if asked is None:
        return Moment(earliest, earliest)
    if asked < earliest:
        raise InstantPassed(
            f"{format_instant(asked)} has passed: a change takes effect at {format_instant(earliest)} at the earliest",
            hint="Leave AT away, or name a later instant.",
        )
    return Moment(asked, earliest)
