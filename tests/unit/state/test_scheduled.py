from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from millstream.core.errors import DataDamaged
from millstream.state import scheduled
from millstream.state.scheduled import ScheduledChanges


def waiting(relation: Path, count: int) -> Path:
    """Changes 1 to `count` of the relation; the directory of their files."""
    relation.mkdir()
    changes = ScheduledChanges(relation, None)
    for number in range(count):
        changes.add(number, {}, pa.table({"a": [number]}))
    return relation / "_scheduled"


@pytest.mark.parametrize(("copied", "reason"), [("r/_scheduled/1", "change 1"), ("s/_scheduled/2", "relation s")])
def test_a_change_that_is_another_ones_is_damaged(tmp_path: Path, copied: str, reason: str) -> None:
    own = waiting(tmp_path / "r", 2) / "2.arrow"
    waiting(tmp_path / "s", 2)
    shutil.copy(tmp_path / f"{copied}.arrow", own)
    with pytest.raises(DataDamaged, match=rf'2\.arrow" is damaged: it is that of {reason}'):
        ScheduledChanges(tmp_path / "r", None)


def test_a_change_of_before_they_named_their_relation_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = scheduled._written
    monkeypatch.setattr(scheduled, "_written", lambda change, _: written(change, None))  # type: ignore[arg-type]
    waiting(tmp_path / "r", 1)
    assert len(ScheduledChanges(tmp_path / "r", None).upto(0)) == 1
