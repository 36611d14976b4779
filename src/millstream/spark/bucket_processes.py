"""One Python process for each bucket, and none for two databases.

Inside an executor Spark keeps Python workers apart by their environment.  A name that a bucket has for itself, put into the
environment of its tasks, pins it to one process, so its caches are there when the next tick comes.

Databases that are open at the same time in one application have different seats, and a seat's names are nobody else's.  Two
tasks of one name at the same time would be two processes, each with a part of the caches: the jobs of a seat exclude each other.
Where a job is run again while a task of the lost one still runs there are two all the same, which would take turns from then on.
A process that comes back after another is the sign of it; then the bucket gets a new name, and Spark ends the old processes when
they have been idle for a minute.
"""

from __future__ import annotations

import threading
from collections import defaultdict

Process = tuple[str, int]
"""The machine and the process id."""


class _Seat:
    """The names of some database's buckets; they outlive the database, as the processes do."""

    def __init__(self, number: int) -> None:
        self.in_use = threading.Lock()
        self.is_taken = False
        self._number = number
        self._renamed: defaultdict[int, int] = defaultdict(int)
        self._seen: defaultdict[int, list[Process]] = defaultdict(list)  # under the present name, the last one last

    def name_of(self, bucket: int) -> str:
        return f"{self._number}.{bucket}.{self._renamed[bucket]}"

    def note(self, bucket: int, process: Process) -> bool:
        seen = self._seen[bucket]
        if process not in seen:
            seen.append(process)
        elif process != seen[-1]:
            self._renamed[bucket] += 1
            seen.clear()
            return True
        return False


_seats: defaultdict[str, list[_Seat]] = defaultdict(list)  # of each application of Spark
_seating = threading.Lock()


class BucketProcesses:
    """The seat of one database in an application of Spark, until it leaves."""

    def __init__(self, application: str) -> None:
        with _seating:
            seats = _seats[application]
            if all(seat.is_taken for seat in seats):
                seats.append(_Seat(len(seats)))
            self._seat = next(seat for seat in seats if not seat.is_taken)
            self._seat.is_taken = True
            self._has_left = False

    def in_use(self) -> threading.Lock:
        """To be held by a job.  One that outlives its database, as the warm-up may, is waited for by the seat's next: it has done its work
        then."""
        return self._seat.in_use

    def name_of(self, bucket: int) -> str:
        return self._seat.name_of(bucket)

    def note(self, bucket: int, process: Process) -> bool:
        """Which process had the bucket's last task; True: its processes take turns, and it is given another."""
        return self._seat.note(bucket, process)

    def leave(self) -> None:
        with _seating:
            if not self._has_left:  # once: somebody else may sit there by now
                self._seat.is_taken = False
                self._has_left = True
