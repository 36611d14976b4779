"""What the network demo shows while it runs: a screen on a terminal, a line now and then elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from millstream.cli.demos.network import ALARM_FLOWS, SPEED, TALKER_BYTES, Progress
from millstream.core.instant import to_datetime

_THREE_ABREAST = 112


def screen(progress: Progress, width: int) -> RenderableType:
    """All of it fits on 24 lines: three tables side by side, or shorter ones in two rows."""
    rows = 8 if width >= _THREE_ABREAST else 3
    return Group(
        _head(progress),
        Columns(
            [
                _table(
                    "talkers", f"over {megabytes(TALKER_BYTES)} in 10 s", rows, progress.answers.get("talkers"), "bytes",
                    {"host": ("src", str), "sent in 10 s": ("bytes", megabytes), "flows": ("flows", count)},
                ),
                _table(
                    "alarms", f"over {ALARM_FLOWS} refused in 10 s", rows, progress.answers.get("alarms"), "refused",
                    {"host": ("src", str), "refused flows": ("refused", count)}, alarm=True,
                ),
                _table(
                    "services", "each 5 s", rows, progress.answers.get("services"), "flows",
                    {"service": ("service", str), "flows": ("flows", count), "bytes": ("bytes", megabytes)},
                ),
            ],
            padding=(0, 2),
        ),
    )  # fmt: skip


def line(progress: Progress) -> str:
    """The same in one line, for a log."""
    alarms = progress.answers.get("alarms")
    hosts = ", ".join(sorted(alarms["src"].to_pylist())) if alarms is not None and alarms.num_rows else "none"
    changes = sum(progress.changes.values())
    return (
        f"{clock(progress.newest)}  {progress.phase:42}  {count(progress.rows)} rows, {count(progress.rows_per_second)} rows/s, "
        f"{count(changes)} changes, lag {progress.lag}, alarms: {hosts}"
    )


def _head(progress: Progress) -> Panel:
    facts = Text.assemble(
        ("time in the feed ", "dim"), clock(progress.newest), (f"  (fed at {SPEED} times the speed of the clock)\n", "dim"),
        ("rows ", "dim"), (count(progress.rows), "bold"),
        (", at ", "dim"), (count(progress.rows_per_second), "bold"), (" a second\n", "dim"),
        ("changes of answers ", "dim"), (count(sum(progress.changes.values())), "bold"),
        ("   answers final up to ", "dim"), clock(progress.frontier), ("   lag ", "dim"), progress.lag,
        ("   late rows ", "dim"), count(progress.late),
    )  # fmt: skip
    quiet = progress.phase in ("all normal", "calm again")
    return Panel(facts, title=Text(progress.phase, style="bold green" if quiet else "bold red"), title_align="left", box=box.ROUNDED)


def _table(
    title: str,
    about: str,
    lines: int,
    answer: pa.Table | None,
    order: str,
    columns: dict[str, tuple[str, Callable[[Any], str]]],
    *,
    alarm: bool = False,
) -> Table:
    table = Table(title=Text.assemble((title, "bold"), (f"  {about}", "dim")), title_justify="left", box=box.SIMPLE_HEAD, min_width=34)
    for i, heading in enumerate(columns):
        table.add_column(heading, justify="left" if i == 0 else "right")
    rows = answer.sort_by([(order, "descending")]).slice(0, lines).to_pylist() if answer is not None else []
    for row in rows:
        table.add_row(*(show(row[name]) for name, show in columns.values()), style="bold red" if alarm else "")
    for _ in range(lines - len(rows)):
        table.add_row(*[""] * len(columns))
    return table


def clock(instant: int) -> str:
    return to_datetime(instant).strftime("%H:%M:%S.%f")[:-5] if instant > 0 else "-"


def count(number: float) -> str:
    return f"{number:,.0f}"


def megabytes(amount: int) -> str:
    return f"{amount / 1_000_000:,.1f} MB"
