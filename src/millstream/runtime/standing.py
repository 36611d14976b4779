"""What stands in a database: streams, relations and queries, who reads whom, and how far each of them has come.

The one lock that guards all of it is here, and the condition on which those wait who want to see it move.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from millstream.core.instant import BEGINNING, GONE_NEVER, NEVER_BEFORE, Micros
from millstream.plan.physical import SourceExec
from millstream.runtime.clock import Clock
from millstream.runtime.fair_lock import FairRLock
from millstream.runtime.relations import Relations
from millstream.runtime.running_query import RunningQuery, State
from millstream.runtime.streams import Streams
from millstream.runtime.system_stream import SystemStream
from millstream.runtime.tick import InputLog, Logs
from millstream.state.location import Location


class Standing:
    def __init__(self, location: Location, clock: Clock, sys_interval: float | None) -> None:
        self.location = location
        self.clock = clock
        self.streams = Streams(location, clock)
        self.system = SystemStream(self.streams, clock, sys_interval)
        self.relations = Relations(location)
        self.queries: dict[str, RunningQuery] = {}
        self.lock = FairRLock()
        self.needed_from: Callable[[str], Micros] = lambda stream: GONE_NEVER
        """From where on others than standing queries need a stream's rows."""
        self.queries_changed: Callable[[], None] = lambda: None  # told whenever other queries are live than before
        self.committed = threading.Condition(self.lock)  # type: ignore[arg-type]

    # --- who reads whom

    def readers(self, name: str) -> list[RunningQuery]:
        """Those that take its rows in; who runs in a common query does not."""
        return [query for query in self.queries.values() if query.common is None and name in query.inputs]

    def inner(self, query: RunningQuery) -> list[RunningQuery]:
        """The queries that it reads."""
        return [self.queries[source.name] for source in query.inputs.values() if source.kind == "query"]

    def streams_below(self, query: RunningQuery) -> set[str]:
        """The streams that it reads, itself or through other queries."""
        own = {source.name for source in query.inputs.values() if source.kind == "stream"}
        return own.union(*(self.streams_below(inner) for inner in self.inner(query)))

    def running(self) -> list[RunningQuery]:
        """Those that rounds carry on; who runs in a common query goes on with it."""
        return [query for query in self.queries.values() if query.common is None and query.state == "running"]

    def visible(self) -> list[RunningQuery]:
        """Those that somebody has asked for."""
        return [query for query in self.queries.values() if not query.is_common]

    def state_of(self, query: RunningQuery) -> tuple[State, str]:
        """Whether it goes on, and why not: it does not either if a query that it reads does not."""
        if query.state != "running":
            return query.state, query.reason
        idle = [(inner.name, state) for inner in self.inner(query) if (state := self.state_of(inner)[0]) != "running"]
        if not idle:
            return "running", ""
        return "waiting", "waits for query " + ", ".join(f'"{name}" ({state})' for name, state in idle)

    # --- how far they have come

    def is_due(self, query: RunningQuery) -> bool:
        """Before there is any time, nothing is: what a relation gets until then, it has had since ever."""
        return self.frontier_of(query) > query.at

    def frontier_of(self, query: RunningQuery) -> Micros:
        """The least frontier of the streams and queries that it reads; relations hold nothing back."""
        return self.frontier_over(query.inputs)

    def frontier_over(self, inputs: Mapping[str, SourceExec]) -> Micros:
        self.system.open_for(inputs)
        frontiers = [self._frontier(source) for source in inputs.values() if source.kind != "relation"]
        if frontiers:
            return min(frontiers)
        greatest = self.streams.greatest_frontier
        return NEVER_BEFORE if greatest is None else greatest

    def earliest_change(self, relation: str) -> Micros:
        """The instant at which a change of the relation takes effect if nobody asks for a later one."""
        greatest = self.streams.greatest_frontier
        told = [query.at for query in self.readers(relation)]  # before there is any time: only by who has been asked already
        done = self.relations.log(relation).last_instant  # changes come in order, also when whoever was told is not there any more
        return max(BEGINNING if greatest is None else greatest + 1, max(told, default=NEVER_BEFORE) + 1, done)

    def first_told(self, relation: str) -> Micros:
        """The instant of a change that comes from elsewhere: of what nobody has asked about yet, it has been so since ever."""
        relation_log = self.relations.log(relation)
        is_new = relation_log.last_instant == relation_log.base_instant == NEVER_BEFORE
        if is_new and not any(query.started for query in self.readers(relation)):
            return BEGINNING
        return self.earliest_change(relation)

    def _frontier(self, source: SourceExec) -> Micros:
        return self.streams[source.name].frontier if source.kind == "stream" else self.queries[source.name].at

    # --- what they read

    def logs(self, queries: Sequence[RunningQuery]) -> Logs:
        """What these queries read, up to what is committed."""
        return self.logs_of({name: source for query in queries for name, source in query.inputs.items()})

    def logs_of(self, inputs: Mapping[str, SourceExec]) -> Logs:
        logs: dict[str, InputLog] = {}
        for source in inputs.values():
            match source.kind:
                case "stream":
                    logs[source.name] = self.streams[source.name].log
                case "relation":
                    self.relations.bring_to(source.name, self.earliest_change(source.name))
                    logs[source.name] = self.relations.log(source.name)
                case "query":
                    self.queries[source.name].publish()
                    logs[source.name] = self.queries[source.name].changelog
        return logs
