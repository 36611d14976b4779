"""`millstream run`: the statements of a file, then the changes of their queries as they are committed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from millstream.api import Database, Query
from millstream.cli.display import make_console, show_table
from millstream.cli.follow import Follower, Pace
from millstream.cli.interrupts import Interrupt
from millstream.cli.opening import open_database
from millstream.cli.options import Location, Master, ScriptFile, read_text
from millstream.cli.statements import Piece, split_statements
from millstream.core.errors import AlreadyExists, ConfigInvalid, MillstreamError
from millstream.core.instant import UNITS, parse_duration
from millstream.language.parser import parse_one
from millstream.language.statements import CreateQuery, CreateRelation, CreateSink, CreateStream, Register

_REFRESH_S = 0.25
_LINE_EVERY_S = 5.0


def run(
    file: ScriptFile,
    location: Location = None,
    master: Master = "local[*]",
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="DURATION|drained", help="Stop after a time such as '30 s', or when the sources hold no more rows."
        ),
    ] = None,
) -> None:
    """Run a script of statements and print the changes of its queries, until Ctrl-C or --until.

    A script none of whose streams has a source stops when everything is answered.
    With the same --location a second run goes on where the first one stopped.
    """
    seconds = _seconds(until)
    pieces = split_statements(read_text(file))
    console, log = make_console(), Console(stderr=True, highlight=False, soft_wrap=True)
    with open_database(location, master) as db:
        # what a query said before this run is not news; what it says from here on is
        followers = {query.name: Follower(query, since=query.frontier) for query in db.queries()}
        try:
            with db.sources_held():
                for piece in pieces:
                    _execute(db, piece, file, console, followers)
            drained = until == "drained" or (seconds is None and not _has_sources(db))
            _follow(db, list(followers.values()), console, log, _Drain(db) if drained else None, seconds)
        except KeyboardInterrupt:
            log.print("stopped")
        printed = sum(follower.printed for follower in followers.values())
        log.print(f"{printed:,} changes of {len(followers)} quer{'y' if len(followers) == 1 else 'ies'}; {Pace(db).totals()}")


def _seconds(until: str | None) -> float | None:
    if until is None or until == "drained":
        return None
    try:
        return parse_duration(until) / UNITS["SECOND"]
    except ValueError as failure:
        raise ConfigInvalid(f"--until: {failure}", hint="Write a time such as '30 s' or '5 minutes', or drained.") from None


def _execute(db: Database, piece: Piece, file: Path, console: Console, followers: dict[str, Follower]) -> None:
    try:
        if _exists_already(db, piece.sql):
            return
        answer = db.execute(piece.sql)
    except MillstreamError as error:
        error.message = f"{error.message} ({file}, line {piece.line})"
        raise
    if isinstance(answer, Query):
        followers[answer.name] = Follower(answer)
    elif isinstance(answer, pa.Table):
        show_table(console, answer)


def _exists_already(db: Database, sql: str) -> bool:
    """Whether an earlier run made this very object.  Another one of the same name is an error."""
    statement = parse_one(sql)
    if not isinstance(statement, CreateStream | CreateRelation | CreateQuery | CreateSink | Register):
        return False
    existing = db.definition(statement.name)
    if existing is None or db.is_defined(sql):
        return existing is not None
    raise AlreadyExists(
        f'"{statement.name}" exists already, with another definition',
        hint=f"It is: {' '.join(existing.split())}. Drop it first, or use another --location.",
        span=statement.place("name"),
        sql=sql,
    )


def _has_sources(db: Database) -> bool:
    streams = db.execute("SHOW STREAMS")
    assert isinstance(streams, pa.Table)
    return any(source is not None for source in streams["source"].to_pylist())


class _Drain(threading.Thread):
    """Waits in the background until the sources have no more rows, while the changes are being printed."""

    def __init__(self, db: Database) -> None:
        super().__init__(name="millstream-drain", daemon=True)
        self._db = db
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._db.await_drained()
        except BaseException as error:
            self._error = error

    def finished(self) -> bool:
        if self._error is not None:
            raise self._error
        return not self.is_alive()


def _follow(db: Database, followers: list[Follower], console: Console, log: Console, drain: _Drain | None, seconds: float | None) -> None:
    """Prints changes until the drain is done, the time is over or Ctrl-C comes, which is raised between two looks."""
    deadline = None if seconds is None else time.monotonic() + seconds
    foot = Live(console=console, auto_refresh=False, transient=True) if console.is_terminal else nullcontext()
    with foot as live, Interrupt() as interrupt:
        report = _reporter(db, log, live)
        while True:
            # asked before the last look, so that the look sees everything
            done = (drain is not None and drain.finished()) or (deadline is not None and time.monotonic() >= deadline)
            db.check()
            for follower in followers:
                follower.print_new(console)
            if done:
                return
            if interrupt.came:
                raise KeyboardInterrupt
            report()
            time.sleep(_REFRESH_S)


def _reporter(db: Database, log: Console, live: Live | None) -> Callable[[], None]:
    """A line of progress: at the foot of a terminal, or now and then in the log."""
    pace, last, said = Pace(db), time.monotonic(), ""

    def report() -> None:
        nonlocal last, said
        if live is not None:
            live.update(Text(pace.line(), style="dim"), refresh=True)
        elif time.monotonic() - last >= _LINE_EVERY_S:
            if (line := pace.line()) != said:
                log.print(line)
            last, said = time.monotonic(), line

    return report
