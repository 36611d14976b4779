"""Rows in an order: what they are sorted by, which of them a frame covers, what is computed over it.

    sum(x) OVER (PARTITION BY k ORDER BY ts DESC ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)
                                SortKey     Frame("rows", -2, 0)

Offsets are negative before the current row; None is without bound.  In a RANGE frame they are distances of the one sort key, in
units of its type's integers (microseconds, days, unscaled decimals), or doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

Offset = int | float | None

NUMBERING = frozenset(["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile"])
LOOKING = frozenset(["lag", "lead", "is_lag", "is_lead", "first_value", "last_value", "nth_value"])
"""is_lag, is_lead: whether there is a row so far away."""
_TIES_ALIKE = frozenset(["rank", "dense_rank", "percent_rank", "cume_dist"])


@dataclass(frozen=True)
class SortKey:
    column: str
    descending: bool = False
    nulls_first: bool = True

    def __str__(self) -> str:
        nulls = "" if self.nulls_first != self.descending else " NULLS FIRST" if self.nulls_first else " NULLS LAST"
        return f"{self.column}{' DESC' if self.descending else ''}{nulls}"


@dataclass(frozen=True)
class Frame:
    unit: Literal["rows", "range"]
    start: Offset
    stop: Offset

    @property
    def is_whole(self) -> bool:
        return self.start is None and self.stop is None

    def __str__(self) -> str:
        return f"{self.unit.upper()} {_edge(self.start, 'PRECEDING')} TO {_edge(self.stop, 'FOLLOWING')}"


WHOLE = Frame("rows", None, None)


@dataclass(frozen=True)
class OverCall:
    """`name` := function(argument) over the frame.  `parameter`: how far, how many, the how-manieth."""

    name: str
    function: str
    argument: str | None
    type: pa.DataType
    frame: Frame
    parameter: int = 0
    more: tuple[str, ...] = ()  # further columns, such as the second of max_by(x, y)
    distinct: bool = False
    fractions: tuple[float, ...] = ()  # of a percentile

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.argument, *self.more) if self.argument else ()

    @property
    def tells_ties_apart(self) -> bool:
        """The result may differ between rows with equal sort keys."""
        if self.function in _TIES_ALIKE or (self.frame.is_whole and self.function not in NUMBERING | LOOKING):
            return False
        return self.frame.unit == "rows" or self.function in LOOKING

    def __str__(self) -> str:
        inside = ", ".join([*self.columns, *map(str, self.fractions), *([str(self.parameter)] if self.parameter else [])])
        frame = "" if self.function in NUMBERING or self.function.endswith(("lag", "lead")) else f" {self.frame}"
        return f"{self.function}({inside or ('*' if self.function == 'count' else '')}){frame} AS {self.name}"


def _edge(offset: Offset, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    if offset == 0:
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"
