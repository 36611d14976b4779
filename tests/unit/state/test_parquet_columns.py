"""How columns are written is chosen by what they hold, and changes nothing that is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from millstream.state.parquet_file import read_parquet, write_parquet

ROWS = 20_000
rng = np.random.default_rng(7)
LETTERS = ["".join(map(chr, row)) for row in rng.integers(97, 123, (ROWS, 30))]
COLUMNS = {
    "few": (pa.array([f"channel-{i % 50}" for i in range(ROWS)]), "LZ4_RAW", True),
    "urls": (pa.array([f"https://auctions.example/{value[:5]}/item.htm?query=1" for value in LETTERS]), "LZ4_RAW", False),
    "letters": (pa.array(LETTERS), "UNCOMPRESSED", False),
    "binary": (pa.array([rng.bytes(9) for _ in range(ROWS)]), "UNCOMPRESSED", False),
    "doubles": (pa.array(rng.random(ROWS)), "UNCOMPRESSED", False),
    "rounded": (pa.array(np.round(rng.random(ROWS), 2)), "LZ4_RAW", False),
    "floats": (pa.array(rng.random(ROWS).astype(np.float32)), "UNCOMPRESSED", False),
    "integers": (pa.array(rng.integers(0, 1 << 60, ROWS)), "UNCOMPRESSED", False),
    "nulls": (pa.array([None] * ROWS, pa.string()), "LZ4_RAW", True),
    "mostly": (pa.array([None if i % 7 else value for i, value in enumerate(LETTERS)]), "UNCOMPRESSED", True),
    "empty": (pa.array([""] * ROWS), "LZ4_RAW", True),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_written_by_what_it_holds(name: str, tmp_path: Path) -> None:
    column, compression, has_dictionary = COLUMNS[name]
    for rows in (pa.table({name: column}), pa.table({name: column}).slice(777)):
        path, size = write_parquet(tmp_path, rows)
        found = pq.read_metadata(tmp_path / path).row_group(0).column(0)
        assert (found.compression.removesuffix("_RAW"), found.has_dictionary_page) == (compression.removesuffix("_RAW"), has_dictionary)
        assert read_parquet(tmp_path / path, size=size, rows=rows.num_rows).equals(rows)


def test_small_files_are_not_looked_at(tmp_path: Path) -> None:
    path, _ = write_parquet(tmp_path, pa.table({"letters": LETTERS[:100]}))
    assert pq.read_metadata(tmp_path / path).row_group(0).column(0).compression.startswith("LZ4")


def test_a_leaf_of_the_same_name_is_not_the_column(tmp_path: Path) -> None:
    inner = pa.array([{"_seq": 100}] * 4)
    path, size = write_parquet(tmp_path, pa.table({"s": inner, "_seq": [1, 2, 3, 4]}), statistics=("_seq",), groups_at=[2])
    rows = read_parquet(tmp_path / path, size=size, rows=4, wanted=("_seq", lambda least, greatest: least <= 3 <= greatest))
    assert rows.column("_seq").to_pylist() == [3, 4]
    none = read_parquet(tmp_path / path, size=size, rows=4, wanted=("_seq", lambda *_: False))
    assert none.num_rows == 0
    assert none.schema.names == ["s", "_seq"]
