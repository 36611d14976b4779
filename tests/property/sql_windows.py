"""Streams and a relation of random SQL, and what stands for them in FROM: a window over a stream or over its filtered rows.

A windowed item is written twice: in our language with its window, for the oracle as a table that holds the
window's contents at one instant.  Those contents come from the definition, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from millstream.core.instant import format_instant
from millstream.plan.window import RowsWindow
from property.engine_model import WINDOWS, Bag, WindowModel
from property.test_rows_window import newest

Stamped = tuple[int, tuple[Any, ...]]  # ts, and (number in order of arrival, cells)


@dataclass(frozen=True)
class Column:
    """`kind` is a family of types between which values may pass: int, text, decimal, double, time, bool, mean."""

    name: str
    kind: str


# --- streams --------------------------------------------------------------------------------

WIDE = {"ts": "time", "k": "text", "v": "int", "d": "decimal", "x": "double"}
"""The columns that rows are drawn with; a stream has some of them."""
MORE_CELLS = (
    st.sampled_from([Decimal("0.25"), Decimal("1.50"), Decimal("-2.00"), None]),
    st.sampled_from([0.5, 1.0, -2.25, None]),
)
TYPES = {"time": "TIMESTAMP", "text": "STRING", "int": "INT", "decimal": "DECIMAL(5, 2)", "double": "DOUBLE"}
STREAMS = {"s": ("ts", "k", "v"), "r": ("ts", "k", "v", "d"), "u": ("ts", "v", "x")}


def columns_of(stream: str) -> tuple[Column, ...]:
    return tuple(Column(name, WIDE[name]) for name in STREAMS[stream])


def cells_of(stream: str, row: Sequence[Any]) -> tuple[Any, ...]:
    """A drawn row, as a row of the stream."""
    return tuple(cell for name, cell in zip(WIDE, row, strict=True) if name in STREAMS[stream])


def create_stream(stream: str, slack: int, partition: str | None) -> str:
    columns = ", ".join(f"{column.name} {TYPES[column.kind]}" for column in columns_of(stream))
    split = f" PARTITION BY {partition}" if partition else ""
    return f"CREATE STREAM {stream} ({columns}) TIMESTAMP BY ts SLACK {slack} MICROSECONDS{split}"


# --- windows --------------------------------------------------------------------------------


def _at(instant: int) -> str:
    return f"TIMESTAMP '{format_instant(instant)}'"


BETWEEN = [
    WindowModel("[BEGIN NOW - 7 MICROSECONDS END NOW - 2 MICROSECONDS]", lambda ts, t: t - 7 <= ts <= t - 2),
    WindowModel(f"[BEGIN {_at(4)} END NOW - 3 MICROSECONDS]", lambda ts, t: 4 <= ts <= t - 3),
    WindowModel(f"[BEGIN {_at(3)} END {_at(9)}]", lambda ts, t: 3 <= ts <= min(t, 9)),
    WindowModel(f"[BEGIN NOW - 5 MICROSECONDS END {_at(12)}]", lambda ts, t: t - 5 <= ts <= min(t, 12)),
]
NO_WINDOW = WindowModel("", lambda ts, t: ts <= t)


def windows(columns: Sequence[Column], *, is_written: bool) -> st.SearchStrategy[WindowModel | RowsWindow]:
    """Windows over rows with these columns; a stream may also stand there without one."""
    partitions = st.one_of(st.just(()), st.sampled_from([(column.name,) for column in columns]))
    by_count = st.builds(RowsWindow, st.just("ROWS"), st.integers(1, 4), partitions, st.sampled_from([None, None, None, 2, 5]))
    unwritten = [] if is_written else [NO_WINDOW]
    return st.one_of(st.sampled_from([*WINDOWS[:2], *WINDOWS, *unwritten]), st.sampled_from([*WINDOWS[:1], *BETWEEN]), by_count)


@dataclass(frozen=True)
class Windowed:
    """`select` is what the window sees: the stream, or a SELECT of some of its rows and columns."""

    stream: str
    select: str | None
    columns: tuple[Column, ...]
    window: WindowModel | RowsWindow
    name: str | None = None  # of a query that is `select`, which the window is over

    def text(self, alias: str) -> str:
        if self.name is not None:
            return f"{{{self.name}}} {self._window} AS {alias}"
        # a window over a subquery stands behind its alias
        return f"({self.select}) AS {alias} {self._window}" if self.select else f"{self.stream} {self._window} AS {alias}"

    @property
    def moves_unseen(self) -> bool:
        return self.select is not None and self.window is NO_WINDOW

    @property
    def _window(self) -> str:
        if isinstance(self.window, WindowModel):
            return self.window.sql
        partition = f"PARTITION BY {', '.join(self.window.partition_by)} " if self.window.partition_by else ""
        limit = f" RANGE {self.window.range_us} MICROSECONDS" if self.window.range_us is not None else ""
        return f"[{partition}ROWS {self.window.rows}{limit}]"

    def contents(self, rows: Sequence[Stamped], t: int) -> list[tuple[Any, ...]]:
        """The rows in the window at an instant; `rows` are in order of arrival."""
        if isinstance(self.window, WindowModel):
            return [row for ts, row in rows if self.window.member(ts, t)]
        names = [column.name for column in self.columns]
        partition = 1 + names.index(self.window.partition_by[0]) if self.window.partition_by else None
        return newest(list(rows), t, self.window, partition)


# --- the relation ---------------------------------------------------------------------------

RELATION = "p"
CREATE_RELATION = f"CREATE RELATION {RELATION} (k STRING, v INT)"


@dataclass(frozen=True)
class Relation:
    """The relation, which has no window."""

    columns: tuple[Column, ...] = (Column("k", "text"), Column("v", "int"))

    def text(self, alias: str) -> str:
        return f"{RELATION} AS {alias}"

    def contents(self, rows: Bag) -> list[tuple[Any, ...]]:
        """Rows behind what tells copies apart, as in a window."""
        return sorted(((repr(row), copy), *row) for row, n in rows.items() for copy in range(n))


Item = Windowed | Relation
