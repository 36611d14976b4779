"""Runs the blocks of a stream script against a database and tells which of them did not hold.

The database comes from a function, so the same scripts run on Spark and, in tests, without a JVM.
A check that fails is noted and the script goes on; a statement that fails ends it, for what follows
would only repeat the news.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from millstream.api import Database
from millstream.cli.scripts.batching import Batching
from millstream.cli.scripts.blocks import (
    Advance,
    AnyBlock,
    Changes,
    CreateQuery,
    Push,
    QueryOnce,
    Record,
    Region,
    Restart,
    Result,
    ScriptInvalid,
    Statement,
)
from millstream.cli.scripts.cells import Row, for_arrow, read_row, shown_type, table_rows, write_instant, write_row
from millstream.cli.scripts.compare import compare_bags, net
from millstream.cli.scripts.diff import diff_lines
from millstream.cli.scripts.format import Script, signed
from millstream.core.errors import MillstreamError
from millstream.core.schema import type_from_name

OpenDatabase = Callable[[Path], Database]


@dataclass(frozen=True, slots=True)
class Failure:
    line: int
    title: str
    details: tuple[str, ...]
    region: Region | None = None
    """The expected lines that did not hold: `--complete` can put others there."""


@dataclass(slots=True)
class Outcome:
    path: str
    failures: list[Failure] = field(default_factory=list)
    replacements: dict[Region, list[str]] = field(default_factory=dict)
    """What the expected lines of each failed check should have said."""

    @property
    def passed(self) -> bool:
        return not self.failures


class _Ended(Exception):
    """The script cannot go on; the failure has been noted."""


def run_script(script: Script, open_database: OpenDatabase, location: Path, batching: Batching, keys: frozenset[str]) -> Outcome:
    """Runs the whole script in a database at `location`, which should be empty."""
    run = _Run(script, open_database, location, batching)
    try:
        for block in script.blocks:
            if block.applies(keys):
                run.step(block)
    except _Ended:
        pass
    finally:
        run.db.close()
    return run.outcome


class _Run:
    def __init__(self, script: Script, open_database: OpenDatabase, location: Path, batching: Batching) -> None:
        self._open = open_database
        self._location = location
        self._batching = batching
        self._script = script
        self._seen: dict[str, int] = {}  # changes of each query that a check has consumed
        self.db = open_database(location)
        self.outcome = Outcome(script.path)

    def step(self, block: AnyBlock) -> None:
        try:
            self._step(block)
        except MillstreamError as error:
            self._end(block, str(error))

    def _step(self, block: AnyBlock) -> None:
        match block:
            case Statement(error=None):
                self.db.execute(block.sql)
            case Statement():
                self._expect_error(block, block.error or "")
            case CreateQuery():
                self.db.execute(f"CREATE QUERY {block.name} AS\n{block.sql}")
            case Push():
                self._push(block)
            case Advance():
                self._advance(block)
            case Changes():
                self._check_changes(block)
            case Result():
                self._check_rows(block, self._flushed().query(block.query).result())
            case QueryOnce():
                self._check_rows(block, self._answered_once(block))
            case Restart():
                self.db.close()
                self.db = self._open(self._location)

    # --- doing ------------------------------------------------------------------------------------

    def _expect_error(self, block: Statement, wanted: str) -> None:
        try:
            self.db.execute(block.sql)
        except MillstreamError as error:
            if not error_matches(error, wanted):
                self._note(block, f"another error than {wanted}:", *str(error).splitlines())
        else:
            self._end(block, f"succeeded, though an error was expected: {wanted or 'any'}")

    def _push(self, block: Push) -> None:
        if any(stream.name.lower() == block.target.lower() for stream in self.db.streams()):
            self._push_to_stream(block)
        else:
            self._push_to_relation(block)

    def _push_to_stream(self, block: Push) -> None:
        table = self._to_table(block, block.rows)
        for start, stop in self._batching.slices(len(block.rows)):
            self.db.insert(block.target, table.slice(start, stop - start))
            self._maybe_flush()

    def _push_to_relation(self, block: Push) -> None:
        """Each line on its own, in order: the changes of a relation do not commute."""
        for change in map(signed, block.rows):
            table = self._to_table(block, [change.record])
            if change.sign > 0:
                self.db.insert(block.target, table, at=block.at)
            else:
                self.db.delete(block.target, table, at=block.at)
            self._maybe_flush()

    def _maybe_flush(self) -> None:
        if self._batching.flushes_after_insert():
            self.db.flush()

    def _to_table(self, block: Push, records: Sequence[Record]) -> pa.Table:
        columns = self.db.execute(f"DESCRIBE {block.target}")
        assert isinstance(columns, pa.Table)
        names, types = columns["column"].to_pylist(), [type_from_name(name) for name in columns["type"].to_pylist()]
        return _to_table(self._script.path, records, pa.schema(list(zip(names, types, strict=True))))

    def _advance(self, block: Advance) -> None:
        if block.stream is None:
            self.db.advance(block.instant)
        else:
            self.db.advance(block.stream, block.instant)
        if self._batching.flushes_after_advance():
            self.db.flush()

    def _flushed(self) -> Database:
        self.db.flush()
        return self.db

    def _answered_once(self, block: QueryOnce) -> pa.Table:
        answer = self._flushed().execute(block.sql)
        if not isinstance(answer, pa.Table):
            self._end(block, "this is not answered once: it reads a stream", "Use `query NAME` and `result NAME`.")
        return answer

    # --- checking ---------------------------------------------------------------------------------

    def _check_changes(self, block: Changes) -> None:
        table = self._flushed().query(block.query).changes()
        new = table.slice(self._seen.get(block.query.lower(), 0))
        self._seen[block.query.lower()] = table.num_rows
        types = [column.type for column in new.schema][2:]
        actual = [(row[0], row[1], row[2:]) for row in table_rows(new)]
        if any(before[0] > after[0] for before, after in pairwise(actual)):
            self._note(block, "the changes did not come in the order of their instants")
        if not block.by_instant:
            actual = [(None, sign, row) for sign, row in net((sign, row) for _, sign, row in actual)]
        expected = [(change.instant, change.sign, self._read(change.record, types)) for change in block.expected]
        # ties are free: one order for all, so that completed scripts do not change from run to run
        actual.sort(key=lambda change: (change[0] or 0, change[1], write_row(change[2], types)))
        self._compare(block, block.region, expected, actual, lambda change: _write_change(change, types))

    def _check_rows(self, block: Result | QueryOnce, table: pa.Table) -> None:
        types = [column.type for column in table.schema]
        expected = [self._read(record, types) for record in block.expected]
        actual = sorted(table_rows(table), key=lambda row: write_row(row, types))
        self._compare(block, block.region, expected, actual, lambda row: write_row(row, types) or "+")

    def _read(self, record: Record, types: Sequence[pa.DataType]) -> Row:
        return _read_record(self._script.path, record, types)

    def _compare(
        self, block: AnyBlock, region: Region, expected: Sequence[Row], actual: Sequence[Row], write: Callable[[Row], str]
    ) -> None:
        comparison = compare_bags(expected, actual)
        if comparison.equal:
            return
        written = [write(row) for row in actual]
        details = diff_lines([write(row) for row in expected], written, comparison)
        self.outcome.failures.append(Failure(block.line, block.header, tuple(details), region))
        self.outcome.replacements[region] = written

    def _note(self, block: AnyBlock, *details: str) -> None:
        self.outcome.failures.append(Failure(block.line, block.header, details))

    def _end(self, block: AnyBlock, *details: str) -> None:
        self._note(block, *(line for detail in details for line in detail.splitlines()))
        raise _Ended


def error_matches(error: MillstreamError, wanted: str) -> bool:
    """`wanted` is the error's code, or a regular expression found in `[CODE] message`; case does not matter."""
    return wanted.upper() == error.code or re.search(wanted, f"[{error.code}] {error.message}", re.IGNORECASE) is not None


def _write_change(change: Row, types: Sequence[pa.DataType]) -> str:
    instant, sign, row = change
    text = f"{'+' if sign > 0 else '-'} {write_row(row, types)}".rstrip(" ")
    return text if instant is None else f"@{write_instant(instant)} {text}"


def _read_record(path: str, record: Record, types: Sequence[pa.DataType]) -> Row:
    try:
        return read_row(record.text, types)
    except ValueError as failure:
        raise ScriptInvalid(f"{path}:{record.line}: {failure}") from None


def _to_table(path: str, records: Sequence[Record], schema: pa.Schema) -> pa.Table:
    types = [column.type for column in schema]
    rows = [_read_record(path, record, types) for record in records]
    columns = []
    for i, column in enumerate(schema):
        values = [for_arrow(row[i], column.type) for row in rows]
        try:
            columns.append(pa.array(values, column.type))
        except (pa.ArrowException, OverflowError, ValueError):
            line, value = _misfit(records, values, column.type)
            raise ScriptInvalid(f'{path}:{line}: {value!r} for column "{column.name}" does not fit {shown_type(column.type)}') from None
    return pa.Table.from_arrays(columns, schema=schema)


def _misfit(records: Sequence[Record], values: Sequence[object], type_: pa.DataType) -> tuple[int, object]:
    """The line and the value of the first one that the type cannot hold."""
    for record, value in zip(records, values, strict=True):
        try:
            pa.scalar(value, type_)
        except (pa.ArrowException, OverflowError, ValueError):
            return record.line, value
    return records[0].line, values[0]
