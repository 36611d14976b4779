"""Values, tables and changes as people read them on a terminal or in a pipe."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millstream.core.instant import BEGINNING, Micros, format_instant, to_micros

_PIPE_WIDTH = 10_000
_ROWS_SHOWN = 1_000


def make_console() -> Console:
    """Standard output; in a pipe nothing is wrapped or cut to the width of a screen that is not there."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_PIPE_WIDTH)


def show_value(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return format_instant(to_micros(value))
        case bytes():
            return value.hex()
        case list() | tuple():
            return "[" + ", ".join(map(show_value, value)) + "]"
        case dict():
            return "{" + ", ".join(f"{key}: {show_value(item)}" for key, item in value.items()) + "}"
        case _:
            return str(value)


def show_frontier(frontier: Micros) -> str:
    return format_instant(frontier) if frontier > BEGINNING else "none yet"


def show_table(console: Console, table: pa.Table) -> None:
    """All rows, up to a thousand; columns go by position, for names may repeat."""
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in table.schema:
        is_number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)
        # what is too wide for the screen goes on in the next line: nothing is cut off
        view.add_column(Text(column.name), justify="right" if is_number else "left", overflow="fold")
    columns = [table.column(i).slice(0, _ROWS_SHOWN).to_pylist() for i in range(table.num_columns)]
    for row in zip(*columns, strict=True):
        view.add_row(*(Text(show_value(value), style="dim" if value is None else "") for value in row))
    console.print(view)
    more = f", the first {_ROWS_SHOWN:,} shown" if table.num_rows > _ROWS_SHOWN else ""
    console.print(f"({table.num_rows:,} row{'' if table.num_rows == 1 else 's'}{more})")


def change_lines(name: str, changes: pa.Table) -> list[Text]:
    """One line for each change of a query: name, instant, sign, row."""
    columns = [changes.column(i).to_pylist() for i in range(changes.num_columns)]
    lines = []
    for instant, diff, *row in zip(*columns, strict=True):
        sign, style = ("+", "green") if diff > 0 else ("-", "red")
        cells = ", ".join(map(show_value, row))
        lines.append(Text.assemble((f"{name}  ", "bold"), (f"{show_value(instant)}  ", "dim"), (f"{sign} {cells}", style)))
    return lines
