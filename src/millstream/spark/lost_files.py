"""Files that their reader's process died of: which it was, and how the batch goes on without it.

Whoever reads a file leaves a note of it for as long as it reads.  When a job has lost a process, each file that was being read then is
read once more, alone in a job of its own: what ends that one too would end every job, and becomes a dead letter.  The others were only
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ENDS_ITS_READER = "it ends every process that reads it; it is damaged, or needs more memory than there is"


@contextmanager
def reading(path: str, notes: Path, number: int) -> Iterator[None]:
    """The note stays if the process goes; `number` is the file's in its batch."""
    note = notes / f"reading-{number}"
    notes.mkdir(parents=True, exist_ok=True)
    note.write_text(path)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def read_around(run: Callable[[frozenset[str]], list[str]], survives: Callable[[str], bool], notes: Path, fatal: set[str]) -> list[str]:
    """What `run` gives, told which files it must not open; those are found here, and added to `fatal`."""
    while True:
        try:
            return run(frozenset(fatal))
        except Exception:
            found = {path for path in _noted(notes) - fatal if not survives(path)}
            if not found:
                raise
            fatal |= found


def _noted(notes: Path) -> set[str]:
    found = set()
    for note in notes.glob("reading-*"):
        try:
            found.add(note.read_text())
            note.unlink()
        except FileNotFoundError:  # a task of the lost job goes on, and is done with it by now
            continue
    return found - {""}
