"""Names of buckets: of their own while a database is open, and new ones where processes take turns."""

from __future__ import annotations

from uuid import uuid4

from millstream.spark.bucket_processes import BucketProcesses

A, B, C = ("here", 1), ("here", 2), ("here", 3)


def test_databases_of_an_application_have_names_of_their_own() -> None:
    application = uuid4().hex
    one, other = BucketProcesses(application), BucketProcesses(application)
    assert one.name_of(0) == BucketProcesses(uuid4().hex).name_of(0)  # another application
    assert len({one.name_of(0), one.name_of(1), other.name_of(0), other.name_of(1)}) == 4
    assert one.in_use() is not other.in_use()


def test_a_seat_is_taken_again_with_its_processes() -> None:
    application = uuid4().hex
    one = BucketProcesses(application)
    name, lock = one.name_of(0), one.in_use()
    one.leave()
    again = BucketProcesses(application)
    one.leave()  # twice is once
    assert again.name_of(0) == name
    assert again.in_use() is lock
    assert BucketProcesses(application).name_of(0) != name


def test_processes_that_take_turns_are_left() -> None:
    processes = BucketProcesses(uuid4().hex)
    name, neighbour = processes.name_of(0), processes.name_of(1)
    assert [processes.note(0, process) for process in (A, A, B, B, C)] == [False] * 5  # one after the other is lost
    assert processes.name_of(0) == name
    assert processes.note(0, A)
    assert processes.name_of(0) != name
    assert processes.name_of(1) == neighbour
    assert [processes.note(0, process) for process in (A, A)] == [False, False]
