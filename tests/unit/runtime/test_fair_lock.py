from __future__ import annotations

import threading

from millstream.runtime.fair_lock import FairRLock


def test_who_takes_it_again_and_again_leaves_room_for_others() -> None:
    lock, got, stop, taken = FairRLock(), threading.Event(), threading.Event(), threading.Event()

    def greedy() -> None:
        while not stop.is_set():
            with lock, lock:
                taken.set()

    threads = [threading.Thread(target=greedy) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert taken.wait(10)
    turns = 0
    for _ in range(200):
        with lock:
            turns += 1
    got.set()
    stop.set()
    for thread in threads:
        thread.join(10)
    assert turns == 200
    assert got.is_set()


def test_a_condition_lets_go_of_all_levels_and_has_them_back() -> None:
    lock = FairRLock()
    condition = threading.Condition(lock)  # type: ignore[arg-type]
    said: list[str] = []

    def other() -> None:
        with condition:
            said.append("other")
            condition.notify_all()

    with lock, condition:
        thread = threading.Thread(target=other)
        thread.start()
        assert condition.wait_for(lambda: bool(said), timeout=10)
        assert lock._is_owned()
        lock.release()
        assert lock._is_owned()
        lock.acquire()
    thread.join(10)
    assert not lock._is_owned()
