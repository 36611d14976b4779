"""`millstream shell`: an interactive prompt on a terminal; statements from standard input in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import typer
from rich.console import Console

from millstream.api import Database
from millstream.cli.display import make_console
from millstream.cli.opening import open_database
from millstream.cli.options import Location, Master
from millstream.cli.shell_prompt import ends_input, make_prompt
from millstream.cli.shell_session import ShellSession


def shell(location: Location = None, master: Master = "local[*]") -> None:
    """A prompt for statements and live results; reads standard input if that is no terminal."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    console = make_console()
    if interactive:
        console.print(f"starting Spark ({master}) ...", markup=False)
    with open_database(location, master) as db:
        session = ShellSession(db, console, Console(stderr=True, highlight=False), interactive=interactive)
        if interactive:
            console.print("Millstream: \\? for help, \\q to leave", markup=False)
            _talk(session)
        else:
            _read(session)
    if session.failed and not interactive:
        raise typer.Exit(1)


def _talk(session: ShellSession) -> None:
    prompt = make_prompt(lambda: known_names(session.db))
    while True:
        try:
            if not session.run(prompt.prompt()):
                return
        except KeyboardInterrupt:
            continue  # Ctrl-C throws away the line, as shells do
        except EOFError:
            return


def _read(session: ShellSession) -> None:
    for text in chunks(sys.stdin):
        if not session.run(text):
            return


def chunks(lines: Iterator[str]) -> Iterator[str]:
    """Lines put together until they can be run; what is left at the end is run as it is."""
    text = ""
    for line in lines:
        text += line
        if text.strip() and ends_input(text):
            yield text
            text = ""
        elif not text.strip():
            text = ""
    if text.strip():
        yield text


def known_names(db: Database) -> Iterator[str]:
    for stream in db.streams():
        yield stream.name
        yield from (column.name for column in stream.schema)
    for query in db.queries():
        yield query.name
        yield from (column.name for column in query.schema)
    for registered in db.registered_queries():
        yield registered.name
        yield from (column.name for column in registered.schema)
