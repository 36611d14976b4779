"""Files of Spark's that are gone or changed are found before Spark goes on with the rest."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.core.errors import DataDamaged
from millstream.state.spark_checkpoint import check_checkpoint


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    sums = [zlib.crc32(data[start : start + 512]).to_bytes(4, "big") for start in range(0, len(data), 512)]
    path.write_bytes(data)
    path.with_name(f".{path.name}.crc").write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"".join(sums))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """As Spark leaves it after twelve batches of files, of which it has forgotten the oldest."""
    directory = tmp_path / "checkpoint"
    put(directory / "metadata", '{"id":"88c5aeea"}')
    for number in range(2, 12):
        put(directory / "offsets" / str(number), f'v1\n{{"conf":"{"x" * 1200}"}}\n{{"logOffset":{number}}}')
        put(directory / "commits" / str(number), 'v1\n{"nextBatchWatermarkMs":0}')
    put(directory / "sources" / "0" / "9.compact", 'v1\n{"path":"a"}')
    put(directory / "sources" / "0" / "10", 'v1\n{"path":"b"}')
    put(directory / "sources" / "0" / "11", 'v1\n{"path":"c"}')
    return directory


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2] + b"!}")


DAMAGES: list[tuple[Callable[[Path], None], str]] = [
    (lambda d: (d / "metadata").unlink(), 'metadata" is missing'),
    (lambda d: (d / "offsets" / "10").unlink(), 'offsets/10" is missing'),
    (lambda d: (d / "offsets" / "11").unlink(), 'checkpoint" knows of no batch after 10'),
    (lambda d: (d / "sources" / "0" / "11").unlink(), 'sources/0/11" is missing'),
    (lambda d: shutil.rmtree(d / "offsets"), 'checkpoint" holds nothing'),
    (lambda d: shutil.rmtree(d / "sources"), 'sources/0/11" is missing'),
    (lambda d: shutil.rmtree(d), 'checkpoint" is missing, but the log has batches up to 11'),
    (lambda d: changed(d / "metadata"), 'metadata" is damaged'),
    (lambda d: changed(d / "offsets" / "11"), 'offsets/11" is damaged'),
    (lambda d: changed(d / "sources" / "0" / "9.compact"), 'sources/0/9.compact" is damaged'),
    (lambda d: (d / "commits" / ".11.crc").write_bytes(b""), 'commits/11" is damaged'),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damage_is_told(checkpoint: Path, damage: Callable[[Path], None], message: str) -> None:
    check_checkpoint(checkpoint, committed=11)
    damage(checkpoint)
    with pytest.raises(DataDamaged, match=message):
        check_checkpoint(checkpoint, committed=11)


def test_what_a_crash_leaves_is_no_damage(checkpoint: Path) -> None:
    check_checkpoint(checkpoint, committed=10)  # the log has not got the last batch
    (checkpoint / "commits" / "11").unlink()
    (checkpoint / "commits" / ".11.crc").unlink()
    (checkpoint / "offsets" / ".11.crc").unlink()  # the file has its name before its checksums have theirs
    (checkpoint / "offsets" / "2").unlink()  # and the other way round when old ones go
    (checkpoint / "offsets" / ".12.5b1c.tmp").write_text("half")
    (checkpoint / "offsets" / "..12.5b1c.tmp.crc").write_text("half")
    check_checkpoint(checkpoint, committed=11)


def test_a_source_that_has_not_begun(tmp_path: Path) -> None:
    check_checkpoint(tmp_path / "nothing", committed=None)
    put(tmp_path / "metadata", "{}")
    check_checkpoint(tmp_path, committed=None)
    put(tmp_path / "offsets" / "0", 'v1\n{}\n{"start":0}')
    check_checkpoint(tmp_path, committed=None)


def test_the_newest_of_the_files_may_be_a_merged_one(checkpoint: Path) -> None:
    put(checkpoint / "sources" / "0" / "11.compact", "v1")
    (checkpoint / "sources" / "0" / "11").unlink()
    (checkpoint / "sources" / "0" / ".11.crc").unlink()
    check_checkpoint(checkpoint, committed=11)
