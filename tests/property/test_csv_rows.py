"""A CSV file cut into records says what it says as a whole, and a broken line spoils itself alone."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Schema
from millstream.runtime.csv_rows import CsvReader
from millstream.runtime.row_times import RowTimes

SCHEMA = Schema.of(ts="TIMESTAMP", k="STRING", v="INT")
TIMES = RowTimes("s", "ts", 0)
TEXTS = st.text(st.sampled_from('ab",\n\r ;é'), max_size=6)
ROWS = st.lists(st.tuples(TEXTS, st.integers(-5, 5)), max_size=8)
BROKEN = st.sampled_from([b"broken", b"1970-01-01,a", b"1970-01-01,a,x", b"1970-01-01,a,1,2", b"1970-01-01,\xff,1", b",a,1", b"noon,a,1"])


def written(rows: list[tuple[str, int]]) -> list[bytes]:
    lines = []
    for text, value in rows:
        out = io.StringIO()
        csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC).writerow(["1970-01-01", text, value])
        lines.append(out.getvalue().encode())
    return lines


@settings(max_examples=200)
@given(ROWS, st.lists(st.tuples(st.integers(0, 8), BROKEN), max_size=3), st.booleans())
def test_broken_lines_among_good_ones(rows: list[tuple[str, int]], broken: list[tuple[int, bytes]], header: bool) -> None:
    records = [(line, False) for line in written(rows)]
    for place, line in broken:
        records.insert(min(place, len(records)), (line + b"\n", True))
    head = b"ts,k,v\n" if header else b""
    expected, number = [], 1 + head.count(b"\n")
    for record, is_broken in records:
        if is_broken:
            expected.append(number)
        # a line ends with \n, \r or both, inside quotes too: as an editor counts
        number += max(record.count(b"\n"), 1)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.csv"
        path.write_bytes(head + b"".join(record for record, _ in records))
        part = CsvReader(SCHEMA, header).read(str(path), TIMES)
    assert [(row["k"], row["v"]) for row in part.rows.to_pylist()] == rows
    assert [letter.source for letter in part.rejected] == [f"{path}, line {line}" for line in expected]
