"""A task over files, without Spark: when it lets go of the memory that it read them with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millstream.spark import source_tasks
from millstream.spark.source_tasks import FileWriter


class Pool:
    def __init__(self) -> None:
        self.released = 0

    def release_unused(self) -> None:
        self.released += 1


@pytest.mark.parametrize(("more", "released"), [(True, 0), (False, 1)])
def test_memory_is_kept_only_while_more_follows(more: bool, released: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    nobody: Any = None
    monkeypatch.setattr(source_tasks.pa, "default_memory_pool", lambda: pool)
    monkeypatch.setattr(source_tasks, "leave_out_what_is_loaded", lambda: None)
    writer = FileWriter(nobody, nobody, tmp_path, frozenset(), [], more=more)
    assert list(writer(0, [""])) == [[]]
    assert pool.released == released
