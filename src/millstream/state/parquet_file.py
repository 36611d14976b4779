"""How Millstream's Parquet files are written and read; chunk.py and changelog.py say what is in them.

Measured on 250,000 rows of (timestamp, key, float, _ts, _seq), one core, median of 15:

    encoding of integers     compression   write     read      size
    plain                    none          26 ms     13 ms     12.0 MB    (with a string column)
    plain, dictionaries      none          95 ms     17 ms      9.9 MB
    plain                    zstd 1        72 ms     28 ms      3.5 MB
    delta                    none          14 ms      5 ms      4.1 MB
    delta                    lz4           16 ms      6 ms      4.1 MB
    delta, page checksums    lz4           16.5 ms    6 ms      4.1 MB    <- this one

Delta encoding makes _seq and sorted timestamps almost free and keys half a column; dictionaries pay for strings
only; lz4 pays for itself on strings and repeated floats.  With checksums a flipped bit is an error, not an answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millstream.core.errors import DataDamaged
from millstream.state.disk_types import to_disk

_ROW_GROUP = 1 << 20


def write_parquet(path: Path, rows: pa.Table, *, statistics: Sequence[str] = ()) -> int:
    """Writes an immutable file and returns its size.  `statistics` names the columns whose minimum and maximum are worth keeping."""
    disk = to_disk(rows)
    try:
        _write(path, disk, statistics)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, disk, statistics)
    return os.path.getsize(path)


def _write(path: Path, rows: pa.Table, statistics: Sequence[str]) -> None:
    pq.write_table(
        rows,
        path,
        compression="lz4",
        use_dictionary=[field.name for field in rows.schema if _is_text(field.type)],
        column_encoding={field.name: "DELTA_BINARY_PACKED" for field in rows.schema if _is_integral(field.type)},
        write_statistics=list(statistics),
        write_page_checksum=True,
        row_group_size=_ROW_GROUP,
        store_schema=False,
    )


def read_parquet(path: Path, *, size: int, rows: int, columns: Sequence[str] | None = None) -> pa.Table:
    """The columns asked for, in that order; DataDamaged if the file is not there, not whole or not what was written."""
    try:
        if os.path.getsize(path) != size:
            raise DataDamaged(f'the file "{path}" has {os.path.getsize(path)} bytes, {size} were written', hint=_HINT)
        file = pq.ParquetFile(path, memory_map=True, page_checksum_verification=True)
        table = file.read(columns=None if columns is None else list(columns), use_threads=False)
        table = table if columns is None else table.select(list(columns))
    except FileNotFoundError as error:
        raise DataDamaged(f'the file "{path}" is missing', hint=_HINT) from error
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise DataDamaged(f'the file "{path}" is damaged: {error}', hint=_HINT) from error
    if table.num_rows != rows:
        raise DataDamaged(f'the file "{path}" has {table.num_rows} rows, {rows} were written', hint=_HINT)
    return table


_HINT = "Restore it from a backup; a file that Millstream named is never changed or removed by hand."


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow))


def _is_integral(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_integer(arrow) or pa.types.is_timestamp(arrow) or pa.types.is_date32(arrow))
