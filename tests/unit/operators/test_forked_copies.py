"""A copy that a function makes of its process answers nobody, keeps nobody waiting and does not outlive it."""

from __future__ import annotations

import subprocess
import sys

import pytest

BEGIN = """
import multiprocessing, os, socket, time
from millstream.operators.call_limit import CallLimit
from millstream.operators.forked_copies import guard_against_copies
ours, theirs = socket.socketpair()
guard_against_copies()
fork = multiprocessing.get_context("fork")
"""


def printed(code: str) -> str:
    """What the process and its copies say until the last of them has ended."""
    run = subprocess.run([sys.executable, "-c", BEGIN + code], stdout=subprocess.PIPE, timeout=100, check=False)
    return run.stdout.decode()


def test_the_sockets_of_a_process_are_not_its_copys() -> None:
    code = """
fork.Process(target=time.sleep, args=(1000,)).start()
ours.close()
print(theirs.recv(1), flush=True)  # b"": closed
os._exit(0)
"""
    assert printed(code) == "b''\n"


def test_a_copy_and_its_own_copy_end_with_their_process() -> None:
    code = """
def twice(pipe):
    fork.Process(target=time.sleep, args=(1000,)).start()
    pipe.send("both are there")
    time.sleep(1000)

mine, its = fork.Pipe()
fork.Process(target=twice, args=(its,)).start()
print(mine.recv(), flush=True)
os._exit(0)
"""
    assert printed(code) == "both are there\n"


LATE = """
import os
makers = []

def wait_for_its_makers_end():
    while makers and os.getppid() == makers[0]:
        os.sched_yield()

os.register_at_fork(after_in_child=wait_for_its_makers_end)  # runs before what guards
"""


def test_a_copys_copy_whose_maker_was_faster_ends_too() -> None:
    """It asked for a signal at the end of whoever had taken it over, and lived on."""
    code = """
if os.fork() == 0:
    makers.append(os.getpid())
    if os.fork() == 0:
        print("lives on", flush=True)
    os._exit(0)
os.wait()
"""
    run = subprocess.run([sys.executable, "-c", LATE + BEGIN + code], stdout=subprocess.PIPE, timeout=100, check=True)
    assert run.stdout == b""


@pytest.mark.parametrize("rows", ["for limit.row[0] in range(5): os.fork()", "os.fork()"])
def test_a_copy_that_comes_back_from_its_call_ends_there(rows: str) -> None:
    code = f"""
with CallLimit(60, "") as limit:
    {rows}
print("answered", flush=True)
"""
    assert printed(code) == "answered\n"


def test_what_copies_say_to_each_other_is_heard() -> None:
    code = """
def answer(pipe):
    pipe.send(pipe.recv() + 1)

with CallLimit(60, ""):
    mine, its = fork.Pipe()
    fork.Process(target=answer, args=(its,)).start()
    mine.send(6)
    print(mine.recv(), flush=True)
    with fork.Pool(1) as pool:
        print(pool.apply(abs, (-8,)), flush=True)
"""
    assert printed(code) == "7\n8\n"
