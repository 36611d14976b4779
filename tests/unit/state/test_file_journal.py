from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.errors import DataDamaged
from millstream.state import file_journal
from millstream.state.file_journal import FileJournal, FoundFile
from millstream.state.sealed import sealed_json
from unit.state.crash import run_until_killed

FOREVER = 10**15


def files(*names: str, modified: int = 0) -> list[FoundFile]:
    return [FoundFile(modified, name, 10) for name in names]


def test_the_last_batch_is_there_again_after_a_restart(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path, FOREVER)
    assert journal.last is None
    assert journal.begin(files("a", "b")) == 0
    assert journal.begin(files("c")) == 1
    again = FileJournal(tmp_path, FOREVER)
    assert again.last == (1, files("c"))
    assert [name for name in "abcd" if again.is_new(name)] == ["d"]
    assert again.begin(files("d")) == 2


@given(batches=st.lists(st.integers(1, 3), max_size=12), merge=st.integers(1, 4), restarts=st.sets(st.integers(0, 11)))
def test_no_file_is_new_twice_however_batches_are_merged(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], merge: int, restarts: set[int]
) -> None:
    directory = tmp_path_factory.mktemp("journal")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_journal, "MERGE", merge)
        journal, seen = FileJournal(directory, FOREVER), 0
        for number, count in enumerate(batches):
            batch = files(*(str(seen + i) for i in range(count)))
            assert all(journal.is_new(file.path) for file in batch)
            assert journal.begin(batch) == number
            seen += count
            if number in restarts:
                journal = FileJournal(directory, FOREVER)
                assert journal.last == (number, batch)
            assert not any(journal.is_new(str(i)) for i in range(seen))
        assert len(list(directory.iterdir())) <= 2 * merge + 1


def test_old_files_are_forgotten_and_stay_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_journal, "MERGE", 2)
    journal = FileJournal(tmp_path, 100)
    journal.begin(files("old", modified=0))
    journal.begin(files("new", modified=1000))
    assert journal.is_new("old")
    assert journal.is_too_old(FoundFile(0, "old", 1))
    assert not journal.is_too_old(FoundFile(900, "late but not too late", 1))


@pytest.mark.parametrize("fault", ["atomic.before_replace:1", "file_journal.begun:1", "file_journal.merged:1"])
def test_killed_at_any_point_no_file_is_lost_or_new_twice(tmp_path: Path, fault: str) -> None:
    code = """
        from millstream.state import file_journal
        file_journal.MERGE = 2
        journal = file_journal.FileJournal(location.path / "journal", 10**15)
        for i in range(4):
            journal.begin([file_journal.FoundFile(0, str(i), 1)])
    """
    run_until_killed(tmp_path, fault, code)
    journal = FileJournal(tmp_path / "journal", FOREVER)
    known = [i for i in range(4) if not journal.is_new(str(i))]
    assert known == list(range(len(known)))
    assert (journal.last[0] + 1 if journal.last else 0) == len(known)


def test_damage_is_named(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text("[[1")
    with pytest.raises(DataDamaged, match=r"0\.json"):
        FileJournal(tmp_path, FOREVER)


def test_a_directory_without_the_batches_that_the_log_has_is_damaged(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    FileJournal(directory, FOREVER, committed=None).begin([FoundFile(1, "a", 1)])
    kept = FileJournal(directory, FOREVER, committed=0)
    kept.begin([FoundFile(2, "b", 1)])
    FileJournal(directory, FOREVER, committed=0)  # the batch that a crash kept from the log
    with pytest.raises(DataDamaged, match=r'journal" knows of no batch after 1, but the log has batches up to 2'):
        FileJournal(directory, FOREVER, committed=2)
    shutil.rmtree(directory)
    with pytest.raises(DataDamaged, match=r'journal" is missing, but the log has batches up to 1'):
        FileJournal(directory, FOREVER, committed=1)
    assert not directory.exists(), "a backup can be put there"


@pytest.mark.parametrize(
    ("copied", "over", "reason"), [("2", "3", "of batch 2"), ("1", "upto-2", "of batch 1"), ("2", "upto-2", "of one batch")]
)
def test_a_batch_that_is_another_ones_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: str, over: str, reason: str
) -> None:
    kept = tmp_path / "kept"
    monkeypatch.setattr(file_journal, "MERGE", 4)
    journal = FileJournal(tmp_path / "journal", FOREVER)
    for number in range(4):
        journal.begin(files(str(number)))
        shutil.copytree(tmp_path / "journal", kept, dirs_exist_ok=True)
    shutil.copy(kept / f"{copied}.json", tmp_path / "journal" / f"{over}.json")
    with pytest.raises(DataDamaged, match=rf'{over}\.json" is damaged: it is that {reason}'):
        FileJournal(tmp_path / "journal", FOREVER)


def test_a_journal_of_before_files_said_what_they_are_is_read(tmp_path: Path) -> None:
    (tmp_path / "upto-0.json").write_bytes(sealed_json({"batch": 0, "files": [[0, "a", 10]]}))
    (tmp_path / "1.json").write_bytes(sealed_json({"batch": 1, "files": [[0, "b", 10]]}))
    assert FileJournal(tmp_path, FOREVER).last == (1, files("b"))
