"""Errors that a person can act on: a stable code, a message, the underlined place and a hint.

One base, one class per phase of a query's life, one subclass per code that callers may want
to catch.  Nothing here knows about SQL beyond "a text and a place in it".

    [COLUMN_NOT_FOUND] column "prise" does not exist in stream "trades"
      SELECT prise FROM trades [RANGE 5 MINUTES]
             ^^^^^
      hint: Did you mean "price"?
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from millstream.core.secrets import hide, hide_in_sql, secret_ranges, shifted


@dataclass(frozen=True, slots=True)
class Span:
    """Characters [start, end) of the statement's text."""

    start: int
    end: int


class MillstreamError(Exception):
    """Base of every error that Millstream raises on purpose.

    What it says never holds a secret of the statement it is about.  `sql` is that statement as it was given.
    """

    code: ClassVar[str] = "INTERNAL"

    def __init__(self, message: str, *, hint: str | None = None, span: Span | None = None, sql: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.span = span
        self.sql: str | None = None
        if sql is not None:
            self.in_sql(sql)

    def in_sql(self, sql: str) -> MillstreamError:
        """The same error, knowing the text its span points into (kept if it knows one already)."""
        if self.sql is None:
            self.sql = sql
            self.hiding(sql[start:end] for start, end in secret_ranges(sql))
        return self

    def hiding(self, secrets: Iterable[str]) -> MillstreamError:
        """The same error without these secrets in what it says."""
        known = list(secrets)
        self.message = hide(self.message, known) if known else self.message
        self.hint = hide(self.hint, known) if known and self.hint else self.hint
        self.args = (self.message,)
        return self

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.message}", *_underlined(self.sql, self.span)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        # errors travel from Spark workers to the driver
        return _rebuild, (type(self), self.message, self.hint, self.span, self.sql)


def _rebuild(cls: type[MillstreamError], message: str, hint: str | None, span: Span | None, sql: str | None) -> MillstreamError:
    return cls(message, hint=hint, span=span, sql=sql)


def _underlined(sql: str | None, span: Span | None) -> list[str]:
    """The line of `sql` that holds the span's start, and carets below it."""
    if sql is None or span is None or not sql.strip():
        return []
    start = max(0, min(span.start, len(sql)))
    ranges = secret_ranges(sql)
    sql, start, end = hide_in_sql(sql), shifted(ranges, start), shifted(ranges, span.end)
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line_end = len(sql) if line_end < 0 else line_end
    line = sql[line_start:line_end].replace("\t", " ")
    width = max(1, min(end, line_end) - start)
    return [f"  {line}", "  " + " " * (start - line_start) + "^" * width]


def did_you_mean(name: str, candidates: Iterable[str]) -> str | None:
    """A hint naming the closest candidate, if one is close."""
    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f'Did you mean "{by_lower[close[0]]}"?' if close else None


# --- phases -----------------------------------------------------------------------------------


class ParseError(MillstreamError):
    code = "PARSE_ERROR"


class BindError(MillstreamError):
    """Names and types do not fit the catalog."""


class PlanError(MillstreamError):
    """The query is well formed, but cannot be planned."""


class ExecutionError(MillstreamError):
    """Something failed while data was being processed."""


class ConfigError(MillstreamError):
    """The location, the master or an option is wrong."""


class InternalError(MillstreamError):
    """A bug of ours."""

    code = "INTERNAL"


# --- codes ------------------------------------------------------------------------------------


class ColumnNotFound(BindError):
    code = "COLUMN_NOT_FOUND"


class ColumnAmbiguous(BindError):
    code = "COLUMN_AMBIGUOUS"


class StreamNotFound(BindError):
    code = "STREAM_NOT_FOUND"


class RelationNotFound(BindError):
    code = "RELATION_NOT_FOUND"


class QueryNotFound(BindError):
    code = "QUERY_NOT_FOUND"


class SinkNotFound(BindError):
    code = "SINK_NOT_FOUND"


class FunctionNotFound(BindError):
    code = "FUNCTION_NOT_FOUND"


class AlreadyExists(BindError):
    code = "ALREADY_EXISTS"


class TypeMismatch(BindError):
    code = "TYPE_MISMATCH"


class ArityMismatch(BindError):
    code = "ARITY_MISMATCH"


class DuplicateColumn(BindError):
    code = "DUPLICATE_COLUMN"


class NotGrouped(BindError):
    code = "NOT_GROUPED"


class WindowInvalid(BindError):
    code = "WINDOW_INVALID"


class MatchInvalid(BindError):
    code = "MATCH_INVALID"


class InstantPassed(BindError):
    code = "INSTANT_PASSED"


class NotSupported(PlanError):
    code = "NOT_SUPPORTED"


class InUse(BindError):
    """An object cannot be dropped while others depend on it."""

    code = "IN_USE"


class LocationInUse(ConfigError):
    code = "LOCATION_IN_USE"


class FormatVersion(ConfigError):
    code = "FORMAT_VERSION"


class PlanChanged(ConfigError):
    code = "PLAN_CHANGED"


class ConfigInvalid(ConfigError):
    code = "CONFIG_INVALID"


class SourceFailed(ExecutionError):
    code = "SOURCE_FAILED"


class SinkFailed(ExecutionError):
    code = "SINK_FAILED"


class FunctionFailed(ExecutionError):
    code = "FUNCTION_FAILED"


class QueryFailed(ExecutionError):
    code = "QUERY_FAILED"


class OutOfMemory(ExecutionError):
    code = "OUT_OF_MEMORY"


class ClusterFailed(ExecutionError):
    """Spark or its workers are gone: no fault of a query, nothing that was committed is lost."""

    code = "CLUSTER_FAILED"


class DataDamaged(ExecutionError):
    code = "DATA_DAMAGED"


class StorageFailed(ExecutionError):
    """The file system did not take what had to be written; none of it has happened."""

    code = "STORAGE_FAILED"


class DiskFull(StorageFailed):
    code = "DISK_FULL"
