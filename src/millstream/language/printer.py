"""Statements back to text: `parse_one(to_sql(s)) == s` for every statement s."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from millstream.core.instant import Micros, format_duration
from millstream.language.dialect import Cql
from millstream.language.statements import (
    AlterRetain,
    AlterSelect,
    AlterWindow,
    CreateQuery,
    CreateRelation,
    CreateSink,
    CreateStream,
    DeleteFrom,
    Describe,
    Drop,
    Explain,
    InsertValues,
    Invoke,
    Pause,
    Register,
    Resume,
    Select,
    Show,
    Statement,
    Unregister,
    UpdateSet,
)
from millstream.plan.window import instant_text


def to_sql(statement: Statement) -> str:
    match statement:
        case CreateStream():
            return _create_stream(statement)
        case CreateRelation():
            return _create_relation(statement)
        case CreateQuery():
            terms = ("" if statement.retain_us is None else f" RETAIN {format_duration(statement.retain_us)}") + _start(statement)
            head = f"CREATE QUERY {_if_not_exists(statement)}{_name(statement.name)}{terms} AS "
            return f"{head}{_query(statement.select)}{_clauses(statement)}"
        case CreateSink():
            target = _source("INTO", statement.format, statement.options)
            return f"CREATE SINK {_if_not_exists(statement)}{_name(statement.name)} FROM {_name(statement.source)}{target}"
        case InsertValues():
            return _insert(statement)
        case DeleteFrom():
            return f"DELETE FROM {_name(statement.target)}{_where(statement.where)}{_at(statement.at)}"
        case UpdateSet():
            items = ", ".join(f"{_name(column)} = {_query(value)}" for column, value in statement.assignments.items())
            return f"UPDATE {_name(statement.target)} SET {items}{_where(statement.where)}{_at(statement.at)}"
        case Select():
            return f"{_query(statement.select)}{_clauses(statement)}"
        case AlterWindow():
            of = f"{_name(statement.of)} " if statement.of is not None else ""
            return f"ALTER QUERY {_name(statement.name)} SET WINDOW {of}{_query(statement.window)}"
        case AlterSelect():
            return f"ALTER QUERY {_name(statement.name)} AS {_query(statement.select)}{_clauses(statement)}"
        case AlterRetain():
            retain = "FOR EVER" if statement.retain_us is None else format_duration(statement.retain_us)
            return f"ALTER QUERY {_name(statement.name)} SET RETAIN {retain}"
        case Pause() | Resume():
            return f"ALTER QUERY {_name(statement.name)} {type(statement).__name__.upper()}"
        case Register():
            kept = "" if statement.materialise == "partial" else f" WITH (materialisation = {_text(statement.materialise)})"
            return f"REGISTER QUERY {_if_not_exists(statement)}{_name(statement.name)}{kept} AS {_query(statement.select)}"
        case Invoke():
            return f"INVOKE {_name(statement.name)}"
        case Unregister():
            return f"UNREGISTER QUERY {'IF EXISTS ' if statement.if_exists else ''}{_name(statement.name)}"
        case Drop():
            return f"DROP {statement.kind.upper()} {'IF EXISTS ' if statement.if_exists else ''}{_name(statement.name)}"
        case Show():
            return f"SHOW {'REGISTERED QUERIES' if statement.kind == 'registered' else statement.kind.upper()}"
        case Describe():
            return f"DESCRIBE {_name(statement.name)}"
        case Explain():
            return f"EXPLAIN {'ANALYZE ' if statement.analyze else ''}{to_sql(statement.statement)}"


def _create_stream(statement: CreateStream) -> str:
    parts = [
        f"CREATE STREAM {_if_not_exists(statement)}{_name(statement.name)} ({', '.join(_columns(statement))})",
        f"TIMESTAMP BY {_name(statement.timestamp_by)}",
    ]
    if statement.slack_us:
        parts.append(f"SLACK {format_duration(statement.slack_us)}")
    if statement.idle_timeout_us is not None:
        parts.append(f"IDLE TIMEOUT {format_duration(statement.idle_timeout_us)}")
    if statement.partition_by:
        parts.append(f"PARTITION BY {_names(statement.partition_by)}")
    if statement.retain_us is not None:
        parts.append(f"RETAIN {format_duration(statement.retain_us)}")
    if statement.on_error != "reject":
        parts.append(f"ON ERROR {statement.on_error.upper()}")
    if statement.max_ahead_us is not None:
        parts.append(f"MAX AHEAD {format_duration(statement.max_ahead_us)}")
    return " ".join(parts) + _source("FROM", statement.format, statement.options)


def _create_relation(statement: CreateRelation) -> str:
    columns = _columns(statement)
    if statement.primary_key:
        columns.append(f"PRIMARY KEY ({_names(statement.primary_key)})")
    head = f"CREATE RELATION {_if_not_exists(statement)}{_name(statement.name)} ({', '.join(columns)})"
    refresh = "" if statement.refresh_us is None else f" REFRESH EVERY {format_duration(statement.refresh_us)}"
    return head + _source("FROM", statement.format, statement.options) + refresh


def _start(statement: CreateQuery) -> str:
    if statement.start is None:
        return ""
    return " START NOW" if statement.start == "now" else f" START AT {instant_text(statement.start)}"


def _clauses(statement: CreateQuery | Select | AlterSelect) -> str:
    expiry = f" WITH EXPIRY {statement.expiry}" if statement.expiry is not None else ""
    return expiry + (f" WITH {statement.rate}" if statement.rate is not None else "")


def _insert(statement: InsertValues) -> str:
    columns = f" ({_names(statement.columns)})" if statement.columns else ""
    if statement.select is not None:
        body = _query(statement.select)
    else:
        body = "VALUES " + ", ".join(f"({', '.join(map(_query, row))})" for row in statement.rows)
    return f"INSERT INTO {_name(statement.target)}{columns} {body}{_at(statement.at)}"


# --- parts ----------------------------------------------------------------------------------


def _columns(statement: CreateStream | CreateRelation) -> list[str]:
    return [f"{_name(column.name)} {column.type_name}" for column in statement.columns]


def _if_not_exists(statement: CreateStream | CreateRelation | CreateQuery | CreateSink | Register) -> str:
    return "IF NOT EXISTS " if statement.if_not_exists else ""


def _source(word: str, format_: str | None, options: Mapping[str, str]) -> str:
    if format_ is None:
        return ""
    listed = ", ".join(f"{_text(key)} {_text(value)}" for key, value in options.items())
    return f" {word} {_text(format_)}" + (f" OPTIONS ({listed})" if options else "")


def _where(condition: exp.Expr | None) -> str:
    return f" WHERE {_query(condition)}" if condition is not None else ""


def _at(instant: Micros | None) -> str:
    return f" AT {instant_text(instant)}" if instant is not None else ""


def _query(tree: exp.Expr) -> str:
    return tree.sql(dialect=Cql, normalize_functions=False)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_name, names))


def _name(name: str) -> str:
    """Quoted unless it is plain, or looks like a word of the language."""
    quoted = not (name.isascii() and name.isidentifier()) or name.upper() in Cql.Tokenizer.KEYWORDS or name.upper() in _OWN_WORDS
    return exp.to_identifier(name, quoted=quoted).sql(dialect=Cql)


def _text(value: str) -> str:
    return exp.Literal.string(value).sql(dialect=Cql)


_OWN_WORDS = {"IF", "AS", "AT", "SLACK", "IDLE", "RETAIN", "OPTIONS", "PRIMARY", "TIMESTAMP", "PARTITION"}
