"""A directory as a source: a thread that looks for new files and hands them on in batches, each exactly once.

    list ─► journal (the batch is decided) ─► ingest (its rows are in the log, or were already) ─► list ...

Looking costs what the directory holds, so an idle source looks less often where there is much to look at.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence

from millstream.core.errors import MillstreamError, SourceFailed
from millstream.runtime.file_listing import FileListing
from millstream.state.file_journal import FileJournal, FoundFile

log = logging.getLogger(__name__)

_POLL_S = 0.1
_SHARE = 20
"""An idle source spends at most one part in so many of its time with looking."""


Ingest = Callable[[int, Sequence[str], int], None]
"""Gets a batch's number and paths, and how many files the batch has that follows at once; called again with the same number, it does
nothing."""


class FileSource:
    def __init__(self, stream: str, listing: FileListing, journal: FileJournal, ingest: Ingest) -> None:
        self._stream = stream
        self._listing = listing
        self._journal = journal
        self._ingest = ingest
        self._changed = threading.Condition()
        self._asked = 0  # drains so far
        self._answered = 0  # up to which of them a later look found nothing new
        self._stopping = False
        self._error: MillstreamError | None = None
        self._thread = threading.Thread(target=self._run, name=f"millstream-source-{stream}", daemon=True)
        self._thread.start()

    @property
    def is_active(self) -> bool:
        return self._thread.is_alive()

    @property
    def failure(self) -> MillstreamError | None:
        return self._error

    def drain(self) -> None:
        """Returns when every file that is there now has been read."""
        with self._changed:
            self._asked += 1
            mine = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._answered >= mine or self._error is not None or self._stopping)
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Returns when the batch that is being read, if any, is done."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        try:
            if self._journal.last is not None:
                number, files = self._journal.last
                # a file that could not be read may have been moved away since: then nothing of its batch was committed
                self._ingest(number, [file.path for file in files if os.path.isfile(file.path)], 0)
            while not self._stopping:
                self._look()
        except Exception as error:
            self._fail(error)

    def _look(self) -> None:
        asked, began = self._asked, time.monotonic()
        new = self._listing.new_files(self._journal)
        pause = 0.0 if new else max(_POLL_S, _SHARE * (time.monotonic() - began))
        while new and not self._stopping:
            new = self._read(new)
        with self._changed:
            if not self._stopping:
                self._answered = asked
                self._changed.notify_all()
            self._changed.wait_for(lambda: self._stopping or self._asked > self._answered, pause)

    def _read(self, files: list[FoundFile]) -> list[FoundFile]:
        """One batch; returns what is left."""
        length = self._listing.batch_length(files)
        batch, left = files[:length], files[length:]
        self._ingest(self._journal.begin(batch), [file.path for file in batch], self._listing.batch_length(left))
        return left

    def _fail(self, error: Exception) -> None:
        log.info("source stopped", extra={"stream": self._stream, "reason": str(error)})
        with self._changed:
            self._error = error if isinstance(error, MillstreamError) else SourceFailed(
                f'the source of stream "{self._stream}" failed: {error}',
                hint="The rows read so far are in the log; fix the source and start again.",
            )  # fmt: skip
            self._changed.notify_all()
