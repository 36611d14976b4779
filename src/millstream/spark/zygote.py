"""The process from which all Python workers of a JVM are forked, so that they load nothing and share what is loaded.

A worker that loads by itself takes two seconds of a core before its first row, and 130 MB that it shares with nobody.  Here that is
done once (loaded_once.py).  Each daemon that Spark asks for (daemon.py) is a fork of this process, runs pyspark.daemon unchanged, and forks
workers; memory is copied page by page, where somebody writes.

    fork copies only the thread that forks     with a second one nobody is forked here: daemons load for themselves
    what garbage collection visits it writes   all that is loaded is left out of collections
    this process ends                          with its last daemon; daemons end with their Spark, because their stdin ends
    this process is killed                     its daemons go on; the next one starts another zygote
"""

from __future__ import annotations

import os
import select
import socket
import sys
import traceback
from contextlib import suppress

from millstream.spark.forked_daemon import become_daemon
from millstream.spark.loaded_once import load
from millstream.spark.zygote_socket import Order, locked, note_refusal, receive, refuse

_ASKING_S = 10.0
"""So long whoever connects may take to say what it wants: it was said before the connection was made, or its process was stopped."""


class Zygote:
    def __init__(self, listener: socket.socket, path: str, *, forks: bool) -> None:
        self._listener = listener
        self._path = path
        self._forks = forks
        self._daemons: dict[int, int] = {}  # handle -> process
        self._poll = select.poll()
        self._poll.register(listener, select.POLLIN)

    def serve(self) -> None:
        """Returns when the last daemon has ended, and nobody waits for another."""
        while self._daemons or not self._has_left():
            for ready, _ in self._poll.poll():
                if ready == self._listener.fileno():
                    self._answer()
                else:
                    self._bury(ready)

    def _answer(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            connection.settimeout(_ASKING_S)
            try:
                order, streams = receive(connection)
            except (OSError, ValueError):  # it has ended meanwhile
                return
            if self._forks:
                self._fork(connection, order, streams)
            else:
                refuse(connection)
            for stream in streams:
                os.close(stream)

    def _fork(self, connection: socket.socket, order: Order, streams: list[int]) -> None:
        try:
            process = os.fork()
        except OSError:
            traceback.print_exc()
            refuse(connection)
            return
        if process == 0:
            self._listener.close()
            for handle in self._daemons:
                os.close(handle)
            become_daemon(connection, order, streams)
        handle = os.pidfd_open(process)
        self._daemons[handle] = process
        self._poll.register(handle, select.POLLIN)

    def _bury(self, handle: int) -> None:
        self._poll.unregister(handle)
        os.close(handle)
        os.waitpid(self._daemons.pop(handle), 0)

    def _has_left(self) -> bool:
        """Whoever comes after that starts another; who is here already is still served.

        Whoever starts a zygote is here before the lock is open again, unless it was killed.
        """
        with locked(self._path):
            if select.select([self._listener], [], [], 0)[0]:
                return False
            with suppress(FileNotFoundError):
                os.unlink(self._path)
            return True


def main() -> None:
    _, path, listener = sys.argv[1:]
    forks = load()
    if not forks:
        note_refusal(path)
    Zygote(socket.socket(fileno=int(listener)), path, forks=forks).serve()
    sys.stderr.flush()
    os._exit(0)  # nobody has to see the libraries off


if __name__ == "__main__":
    main()
