"""What a source keeps between runs, damaged: that stream's source does not go on and says why, nothing is lost, the rest works."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from millstream.api import Database, StreamInfo, connect
from millstream.core.errors import DataDamaged

Open = Callable[..., Database]
STREAM = "CREATE STREAM {} (ts TIMESTAMP, v INT) TIMESTAMP BY ts FROM '{}' OPTIONS (path '{}')"


def put(incoming: Path, second: int) -> None:
    """A file for each of the two sources."""
    (incoming / "csv" / f"{second}.csv").write_text(f"1970-01-01 00:00:{second:02d},{second}\n")
    (incoming / "json" / f"{second}.json").write_text(f'{{"ts":"1970-01-01T00:00:{second:02d}Z","v":{second}}}\n')


@pytest.fixture(scope="module")
def two_batches(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed database whose stream `c` is read by us and `j` by Spark, two batches each; a third waits."""
    root = tmp_path_factory.mktemp("sources")
    for name in ("csv", "json"):
        (root / "incoming" / name).mkdir(parents=True)
    put(root / "incoming", 1)
    with connect(str(root / "db"), spark=spark, tick_interval=None) as db:
        db.execute(STREAM.format("c", "csv", root / "incoming" / "csv"))
        db.execute(STREAM.format("j", "json", root / "incoming" / "json"))
        db.await_drained()
        put(root / "incoming", 2)
        db.await_drained()
        assert [stream.rows for stream in db.streams()] == [2, 2]
    put(root / "incoming", 3)
    return root / "db"


def changed(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes([data[20] ^ 1]) + data[21:])


DAMAGES: list[tuple[str, Callable[[Path], None], str]] = [
    ("c", shutil.rmtree, 'checkpoints/c" is missing, but the log has batches up to 1'),
    ("c", lambda c: (c / "0.json").unlink(), 'checkpoints/c/0.json" is missing'),
    ("c", lambda c: changed(c / "1.json"), 'checkpoints/c/1.json" is damaged'),
    ("j", shutil.rmtree, 'checkpoints/j" is missing, but the log has batches up to 1'),
    ("j", lambda j: (j / "metadata").unlink(), 'checkpoints/j/metadata" is missing'),
    ("j", lambda j: changed(j / "metadata"), 'checkpoints/j/metadata" is damaged'),
    ("j", lambda j: (j / "metadata").write_text("") and (j / ".metadata.crc").unlink(), "checkpoints/j"),
    ("j", lambda j: (j / "offsets" / "0").unlink(), 'checkpoints/j/offsets/0" is missing'),
    ("j", lambda j: (j / "offsets" / "1").unlink(), 'checkpoints/j" knows of no batch after 0'),
    ("j", lambda j: changed(j / "offsets" / "1"), 'checkpoints/j/offsets/1" is damaged'),
    ("j", lambda j: (j / "commits" / "1").unlink(), "checkpoints/j/commits"),
    ("j", lambda j: (j / "sources" / "0" / "0").unlink(), "checkpoints/j/sources/0/0"),
    ("j", lambda j: (j / "sources" / "0" / "1").unlink(), 'checkpoints/j/sources/0/1" is missing'),
]


def info(db: Database, name: str) -> StreamInfo:
    return next(stream for stream in db.streams() if stream.name == name)


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGES)
def test_damage_stops_one_source_and_is_told_everywhere(
    name: str, damage: Callable[[Path], None], message: str, two_batches: Path, open_database: Open, tmp_path: Path
) -> None:
    path = tmp_path / "db"
    shutil.copytree(two_batches, path)
    damage(path / "checkpoints" / name)
    db = open_database(path)
    for telling in (db.await_drained, db.check):
        with pytest.raises(DataDamaged, match=message):
            telling()
    other = "cj".replace(name, "")
    db._sources.drain(other)  # type: ignore[union-attr]
    assert (info(db, name).rows, info(db, other).rows) == (2, 3)
    assert info(db, other).error is None
    shown = {row["name"]: row["error"] for row in db.execute("SHOW STREAMS").to_pylist()}  # type: ignore[union-attr]
    assert shown[name] == info(db, name).error
    assert f"checkpoints/{name}" in shown[name]
    db.insert(name, [(9_000_000, 9)])
    db.close()
    shutil.rmtree(path / "checkpoints" / name, ignore_errors=True)
    shutil.copytree(two_batches / "checkpoints" / name, path / "checkpoints" / name)
    db = open_database(path)
    db.await_drained()
    assert info(db, name).rows + info(db, name).late == 4, "restored, it goes on where it was"


def test_all_failed_sources_are_told(two_batches: Path, open_database: Open, tmp_path: Path) -> None:
    shutil.copytree(two_batches, tmp_path / "db")
    shutil.rmtree(tmp_path / "db" / "checkpoints")
    db = open_database()
    for telling in (db.check, db.await_drained):
        with pytest.raises(DataDamaged, match=r'checkpoints/c" is missing.*, of stream "j": .*checkpoints/j" is missing'):
            telling()
    db.execute("DROP STREAM c")
    with pytest.raises(DataDamaged, match="checkpoints/j") as caught:
        db.await_drained()
    assert "checkpoints/c" not in str(caught.value)
