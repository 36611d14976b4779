"""The driver's side of registered queries: who they are, what of their streams the soup has, and what it is asked.

    register, unregister ──► waiting to be told ──┐
    logs of the streams ─────► what is new ───────┼──► SoupTask ──► the process of the soup ──► answers
    invoke ─────────────────► one or more ────────┘

The soup is begun when somebody needs it, and begun again, from the logs, when its process is lost or a new window reaches further back than
its rows do.  An answer is that at the least frontier of the streams that the query reads, where nothing can change any more: of all
rows up to there and of no other, so of a prefix of each stream.

Nothing here waits for the engine's lock; who has it may wait for ours.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from millstream.core.errors import ClusterFailed, MillstreamError, QueryFailed, QueryNotFound
from millstream.core.instant import GONE_NEVER, NEVER_BEFORE, Micros
from millstream.psoup.query import Now
from millstream.runtime.exchange import read_contents
from millstream.runtime.invocations.feeding import Fed
from millstream.runtime.invocations.messages import Invocation, SoupFeed, SoupResult, SoupTask
from millstream.runtime.invocations.registered import Known, Place, Registered, begin_at
from millstream.runtime.runner import Runner
from millstream.runtime.streams import OpenStream, Streams
from millstream.state.location import Location

log = logging.getLogger(__name__)

TRIES = 4
"""So often a soup is begun for one question; a process that dies each time will die again."""
KEEP_ALIVE_S = 20.0
"""Spark ends a Python process that has had nothing to do for a minute, and what it holds would have to be read again."""
CLOSE_S = 5.0


class Registrations:
    def __init__(self, location: Location, streams: Streams, runner: Runner) -> None:
        self._answer_dir = str(location.exchange_dir / "invocations")
        self._streams, self._runner = streams, runner
        self._lock = threading.RLock()
        self._known = Known({})  # replaced as a whole, so that it can be read without the lock
        self._soup: str | None = None
        self._step = 0
        self._told: frozenset[int] = frozenset()
        self._fed: dict[str, Fed] = {}
        self._wanted = False  # somebody has registered or asked since the database was opened
        self._thread: threading.Thread | None = None
        self._last_run = 0.0
        self._closing = threading.Event()

    # --- who is registered

    def __iter__(self) -> Iterator[Registered]:
        return iter(self._known.by_name.values())

    def __getitem__(self, name: str) -> Registered:
        return self._known.by_name[name]

    def __contains__(self, registered: object) -> bool:
        return isinstance(registered, Registered) and self._known.by_name.get(registered.name) is registered

    def add(self, registered: Registered, *, reopening: bool) -> None:
        self._known = Known({**self._known.by_name, registered.name: registered})
        self._wanted = self._wanted or not reopening

    def remove(self, name: str) -> None:
        self._known = Known({known: each for known, each in self._known.by_name.items() if known != name})

    def readers(self, stream: str) -> list[Registered]:
        return [each for each in self if stream in each.streams]

    def needed_from(self, stream: str) -> Micros:
        """Rows of the stream from this instant on are kept for windows that move, whatever RETAIN says.

        Such a window needs no more than its length.  One that begins at an instant would keep everything since, for ever.
        """
        moving = [(names, begin) for names, begin in self._known.kinds if stream in names and isinstance(begin, Now)]
        return min((begin_at(begin, self._place(names).now) for names, begin in moving), default=GONE_NEVER)

    def place(self, registered: Registered) -> Place:
        return self._place(registered.streams)

    def _place(self, streams: Sequence[str]) -> Place:
        return Place.of([self._streams[name] for name in streams])

    def complete_from(self, registered: Registered) -> Micros:
        place = self.place(registered)
        return registered.complete_from(place.now, place.whole_from)

    # --- what clients call

    def invoke(self, registered: Registered) -> pa.Table:
        """Its answer now."""
        with self._lock:
            self._wanted = True
            (path,) = self._run(registered).answers
            rows = read_contents(path)
            table = pa.Table.from_batches([rows]).rename_columns([field.name for field in registered.fields])
            Path(path).unlink(missing_ok=True)  # it is mapped: its bytes stay until nobody looks at them
            return table

    def storage(self) -> Mapping[str, int]:
        """What the soup keeps: rows, clauses that stand in the query SteM, bytes of results."""
        with self._lock:
            return self._run(None, wants_storage=True).storage

    def follow(self) -> None:
        """Let the soup have what is new, so that whoever asks next does not have to wait for it.  And be told, if it cannot be done."""
        try:
            with self._lock:
                if self._is_due():
                    self._run(None)
        except Exception as error:
            if not self._closing.is_set():
                log.warning("registered queries are behind their streams: %s", error)

    def kick(self) -> None:
        """The same, in a thread that comes when there is something to do and goes when there is not."""
        if self._closing.is_set() or not self._wanted or (self._thread is not None and self._thread.is_alive()):
            return
        if not self._lock.acquire(blocking=False):  # somebody is at it
            return
        try:
            if self._is_due():
                self._thread = threading.Thread(target=self.follow, name="millstream-soup", daemon=True)
                self._thread.start()
        finally:
            self._lock.release()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    # --- the soup

    def _is_due(self) -> bool:
        if not self._wanted:
            return False
        known = self._known
        if self._soup is not None and known.numbers and time.monotonic() - self._last_run > KEEP_ALIVE_S:
            return True
        return known.numbers != self._told or any(self._streams[name].frontier > self._fed[name].frontier for name in known.streams)

    def _run(self, asked: Registered | None, *, wants_storage: bool = False) -> SoupResult:
        """One step; of a new soup if there is none, or if it got lost."""
        for _ in range(TRIES):
            task, self._soup = self._next_task(asked), None  # until we know that it was done
            result = self._runner.run_soup(replace(task, wants_storage=wants_storage))
            self._last_run = time.monotonic()
            if result.error is not None:
                raise _told_of(result.error, asked)
            if not result.missing:
                self._soup = task.soup
                return result
            log.info("the soup of registered queries is begun again: its process is gone")
        raise ClusterFailed(
            "the process of registered queries got lost again and again",
            hint="It may need more memory than there is: give its queries smaller windows. See the logs of Spark's executors.",
        )

    def _next_task(self, asked: Registered | None) -> SoupTask:
        known = self._known
        while any(name not in self._streams for name in known.streams):  # unregistered meanwhile, and dropped
            known = self._known
        if asked is not None and known.by_number.get(asked.number) is not asked:
            raise QueryNotFound(f'"{asked.name}" has been unregistered', hint="Register it again.")
        streams = {name: self._streams[name] for name in known.streams}
        # before anybody looks for chunks: what a frontier has passed is in the log
        stands = {name: Place.of([stream]) for name, stream in streams.items()}
        horizons = _horizons(known, stands)
        begins = self._soup is None or not known.numbers or not self._reaches(streams, horizons)
        soup = self._begin() if begins or self._soup is None else self._soup
        self._step += 1
        feeds = tuple(self._feed(stream, stands[name].now, horizons[name]) for name, stream in streams.items())
        feeds += tuple(fed.last_feed() for name, fed in self._fed.items() if name not in streams and not fed.is_gone)
        added = tuple((number, known.by_number[number].planned) for number in sorted(known.numbers - self._told))
        removed = tuple(sorted(self._told - known.numbers))
        self._told = known.numbers
        invoked = () if asked is None else (_invocation(asked, Place.together([stands[name] for name in asked.streams])),)
        return SoupTask(soup, self._step, begins, feeds, added, removed, invoked, self._answer_dir)

    def _reaches(self, streams: Mapping[str, OpenStream], horizons: Mapping[str, Micros]) -> bool:
        return all(name not in self._fed or self._fed[name].reaches(stream, horizons[name]) for name, stream in streams.items())

    def _begin(self) -> str:
        self._step, self._told, self._fed = -1, frozenset(), {}
        return uuid.uuid4().hex

    def _feed(self, stream: OpenStream, frontier: Micros, horizon: Micros) -> SoupFeed:
        return self._fed.setdefault(stream.entry.name, Fed(stream, horizon)).next_feed(frontier, horizon)


def _horizons(known: Known, stands: Mapping[str, Place]) -> dict[str, Micros]:
    """By stream: from where on some window needs its rows.  What has left a log counts in no answer, though the soup may have it."""
    horizons: dict[str, Micros] = {}
    for names, bound in known.kinds:
        place = Place.together([stands[name] for name in names])
        begin = max(begin_at(bound, place.now), place.whole_from)
        for name in names:
            horizons[name] = min(horizons.get(name, begin), begin)
    return horizons


def _invocation(registered: Registered, place: Place) -> Invocation:
    return Invocation(registered.number, place.now, max(place.whole_from, NEVER_BEFORE))


def _told_of(error: MillstreamError, asked: Registered | None) -> MillstreamError:
    if asked is None or error.sql is not None:
        return error
    kind = type(error) if not isinstance(error, QueryFailed) else QueryFailed
    return kind(f'registered query "{asked.name}" could not be answered: {error.message}', hint=error.hint)
