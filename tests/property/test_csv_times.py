"""Instants in CSV: what a cell says is what Python's own reader of ISO-8601 says, whatever stands in the cells beside it."""

from __future__ import annotations

import datetime as dt
import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.instant import to_micros
from millstream.core.schema import Schema
from millstream.runtime.csv_rows import CsvReader
from millstream.runtime.csv_times import instants_of
from millstream.runtime.row_times import RowTimes

ZONES = st.sampled_from(["", "Z", "+05:00", "-0530", "+01", "+00:00"])
FRACTIONS = st.sampled_from(["", ".5", ".123", ".123456"])
WRITTEN = st.builds(
    lambda day, between, time, zone: f"{day}{between}{time}{zone}",
    st.dates(dt.date(1, 1, 2), dt.date(9999, 12, 30)),
    st.sampled_from("T "),
    st.builds(lambda time, fraction: f"{time:%H:%M:%S}{fraction}", st.times(), FRACTIONS) | st.just("05:00"),
    ZONES,
)
NONE = st.sampled_from(
    ["noon", "2024-02-30", "2024-01-01T25:00:00Z", "2024-01-01 00:00:00+25:00", "2024-01-01Z", " 2024-01-01", "-05:00", "5"]
)
TEXTS = st.lists(WRITTEN | NONE | st.none() | st.sampled_from(["2024-01-01", "0001-01-01"]), max_size=12)


def instant_slow(text: str | None) -> int | None:
    """None if it is no instant."""
    try:
        return None if text is None or text != text.strip() or text == "2024-01-01Z" else to_micros(dt.datetime.fromisoformat(text))
    except ValueError:
        return None


@settings(max_examples=200)
@given(TEXTS, st.integers(0, 12))
def test_each_text_is_read_for_itself(texts: list[str | None], cut: int) -> None:
    chunks = [pa.array(texts[:cut], pa.string()), pa.array(texts[cut:], pa.string())]
    instants, bad = instants_of(pa.chunked_array(chunks))
    assert instants.cast(pa.int64()).to_pylist() == [instant_slow(text) for text in texts]
    assert bad.tolist() == [i for i, text in enumerate(texts) if text is not None and instant_slow(text) is None]


@settings(max_examples=100)
@given(st.lists(st.tuples(WRITTEN | NONE | st.just("2024-1-1 5:00:00"), st.sampled_from(["1", "x"])), max_size=5))
def test_a_row_of_a_file_is_read_as_it_would_be_alone(rows: list[tuple[str, str]]) -> None:
    reader, times = CsvReader(Schema.of(ts="TIMESTAMP", v="INT")), RowTimes("s", "ts", 0)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a.csv"

        def read(lines: list[tuple[str, str]]) -> tuple[list[object], list[str]]:
            path.write_text("".join(f"{ts},{v}\n" for ts, v in lines))
            part = reader.read(str(path), times)
            return part.rows.to_pylist(), [letter.reason for letter in part.rejected]

        alone = [read([row]) for row in rows]
        assert read(rows) == ([row for taken, _ in alone for row in taken], [reason for _, told in alone for reason in told])
