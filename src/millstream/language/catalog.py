"""What a database knows by name: streams, relations, queries and sinks, in one case-insensitive name space.

A catalog is a value: `with_*` and `without` give the next one and leave this one as it is, so a statement
that fails half-way has changed nothing.  Whether a definition makes sense is checked in definitions.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from millstream.core.errors import (
    AlreadyExists,
    BindError,
    QueryNotFound,
    RelationNotFound,
    SinkNotFound,
    Span,
    StreamNotFound,
    did_you_mean,
)
from millstream.core.instant import UNITS, Micros
from millstream.core.schema import Field, Schema
from millstream.core.secrets import Options
from millstream.language.definitions import check_name, checked_relation, checked_stream
from millstream.language.python_functions import check_function_name
from millstream.language.statements import (
    CreateQuery,
    CreateRelation,
    CreateSink,
    CreateStream,
    Kind,
    Materialisation,
    OnError,
    Register,
)
from millstream.plan.python_function import PythonFunction


@dataclass(frozen=True)
class StreamEntry:
    name: str
    schema: Schema
    timestamp_by: str
    slack_us: Micros = 0
    idle_timeout_us: Micros | None = None
    partition_by: tuple[str, ...] = ()
    retain_us: Micros | None = None
    format: str | None = None
    options: Options = field(default_factory=Options)
    on_error: OnError = "reject"
    max_ahead_us: Micros | None = None  # before the wall clock


@dataclass(frozen=True)
class RelationEntry:
    name: str
    schema: Schema
    primary_key: tuple[str, ...] = ()
    format: str | None = None
    options: Options = field(default_factory=Options)
    refresh_us: Micros | None = None


@dataclass(frozen=True)
class QueryEntry:
    """`schema` is a plain tuple: the names of a result's columns may repeat."""

    name: str
    sql: str
    schema: tuple[Field, ...]
    stored_as: tuple[str, ...]  # the columns' names in its changelog
    is_stream: bool


@dataclass(frozen=True)
class RegisteredEntry:
    """A query that is invoked."""

    name: str
    sql: str
    schema: tuple[Field, ...]
    materialise: Materialisation


@dataclass(frozen=True)
class SinkEntry:
    name: str
    source: str
    format: str
    options: Options = field(default_factory=Options)


SYSTEM_STREAM = StreamEntry(
    "SYS", Schema.of(ts="TIMESTAMP", kind="STRING", query="STRING", entity="STRING", property="STRING", value="DOUBLE"), "ts",
    retain_us=UNITS["HOUR"],
)  # fmt: skip
"""On which the engine tells what it does: in every catalog of a database, read like any other stream, written by nobody else."""

Entry = StreamEntry | RelationEntry | QueryEntry | RegisteredEntry | SinkEntry
E = TypeVar("E", bound=Entry)

_KINDS: dict[type, Kind] = {
    StreamEntry: "stream", RelationEntry: "relation", QueryEntry: "query", RegisteredEntry: "registered query", SinkEntry: "sink",
}  # fmt: skip
_NOT_FOUND: dict[Kind, type[BindError]] = {
    "stream": StreamNotFound, "relation": RelationNotFound, "query": QueryNotFound, "registered query": QueryNotFound, "sink": SinkNotFound,
}  # fmt: skip


def kind_of(entry: Entry) -> Kind:
    return _KINDS[type(entry)]


def removal_of(entry: Entry) -> str:
    """The statement that makes its name free."""
    return f"UNREGISTER {entry.name}" if isinstance(entry, RegisteredEntry) else f"DROP {kind_of(entry).upper()} {entry.name}"


@dataclass(frozen=True)
class Catalog:
    entries: Mapping[str, Entry] = field(default_factory=dict)  # by lower-case name, in order of creation
    functions: Mapping[str, PythonFunction] = field(default_factory=dict)  # by lower-case name; a name space of their own

    @staticmethod
    def empty() -> Catalog:
        return Catalog()

    @staticmethod
    def of_a_database() -> Catalog:
        """Nothing but what is always there."""
        return Catalog({SYSTEM_STREAM.name.lower(): SYSTEM_STREAM})

    # --- reading ---------------------------------------------------------------------------

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self.entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    @property
    def streams(self) -> tuple[StreamEntry, ...]:
        return self._all(StreamEntry)

    @property
    def relations(self) -> tuple[RelationEntry, ...]:
        return self._all(RelationEntry)

    @property
    def queries(self) -> tuple[QueryEntry, ...]:
        return self._all(QueryEntry)

    @property
    def registered(self) -> tuple[RegisteredEntry, ...]:
        return self._all(RegisteredEntry)

    @property
    def sinks(self) -> tuple[SinkEntry, ...]:
        return self._all(SinkEntry)

    def stream(self, name: str, span: Span | None = None, sql: str | None = None) -> StreamEntry:
        return self._one(StreamEntry, name, span, sql)

    def relation(self, name: str, span: Span | None = None, sql: str | None = None) -> RelationEntry:
        return self._one(RelationEntry, name, span, sql)

    def query(self, name: str, span: Span | None = None, sql: str | None = None) -> QueryEntry:
        return self._one(QueryEntry, name, span, sql)

    def registered_query(self, name: str, span: Span | None = None, sql: str | None = None) -> RegisteredEntry:
        return self._one(RegisteredEntry, name, span, sql)

    def sink(self, name: str, span: Span | None = None, sql: str | None = None) -> SinkEntry:
        return self._one(SinkEntry, name, span, sql)

    def find_kind(self, kind: Kind, name: str, span: Span | None = None, sql: str | None = None) -> Entry:
        match kind:
            case "stream":
                return self.stream(name, span, sql)
            case "relation":
                return self.relation(name, span, sql)
            case "query":
                return self.query(name, span, sql)
            case "registered query":
                return self.registered_query(name, span, sql)
            case "sink":
                return self.sink(name, span, sql)

    def find(self, name: str, span: Span | None = None, sql: str | None = None) -> Entry:
        """Whatever has this name; the error for a name in FROM that nothing has."""
        entry = self.entries.get(name.lower())
        if entry is None:
            names = [known.name for known in self if not isinstance(known, SinkEntry)]
            raise StreamNotFound(f'there is no stream, relation or query "{name}"', hint=did_you_mean(name, names), span=span, sql=sql)
        return entry

    def _all(self, type_: type[E]) -> tuple[E, ...]:
        return tuple(entry for entry in self if isinstance(entry, type_))

    def _one(self, type_: type[E], name: str, span: Span | None, sql: str | None) -> E:
        entry = self.entries.get(name.lower())
        if isinstance(entry, type_):
            return entry
        kind = _KINDS[type_]
        message, hint = f'there is no {kind} "{name}"', did_you_mean(name, [known.name for known in self._all(type_)])
        if entry is not None:
            message, hint = f'"{entry.name}" is a {kind_of(entry)}, not a {kind}', None
            if isinstance(entry, RegisteredEntry):
                hint = f"INVOKE {entry.name} asks it, UNREGISTER {entry.name} ends it."
            elif isinstance(entry, QueryEntry) and type_ is RegisteredEntry:
                hint = f"It goes on by itself: SELECT * FROM {entry.name} shows its answer."
        raise _NOT_FOUND[kind](message, hint=hint, span=span, sql=sql)

    # --- the next catalog ------------------------------------------------------------------

    def with_stream(self, statement: CreateStream) -> Catalog:
        schema, timestamp_by, partition_by = checked_stream(statement)
        entry = StreamEntry(
            statement.name, schema, timestamp_by, statement.slack_us, statement.idle_timeout_us, partition_by, statement.retain_us,
            statement.format, statement.options, statement.on_error, statement.max_ahead_us,
        )  # fmt: skip
        return self._with(entry, statement)

    def with_relation(self, statement: CreateRelation) -> Catalog:
        schema, primary_key = checked_relation(statement)
        entry = RelationEntry(statement.name, schema, primary_key, statement.format, statement.options, statement.refresh_us)
        return self._with(entry, statement)

    def with_query(self, statement: CreateQuery, fields: tuple[Field, ...], stored_as: tuple[str, ...], *, is_stream: bool) -> Catalog:
        """`fields` are the columns of the bound query."""
        return self._with(QueryEntry(statement.name, statement.select_text, tuple(fields), stored_as, is_stream), statement)

    def with_registered(self, statement: Register, fields: tuple[Field, ...]) -> Catalog:
        return self._with(RegisteredEntry(statement.name, statement.select_text, tuple(fields), statement.materialise), statement)

    def with_sink(self, statement: CreateSink) -> Catalog:
        source = self.query(statement.source, statement.place("source"), statement.text)
        return self._with(SinkEntry(statement.name, source.name, statement.format, statement.options), statement)

    def with_function(self, function: PythonFunction) -> Catalog:
        """One of the same name is replaced; what was bound with it keeps it."""
        check_function_name(function.name)
        return replace(self, functions={**self.functions, function.name.lower(): function})

    def without(self, name: str) -> Catalog:
        return replace(self, entries={key: entry for key, entry in self.entries.items() if key != name.lower()})

    def check_free(self, name: str, span: Span | None = None, sql: str | None = None) -> None:
        entry = self.entries.get(name.lower())
        if entry is SYSTEM_STREAM:
            hint = f"Choose another name; DESCRIBE {entry.name} shows its columns."
            raise AlreadyExists(f'"{entry.name}" is the system stream, which every database has', hint=hint, span=span, sql=sql)
        if entry is not None:
            hint = f"Choose another name, or {removal_of(entry)} first."
            raise AlreadyExists(f'there is a {kind_of(entry)} "{entry.name}" already', hint=hint, span=span, sql=sql)

    def _with(self, entry: Entry, statement: CreateStream | CreateRelation | CreateQuery | CreateSink | Register) -> Catalog:
        check_name(statement)
        self.check_free(entry.name, statement.place("name"), statement.text)
        return replace(self, entries={**self.entries, entry.name.lower(): entry})
