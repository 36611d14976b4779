"""CSV files as rows of a stream, and the records that do not fit as dead letters with their lines.

A file is first read as a whole.  Only if that fails, or a row has no time that can be taken, is it cut into records, and those
that pyarrow does not take by themselves are found by halving.  So a good file costs nothing more, and what a cell means
is always said by the same reader.

A quote that is never closed spoils its own line only.  One that some later quote closes makes one record of what lies between,
as CSV has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.csv

from millstream.core.errors import ColumnNotFound, did_you_mean
from millstream.core.schema import TIMESTAMP, Schema, type_name
from millstream.runtime.dead_letters import DeadLetter, Part
from millstream.runtime.row_times import RowTimes
from millstream.runtime.row_values import bad_places, shown

_BLOCK_BYTES = 1 << 20
_MOST_BLOCK_BYTES = 2**31 - 1
_BOM = b"\xef\xbb\xbf"
_CELLS = re.compile(r"Expected (\d+) columns, got (\d+)")
_VALUE = re.compile(
    r"In CSV column #(\d+): (?:Row #\d+: )?CSV conversion error to [^:]*: (?:invalid UTF8|invalid value '(?P<value>.*)')", re.DOTALL
)


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
        try:
            table = self._parsed(path, None if self.header else self.schema.names, _BLOCK_BYTES)
        except (pa.ArrowInvalid, pa.ArrowKeyError):  # the latter: a column that the header does not have
            return self._record_by_record(path, times)
        # the table does not know which line a row stood on
        return self._record_by_record(path, times) if len(times.bad(table)) else Part(table)

    def _record_by_record(self, path: str, times: RowTimes) -> Part:
        with pa.input_stream(path) as file:
            data = file.read().removeprefix(_BOM)
        records = _records(data, self.delimiter)
        names: Sequence[str] = self.schema.names
        if self.header and records:
            names = self._named(records.pop(0))
        reasons = {record.line: "a quote is not closed" for record in records if not record.is_closed}
        whole = [record for record in records if record.is_closed]
        for i in bad_places(len(whole), lambda low, high: self._refusal(whole[low:high], names) is None):
            reasons[whole[i].line] = self._told(self._refusal([whole[i]], names) or "", names)
        good = [record for record in whole if record.line not in reasons]
        table = self._table(good, names) if good else self.schema.to_arrow().empty_table()
        bad = times.bad(table)
        reasons |= {good[i].line: times.refusal(table, int(i)).message for i in bad}
        kept = np.ones(table.num_rows, np.bool_)
        kept[bad] = False
        letters = [
            DeadLetter(record.data.decode("utf-8", "backslashreplace"), reasons[record.line], f"{path}, line {record.line}")
            for record in records
            if record.line in reasons
        ]
        return Part(table.filter(pa.array(kept)), letters)

    def _named(self, header: _Record) -> list[str]:
        """The columns of the file; those of the stream must be among them."""
        source = pa.BufferReader(header.data + b"\n")
        parsed = pa.csv.read_csv(source, parse_options=pa.csv.ParseOptions(delimiter=self.delimiter))
        check_columns(self.schema, parsed.column_names)
        return list(parsed.column_names)

    def _refusal(self, records: Sequence[_Record], names: Sequence[str]) -> str | None:
        try:
            self._table(records, names)
        except pa.ArrowInvalid as error:
            return str(error)
        return None

    def _table(self, records: Sequence[_Record], names: Sequence[str]) -> pa.Table:
        data = b"\n".join(record.data for record in records) + b"\n"
        table = self._parsed(pa.BufferReader(data), names, min(len(data) + 1, _MOST_BLOCK_BYTES))
        if table.num_rows != len(records):
            raise pa.ArrowInvalid(f"{len(records)} records are {table.num_rows} rows")
        return table

    def _parsed(self, source: str | pa.BufferReader, names: Sequence[str] | None, block_bytes: int) -> pa.Table:
        """`names` are the columns that the file has; None: the first line says."""
        types = {field.name: pa.timestamp("us") if field.type == TIMESTAMP else field.type for field in self.schema}
        table = pa.csv.read_csv(
            source,
            read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=block_bytes),
            parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types=types,
                null_values=[self.null_value],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                include_columns=list(self.schema.names),
                timestamp_parsers=[pa.csv.ISO8601, "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"],
            ),
        )
        return table.cast(self.schema.to_arrow())

    def _told(self, error: str, names: Sequence[str]) -> str:
        """What pyarrow says of one record, in our words."""
        if cells := _CELLS.search(error):
            return f"{cells[2]} {'cell' if cells[2] == '1' else 'cells'} instead of {cells[1]}"
        if value := _VALUE.search(error):
            name = names[int(value[1])]
            if value["value"] is None:
                return f'column "{name}" holds text that is not UTF-8'
            return f'column "{name}" takes {type_name(self.schema[name].type)}, not {shown(value["value"])}'
        return error


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
