"""Where the daemons of a JVM meet its zygote, and what they say to each other.

    $TMPDIR/millstream-UID/     nobody else may look into it; who looks for a zygote, starts one or ends has it locked meanwhile
        JVM-DIGEST              the zygote's socket
        JVM-DIGEST.refused      there: such a zygote may not fork, so that nobody has to start another to find out

A daemon says how it was started and hands over its stdin, stdout and stderr.  The answer is a handle (a pidfd) of the process that
runs in its place, or that there will be none.

Loaded by every daemon, which is to be small: nothing of Millstream, no tempfile, no subprocess, no hashlib.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NamedTuple

_OF_ONE_DAEMON = ("MILLSTREAM_", "SPARK_", "PYSPARK_", "PYTHON_")
"""So begin variables by which the daemons of a JVM differ.  Nothing looks at them while it is loaded: Python's own have no underscore."""
_BEGAN = 19
"""The place in /proc/PID/stat, behind the name, of when a process began."""
_SAID_NO = ".refused"
_REFUSED = b"n"
_TAKEN = b"y"


class Refused(Exception):
    """The zygote will not fork for anybody, and has told why where the workers' complaints go; or one before it has."""


class Order(NamedTuple):
    """How a daemon was started."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]


def socket_path(jvm: int) -> str:
    """Of the zygote that has loaded in surroundings like ours, for the same JVM."""
    directory = f"{os.environ.get('TMPDIR') or '/tmp'}/millstream-{os.getuid()}"
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
    status = os.lstat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PermissionError(f'"{directory}" is not a directory of this user alone')
    loads_by = sorted((name, value) for name, value in os.environ.items() if not name.startswith(_OF_ONE_DAEMON))
    # containers that share a directory of temporary files have process ids of their own, and process ids come again
    with open(f"/proc/{jvm}/stat") as stat_of_jvm:
        began = stat_of_jvm.read().rpartition(")")[2].split()[_BEGAN]
    surroundings = (sys.executable, os.getcwd(), os.readlink("/proc/self/ns/pid"), began, loads_by)
    return f"{directory}/{jvm}-{zlib.crc32(repr(surroundings).encode()):08x}"


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Of all that want something of the sockets beside `path`, one at a time."""
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def connected(path: str, start: Callable[[socket.socket], None]) -> socket.socket:
    """To the zygote, which is started with a socket that listens already: nobody waits here until it has loaded."""
    if os.path.exists(path + _SAID_NO):
        raise Refused
    connection = socket.socket(socket.AF_UNIX)
    with locked(path):
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):  # there was none, or it was killed
            with suppress(FileNotFoundError):
                os.unlink(path)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
                listener.listen()
                start(listener)
            connection.connect(path)
    return connection


def ask(connection: socket.socket, order: Order) -> int | None:
    """The handle of the process that does it, with our standard streams; None: the zygote has died meanwhile."""
    try:
        socket.send_fds(connection, [b"o"], (0, 1, 2))
        connection.sendall(json.dumps(order).encode())
        connection.shutdown(socket.SHUT_WR)
        answer, handles, _, _ = socket.recv_fds(connection, 1, 1, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return None
    if answer == _REFUSED:
        raise Refused
    return handles[0] if handles else None


def receive(connection: socket.socket) -> tuple[Order, list[int]]:
    """Raises ValueError or OSError where whoever asked has ended."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3, socket.MSG_CMSG_CLOEXEC)
    try:
        return Order(*json.loads(b"".join(iter(partial(connection.recv, 1 << 16), b"")))), streams
    except (ValueError, OSError):
        for stream in streams:
            os.close(stream)
        raise


def take(connection: socket.socket) -> None:
    """Said by the process that does it, before it touches the streams: whoever asked does not do it itself from here on."""
    handle = os.pidfd_open(os.getpid())
    socket.send_fds(connection, [_TAKEN], [handle])
    os.close(handle)


def note_refusal(path: str) -> None:
    """For those to come.  Notes that were made for other JVMs, which have ended, go."""
    directory, name = os.path.split(path)
    for other in os.listdir(directory):
        if other.endswith(_SAID_NO) and not os.path.exists(f"/proc/{other.partition('-')[0]}"):
            with suppress(FileNotFoundError):
                os.unlink(f"{directory}/{other}")
    with open(f"{directory}/{name}{_SAID_NO}", "w"):
        pass


def refuse(connection: socket.socket) -> None:
    connection.sendall(_REFUSED)
