"""How Millstream's Parquet files are written and read; chunk.py and changelog.py say what is in them.

Measured on 250,000 rows of (timestamp, integer key, random double, _ts, _seq), all in one run, median of 15, on a busy
machine (the last line takes 16 ms and 6 ms on a quiet one): the ratios matter.

    integers                 compression   write     read     size
    plain                    none           32 ms    10 ms   10.0 MB
    plain, dictionaries      none          257 ms    18 ms    9.4 MB
    plain                    lz4            70 ms    27 ms    5.9 MB
    plain                    zstd 1        136 ms    57 ms    3.6 MB
    delta                    none           39 ms    12 ms    3.3 MB
    delta                    zstd 1         55 ms    20 ms    3.2 MB
    delta                    lz4            47 ms    12 ms    3.3 MB
    delta, page checksums    lz4            45 ms    14 ms    3.3 MB

Delta encoding makes _seq and sorted timestamps almost free, and lz4 gains nothing over it: integers go without.  Strings and
repeated doubles get lz4 (a 500-symbol column and rounded prices: 2.8 MB against 3.9 MB), strings dictionaries too, both where a
sample says that they gain by it: a bid of Nexmark, of whose three texts one is random and two differ from row to row, takes 148 ns
instead of 166.  A column that has no NULL in a file is written as REQUIRED there: a changelog of integers takes 45 ns a row instead
of 67.  With checksums a flipped bit in the rows is an error, not an answer; the footer, which has none in Parquet, has its own in the
file's name.  A checksum of the whole file would cost about 17 ns a row (reckoned from 0.8 GB/s) where writing takes 45.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import uuid
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from millstream.core.errors import DataDamaged
from millstream.core.instant import to_micros
from millstream.state.atomic import remove_file, writing
from millstream.state.disk_types import to_disk

_ROW_GROUP = 1 << 20
MayHave = Callable[[int, int], bool]
"""Whether something that is wanted may lie between these two, both included."""
_SAMPLE_ROWS = 4096
"""Files with fewer rows are too small to look at what compresses."""
_FOOTER_SUM = re.compile(r"-([0-9a-f]{8})\.parquet$")


def write_parquet(folder: Path, rows: pa.Table, *, statistics: Sequence[str] = (), groups_at: Sequence[int] = ()) -> tuple[str, int]:
    """Writes an immutable file and returns its name and its size.

    `statistics` names the columns whose minimum and maximum are worth keeping.  A row group begins at each of `groups_at`, which ascend.
    The name ends with the checksum of the file's footer.
    """
    disk = to_disk(rows)
    nulls = {name for name, column in zip(disk.column_names, disk.columns, strict=True) if column.null_count}
    parts = (disk.slice(start, stop - start) for start, stop in pairwise([0, *groups_at, disk.num_rows]))
    return _written(folder, disk, nulls, parts, statistics)


def merge_parquet(folder: Path, parts: Iterable[pa.Table], *, nulls: Collection[str], statistics: Sequence[str] = ()) -> tuple[str, int]:
    """The same for rows of other files, which are never all in memory: parts come one after the other, at least one.

    `nulls` are the columns that may have some (`columns_with_nulls`).
    """
    groups = _row_groups(parts)
    first = next(groups)
    return _written(folder, first, nulls, chain([first], groups), statistics)


def columns_with_nulls(path: Path) -> set[str]:
    with _damage_told(path):
        return {field.name for field in pq.read_schema(path) if field.nullable}


def _row_groups(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows, as many at a time as a row group has."""
    waiting: list[pa.Table] = []
    rows = 0
    for part in parts:
        waiting.append(part)
        rows += part.num_rows
        while rows >= _ROW_GROUP:
            together = pa.concat_tables(waiting)
            yield together.slice(0, _ROW_GROUP)
            waiting, rows = [together.slice(_ROW_GROUP)], rows - _ROW_GROUP
    if rows:
        yield pa.concat_tables(waiting)


def _written(
    folder: Path, like: pa.Table, nulls: Collection[str], tables: Iterable[pa.Table], statistics: Sequence[str]
) -> tuple[str, int]:  # fmt: skip
    """A column without NULLs is written as one that has none: its definition levels would cost a third of the writing."""
    levels = pa.schema([field.with_nullable(field.name in nulls) for field in like.schema])
    path = folder / f"{uuid.uuid4().hex}.parquet"
    try:
        with writing(path):
            with _writer(path, levels, like.slice(0, _SAMPLE_ROWS), statistics) as writer:
                for table in tables:
                    writer.write_table(pa.Table.from_arrays(table.columns, schema=levels), row_group_size=_ROW_GROUP)
            name = f"{path.stem}-{_footer_sum(path):08x}.parquet"
            size = os.path.getsize(path)
            os.rename(path, folder / name)
            return name, size
    except BaseException:
        remove_file(path)  # half a file is only in the way, most of all where there is no space
        raise


def _writer(path: Path, schema: pa.Schema, sample: pa.Table, statistics: Sequence[str]) -> pq.ParquetWriter:
    options = {
        "compression": {field.name: _compression(sample.column(field.name)) for field in schema},
        "use_dictionary": [field.name for field in schema if _is_text(field.type) and _repeats(sample.column(field.name))],
        "column_encoding": {field.name: "DELTA_BINARY_PACKED" for field in schema if _is_delta_coded(field.type)},
        "write_statistics": list(statistics),
        "write_page_checksum": True,
        "store_schema": False,
    }
    try:
        return pq.ParquetWriter(path, schema, **options)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return pq.ParquetWriter(path, schema, **options)


def _compression(sample: pa.ChunkedArray) -> str:
    """None where lz4 gains less than a quarter over the bytes of the sample."""
    if _is_delta_coded(sample.type):
        return "none"
    if len(sample) < _SAMPLE_ROWS or not (_is_text(sample.type) or pa.types.is_floating(sample.type)):
        return "lz4"
    values = sample.combine_chunks()
    if _is_text(sample.type):
        offsets = np.frombuffer(values.buffers()[1], np.int32, len(values) + 1, values.offset * 4)
        start, stop = int(offsets[0]), int(offsets[-1])
    else:
        width = sample.type.bit_width // 8
        start, stop = values.offset * width, (values.offset + len(values)) * width
    if start == stop:
        return "lz4"
    compressed = pa.compress(values.buffers()[-1].slice(start, stop - start), codec="lz4_raw")
    return "lz4" if compressed.size < 0.75 * (stop - start) else "none"


def _repeats(sample: pa.ChunkedArray) -> bool:
    """Whether each value of the sample stands there twice, in the mean."""
    return len(sample) < _SAMPLE_ROWS or pc.count_distinct(sample).as_py() <= len(sample) // 2


def _footer_sum(path: Path) -> int:
    """Pages have checksums; the footer, which says where they are and what their values mean, has none of its own."""
    with open(path, "rb") as file:
        file.seek(-8, os.SEEK_END)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, os.SEEK_END)
        return zlib.crc32(file.read())


def read_parquet(
    path: Path, *, size: int, rows: int, columns: Sequence[str] | None = None, wanted: tuple[str, MayHave] | None = None
) -> pa.Table:
    """The columns asked for, in that order; DataDamaged if the file is not there, not whole or not what was written.

    `wanted` leaves out row groups of which it says no, by the least and the greatest value in a column (with statistics).
    """
    with _damage_told(path):
        if os.path.getsize(path) != size:
            raise DataDamaged(f'the file "{path}" has {os.path.getsize(path)} bytes, {size} were written', hint=_HINT)
        named = _FOOTER_SUM.search(path.name)
        if named is not None and _footer_sum(path) != int(named[1], 16):
            raise DataDamaged(f'the file "{path}" is damaged: its footer is not the one that was written', hint=_HINT)
        file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
        groups = range(file.num_row_groups) if wanted is None else _groups_wanted(file.metadata, *wanted)
        table = file.read_row_groups(list(groups), columns=None if columns is None else list(columns), use_threads=False)
        table = _nullable(table if columns is None else table.select(list(columns)))
    if file.metadata.num_rows != rows:
        raise DataDamaged(f'the file "{path}" has {file.metadata.num_rows} rows, {rows} were written', hint=_HINT)
    return table


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DataDamaged(f'the file "{path}" is missing', hint=_HINT) from error
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise DataDamaged(f'the file "{path}" is damaged: {error}', hint=_HINT) from error


_HINT = "Restore it from a backup; a file that Millstream named is never changed or removed by hand."


def _groups_wanted(metadata: pq.FileMetaData, column: str, may_have: MayHave) -> list[int]:
    place = [metadata.schema.column(leaf).path for leaf in range(len(metadata.schema))].index(column)
    kept = []
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group).column(place).statistics
        if found is None or not found.has_min_max or may_have(_number(found.min), _number(found.max)):
            kept.append(group)
    return kept


def _number(value: int | dt.datetime) -> int:
    return to_micros(value) if isinstance(value, dt.datetime) else value


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def _nullable(rows: pa.Table) -> pa.Table:
    """Whether a file had NULLs does not show in the schema of what is read."""
    return pa.Table.from_arrays(rows.columns, schema=pa.schema([field.with_nullable(True) for field in rows.schema]))


def _is_delta_coded(arrow: pa.DataType) -> bool:
    wide = pa.types.is_integer(arrow) and arrow.bit_width > 8
    return bool(wide or pa.types.is_timestamp(arrow) or pa.types.is_date32(arrow))
