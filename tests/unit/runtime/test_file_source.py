"""A directory as a source, with real files and the real thread: each file once, in order, whatever happens."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from millstream.core.errors import SourceFailed
from millstream.runtime.file_listing import FileListing
from millstream.runtime.file_source import FileSource
from millstream.state.file_journal import FileJournal


class Ingested:
    """Stands for the log: knows which batches it has."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}
        self.refuse: str | None = None

    def __call__(self, number: int, paths: Sequence[str], following: int) -> None:
        names = [os.path.basename(path) for path in paths]
        if self.refuse in names:
            raise SourceFailed(f"cannot read {self.refuse}")
        self.batches.setdefault(number, names)

    @property
    def names(self) -> list[str]:
        return [name for _, names in sorted(self.batches.items()) for name in names]


def put(directory: Path, *names: str, modified: float = 1000.0, size: int = 1) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        os.utime(path, (modified, modified))


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    (tmp_path / "incoming").mkdir()
    return tmp_path / "incoming"


def source(incoming: Path, log: Ingested, **options: object) -> FileSource:
    listing = FileListing.of("s", {"path": str(incoming), **options})
    return FileSource("s", listing, FileJournal(incoming.parent / "journal", listing.max_age_us), log)


def test_files_come_once_each_oldest_first(incoming: Path) -> None:
    log = Ingested()
    put(incoming, "b", "c", modified=20)
    put(incoming, "z", modified=10)
    put(incoming, ".hidden", "_SUCCESS")
    first = source(incoming, log)
    first.drain()
    put(incoming, "a", modified=30)
    first.drain()
    first.stop()
    put(incoming, "y", modified=40)
    second = source(incoming, log)
    second.drain()
    second.stop()
    assert log.batches == {0: ["z", "b", "c"], 1: ["a"], 2: ["y"]}


def test_batches_are_bounded_by_files_and_by_bytes(incoming: Path) -> None:
    put(incoming, *"abcde", size=10)
    by_files, by_bytes = Ingested(), Ingested()
    first = source(incoming, by_files, maxFilesPerTrigger=2)
    first.drain()
    first.stop()
    assert by_files.batches == {0: ["a", "b"], 1: ["c", "d"], 2: ["e"]}
    (incoming.parent / "journal").rename(incoming.parent / "elsewhere")
    second = source(incoming, by_bytes, maxBytesPerTrigger=25)
    second.drain()
    second.stop()
    assert by_bytes.batches == {0: ["a", "b", "c"], 1: ["d", "e"]}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({}, ["a.csv", "b.txt", "f.csv"]),
        ({"pathGlobFilter": "*.csv"}, ["a.csv", "f.csv"]),
        ({"recursiveFileLookup": "true"}, ["a.csv", "b.txt", "e.csv", "f.csv"]),
        ({"latestFirst": "true", "maxFilesPerTrigger": "2"}, ["f.csv", "b.txt", "a.csv"]),
    ],
)
def test_the_options_of_sparks_file_source(incoming: Path, options: dict[str, object], found: list[str]) -> None:
    put(incoming, "a.csv", "b.txt", "below/e.csv", "day=1/f.csv")
    log = Ingested()
    reader = source(incoming, log, **options)
    reader.drain()
    reader.stop()
    assert log.names == found


def test_with_the_latest_first_no_file_is_too_old_after_a_stop(incoming: Path) -> None:
    """They were listed, and to be read next: as Spark does, maxFileAge is let go."""
    for days, name in enumerate(("old", "middle", "new")):
        put(incoming, name, modified=1000 + 86_400 * 10 * days)
    log, options = Ingested(), {"latestFirst": "true", "maxFilesPerTrigger": "1", "maxFileAge": "1d"}
    log.refuse = "middle"
    stopped = source(incoming, log, **options)
    with pytest.raises(SourceFailed):
        stopped.drain()
    stopped.stop()
    log.refuse = None
    again = source(incoming, log, **options)
    again.drain()
    again.stop()
    assert log.names == ["new", "middle", "old"]


def test_a_glob_and_a_single_file_are_paths_too(incoming: Path) -> None:
    put(incoming, "1/a", "2/b", "3/c")
    for path, found in [("[12]", ["a", "b"]), ("3/c", ["c"])]:
        log = Ingested()
        listing = FileListing.of("s", {"PATH": f"file:{incoming}/{path}"})
        reader = FileSource("s", listing, FileJournal(incoming.parent / found[0], listing.max_age_us), log)
        reader.drain()
        reader.stop()
        assert log.names == found


def test_a_batch_that_failed_is_tried_again_without_the_file_that_was_moved_away(incoming: Path) -> None:
    put(incoming, "bad", "good")
    log = Ingested()
    log.refuse = "bad"
    reader = source(incoming, log)
    with pytest.raises(SourceFailed, match="cannot read bad"):
        reader.drain()
    assert reader.failure is not None
    reader.stop()
    (incoming / "bad").unlink()
    again = source(incoming, log)
    again.drain()
    again.stop()
    assert log.batches == {0: ["good"]}


def test_what_is_no_file_is_passed_over(incoming: Path) -> None:
    put(incoming, "a")
    os.mkfifo(incoming / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(incoming / "socket"))
    (incoming / "nowhere").symlink_to(incoming / "gone")
    (incoming / "circle").symlink_to(incoming / "circle")
    (incoming / "below_a_file").symlink_to(incoming / "a" / "b")
    (incoming / "day=1").symlink_to(incoming / "gone")
    (incoming / "directory.csv").mkdir()
    (incoming / "link").symlink_to(incoming / "a")
    for path in (incoming, incoming / "*"):
        log = Ingested()
        listing = FileListing.of("s", {"path": str(path)})
        reader = FileSource("s", listing, FileJournal(incoming.parent / f"journal_{path.name}", listing.max_age_us), log)
        reader.drain()
        reader.stop()
        assert log.names == ["a", "link"]


class Thief(FileJournal):
    """Takes a file away after it was listed and before it is looked at."""

    def is_new(self, path: str) -> bool:
        if os.path.basename(path) == "fleeting":
            os.unlink(path)
        return super().is_new(path)


def test_a_file_that_is_taken_away_while_it_is_listed_is_passed_over(incoming: Path) -> None:
    put(incoming, "a", "fleeting", "day=1/fleeting")
    listing = FileListing.of("s", {"path": str(incoming)})
    found = listing.new_files(Thief(incoming.parent / "journal", listing.max_age_us))
    assert [os.path.basename(file.path) for file in found] == ["a"]


def test_a_directory_that_vanishes_stops_the_source_and_is_named(incoming: Path) -> None:
    reader = source(incoming, Ingested())
    reader.drain()
    incoming.rmdir()
    with pytest.raises(SourceFailed, match="incoming"):
        reader.drain()
    reader.stop()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "/nowhere/at/all"}, "does not exist"),
        ({"maxFilesPerTrigger": "none"}, "not a positive number"),
        ({"maxFileAge": "old"}, "not a duration"),
    ],
)
def test_wrong_options_are_refused(incoming: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(SourceFailed, match=message):
        FileListing.of("s", {"path": str(incoming), **options})


def test_a_batch_is_told_how_many_files_follow(incoming: Path) -> None:
    """Whoever reads it keeps the memory if there is work for all of them."""
    told = []
    put(incoming, *"abcde", size=10)
    listing = FileListing.of("s", {"path": str(incoming), "maxFilesPerTrigger": 2})
    journal = FileJournal(incoming.parent / "journal", listing.max_age_us)
    reader = FileSource("s", listing, journal, lambda number, paths, following: told.append((number, len(paths), following)))
    reader.drain()
    reader.stop()
    assert told == [(0, 2, 2), (1, 2, 1), (2, 1, 0)]
