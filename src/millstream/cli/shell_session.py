"""What the shell does with what is typed: statements, and commands that start with a backslash.

Nothing here knows about prompts or keys: the same session serves a terminal and a pipe.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pyarrow as pa
from rich.console import Console

from millstream.api import Database, Query, RegisteredQuery
from millstream.cli.display import show_frontier, show_table
from millstream.cli.follow import Follower
from millstream.cli.interrupts import Interrupt
from millstream.cli.statements import split_statements
from millstream.core.errors import ConfigInvalid, MillstreamError, did_you_mean
from millstream.core.instant import format_instant, parse_instant

HELP = """\
statements end with a semicolon; CREATE STREAM, INSERT, SELECT, ... as in the language
  SELECT ... FROM stream [RANGE 5 MINUTES] ...;   shows the changes of its answer as they come, until Ctrl-C
\\d               streams, relations, queries, registered queries and sinks
\\d NAME          the columns of one of them
\\advance T       no more rows at or before T will come (seconds since 1970, or ISO-8601); \\advance NAME T for one stream
\\explain SELECT  how a query would run
\\timing          switch the display of times on or off
\\q               leave
"""


class ShellSession:
    def __init__(self, db: Database, console: Console, errors: Console, *, interactive: bool) -> None:
        self.db = db
        self.failed = False
        self._console = console
        self._errors = errors
        self._interactive = interactive
        self._timing = False
        self._commands: dict[str, Callable[[str], None]] = {
            "\\?": lambda _: self._console.print(HELP, end="", markup=False),
            "\\d": self._describe,
            "\\advance": self._advance,
            "\\explain": lambda sql: self._console.print(self.db.explain(sql.rstrip("; \n")), markup=False, soft_wrap=True),
            "\\timing": self._switch_timing,
        }

    def run(self, text: str) -> bool:
        """Everything in `text`; False if it said to leave.  Errors are shown, and the session goes on."""
        try:
            if text.lstrip().startswith("\\"):
                return self._run_command(text.strip())
            for piece in split_statements(text):
                self._run_statement(piece.sql)
        except MillstreamError as error:
            self.failed = True
            self._errors.print(str(error), markup=False, soft_wrap=True)
        return True

    def _run_command(self, text: str) -> bool:
        name, _, rest = text.partition(" ")
        if name == "\\q":
            return False
        if name not in self._commands:
            raise ConfigInvalid(f'there is no command "{name}"', hint=did_you_mean(name, self._commands) or "\\? lists them.")
        self._commands[name](rest.strip())
        return True

    def _run_statement(self, sql: str) -> None:
        started = time.perf_counter()
        answer = self.db.execute(sql)
        seconds = time.perf_counter() - started
        match answer:
            case Query() if sql.split(None, 1)[0].upper() == "CREATE":
                self._console.print(f"query {answer.name} runs{_until_complete(answer)}", markup=False)
            case Query():
                self._live(answer)
            case RegisteredQuery():
                self._console.print(f"query {answer.name} is registered{_until_complete(answer)}", markup=False)
            case pa.Table():
                show_table(self._console, answer)
            case _:
                self._console.print("ok")
        if self._timing:
            self._console.print(f"time: {seconds * 1000:.1f} ms")

    def _live(self, query: Query) -> None:
        """The changes of a query that lives only here.  In a pipe, where nobody could stop it, those up to the frontier."""
        follower = Follower(query)
        with query:
            if not self._interactive:
                self.db.flush()
                follower.print_new(self._console)
            else:
                self._follow(follower)
        self._console.print(f"({follower.printed:,} change{'' if follower.printed == 1 else 's'}, up to {show_frontier(query.frontier)})")

    def _follow(self, follower: Follower) -> None:
        self._console.print("[dim]changes as they come; Ctrl-C to stop[/dim]")
        with Interrupt() as interrupt:
            while not interrupt.came:
                self.db.check()
                follower.print_new(self._console)
                time.sleep(0.2)
        self._console.print()

    def _describe(self, name: str) -> None:
        if name:
            self._show(f"DESCRIBE {name.rstrip(';')}")
            return
        for kind in ("STREAMS", "RELATIONS", "QUERIES", "REGISTERED", "SINKS"):
            self._console.print(kind.lower(), style="bold")
            self._show(f"SHOW {kind}")

    def _show(self, sql: str) -> None:
        answer = self.db.execute(sql)
        assert isinstance(answer, pa.Table)
        show_table(self._console, answer)

    def _advance(self, text: str) -> None:
        words = text.split()
        try:
            instant = parse_instant(words[-1])
        except (ValueError, IndexError):
            raise ConfigInvalid(
                f"{text!r} is not an instant", hint="Write \\advance 10.5, or \\advance trades 2026-03-02T08:00:00Z."
            ) from None
        self.db.advance(*words[:-1], instant)
        self.db.flush()

    def _switch_timing(self, _: str) -> None:
        self._timing = not self._timing
        self._console.print(f"timing is {'on' if self._timing else 'off'}")


def _until_complete(query: Query | RegisteredQuery) -> str:
    """What to know of its first answers."""
    if not query.is_partial:
        return ""
    since = "nobody can say from when on" if query.complete_from is None else f"from {format_instant(query.complete_from)} on"
    return f"; its stream keeps less than its window holds: its answer is partial, and complete {since}"
