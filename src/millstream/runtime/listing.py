"""The answers of SHOW and DESCRIBE, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from millstream.core.errors import MillstreamError
from millstream.core.instant import LAST, NEVER_BEFORE, UNITS, Micros, format_duration, format_instant
from millstream.core.schema import Field, type_name
from millstream.language.catalog import Catalog, Entry, RelationEntry, SinkEntry, StreamEntry
from millstream.runtime.engine import Engine
from millstream.runtime.feed import Feeds
from millstream.runtime.invocations.registrations import Registrations
from millstream.runtime.pulls.pulls import Pulls
from millstream.runtime.running_query import RunningQuery
from millstream.runtime.sharing import SharedPart
from millstream.runtime.sinks.sinks import Sinks
from millstream.runtime.streams import OpenStream, Streams
from millstream.state.chunk import read_chunk
from millstream.state.file_columns import DEAD_LETTER


def list_streams(streams: Streams, errors: Mapping[str, MillstreamError], feeds: Feeds) -> pa.Table:
    """`errors`: of sources that have stopped, why.  `dropped`: by feeds that were full, since the database was opened."""
    rows = streams.everything
    names = [stream.entry.name for stream in rows]
    return pa.table(
        {
            "name": pa.array(names, pa.string()),
            "rows": pa.array([stream.log.rows_accepted for stream in rows], pa.int64()),
            "late": pa.array([stream.log.late_total for stream in rows], pa.int64()),
            "rejected": pa.array([stream.log.rejected_total for stream in rows], pa.int64()),
            "dropped": pa.array([feeds.dropped(name) for name in names], pa.int64()),
            "frontier": pa.array([_instant(stream.frontier) for stream in rows], pa.string()),
            "bytes": pa.array([stream.log.bytes_total for stream in rows], pa.int64()),
            "source": pa.array([stream.entry.format for stream in rows], pa.string()),
            "error": pa.array([error.message if error else None for error in map(errors.get, names)], pa.string()),
        }
    )


def list_relations(catalog: Catalog, pulls: Pulls) -> pa.Table:
    """`refreshed`: when the last answer came, by the wall clock, since the database was opened; `error`: why the last one did not."""
    entries = catalog.relations
    asked = [pulls.get(entry.name) for entry in entries]
    refreshed = [pull.refreshed if pull else None for pull in asked]
    return pa.table(
        {
            "name": pa.array([entry.name for entry in entries], pa.string()),
            "columns": pa.array([str(entry.schema) for entry in entries], pa.string()),
            "source": pa.array([entry.format for entry in entries], pa.string()),
            "refreshed": pa.array([format_instant(at) if at is not None else None for at in refreshed], pa.string()),
            "error": pa.array([pull.error if pull else None for pull in asked], pa.string()),
        }
    )


def list_queries(engine: Engine) -> pa.Table:
    queries = engine.stands.visible()
    standing = [engine.standing(query) for query in queries]
    waiting = engine.families.waiting()
    return pa.table(
        {
            "name": pa.array([query.name for query in queries], pa.string()),
            "answer": pa.array(["stream" if query.is_stream else "relation" for query in queries], pa.string()),
            "state": pa.array([state for state, _ in standing], pa.string()),
            "frontier": pa.array([_instant(query.at) for query in queries], pa.string()),
            "complete_from": pa.array([_complete_from(query) for query in queries], pa.string()),
            "changes": pa.array([_changes(query) + waiting.get(query.name, 0) for query in queries], pa.int64()),
            "reason": pa.array([reason for _, reason in standing], pa.string()),
            "sql": pa.array([query.bound.sql for query in queries], pa.string()),
        }
    )


def list_sharing(parts: Sequence[SharedPart]) -> pa.Table:
    return pa.table(
        {
            "kind": pa.array([part.kind for part in parts], pa.string()),
            "part": pa.array([part.part for part in parts], pa.string()),
            "queries": pa.array([", ".join(part.queries) for part in parts], pa.string()),
        }
    )


def list_registered(registrations: Registrations) -> pa.Table:
    """`frontier`: where it would be asked now."""
    queries = list(registrations)
    return pa.table(
        {
            "name": pa.array([query.name for query in queries], pa.string()),
            "materialisation": pa.array([query.materialise for query in queries], pa.string()),
            "streams": pa.array([", ".join(query.streams) for query in queries], pa.string()),
            "frontier": pa.array([_instant(registrations.place(query).now) for query in queries], pa.string()),
            "complete_from": pa.array([_told_complete(registrations.complete_from(query)) for query in queries], pa.string()),
            "sql": pa.array([query.sql for query in queries], pa.string()),
        }
    )


def _complete_from(query: RunningQuery) -> str:
    return _told_complete(query.complete_from) if query.is_partial else ""


def _told_complete(instant: Micros) -> str:
    """Empty: the answer is complete."""
    if instant == NEVER_BEFORE:
        return ""
    return "unknown" if instant == LAST else format_instant(instant)


def list_sinks(engine: Engine, sinks: Sinks) -> pa.Table:
    """`lag` is in seconds of event time: how far a sink is behind its query."""
    entries = [entry for entry, _ in sinks]
    deliveries = [delivery for _, delivery in sinks]
    lags = [_lag(engine.queries[entry.source].at, delivery.delivered) for entry, delivery in sinks]
    return pa.table(
        {
            "name": pa.array([entry.name for entry in entries], pa.string()),
            "source": pa.array([entry.source for entry in entries], pa.string()),
            "format": pa.array([entry.format for entry in entries], pa.string()),
            "state": pa.array([delivery.state for delivery in deliveries], pa.string()),
            "delivered": pa.array([_instant(delivery.delivered) for delivery in deliveries], pa.string()),
            "lag": pa.array(lags, pa.float64()),
            "error": pa.array([delivery.error for delivery in deliveries], pa.string()),
        }
    )


def _lag(frontier: Micros, delivered: Micros) -> float | None:
    """None: nothing has been delivered yet, and something is there."""
    if delivered == NEVER_BEFORE < frontier:
        return None
    return max(0, frontier - delivered) / UNITS["SECOND"]


def describe(entry: Entry) -> pa.Table:
    if isinstance(entry, SinkEntry):
        shown = entry.options.shown()
        return pa.table({"option": pa.array(list(shown), pa.string()), "value": pa.array(list(shown.values()), pa.string())})
    fields: list[Field] = list(entry.schema)
    notes = [_note(entry, field) for field in fields]
    return pa.table(
        {
            "column": pa.array([field.name for field in fields], pa.string()),
            "type": pa.array([type_name(field.type) for field in fields], pa.string()),
            "note": pa.array(notes, pa.string()),
        }
    )


def late_rows(stream: OpenStream) -> pa.Table:
    """The rows of a stream that came too late, with its own columns, in arrival order."""
    log = stream.log
    schema = stream.entry.schema.to_arrow()
    parts = [
        read_chunk(log.late_directory, chunk, list(stream.entry.schema.names), schema=stream.entry.schema) for chunk in log.late_chunks()
    ]
    return pa.concat_tables([part.cast(schema) for part in parts]) if parts else schema.empty_table()


def rejected_rows(stream: OpenStream) -> pa.Table:
    """The dead letters of a stream, in arrival order."""
    log = stream.log
    parts = [read_chunk(log.rejected_directory, chunk, DEAD_LETTER.names) for chunk in log.rejected_chunks()]
    return pa.concat_tables([part.cast(DEAD_LETTER) for part in parts]) if parts else DEAD_LETTER.empty_table()


def _changes(query: RunningQuery) -> int:
    """All that its changelog holds, those that its Delta table is still to get included."""
    return query.changelog.rows_total + sum(file.rows for _, files in query.unpublished for file in files)


def _note(entry: object, field: Field) -> str:
    match entry:
        case StreamEntry() if field.name == entry.timestamp_by:
            slack = f", slack {format_duration(entry.slack_us)}" if entry.slack_us else ""
            ahead = f", max ahead {format_duration(entry.max_ahead_us)}" if entry.max_ahead_us is not None else ""
            strict = ", on error fail" if entry.on_error == "fail" else ""
            return f"timestamp{slack}{ahead}{strict}"
        case StreamEntry() if field.name in entry.partition_by:
            return "partition key"
        case RelationEntry() if field.name in entry.primary_key:
            return "primary key"
        case _:
            return ""


def _instant(instant: Micros) -> str | None:
    return format_instant(instant) if instant > NEVER_BEFORE else None
