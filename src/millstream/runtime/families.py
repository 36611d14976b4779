"""Families: standing selections over one stream and window run together, as one common query with an index of what each of them wants.

    members   a   k = 3      ┐                      ┌──►  a's changelog
              b   v > 1      ├─►  common query  ────┼──►  b's changelog        when somebody looks
              c   k < 2      ┘    (row, member)     └──►  c's changelog

A tick costs what the rows cost that somebody wants, however many there are who might.  A member is a query like any other, with a
changelog of its own; but the changes of its answer are part of those of the common query, and come over when somebody looks, or when
there are many.  Up to where they have come is part of the changelog's own state, so that each of them comes once.

Who joins is at the very instant at which the common query is, and complete.  Who is paused, altered or stopped leaves first, and goes on by
itself from the log.  If the common query fails, everybody leaves: what is wrong will show where it belongs.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from millstream.core.errors import PlanChanged
from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.signed_batch import SignedBatch
from millstream.operators.evaluator import Evaluator
from millstream.operators.net import netted
from millstream.plan.logical import BoundQuery, Scan, ToStream, Window
from millstream.plan.physical import PhysicalPlan, contents_fragment
from millstream.plan.selection import MEMBER, Kind, Selection, common_plan, selection_of
from millstream.plan.window import TimeWindow
from millstream.runtime.results import one_batch
from millstream.runtime.rounds import Rounds
from millstream.runtime.running_query import COMMON, RunningQuery, Terms
from millstream.runtime.sharing import SharedPart
from millstream.runtime.standing import Standing

if TYPE_CHECKING:
    from millstream.runtime.engine import Engine

log = logging.getLogger(__name__)

FEWEST = 8
"""So many selections of one family are worth a common query."""
MOST_WAITING = 1_000_000
"""Changes that have not come over to the members: with more, upkeep brings them."""
WORTH_A_FILE, _MOST_LOOKED_THROUGH = 4_000, 4
"""To bring them costs each member a file and a commit, some 5 ms however few its changes: of a thousand members more may wait, but no
more than so many times as many, as whoever looks goes through all of them."""
_A_PIECE = 500_000
"""Changes that are read at once."""

Key = tuple[str, TimeWindow]


class Families:
    def __init__(self, engine: Engine, standing: Standing, rounds: Rounds, *, on: bool) -> None:
        self._engine = engine
        self._standing = standing
        self._rounds = rounds
        self._on = on
        self._evaluator: Evaluator | None = None
        self._evaluating = threading.Lock()  # changes come over with and without the lock of the database
        self._commons: dict[Key, RunningQuery] = {}
        self._broken: dict[Key, set[str]] = {}  # incarnations of those who could not run together: one of them is to blame
        self._not_before: dict[Key, Micros] = {}  # until then the log is too short
        self._versions = 0
        self._alone: dict[str, RunningQuery] = {}  # selections that run by themselves, and may join others

    @property
    def commons(self) -> list[RunningQuery]:
        return list(self._commons.values())

    # --- what is told of them

    def sharing(self) -> list[SharedPart]:
        return [
            SharedPart("selections", f"{stream} {window}", tuple(sorted(member.name for member in common.members.values())))
            for (stream, window), common in self._commons.items()
        ]

    def explained(self, plan: PhysicalPlan) -> str | None:
        """What EXPLAIN says of a query that would run together with others."""
        selection = selection_of(plan) if self._on else None
        common = self._commons.get(selection.family) if selection is not None else None
        if selection is None or common is None:
            return None
        tried = f"; tried row by row: {' and '.join(selection.conditions)}" if selection.conditions else ""
        indexed = " and ".join(f"{factor.column} {factor.op} {factor.constant}" for factor in selection.factors) or "every row"
        return f"Runs together with {len(common.members)} selections over {selection.stream} {selection.window}, found by: {indexed}{tried}"

    # --- who runs together

    def welcome(self, query: RunningQuery) -> None:
        """A new query, or one that has changed, may join others."""
        if self._on and query.selection is not None and not query.is_common:
            self._alone[query.name] = query

    def common_of(self, query: RunningQuery) -> RunningQuery | None:
        """In which it could run."""
        return self._commons.get(query.selection.family) if self._on and query.selection is not None else None

    def gather(self) -> None:
        """Whoever can join a family does; where there are enough for a new one, it is founded."""
        by_key: dict[Key, list[RunningQuery]] = {}
        for query in self._alone.values():
            if _may_join(query) and query.selection is not None:
                by_key.setdefault(query.selection.family, []).append(query)
        for key, candidates in by_key.items():
            if key in self._broken and self._broken[key] <= {query.incarnation for query in candidates}:
                continue
            common = self._commons.get(key)
            if common is None:
                common = self._founded(key, candidates)
            if common is not None:
                self._join(common, [query for query in candidates if _is_beside(query, common)])

    def _founded(self, key: Key, candidates: Sequence[RunningQuery]) -> RunningQuery | None:
        places = [(query.started, query.at) for query in candidates]
        started, at = max(set(places), key=places.count)
        if places.count((started, at)) < FEWEST:
            return None
        if at > self._standing.frontier_of(candidates[0]) or at < self._not_before.get(key, at):
            return None
        common = self._opened(f"_selections_{uuid.uuid4().hex[:12]}", key, Terms(retain_us=0, start=at))
        if common.is_partial:
            self._not_before[key] = common.complete_from
            self._close(common)
            return None
        if started:
            self._engine.ensure_started(common)
        if common.error is not None:
            self._broken[key] = {query.incarnation for query in candidates}
            self._close(common)
            return None
        log.info("selections run together", extra={"stream": key[0], "window": str(key[1])})
        return common

    def _opened(self, name: str, key: Key, terms: Terms) -> RunningQuery:
        stream, window = key
        entry = self._standing.streams[stream].entry
        plan = common_plan(stream, entry.schema, window, entry.partition_by)
        scan = Scan(stream, tuple((field.name, field) for field in entry.schema))
        bound = BoundQuery(ToStream(Window(scan, window), "istream"), plan.schema.names, f"the selections over {stream} {window}")
        common = self._engine.add_query(name, COMMON + name, bound, plan, terms)
        self._select(common)
        common.sink_positions[name] = lambda: self._behind(common)
        self._commons[key] = common
        return common

    def _join(self, common: RunningQuery, queries: Sequence[RunningQuery]) -> None:
        for query in queries:
            query.publish()
            query.changelog.follow(common.name, query.at)
            self._attach(common, query)
            self._rounds.leave_lane(query)
        if queries:
            self._select(common)

    def _attach(self, common: RunningQuery, query: RunningQuery) -> None:
        query.common, query.fed, query.snapshot, query.looks_back = common, {}, None, query.started
        query.catch_up = lambda: self.follow(common, [query])
        common.members[_number(query)] = query
        self._alone.pop(query.name, None)

    def leave(self, query: RunningQuery) -> None:
        """It goes on by itself, from where it is.  Whoever calls has the lock."""
        common = query.common
        if common is None:
            return
        self.follow(common, [query])
        query.changelog.follow(None, query.at)
        self._detach(query)
        self.welcome(query)

    def forget(self, query: RunningQuery) -> None:
        """It is dropped."""
        self._alone.pop(query.name, None)
        if query.common is not None:
            self._detach(query)

    def _detach(self, query: RunningQuery) -> None:
        common, query.common, query.catch_up = query.common, None, lambda: None
        assert common is not None
        del common.members[_number(query)]
        self._select(common)
        if not common.members:
            self._close(common)

    def _close(self, common: RunningQuery) -> None:
        self._commons = {key: each for key, each in self._commons.items() if each is not common}
        self._engine.drop_query(common)

    def _select(self, common: RunningQuery) -> None:
        """Somebody has come or gone."""
        self._versions += 1
        common.selections_version = self._versions

    # --- after a restart, and after a failure

    def reopen(self) -> None:
        """Members go on where they were; those that cannot run together any more go on by themselves."""
        following: dict[str, list[RunningQuery]] = {}
        for query in self._standing.queries.values():
            if query.changelog.follows is not None:
                following.setdefault(query.changelog.follows, []).append(query)
        for name, queries in following.items():
            keys = [query.selection.family for query in queries if query.selection is not None]
            key = max(keys, key=keys.count) if keys else (next(iter(queries[0].inputs)), TimeWindow.unbounded())
            common = self._opened(name, key, Terms(retain_us=0))
            for query in queries:
                query.at, query.started = common.at, common.started
                self._attach(common, query)
            self._select(common)
            staying = [query for query in queries if self._on and _may_join(query) and query.selection and query.selection.family == key]
            for query in queries:
                if query not in staying:
                    self.leave(query)

    def dissolve_failed(self) -> None:
        """What one of them cannot bear must not stop the others: each shows by itself."""
        for key, common in list(self._commons.items()):
            if common.error is not None:
                log.warning("selections no longer run together", extra={"stream": key[0], "reason": common.error.message})
                self._broken[key] = {member.incarnation for member in common.members.values()}
                for member in list(common.members.values()):
                    self.leave(member)

    # --- their changes

    def follow(self, common: RunningQuery, members: Iterable[RunningQuery]) -> None:
        """Bring the changes of these members over, up to where the common query is.  Whoever calls has the lock."""
        common.publish()
        self._bring(common, members, common.at)

    def _bring(self, common: RunningQuery, members: Iterable[RunningQuery], end: Micros) -> None:
        behind = [member for member in members if member.changelog.copied_to < end]
        since = min((member.changelog.copied_to for member in behind), default=end)
        while since < end:
            changes, upto = common.changelog.read_some(since, end, _A_PIECE)
            self._hand_out(changes, behind, since, upto)
            since = upto

    def _hand_out(self, changes: pa.Table, members: Sequence[RunningQuery], since: Micros, upto: Micros) -> None:
        whose = changes.column(changes.num_columns - 1).to_numpy()
        order = np.argsort(whose, kind="stable") if len(members) > 1 else None
        ordered = whose if order is None else whose[order]
        for member in members:
            copied = member.changelog.copied_to
            if not since <= copied < upto:
                continue
            number = _number(member)
            if order is None:
                mine = np.flatnonzero(whose == number)
            else:
                mine = order[np.searchsorted(ordered, number, "left") : np.searchsorted(ordered, number, "right")]
            if len(mine) == 0:
                own = SignedBatch.empty(member.plan.schema)
            elif member.selection is not None:
                own = self._own(changes.take(pa.array(mine)) if len(mine) < changes.num_rows else changes, member.selection)
            else:
                raise PlanChanged(
                    f'changes of "{member.name}" wait where it ran together with others, and its plan can no longer tell them',
                    hint="Open the database with the rules that it had, close it, and open it as you wish.",
                )
            own = own.filter(own.instant > copied)
            if member.changelog.take_over(own, copied, upto):
                member.stats.changes_out += len(own)

    def _own(self, changes: pa.Table, selection: Selection) -> SignedBatch:
        """The changes of a member's answer, from those of the rows that it wants."""
        instant = changes.column(0).cast(pa.int64()).to_numpy()
        sign = changes.column(1).to_numpy()
        rows = self._projected(one_batch(changes.select([2 + i for i in range(changes.num_columns - 3)])), selection)
        return _told(SignedBatch(instant, sign, rows), selection.kind)

    def _projected(self, rows: pa.RecordBatch, selection: Selection) -> pa.RecordBatch:
        found = rows.select([column for column, _ in selection.reads]).rename_columns([name for _, name in selection.reads])
        with self._evaluating:
            for columns in selection.projections:
                if self._evaluator is None:
                    self._evaluator = Evaluator()
                found = self._evaluator.project(found, [(column.name, column.sql, column.type) for column in columns])
        return found

    def contents(self, member: RunningQuery) -> pa.RecordBatch | None:
        """The rows of a member's answer, from what its window holds now; None: only its changes can tell."""
        common, selection = member.common, member.selection
        assert common is not None
        assert common.selections is not None
        assert selection is not None
        fragment = contents_fragment(common.plan)
        if fragment is None or not common.started:
            return None
        asked = replace(common.selections, only=_number(member))
        found = self._rounds.ask_contents(common, fragment, asked)
        rows = pa.Table.from_batches(found, common.plan.schema.to_arrow()).drop_columns([MEMBER])
        return self._projected(one_batch(rows), selection)

    def bring_over(self, *, all_: bool = False) -> None:
        """Where many changes wait for their members, they get them: it must not take long to look, and the common query must not grow."""
        for common in self.commons:
            with self._standing.lock:
                common.publish()
                members, behind, end = list(common.members.values()), self._behind(common), common.at
            if sum(chunk.rows for chunk in common.changelog.chunks_after(behind)) > (0 if all_ else _most_waiting(len(members))):
                self._bring(common, members, end)

    def waiting(self) -> dict[str, int]:
        """How many changes of rows have not come over to each member, by name."""
        counts: Counter[str] = Counter()
        for common in self.commons:
            for member, number in self._waiting_in(common):
                counts[member.name] += number
        return counts

    def _waiting_in(self, common: RunningQuery) -> Iterator[tuple[RunningQuery, int]]:
        with self._standing.lock:
            common.publish()
            since, end = self._behind(common), common.at
        while since < end:
            changes, upto = common.changelog.read_some(since, end, _A_PIECE)
            instants, whose = changes.column(0).cast(pa.int64()).to_numpy(), changes.column(changes.num_columns - 1).to_numpy()
            order = np.lexsort((instants, whose))
            numbers, starts = np.unique(whose[order], return_index=True)
            for number, own in zip(numbers.tolist(), np.split(instants[order], starts[1:]), strict=True):
                member = common.members.get(number)
                if member is not None:
                    yield member, len(own) - int(np.searchsorted(own, member.changelog.copied_to, "right"))
            since = upto

    def _behind(self, common: RunningQuery) -> Micros:
        """Every member has its changes up to here."""
        return min((member.changelog.copied_to for member in common.members.values()), default=common.at)


def _told(changes: SignedBatch, kind: Kind) -> SignedBatch:
    match kind:
        case "rows":
            return changes
        case "changes":
            return netted(changes)
        case _:
            net = netted(changes)
            some = net.filter(net.sign > 0 if kind == "istream" else net.sign < 0)
            return some.with_signs(np.ones(len(some), np.int8))


def _number(query: RunningQuery) -> int:
    """Of a member: nobody else has it, nor had."""
    return int.from_bytes(hashlib.sha256(query.incarnation.encode()).digest()[:8], "big") >> 1


def _most_waiting(members: int) -> int:
    return min(max(MOST_WAITING, WORTH_A_FILE * members), _MOST_LOOKED_THROUGH * MOST_WAITING)


def _may_join(query: RunningQuery) -> bool:
    return (
        query.state == "running" and query.lane == "front" and not query.is_busy and not query.is_switching and not query.is_partial
        and query.ignores_before == NEVER_BEFORE and (query.started or query.created_at == NEVER_BEFORE)
    )  # fmt: skip


def _is_beside(query: RunningQuery, common: RunningQuery) -> bool:
    return query.started == common.started and query.at == common.at
