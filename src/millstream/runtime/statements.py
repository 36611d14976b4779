"""What each statement does to a database.

The catalog is a value: a statement makes the next one, does its work, and only then is the next one the
database's and on disk.  So a statement that fails leaves nothing behind.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import InstantPassed, InUse, MillstreamError, NotSupported, Span, StorageFailed, TypeMismatch
from millstream.core.instant import LAST, NEVER_BEFORE, Micros, format_instant
from millstream.core.schema import Field, type_from_name, type_name
from millstream.core.secrets import hide_in_sql
from millstream.language import statements as ast
from millstream.language.alter_syntax import with_window
from millstream.language.catalog import (
    SYSTEM_STREAM,
    Catalog,
    Entry,
    QueryEntry,
    RegisteredEntry,
    RelationEntry,
    SinkEntry,
    StreamEntry,
)
from millstream.language.expiry_syntax import with_default_expiry
from millstream.language.from_binder import stream_scope
from millstream.language.nodes import StreamWindow
from millstream.language.parser import parse_one
from millstream.language.printer import to_sql
from millstream.language.python_functions import functions_in
from millstream.language.window_binder import bind_window
from millstream.plan.expiry import DEFAULT_EXPIRY, Expiry
from millstream.plan.python_function import PythonFunction
from millstream.plan.rate import Rate
from millstream.plan.window import TimeWindow
from millstream.runtime.compile import Compiled, compile_query
from millstream.runtime.constants import bound_assignments, bound_condition, literal_rows
from millstream.runtime.engine import Engine
from millstream.runtime.feed import Feeds
from millstream.runtime.invocations.defining import registered_of
from millstream.runtime.invocations.registered import Registered
from millstream.runtime.invocations.registrations import Registrations
from millstream.runtime.listing import (
    describe,
    late_rows,
    list_queries,
    list_registered,
    list_relations,
    list_sharing,
    list_sinks,
    list_streams,
    rejected_rows,
)
from millstream.runtime.once import Asked, reads_only_finished, run_once
from millstream.runtime.past_rows import rows_at
from millstream.runtime.proxies import Proxies
from millstream.runtime.pulls.needed import pulled_relations
from millstream.runtime.relations import Moment, effective_instant
from millstream.runtime.resolved_options import resolved_options
from millstream.runtime.running_query import SESSION, RunningQuery, Terms, inputs_of
from millstream.runtime.sinks.sinks import Sinks
from millstream.state.catalog_file import CatalogEntry, CatalogFile
from millstream.state.changelog import Beginning


class SourceManager(Protocol):
    """The sources of streams; Spark's in production."""

    def start(self, entry: StreamEntry) -> None: ...

    def stop(self, name: str) -> None: ...

    def note_failure(self, name: str, error: MillstreamError) -> None: ...

    def failure(self, name: str) -> MillstreamError | None: ...


class Statements:
    def __init__(
        self, engine: Engine, sources: SourceManager | None, rules_off: frozenset[str] = frozenset(), expiry: Expiry = DEFAULT_EXPIRY
    ) -> None:
        self._engine = engine
        self._expiry = expiry
        self._rules_off = rules_off
        self._sources = sources
        engine.location.require_catalog()
        self._file = CatalogFile(engine.location.catalog_path)
        self._relations = engine.relations
        self.sinks = Sinks(engine)
        self.feeds = Feeds(engine.streams)
        self.registrations = Registrations(engine.location, engine.streams, engine.runner)
        engine.stands.needed_from = self.registrations.needed_from
        self.proxies = Proxies(engine, self.registrations)
        self._anonymous = 0
        self._defining = threading.RLock()  # held by whoever changes the catalog, also while others may have the engine's
        self.catalog = Catalog.of_a_database()

    def reopen(self) -> None:
        """Everything that the catalog on disk names, as it was."""
        for saved in self._file.entries:
            self._define(parse_one(saved.sql), saved, reopening=True)
        self._engine.families.reopen()
        # what was dropped just before a crash goes now: it must not be found by something new of the same name
        self._engine.location.sweep(
            streams={stream.name for stream in self.catalog.streams},
            relations={relation.name for relation in self.catalog.relations},
            queries={query.name for query in self.catalog.queries} | {common.name for common in self._engine.families.commons},
        )

    def close(self) -> None:
        self._relations.close_all()

    # --- statements

    def run(self, statement: ast.Statement) -> RunningQuery | Registered | pa.Table | None:
        if isinstance(statement, ast.Invoke):  # without any lock: nobody waits for it
            entry = self.catalog.registered_query(statement.name, statement.place("name"), statement.text)
            return self.invoke(entry)
        statement = with_default_expiry(statement, self._expiry)
        # before anything is locked: nobody else waits for another database
        self._engine.pulls.refresh(pulled_relations(statement, self.catalog))
        defines = not isinstance(statement, ast.Show | ast.Describe | ast.Explain | ast.InsertValues | ast.DeleteFrom | ast.UpdateSet)
        with self._defining if defines else nullcontext(), self._engine.lock:
            match statement:
                case ast.CreateStream() | ast.CreateRelation() | ast.CreateQuery() | ast.CreateSink() | ast.Register():
                    return self._create(statement)
                case ast.Drop():
                    self._drop(statement)
                case ast.Unregister():
                    self._unregister(statement)
                case ast.AlterWindow() | ast.AlterSelect() | ast.AlterRetain() | ast.Pause() | ast.Resume():
                    self._alter(statement)
                case ast.Select():
                    return self._select(statement)
                case ast.InsertValues() | ast.DeleteFrom() | ast.UpdateSet():
                    self._change(statement)
                case ast.Show():
                    return self._show(statement.kind)
                case ast.Describe():
                    return describe(self.catalog.find(statement.name, statement.place("name"), statement.text))
                case ast.Explain():
                    return pa.table({"plan": self._explained(statement).splitlines()})
        return None

    def explain(self, sql: str) -> str:
        statement = with_default_expiry(parse_one(sql), self._expiry)
        if isinstance(statement, ast.Select | ast.CreateQuery | ast.Explain):
            return self._explained(statement)
        raise NotSupported("only a query has a plan", hint="Give a SELECT or a CREATE QUERY.")

    def _explained(self, statement: ast.Select | ast.CreateQuery | ast.Explain) -> str:
        compiled = self._compiled(statement)
        together = self._engine.families.explained(compiled.physical)
        return compiled.explain(self._engine.found_in(compiled.physical)) + (f"\n\n{together}" if together is not None else "")

    def query(self, name: str) -> RunningQuery:
        entry = self.catalog.query(name)
        with self._engine.lock:
            return self._engine.queries[entry.name]

    def registered(self, name: str) -> Registered:
        return self.registrations[self.catalog.registered_query(name).name]

    def invoke(self, entry: RegisteredEntry) -> pa.Table:
        self._engine.streams.advance_idle()
        return self.registrations.invoke(self.registrations[entry.name])

    def function(self, function: PythonFunction) -> None:
        """Queries from now on may call it; saved ones that waited for it go on."""
        with self._defining, self._engine.lock:
            catalog = self.catalog.with_function(function)
            waiting = [query for query in self._engine.queries.values() if function.name.lower() in query.waits_for]
            completed = [(query, self._completed(query, catalog)) for query in waiting]
            self.catalog = catalog
            for query, compiled in completed:
                self._engine.complete_query(query, compiled.bound, compiled.physical)

    def _completed(self, query: RunningQuery, catalog: Catalog) -> Compiled:
        """The plan of a query that waits, with the functions that are there now."""
        saved = self._saved(query)
        for name, declared in saved.functions.items():
            found = catalog.functions.get(name)
            if found is not None and type_name(found.type) != declared:
                raise TypeMismatch(
                    f'query "{query.name}" was made with a function "{name}" that gives {declared}, not {type_name(found.type)}',
                    hint=f'Give it the type "{declared}", or drop the query first.',
                )
        statement = parse_one(saved.sql)
        assert isinstance(statement, ast.CreateQuery)
        return self._compiled(statement, replace(catalog, functions={**_absent(saved), **catalog.functions}))

    def _saved(self, query: RunningQuery) -> CatalogEntry:
        return next(saved for saved in self._file.entries if str(saved.id) == query.identity)

    def stream(self, name: str) -> StreamEntry:
        """One that its user may feed and move."""
        entry = self.catalog.stream(name)
        _refuse_system(entry)
        return entry

    def failed_sources(self) -> dict[str, MillstreamError]:
        """By stream, in order of creation: why its source has stopped, without the source's secrets."""
        failures: dict[str, MillstreamError] = {}
        for stream in self._engine.streams:
            error = self._sources.failure(stream.entry.name) if self._sources is not None else None
            error = error or self.proxies.failure(stream.entry.name)
            if error is not None:
                failures[stream.entry.name] = error.hiding(stream.entry.options.secrets())
        return failures

    def insert(self, name: str, rows: object, at: Micros | None, *, strict: bool = False) -> int:
        """`strict`: a row that does not fit is an error, whatever the stream does with such rows otherwise."""
        entry = self.catalog.find(name)
        _refuse_system(entry)
        match entry:
            case StreamEntry():
                if at is not None:
                    raise NotSupported(f'rows of stream "{entry.name}" carry their own time', hint="`at` is for relations.")
                return self._engine.streams.insert(entry.name, rows, strict=strict)
            case RelationEntry():
                _refuse_pulled(entry)
                with self._engine.lock:
                    return self._relations.insert(entry.name, rows, self._moment(entry.name, at))
            case _:
                raise NotSupported(f'"{entry.name}" cannot be inserted into', hint="Streams and relations can.")

    def remove(self, name: str, rows: object, at: Micros | None) -> int:
        """Take rows out of a relation: one copy of each that is there."""
        entry = self.catalog.relation(name)
        _refuse_pulled(entry)
        with self._engine.lock:
            return self._relations.delete_rows(entry.name, rows, self._moment(entry.name, at))

    def definition(self, name: str) -> str | None:
        """The statement that made the object of this name, without its secrets; None if there is no such object."""
        return next((hide_in_sql(saved.sql) for saved in self._file.entries if _names(parse_one(saved.sql), name)), None)

    def is_defined(self, statement: ast.Statement) -> bool:
        """Whether this very statement made an object that is there, whatever became of it since."""
        return any(parse_one(saved.first_sql or saved.sql) == statement for saved in self._file.entries)

    # --- definitions

    def _create(
        self, statement: ast.CreateStream | ast.CreateRelation | ast.CreateQuery | ast.CreateSink | ast.Register
    ) -> RunningQuery | Registered | None:
        if statement.if_not_exists and statement.name in self.catalog:
            there = self.catalog.find(statement.name)
            if there is not SYSTEM_STREAM:  # whoever makes it wants it for something else
                return self.registrations[there.name] if isinstance(there, RegisteredEntry) else self._engine.queries.get(there.name)
        before = self.catalog
        calls = functions_in(statement.select, before.functions) if isinstance(statement, ast.CreateQuery) else {}
        try:
            with self._file.adding(to_sql(statement), _types(calls)) as saved:
                return self._define(statement, saved, reopening=False)
        except BaseException:
            self.catalog = before
            raise

    def _define(self, statement: ast.Statement, saved: CatalogEntry, *, reopening: bool) -> RunningQuery | Registered | None:
        match statement:
            case ast.CreateStream():
                self.catalog = self.catalog.with_stream(statement)
                self._open_stream(self.catalog.stream(statement.name), reopening=reopening)
            case ast.CreateRelation():
                self.catalog = self.catalog.with_relation(statement)
                with _placed(statement, "format"):
                    self._open_relation(self.catalog.relation(statement.name), reopening=reopening)
            case ast.CreateQuery():
                return self._open_query(statement, saved, reopening=reopening)
            case ast.Register():
                registered = registered_of(statement, saved.id, self.catalog)
                self.catalog = self.catalog.with_registered(statement, registered.fields)
                self.registrations.add(registered, reopening=reopening)
                self._engine.stands.queries_changed()
                return registered
            case ast.CreateSink():
                self.catalog = self.catalog.with_sink(statement)
                entry = self.catalog.sink(statement.name)
                with _placed(statement, "format"):
                    self.sinks.add(entry, reopening=reopening)
        return None

    def _open_stream(self, entry: StreamEntry, *, reopening: bool) -> None:
        try:
            self._engine.streams.open(entry)
        except StorageFailed:
            if not reopening:
                self._engine.location.drop_stream(entry.name)
            raise
        if entry.format is None or self._sources is None:
            return
        try:
            options = resolved_options(f'stream "{entry.name}"', entry.options)
            self._sources.start(replace(entry, options=options))
        except MillstreamError as error:
            error.hiding(entry.options.secrets())
            if reopening:  # what the stream holds is there all the same
                self._sources.note_failure(entry.name, error)
                return
            self._engine.streams.drop(entry.name)
            raise

    def _open_relation(self, entry: RelationEntry, *, reopening: bool) -> None:
        if entry.format is not None and not reopening:
            self._engine.pulls.check(entry)
        try:
            self._relations.open(entry)
        except StorageFailed:
            if not reopening:
                self._engine.location.drop_relation(entry.name)
            raise
        if entry.format is not None:
            self._engine.pulls.add(entry)

    def _open_query(self, statement: ast.CreateQuery, saved: CatalogEntry, *, reopening: bool) -> RunningQuery:
        # no function outlives its program: a query that calls some waits until they are registered again
        known = replace(self.catalog, functions=_absent(saved)) if reopening else self.catalog
        compiled = self._compiled(statement, known)
        self.catalog = self.catalog.with_query(statement, compiled.fields, compiled.stored_as, is_stream=compiled.bound.is_stream)
        altered = None if saved.altered_at is None else Beginning(*saved.altered_at)
        terms = Terms(statement.retain_us, statement.start, statement.rate, saved.paused, altered)
        add = self._engine.add_query if reopening else self._engine.create_query
        with _placed(statement, "start"):
            return add(self.catalog.query(statement.name).name, saved.incarnation, compiled.bound, compiled.physical, terms)

    def _compiled(
        self, statement: ast.Select | ast.CreateQuery | ast.Explain | ast.AlterSelect, catalog: Catalog | None = None
    ) -> Compiled:
        return compile_query(
            statement.select, catalog or self.catalog, statement.text, rules_off=self._rules_off, expiry=statement.expiry
        )  # fmt: skip

    def _drop(self, statement: ast.Drop) -> None:
        if statement.if_exists and statement.name not in self.catalog:
            return
        entry = self.catalog.find_kind(statement.kind, statement.name, statement.place("name"), statement.text)
        if entry is SYSTEM_STREAM:
            hint = "It costs nothing while no query reads it."
            raise NotSupported(
                f'"{entry.name}" is the system stream and cannot be dropped', hint=hint, span=statement.place("name"), sql=statement.text
            )
        with _placed(statement, "name"):
            self._refuse_if_used(entry)
        if isinstance(entry, StreamEntry):
            self._engine.streams.remember(entry.name)
        self._file.remove([saved.id for saved in self._file.entries if _names(parse_one(saved.sql), entry.name)])
        self.catalog = self.catalog.without(entry.name)
        match entry:
            case StreamEntry():
                if self._sources is not None:
                    self._sources.stop(entry.name)
                self.proxies.detach(entry.name)
                self.feeds.close(entry.name)
                self._engine.streams.drop(entry.name)
            case RelationEntry():
                self._engine.pulls.drop(entry.name)
                self._relations.close(entry.name)
                self._engine.location.drop_relation(entry.name)
            case QueryEntry():
                self._engine.drop_query(self._engine.queries[entry.name])
            case SinkEntry():
                self.sinks.drop(entry.name)

    def _unregister(self, statement: ast.Unregister) -> None:
        if statement.if_exists and statement.name not in self.catalog:
            return
        entry = self.catalog.registered_query(statement.name, statement.place("name"), statement.text)
        self._file.remove([self.registrations[entry.name].number])
        self.catalog = self.catalog.without(entry.name)
        self.registrations.remove(entry.name)
        self._engine.stands.queries_changed()

    def _refuse_if_used(self, entry: Entry) -> None:
        readers = [query for query in self._engine.stands.visible() if entry.name in query.inputs]
        users = [query.name for query in readers]
        users += [sink.name for sink, _ in self.sinks if sink.source == entry.name]
        registered = [query.name for query in self.registrations.readers(entry.name)]
        if users or registered:
            # stopping frees a stream only from a query without a name: the others go on when the database is opened again
            unnamed = [query.name for query in readers if not query.is_saved]
            ways = ["Stop " + ", ".join(unnamed)] if unnamed else []
            ways += ["drop " + ", ".join(name for name in users if name not in unnamed)] if len(users) > len(unnamed) else []
            ways += ["unregister " + ", ".join(registered)] if registered else []
            hint = " and ".join(ways) + " first."
            raise InUse(f'"{entry.name}" is in use by {", ".join([*users, *registered])}', hint=hint[0].upper() + hint[1:])

    # --- queries that change

    def _alter(self, statement: ast.Alter) -> None:
        entry = self.catalog.query(statement.name, statement.place("name"), statement.text)
        query = self._engine.queries[entry.name]
        match statement:
            case ast.Pause():
                self.pause(query)
            case ast.Resume():
                self.resume(query)
            case ast.AlterRetain():
                self._alter_retain(query, statement)
            case ast.AlterWindow():
                self._alter_select(query, statement, with_window(self._created(query), statement))
            case ast.AlterSelect():
                self._alter_select(query, statement, statement.select, statement.expiry, statement.rate)

    def pause(self, query: RunningQuery) -> None:
        """It stands still until it is resumed, also when the database is opened again meanwhile."""
        with self._defining, self._engine.lock:
            self._note_pause(query, paused=True)
            self._engine.pause_query(query)

    def resume(self, query: RunningQuery) -> None:
        with self._defining, self._engine.lock:
            self._note_pause(query, paused=False)
            self._engine.resume_query(query)

    def _note_pause(self, query: RunningQuery, *, paused: bool) -> None:
        if query.is_saved:
            self._file.change(replace(self._saved(query), paused=paused))

    def _created(self, query: RunningQuery) -> ast.CreateQuery:
        """The statement that would make it as it is now."""
        statement = parse_one(self._saved(query).sql)
        assert isinstance(statement, ast.CreateQuery)
        return statement

    def _alter_retain(self, query: RunningQuery, statement: ast.AlterRetain) -> None:
        created, saved = replace(self._created(query), retain_us=statement.retain_us), self._saved(query)
        self._file.change(replace(saved, sql=to_sql(created), first_sql=saved.first_sql or saved.sql))
        query.terms = replace(query.terms, retain_us=statement.retain_us)

    def _alter_select(
        self, query: RunningQuery, statement: ast.Alter, select: exp.Query, expiry: Expiry | None = None, rate: Rate | None = None
    ) -> None:
        """The new question takes the place of the old one if it gives an answer of the same columns."""
        created = self._created(query)
        calls = functions_in(select, self.catalog.functions)
        if isinstance(statement, ast.AlterSelect):
            self._compiled(statement)  # what is wrong with it is wrong in the text that was typed
        changed = parse_one(to_sql(replace(created, select=select, expiry=expiry or created.expiry, rate=rate or created.rate)))
        assert isinstance(changed, ast.CreateQuery)
        if changed == created:
            return
        compiled = self._compiled(changed)
        self._check_same_answer(query, compiled, statement)
        saved = self._saved(query)
        self._check_reads_only_older(query, compiled, saved, statement)
        first_sql = saved.first_sql or saved.sql
        successor = replace(saved, sql=to_sql(changed), functions=_types(calls), version=saved.version + 1, first_sql=first_sql)

        def save(altered: Beginning | None) -> None:
            self._file.change(replace(successor, altered_at=None if altered is None else (altered.at, altered.complete_from)))

        with _placed(statement, "name"):
            self._engine.alter_query(query, successor.incarnation, compiled.bound, compiled.physical, save)
        if query.rate != changed.rate:
            query.terms = replace(query.terms, rate=changed.rate)
            self._engine.stands.queries_changed()

    def _check_same_answer(self, query: RunningQuery, compiled: Compiled, statement: ast.Alter) -> None:
        """Who follows a query relies on its columns."""
        kinds = {True: "a stream", False: "a relation"}
        if compiled.bound.is_stream != query.is_stream:
            message = f'query "{query.name}" answers with {kinds[query.is_stream]}, and would with {kinds[not query.is_stream]}'
        elif compiled.fields != query.fields:
            message = f'query "{query.name}" has the columns {_listed(query.fields)}, and would have {_listed(compiled.fields)}'
        else:
            return
        hint = "Drop it and create it again, or create another one beside it."
        raise TypeMismatch(message, hint=hint, span=statement.place("select") or statement.place("name"), sql=statement.text)

    def _check_reads_only_older(self, query: RunningQuery, compiled: Compiled, saved: CatalogEntry, statement: ast.Alter) -> None:
        """What it reads must be there before it when the database is opened again; and nothing reads itself."""
        older = {parse_one(each.sql).name.lower() for each in self._file.entries if each.id < saved.id}  # type: ignore[union-attr]
        younger = [name for name in inputs_of(compiled.physical) if name.lower() not in older and name != SYSTEM_STREAM.name]
        if younger:
            why = "cannot read itself" if younger[0].lower() == query.name.lower() else f'is older than "{younger[0]}" and cannot read it'
            message = f'query "{query.name}" {why}'
            raise NotSupported(
                message,
                hint="Drop it and create it again.",
                span=statement.place("select"),
                sql=statement.text,
            )

    # --- questions and changes

    def _select(self, statement: ast.Select) -> RunningQuery | pa.Table:
        if reads_only_finished(statement.select, self.catalog):
            return run_once(statement.select, self.catalog, self._finished_table, self._engine.runner, statement.text)
        compiled = self._compiled(statement)
        number = self._anonymous + 1
        while f"query_{number}" in self.catalog or f"query_{number}" in self._engine.queries:
            number += 1
        incarnation, terms = f"{SESSION}{uuid.uuid4().hex}", Terms(rate=statement.rate)
        query = self._engine.create_query(f"query_{number}", incarnation, compiled.bound, compiled.physical, terms)
        self._anonymous = number  # a query that was refused has used up no number
        return query

    def _finished_table(self, asked: Asked) -> pa.Table:
        """What a name stands for in a question that is answered once: a relation, an answer, what a stream keeps aside or has kept."""
        if asked.part is not None:
            stream = self.catalog.stream(asked.name).name
            self._engine.system.open_for([stream])
            return (rejected_rows if asked.part == "rejected" else late_rows)(self._engine.streams[stream])
        entry = self.catalog.find(asked.name)
        then: Micros | None = asked.as_of.args.get("instant") if asked.as_of is not None else None
        if isinstance(entry, StreamEntry):
            return self._past_rows(entry, asked.window, then)
        if isinstance(entry, RegisteredEntry):
            if asked.as_of is not None:
                raise NotSupported(f'registered query "{entry.name}" is asked as of now', hint="Leave AS OF away.")
            return self.invoke(entry)
        if isinstance(entry, QueryEntry):
            query = self._engine.queries[entry.name]
            self._engine.ensure_started(query)
            return self._engine.contents(query, then)
        now = self._engine.earliest_change(entry.name)
        self._relations.bring_to(entry.name, now)
        if then is not None and then >= now:
            raise NotSupported(f'relation "{entry.name}" is known only before {format_instant(now)}, not at {format_instant(then)}')
        return self._relations.contents(entry.name, now if then is None else then)

    def _past_rows(self, entry: StreamEntry, window: StreamWindow | None, then: Micros | None) -> pa.Table:
        """What a stream, or a window of it, held; AS OF NOW: up to its frontier."""
        self._engine.system.open_for([entry.name])
        stream = self._engine.streams[entry.name]
        if then is None and stream.frontier == NEVER_BEFORE:
            return entry.schema.to_arrow().empty_table()
        spec = bind_window(window, stream_scope(entry)) if window is not None else TimeWindow.unbounded()
        return rows_at(stream, spec, stream.frontier if then is None else then)

    def _change(self, statement: ast.InsertValues | ast.DeleteFrom | ast.UpdateSet) -> None:
        sql = statement.text
        if isinstance(statement, ast.InsertValues):
            target = self.catalog.find(statement.target, statement.place("target"), sql)
            _refuse_system(target, statement.place("target"), sql)
            if statement.select is not None or not isinstance(target, StreamEntry | RelationEntry):
                raise NotSupported("INSERT takes VALUES, into a stream or a relation", span=statement.place("target"), sql=sql)
            rows = literal_rows(statement, target.schema, sql)
            with _placed(statement, "at" if statement.at is not None and isinstance(target, StreamEntry) else "target"):
                self.insert(target.name, rows, statement.at, strict=True)  # somebody has typed this
            return
        relation = self.catalog.relation(statement.target, statement.place("target"), sql)
        _refuse_pulled(relation, statement.place("target"), sql)
        moment = self._moment(relation.name, statement.at)
        condition = bound_condition(statement.where, relation, sql)
        if isinstance(statement, ast.DeleteFrom):
            self._relations.delete(relation.name, condition, moment)
            return
        assignments = bound_assignments(statement.assignments, relation, sql)
        with _placed(statement, "target"):
            self._relations.update(relation.name, assignments, condition, moment)

    def _moment(self, relation: str, asked: Micros | None) -> Moment:
        """Of a change to a relation."""
        earliest = self._engine.earliest_change(relation)
        if earliest > LAST:
            raise InstantPassed("the last instant of all has passed: nothing can change any more", hint="A stream was advanced to its end.")
        return effective_instant(earliest, asked)

    def _show(self, kind: str) -> pa.Table:
        match kind:
            case "streams":
                self._engine.system.open()
                return list_streams(self._engine.streams, self.failed_sources(), self.feeds)
            case "relations":
                return list_relations(self.catalog, self._engine.pulls)
            case "queries":
                return list_queries(self._engine)
            case "sharing":
                return list_sharing(self._engine.sharing())
            case "registered":
                return list_registered(self.registrations)
            case _:
                return list_sinks(self._engine, self.sinks)


@contextmanager
def _placed(
    statement: ast.CreateRelation | ast.CreateSink | ast.CreateQuery | ast.Drop | ast.InsertValues | ast.UpdateSet | ast.Alter, part: str
) -> Iterator[None]:
    """Errors of those who know no text get the place of this part of the statement."""
    try:
        yield
    except MillstreamError as error:
        if error.span is None and error.sql is None:
            error.span = statement.place(part)
            error.in_sql(statement.text)
        raise


def _refuse_system(entry: Entry, span: Span | None = None, sql: str | None = None) -> None:
    if entry is SYSTEM_STREAM:
        raise NotSupported(
            f'"{entry.name}" is the system stream: only the engine writes it',
            hint="Read it, or create a stream of your own.",
            span=span,
            sql=sql,
        )


def _refuse_pulled(entry: RelationEntry, span: Span | None = None, sql: str | None = None) -> None:
    if entry.format is not None:
        raise NotSupported(
            f'relation "{entry.name}" is read from "{entry.format}" and changes there only',
            hint="Change it where it comes from, or create a relation without FROM.",
            span=span,
            sql=sql,
        )


def _types(calls: Mapping[str, PythonFunction]) -> dict[str, str]:
    return {name: type_name(function.type) for name, function in calls.items()}


def _listed(fields: Sequence[Field]) -> str:
    return "(" + ", ".join(map(str, fields)) + ")"


def _absent(saved: CatalogEntry) -> dict[str, PythonFunction]:
    """The functions that a saved statement calls, as far as it knows them."""
    return {name: PythonFunction.absent(name, type_from_name(type_)) for name, type_ in saved.functions.items()}


def _names(statement: ast.Statement, name: str) -> bool:
    return getattr(statement, "name", "").lower() == name.lower()
