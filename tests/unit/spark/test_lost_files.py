"""A batch of files goes on without the one that its readers die of, and blames no other."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.spark.lost_files import read_around, reading


class Cluster:
    """Reads file by file; one whose name begins with `fatal` ends its process, another is being read beside it."""

    def __init__(self, notes: Path, *paths: str) -> None:
        self.notes = notes
        self.paths = paths
        self.opened: list[str] = []

    def run(self, left_out: frozenset[str]) -> list[str]:
        for number, path in enumerate(self.paths):
            self.opened += [path] if path not in left_out else []
            if path.startswith("fatal") and path not in left_out:
                self._dies(number, path)
        return [path for path in self.paths if path not in left_out]

    def survives(self, path: str) -> bool:
        return not path.startswith("fatal")

    def _dies(self, number: int, path: str) -> None:
        for other, read_then in ((number, path), (number + 1, "beside it")):
            (self.notes / f"reading-{other}").write_text(read_then)
        raise RuntimeError("a worker has gone")


def test_the_others_are_read(tmp_path: Path) -> None:
    cluster, fatal = Cluster(tmp_path, "a", "fatal 1", "b", "fatal 2"), set[str]()
    assert read_around(cluster.run, cluster.survives, tmp_path, fatal) == ["a", "b"]
    assert fatal == {"fatal 1", "fatal 2"}
    assert list(tmp_path.iterdir()) == []


def test_what_no_file_is_to_blame_for_is_raised(tmp_path: Path) -> None:
    def lost(left_out: frozenset[str]) -> list[str]:
        (tmp_path / "reading-0").write_text("innocent")
        raise RuntimeError("a worker has gone")

    with pytest.raises(RuntimeError, match="has gone"):
        read_around(lost, lambda path: True, tmp_path, set())


def test_a_note_is_there_while_a_file_is_read(tmp_path: Path) -> None:
    with reading("a.arrow", tmp_path / "notes", 7):
        assert (tmp_path / "notes" / "reading-7").read_text() == "a.arrow"
    with pytest.raises(ValueError, match="broken"), reading("b.arrow", tmp_path / "notes", 7):
        raise ValueError("broken")
    assert list((tmp_path / "notes").iterdir()) == []
