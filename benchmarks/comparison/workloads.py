"""What is asked: the workloads, how large they are, and how Millstream is asked.

Time moves by a millisecond from row to row, over all streams of a workload together, so a window of 600 seconds holds 600,000 rows.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Variant = Literal["base", "window10", "keys10", "strings"]
VARIANTS: dict[Variant, str] = {
    "base": "as it is",
    "window10": "10 times the window",
    "keys10": "10 times the keys",
    "strings": "strings as keys",
}
ROWS_A_SECOND = 1000


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    streams: dict[str, tuple[str, ...]]
    """The columns of each stream after `ts`."""
    window_s: int
    keys: int
    sql: str
    """Millstream's, with {w} and {slide} for the seconds, {condition} for that of a selection."""
    slide_s: int = 60
    variant: Variant = "base"
    size: float = 1
    """So many times the rows of the others."""

    @property
    def id(self) -> str:
        return self.name if self.variant == "base" else f"{self.name}-{self.variant}"

    @property
    def string_keys(self) -> bool:
        return self.variant == "strings"

    @property
    def full_after(self) -> int:
        """Rows until the windows are full."""
        return self.window_s * ROWS_A_SECOND

    def columns(self, stream: str) -> dict[str, str]:
        """Types as in our language."""
        return {"ts": "TIMESTAMP", **{name: "STRING" if name == "key" and self.string_keys else "BIGINT" for name in self.streams[stream]}}

    def varied(self, variant: Variant) -> Workload:
        larger = 10 if variant == "window10" else 1
        return replace(self, variant=variant, window_s=self.window_s * larger, keys=self.keys * (10 if variant == "keys10" else 1))


EVENTS = {"events": ("key", "value")}
Condition = tuple[str, str, int | str]
"""A column, one of = >= < and a constant."""


def selections(workload: Workload, count: int = 1000) -> list[list[Condition]]:
    """What a thousand people want to see: half of them a key each, the others small values of a few keys.  A tenth of the rows is for
    somebody."""
    rng = random.Random(0)

    def key(number: int) -> int | str:
        return f"key-{number:07d}" if workload.string_keys else number

    wanted: list[list[Condition]] = []
    for number in range(count):
        first = rng.randrange(workload.keys - 10)
        below = rng.randrange(100, 200)
        several: list[Condition] = [("key", ">=", key(first)), ("key", "<", key(first + 10)), ("value", "<", below)]
        wanted.append([("key", "=", key(first))] if number % 2 else several)
    return wanted


def as_sql(conditions: Sequence[Condition]) -> str:
    return " AND ".join(f"{column} {op} {constant!r}" for column, op, constant in conditions)


WORKLOADS = {
    each.name: each
    for each in (
        Workload(
            "w1", "sum and count by key over the last 600 s, after every row", EVENTS, 600, 10_000,
            "SELECT key, sum(value) AS total, count(*) AS n FROM events [RANGE {w} SECONDS] GROUP BY key",
        ),
        Workload(
            "w2", "sum and count by key over 600 s, every 60 s", EVENTS, 600, 10_000,
            "SELECT key, sum(value) AS total, count(*) AS n FROM events [RANGE {w} SECONDS SLIDE {slide} SECONDS] GROUP BY key",
        ),
        Workload(
            "w3", "two streams joined within 300 s, then the maximum by group", {"a": ("key", "grp", "value"), "b": ("key", "value")},
            300, 100_000,
            "SELECT a.grp, max(b.value) AS top FROM a [RANGE {w} SECONDS] JOIN b [RANGE {w} SECONDS] ON a.key = b.key GROUP BY a.grp",
        ),
        Workload(
            "w4", "three streams joined on one key within 600 s, then the sum by key", dict.fromkeys("abc", ("key", "value")), 600, 200_000,
            "SELECT a.key, sum(c.value) AS total, count(*) AS n FROM a [RANGE {w} SECONDS] JOIN b [RANGE {w} SECONDS] ON a.key = b.key "
            "JOIN c [RANGE {w} SECONDS] ON b.key = c.key GROUP BY a.key",
        ),
        Workload(
            "w6", "a thousand selections of rows, each a query of its own", EVENTS, 0, 10_000,
            "SELECT ts, key, value FROM events WHERE {condition}",
        ),
        Workload(
            "w7", "three aggregations in a row: sums by key, keys by band of sums, the fullest band", EVENTS, 600, 10_000,
            "SELECT max(n) AS top, count(*) AS bands FROM (SELECT band, count(*) AS n FROM "
            "(SELECT key, sum(value) DIV 1000 AS band FROM events [RANGE {w} SECONDS] GROUP BY key) GROUP BY band)",
        ),
    )
}  # fmt: skip
