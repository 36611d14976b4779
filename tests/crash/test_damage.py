"""Files that vanish or are damaged: an error that names the file, or an answer that is right all the same."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from crash.damage import DAMAGES, Seen, kinds, outcome, use
from crash.harness import Zygote
from millstream.core.errors import DataDamaged, MillstreamError
from millstream.state.file_journal import FileJournal, FoundFile
from millstream.state.parquet_file import read_parquet, write_parquet

NOWHERE = ""
BASES = ["tick.before_commit:12", "scheduled.before_delete:1", "changelog.before_publish:60", NOWHERE]
"""Where the run was killed whose files are damaged: with rows that no tick has seen, changes that wait, results to publish, or nowhere."""


@dataclass(frozen=True)
class Base:
    location: Path
    expected: Seen


@pytest.fixture(scope="module", params=BASES)
def base(request: pytest.FixtureRequest, zygote: Zygote, memory: Path) -> Base:
    directory = memory / f"damage {request.param}"
    if request.param == NOWHERE:
        assert zygote.run(directory) == 0
    else:
        assert zygote.run(directory, request.param) == -signal.SIGKILL
    shutil.copytree(directory / "db", directory / "copy")
    expected = use(directory / "copy")
    assert not [value for value in expected.values() if isinstance(value, MillstreamError)]
    return Base(directory / "db", expected)


def test_one_file_of_each_kind(base: Base, workplace: Path) -> None:
    """Each kind of file with one kind of damage; the nightly test has all of them."""
    chance = random.Random(str(base.location.parent.name))
    found = [
        outcome(base.location, base.expected, chance.choice(files), damage, 0, workplace)
        for files in kinds(base.location).values()
        for damage in [chance.choice(DAMAGES)]
    ]
    assert found.count("told") > len(found) // 4
    assert found.count("right") > 1


def test_no_byte_of_a_file_of_rows_can_change_unnoticed(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "ts": pa.array([dt.datetime(2020, 1, 1, 0, 0, i) for i in range(40)], pa.timestamp("us", "UTC")),
            "k": pa.array([None if i % 5 == 0 else "abc"[i % 3] for i in range(40)]),
            "x": pa.array([i * 0.37 for i in range(40)]),
            "price": pa.array([decimal.Decimal(i) / 100 for i in range(40)], pa.decimal128(10, 2)),
            "yes": pa.array([i % 3 == 0 for i in range(40)]),
        }
    )
    name, size = write_parquet(tmp_path, rows)
    path = tmp_path / name
    data, written, chance, told = path.read_bytes(), read_parquet(path, size=size, rows=40), random.Random(1), 0
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ chance.randrange(1, 256)]) + data[place + 1 :])
        try:
            found = read_parquet(path, size=size, rows=40)
        except DataDamaged as error:
            told += name in error.message
        else:
            assert found.schema == written.schema, place
            assert found.equals(written), place
    assert told > 0.9 * len(data)


@pytest.mark.parametrize("batches", [1, 5])
def test_a_journal_knows_what_it_misses(batches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.state.file_journal.MERGE", 3)
    journal = FileJournal(tmp_path, 10**15)
    for number in range(batches):
        journal.begin([FoundFile(number, f"file {number}", 1)])
    for path in [path for path in tmp_path.iterdir() if path.name != "newest"]:
        data = path.read_bytes()
        for damage in DAMAGES:
            damage(path, random.Random(0))
            if path.exists() and path.read_bytes() == data:  # there is no other one to be mistaken for
                continue
            with pytest.raises(DataDamaged, match="json"):
                FileJournal(tmp_path, 10**15)
            path.unlink(missing_ok=True)
            path.write_bytes(data)
    assert FileJournal(tmp_path, 10**15).last is not None
