"""The relations of a database that are read from elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from weakref import WeakKeyDictionary

import pyarrow as pa

from millstream.core.errors import InstantPassed
from millstream.core.instant import LAST, Micros
from millstream.language.catalog import RelationEntry
from millstream.runtime.clock import Clock
from millstream.runtime.fair_lock import FairRLock
from millstream.runtime.pulls.kinds import check_origin, open_reader
from millstream.runtime.pulls.origin import Origin, SparkRead
from millstream.runtime.pulls.pull import PATIENCE_S, TIMEOUT_S, Pull
from millstream.runtime.relation_changes import difference, whole_relation
from millstream.runtime.relations import Relations
from millstream.runtime.resolved_options import resolved_options
from millstream.runtime.rows import table_of
from millstream.runtime.running_query import RunningQuery


class Pulls:
    """`lock` is the engine's, under which relations change; `instant_of` says when a change takes effect that is known now."""

    def __init__(self, relations: Relations, lock: FairRLock, clock: Clock, instant_of: Callable[[str], Micros]) -> None:
        self.answered: Callable[[], None] = lambda: None
        self.read_with_spark: SparkRead | None = None
        self.patience_s, self.timeout_s = PATIENCE_S, TIMEOUT_S
        self._relations = relations
        self._lock = lock
        self._clock = clock
        self._instant_of = instant_of
        self._pulls: dict[str, Pull] = {}
        self._held: WeakKeyDictionary[Pull, pa.Table] = WeakKeyDictionary()  # what each relation holds, once it was asked for
        self._holds_somebody = False  # when `ready` was last asked

    def __iter__(self) -> Iterator[Pull]:
        return iter(list(self._pulls.values()))

    def get(self, name: str) -> Pull | None:
        return self._pulls.get(name)

    def check(self, entry: RelationEntry) -> None:
        """As far as that takes no time; who is asked says the rest in SHOW RELATIONS."""
        check_origin(_origin(entry), self.read_with_spark)

    def add(self, entry: RelationEntry) -> None:
        """Nobody is asked yet."""
        pull = Pull(
            entry.name,
            lambda: open_reader(_origin(entry), self.read_with_spark, self.timeout_s),
            lambda rows: self._take(pull, entry, rows),
            self._clock,
            interval_s=None if entry.refresh_us is None else entry.refresh_us / 1e6,
            secrets=entry.options.secrets,
            answered=lambda: self.answered(),
            patience_s=self.patience_s,
            timeout_s=self.timeout_s,
        )
        self._pulls[entry.name] = pull

    def drop(self, name: str) -> None:
        pull = self._pulls.pop(name, None)
        if pull is not None:
            pull.stop()

    def close(self) -> None:
        for name in list(self._pulls):
            self.drop(name)

    # --- who reads them

    def ready(self, due: list[RunningQuery]) -> list[RunningQuery]:
        """Those whose tick can take place; the others wait for an answer.  The caller has the engine's lock, and nobody waits here."""
        if not self._pulls:
            return due
        ready = [query for query in due if not self._holds(query)]
        self._holds_somebody = len(ready) < len(due)
        return ready

    def _holds(self, query: RunningQuery) -> bool:
        read = [self._pulls[name] for name in query.inputs if name in self._pulls]
        waits = [pull.holds(query.incarnation) for pull in read]  # all are asked at once
        if not any(waits):
            for pull in read:
                pull.release(query.incarnation)
        return any(waits)

    def await_answers(self) -> bool:
        """Waits for those that hold somebody up, but not for long; false if none does.  The caller has no lock."""
        if not self._holds_somebody:
            return False
        for pull in self:
            pull.await_answer()
        return True

    def refresh(self, names: Iterable[str]) -> None:
        """For somebody who begins to read them now.  The caller has no lock."""
        pulls = [pull for name in names if (pull := self._pulls.get(name)) is not None]
        for pull in pulls:
            pull.ask()
        for pull in pulls:
            pull.await_answer()

    # --- what they say

    def _take(self, pull: Pull, entry: RelationEntry, given: pa.Table) -> None:
        """Rows become the relation's contents from the present instant on.

        Nobody else changes it.  So rows are checked, and compared with what it holds, before anything is locked.
        """
        rows = whole_relation(table_of(given, entry.schema, entry.name), entry)
        held = self._held.get(pull)
        if held is not None and rows.equals(held):
            return
        if held is None:
            with self._lock:
                held = rows.slice(0, 0) if pull.is_stopped else self._relations.contents(entry.name)
        leaving, entering = difference(held, rows)
        with self._lock:
            if not pull.is_stopped:
                self._relations.exchange(entry.name, leaving, entering, self._instant(entry.name))
                self._held[pull] = rows

    def _instant(self, name: str) -> Micros:
        instant = self._instant_of(name)
        if instant > LAST:
            raise InstantPassed("the last instant of all has passed: nothing can change any more")
        return instant


def _origin(entry: RelationEntry) -> Origin:
    assert entry.format is not None
    options = resolved_options(f'relation "{entry.name}"', entry.options)
    return Origin(entry.name, entry.format.lower(), options, entry.schema)
