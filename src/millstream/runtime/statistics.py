"""What a query, its operators and their queues have done: as `q.stats()` tells it, and as rows of the system stream.

There is one account of it, the nested one of `query_statistics`; a row of SYS is one number of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from millstream.core.instant import NEVER_BEFORE, UNITS, format_instant
from millstream.plan.explain import describe
from millstream.plan.physical import sources
from millstream.runtime.nodes import OperatorProfile, Profile, QueueProfile
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.stage_clock import STAGES
from millstream.runtime.streams import OpenStream


class Told(NamedTuple):
    """A row of SYS without its time."""

    kind: str
    query: str | None
    entity: str
    property: str
    value: float


def query_statistics(query: RunningQuery) -> dict[str, Any]:
    """Counts since the query was created or the database opened, whichever is later; times in seconds."""
    stats = query.stats
    operators = sorted(stats.operators.items())
    return {
        "frontier": format_instant(query.at) if query.started else None,
        "rows_in": stats.rows_in,
        "changes": stats.changes_out,
        "waiting": stats.waiting_rows,
        "state_rows": stats.state_rows,
        "state_bytes": stats.state_bytes,
        "ticks": stats.ticks,
        "worker_seconds": round(stats.worker_seconds, 6),
        "stages": {stage: round(stats.stages.get(stage, 0.0), 6) for stage in STAGES},
        "output_delay": {"mean": round(stats.delay.mean, 6), "max": round(stats.delay.greatest, 6)} if stats.delay.changes else None,
        "error": str(query.error) if query.error else None,
        "sources": [_source(fragment, place, query, did) for (fragment, place), did in sorted(stats.sources.items())],
        "operators": [_operator(fragment, place, profile) for (fragment, place), profile in operators],
    }


def _source(fragment: int, place: int, query: RunningQuery, did: Profile) -> dict[str, Any]:
    return {
        "fragment": fragment,
        "place": place,
        "source": describe(sources(query.plan.fragments[fragment].root)[place]),
        "rows_in": {"+": did.entering, "-": did.leaving},
        "rows_out": {"+": did.sent_entering, "-": did.sent_leaving},
        "selectivity": round(did.rows_out / did.rows_in, 6) if did.rows_in else None,
    }


def _operator(fragment: int, place: int, profile: OperatorProfile) -> dict[str, Any]:
    did = profile.did
    return {
        "fragment": fragment,
        "place": place,
        "operator": profile.name,
        "rows_in": {"+": did.entering, "-": did.leaving},
        "rows_out": {"+": did.sent_entering, "-": did.sent_leaving},
        "messages": {"in": did.messages, "out": did.sent_messages},
        "selectivity": round(did.rows_out / did.rows_in, 6) if did.rows_in else None,
        "seconds": round(did.seconds, 6),
        "state_rows": profile.state_rows,
        "state_bytes": profile.state_bytes,
        "most_waiting": profile.most_waiting,
        "queues": [_queue(queue) for queue in profile.queues],
    }


def _queue(queue: QueueProfile) -> dict[str, int]:
    return {"put": queue.put, "taken": queue.taken, "waiting": queue.waiting, "most_waiting": queue.most_waiting}


# --- as rows ------------------------------------------------------------------------------------


def told_of_query(query: RunningQuery) -> Iterator[Told]:
    account = query_statistics(query)
    yield from _told("query", query.name, query.name, account)
    for source in account["sources"]:
        fragment, place, name = source.pop("fragment"), source.pop("place"), source.pop("source")
        yield from _told("source", query.name, f"{fragment}.{place} {name}", source)
    for operator in account["operators"]:
        fragment, place, name = operator.pop("fragment"), operator.pop("place"), operator.pop("operator")
        del operator["most_waiting"]  # the queues tell
        yield from _told("operator", query.name, f"{fragment}.{place} {name}", operator)
        for i, queue in enumerate(operator["queues"]):
            yield from _told("queue", query.name, f"{fragment}.{place}.{i} {name}", queue)


def told_of_stream(stream: OpenStream) -> Iterator[Told]:
    log = stream.log
    account = {
        "rows": log.rows_accepted, "late": log.late_total, "rejected": log.rejected_total, "bytes": log.bytes_total,
        "frontier": stream.frontier / UNITS["SECOND"] if stream.frontier > NEVER_BEFORE else None,
    }  # fmt: skip
    yield from _told("stream", None, stream.entry.name, account)


def told_of_engine(account: Mapping[str, Any]) -> Iterator[Told]:
    yield from _told("engine", None, "engine", account)


def _told(kind: str, query: str | None, entity: str, account: Mapping[str, Any]) -> Iterator[Told]:
    """The numbers of an account; those of a part of it are named after both: rows_in+, output_delay_mean."""
    for name, value in account.items():
        if isinstance(value, int | float):
            yield Told(kind, query, entity, name, float(value))
        elif isinstance(value, dict):
            for part, number in value.items():
                yield Told(kind, query, entity, f"{name}{part}" if part in "+-" else f"{name}_{part}", float(number))
