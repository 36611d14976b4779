"""CSV files as rows of a stream, and the records that do not fit as dead letters with their lines.

A file that is plain in every cell is read by a kernel (csv_plain.py), any other one as a whole by pyarrow, and if that fails once more
with its times as text, which are then read here (csv_times.py).  Only if that fails too, or a row holds what the stream does not take,
is it cut into records.  Those that pyarrow does not take are found by
halving, and among few by what it says of the first.  So a good file costs nothing more, and a cell means the same on each way.

A quote that is never closed spoils its own line only.  One that some later quote closes makes one record of what lies between,
as CSV has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from millstream.core.errors import ColumnNotFound, did_you_mean
from millstream.core.schema import TIMESTAMP, TIMESTAMP_NTZ, Field, Schema, type_name
from millstream.core.value_ranges import widened
from millstream.runtime.csv_plain import plain_table
from millstream.runtime.csv_times import SHORT_FORMS, instants_of
from millstream.runtime.dead_letters import DeadLetter, Part
from millstream.runtime.row_times import RowTimes
from millstream.runtime.row_values import out_of_range, shown, value_at

_BLOCK_BYTES = 1 << 20
_MOST_BLOCK_BYTES = 2**31 - 1
_FEW = 32
"""Records of which the bad ones are found one after the other: half of such a piece costs less to read again than to cut."""
_BOM = b"\xef\xbb\xbf"
_ROW = re.compile(r"Row #(\d+): ")
_CELLS = re.compile(r"Expected (\d+) columns, got (\d+)")
_COLUMN = re.compile(r"In CSV column #(\d+): ")
_NOT_TEXT = re.compile(r"In CSV column #\d+: (?:Row #\d+: )?CSV conversion error to [^:]*: invalid UTF8")


@dataclass(frozen=True, slots=True)
class _Record:
    line: int
    data: bytes
    is_closed: bool = True


@dataclass(frozen=True)
class CsvReader:
    schema: Schema
    header: bool = False
    delimiter: str = ","
    null_value: str = ""

    def read(self, path: str, times: RowTimes) -> Part:
        parsed = self._plain(path)
        if parsed is None:
            parsed = self._whole(path)
        if parsed is not None:
            table, untaken = self._taken(parsed, times)
            if not untaken:
                return Part(table)  # else: the table does not know which line a row stood on
        return self._record_by_record(path, times)

    def _plain(self, path: str) -> pa.Table | None:
        return None if self.null_value else plain_table(path, self.schema, header=self.header, delimiter=self.delimiter)

    def _whole(self, path: str) -> pa.Table | None:
        for times_as_text in (False, True):
            # a column that the header does not have is a KeyError
            with suppress(pa.ArrowInvalid, pa.ArrowKeyError):
                return self._parsed(path, None if self.header else self.schema.names, _BLOCK_BYTES, times_as_text=times_as_text)
        return None

    def table(self, source: str | pa.BufferReader) -> pa.Table:
        """All rows, or pyarrow's error for the first that does not fit."""
        names = None if self.header else self.schema.names
        parsed, no_times = self._with_times(self._parsed(source, names, _BLOCK_BYTES, times_as_text=True))
        if no_times:
            raise pa.ArrowInvalid(next(iter(no_times.values())))
        return parsed

    def _record_by_record(self, path: str, times: RowTimes) -> Part:
        with pa.input_stream(path) as file:
            data = file.read().removeprefix(_BOM)
        records = _records(data, self.delimiter)
        names: Sequence[str] = self.schema.names
        if self.header and records:
            names = self._named(records.pop(0))
        reasons = {record.line: "a quote is not closed" for record in records if not record.is_closed}
        whole = [record for record in records if record.is_closed]
        reasons |= {whole[i].line: reason for i, reason in self._refusals(whole, names).items()}
        good = [record for record in whole if record.line not in reasons]
        table, untaken = self._taken(self._table(good, names), times) if good else (self.schema.to_arrow().empty_table(), {})
        reasons |= {good[i].line: reason for i, reason in untaken.items()}
        letters = [
            DeadLetter(record.data.decode("utf-8", "backslashreplace"), reasons[record.line], f"{path}, line {record.line}")
            for record in records
            if record.line in reasons
        ]
        return Part(table, letters)

    def _named(self, header: _Record) -> list[str]:
        """The columns of the file; those of the stream must be among them."""
        source = pa.BufferReader(header.data + b"\n")
        parsed = pa.csv.read_csv(source, parse_options=pa.csv.ParseOptions(delimiter=self.delimiter))
        check_columns(self.schema, parsed.column_names)
        return list(parsed.column_names)

    def _refusals(self, records: Sequence[_Record], names: Sequence[str]) -> dict[int, str]:
        """The places of the records that pyarrow does not take, and why."""
        found: dict[int, str] = {}
        pieces = [range(len(records))]
        while pieces:
            piece = pieces.pop()
            if len(piece) <= _FEW:
                found |= self._among_few(records, list(piece), names)
            elif self._refusal([records[i] for i in piece], names) is not None:
                middle = len(piece) // 2
                pieces += [piece[:middle], piece[middle:]]
        return found

    def _among_few(self, records: Sequence[_Record], places: list[int], names: Sequence[str]) -> dict[int, str]:
        found: dict[int, str] = {}
        while places and (error := self._refusal([records[i] for i in places], names)) is not None:
            row = _ROW.search(error)
            if len(places) > 1 and row is None:  # it does not say which
                return found | {i: reason for each in places for i, reason in self._among_few(records, [each], names).items()}
            bad = places.pop(int(row[1]) - 1 if row and len(places) > 1 else 0)
            found[bad] = self._told(error, names, records[bad])
        return found

    def _taken(self, parsed: pa.Table, times: RowTimes) -> tuple[pa.Table, dict[int, str]]:
        """The rows that the stream takes; and the places of those that pyarrow takes and the stream does not, and why."""
        beyond: dict[int, str] = {}
        as_given = parsed
        parsed, no_times = self._with_times(parsed)
        for field in self.schema:
            for place, reason in out_of_range(parsed.column(field.name), field.type).items():
                beyond[place] = f"{_mismatch(field, value_at(as_given.column(field.name), place))}: {reason}"
        table = parsed.cast(self.schema.to_arrow())
        found = beyond | {int(i): times.refusal(table, int(i)).message for i in times.bad(table)} | no_times
        kept = np.ones(table.num_rows, np.bool_)
        kept[list(found)] = False
        return (table.filter(pa.array(kept)) if found else table), found

    def _with_times(self, parsed: pa.Table) -> tuple[pa.Table, dict[int, str]]:
        """The columns of the stream, with instants where they were read as text; and the places of what is none, and why."""
        no_times: dict[int, str] = {}
        columns = []
        for field in self.schema:
            given = column = parsed.column(field.name)
            if pa.types.is_string(given.type) and field.type == TIMESTAMP:
                column, bad = instants_of(given)
                no_times |= {int(place): _mismatch(field, value_at(given, int(place))) for place in bad}
            columns.append(column)
        return pa.table(columns, names=list(self.schema.names)), no_times

    def _refusal(self, records: Sequence[_Record], names: Sequence[str]) -> str | None:
        try:
            self._table(records, names)
        except pa.ArrowInvalid as error:
            return str(error)
        return None

    def _table(self, records: Sequence[_Record], names: Sequence[str]) -> pa.Table:
        data = b"\n".join(record.data for record in records) + b"\n"
        table = self._parsed(pa.BufferReader(data), names, min(len(data) + 1, _MOST_BLOCK_BYTES), times_as_text=True)
        if table.num_rows != len(records):
            raise pa.ArrowInvalid(f"{len(records)} records are {table.num_rows} rows")
        return table

    def _parsed(self, source: str | pa.BufferReader, names: Sequence[str] | None, block_bytes: int, *, times_as_text: bool) -> pa.Table:
        """`names` are the columns that the file has; None: the first line says."""
        time = pa.string() if times_as_text else TIMESTAMP_NTZ
        types = {field.name: time if field.type == TIMESTAMP else widened(field.type) for field in self.schema}
        return pa.csv.read_csv(
            source,
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=block_bytes),
            parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=types,
                null_values=[self.null_value],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=list(self.schema.names),
                timestamp_parsers=[pa.csv.ISO8601, *SHORT_FORMS],
            ),
        )

    def _told(self, error: str, names: Sequence[str], record: _Record) -> str:
        """What pyarrow says of one record, in our words."""
        if cells := _CELLS.search(error):
            return f"{cells[2]} {'cell' if cells[2] == '1' else 'cells'} instead of {cells[1]}"
        if column := _COLUMN.search(error):
            name = names[int(column[1])]
            if _NOT_TEXT.match(error):
                return f'column "{name}" holds text that is not UTF-8'
            return _mismatch(self.schema[name], self._cell(record, names, name))
        return error

    def _cell(self, record: _Record, names: Sequence[str], name: str) -> str:
        cells = pa.csv.read_csv(
            pa.BufferReader(record.data + b"\n"),
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(record.data) + 2),
            parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(column_types={name: pa.binary()}, include_columns=[name]),
        )
        return str(cells.column(name)[0].as_py().decode("utf-8", "backslashreplace"))


def _mismatch(field: Field, value: Any) -> str:
    return f'column "{field.name}" takes {type_name(field.type)}, not {shown(value)}'


def check_columns(schema: Schema, given: Sequence[str]) -> None:
    """A file that lacks a column of the stream is not one of its files."""
    for name in schema.names:
        if name not in given:
            raise ColumnNotFound(f'the file has no column "{name}"', hint=did_you_mean(name, given) or f"It has: {', '.join(given)}.")


def _records(data: bytes, delimiter: str) -> list[_Record]:
    """All that are not empty, with the line that each begins on."""
    end = re.escape(delimiter.encode())
    plain = rb"[^%s\r\n]*+" % end
    cell = rb'(?:"(?:[^"]++|"")*+"' + plain + rb'|(?!")' + plain + rb")"
    record = re.compile(rb"(%s(?:%s%s)*+)(?:\r\n|\n|\r|\Z)" % (cell, end, cell))
    line = re.compile(rb"([^\r\n]*+)(?:\r\n|\n|\r|\Z)")
    found, at, number = [], 0, 1
    while at < len(data):
        match, is_closed = record.match(data, at), True
        if match is None:
            match, is_closed = line.match(data, at), False
        assert match is not None, "a line always matches"
        if match[1]:
            found.append(_Record(number, match[1], is_closed))
        number += max(match[0].count(b"\n"), 1)
        at = match.end()
    return found
