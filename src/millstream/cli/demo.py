"""`millstream demo`: ready-made jobs that need nothing else."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from textwrap import indent
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape

from millstream.cli.demos import network
from millstream.cli.demos.network import FLOWS_PER_EVENT_SECOND, QUERIES, SPEED, Progress
from millstream.cli.demos.network_feed import NetworkFeed
from millstream.cli.demos.network_screen import line, screen
from millstream.cli.demos.network_summary import finding, summary
from millstream.cli.opening import open_database
from millstream.cli.options import Master
from millstream.core.errors import ConfigInvalid, did_you_mean

DEMOS = {"network": "a simulated network: top talkers, scan alarms and service rates, while its behaviour shifts"}
_LINE_EVERY_S = 2.0
_CHECKOUT = Path(__file__).parents[3]
_EXAMPLE = "examples/trades.cql"


def demo(
    name: Annotated[str, typer.Argument(help="One of --list.")] = "network",
    seconds: Annotated[int, typer.Option("--seconds", min=1, max=3600, help="How long the feed lasts on the clock.")] = 20,
    list_them: Annotated[bool, typer.Option("--list", help="Only say which there are.")] = False,
    master: Master = "local[*]",
) -> None:
    """Show Millstream at work on embedded Spark; ends by itself."""
    if list_them:
        for key, about in DEMOS.items():
            typer.echo(f"{key:12} {about}")
        return
    if name not in DEMOS:
        raise ConfigInvalid(f'there is no demo "{name}"', hint=did_you_mean(name, DEMOS) or f"There is: {', '.join(DEMOS)}.")
    show_network(Console(highlight=False), seconds, master)


def show_network(console: Console, seconds: int, master: str) -> None:
    _introduce(console)
    began = time.perf_counter()
    with ExitStack() as stack:
        with _waiting(console, f"starting Spark ({master}) and its Python workers ..."):
            with open_database(None, master, tick_interval=None) as small:
                network.rehearse(small)
            db = stack.enter_context(open_database(None, master))
            queries = network.start(db)
            db.flush()
        console.print(f"ready after {time.perf_counter() - began:.1f} s\n")
        ticks_before = len(db.tick_seconds())
        feed = NetworkFeed(seconds=seconds * SPEED, flows_per_second=FLOWS_PER_EVENT_SECOND)
        if console.is_terminal:
            with Live(console=console, auto_refresh=False) as live:
                progress = network.drive(db, queries, feed, lambda state: live.update(screen(state, console.width), refresh=True))
        else:
            progress = network.drive(db, queries, feed, _lines(console))
        scan, bulk = feed.incidents
        findings = [finding(scan, "alarms", queries["alarms"].changes()), finding(bulk, "talkers", queries["talkers"].changes())]
        _conclude(console, summary(progress, findings, db.tick_seconds()[ticks_before:]))


def _introduce(console: Console) -> None:
    console.print("[bold]Millstream[/bold]: three continuous queries over a simulated network feed\n")
    for key, sql in QUERIES.items():
        console.print(f"[bold]{key}[/bold]")
        console.print(indent(sql, "    "), markup=False)
    console.print()


def _conclude(console: Console, texts: list[str]) -> None:
    console.print("\n[bold]What happened[/bold]")
    for text in texts:
        console.print(f"  {text}", soft_wrap=True)
    console.print("\n[bold]What next[/bold]")
    for command, about in next_steps():
        console.print(f"  {command}", soft_wrap=True, markup=False)
        console.print(f"      {about}", soft_wrap=True, markup=False)


def next_steps(checkout: Path = _CHECKOUT) -> list[tuple[str, str]]:
    """Commands that work from where the user stands.  The examples come with the source, and their paths count from there."""
    program = ".venv/bin/millstream" if Path(".venv/bin/millstream").exists() else "millstream"
    steps = [(f"{program} shell", "a prompt for statements of your own; \\? shows what there is")]
    if (checkout / _EXAMPLE).exists():
        there = "" if checkout == Path.cwd() else f"cd {shlex.quote(str(checkout))} && "
        own = ".venv/bin/millstream" if (checkout / ".venv/bin/millstream").exists() else "millstream"
        about = "a script of statements over files, and the changes of its three queries"
        steps.insert(0, (f"{there}{own} run {_EXAMPLE} --until drained", about))
    return steps


def _waiting(console: Console, text: str) -> AbstractContextManager[object]:
    """A sign of life on a terminal, a line elsewhere."""
    if console.is_terminal:
        return console.status(escape(text))
    console.print(text, markup=False)
    return nullcontext()


def _lines(console: Console) -> Callable[[Progress], None]:
    shown = 0.0

    def show(progress: Progress) -> None:
        nonlocal shown
        if progress.wall_s - shown >= _LINE_EVERY_S or shown == 0.0:
            console.print(line(progress), soft_wrap=True)
            shown = progress.wall_s

    return show
