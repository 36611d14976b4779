"""The rows of the operators' benchmark, and the answers that they must have.

An answer is compared by its fingerprint: the sum of the hashes of its rows, by DuckDB.  A changelog has that of the relation it
adds up to, and no answer is too large to be compared whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa

from operator_cases import HELD, KEYS, SMALL, Case

SECOND_US = 1_000_000
RELATIONS = {
    "names": pa.table({"k": range(KEYS), "name": [f"name-{k:04d}" for k in range(KEYS)]}),
    "bands": pa.table({"low": range(0, 1_000_000, 100_000), "high": range(100_000, 1_100_000, 100_000)}),
}


@dataclass(frozen=True)
class Feed:
    """A case's streams for a window of so many minutes; `seconds` of rows."""

    case: Case
    minutes: int
    seconds: int
    streams: dict[str, pa.Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for seed, name in enumerate(self.case.streams):
            self.streams[name] = self._generated(np.random.default_rng(seed), seed)

    @property
    def window_rows(self) -> int:
        return self.case.rate * 60 * self.minutes

    def rows(self, stream: str, start: int, stop: int) -> pa.Table:
        """Those of the seconds from `start` up to, not including, `stop`."""
        return self.streams[stream].slice(start * self.case.rate, (stop - start) * self.case.rate)

    def filled(self, text: str) -> str:
        """The SQL of a case, as ours."""
        windows = {name: f"{name} {self.case.window}" for name in "sr"}
        return text.format(**windows, minutes=self.minutes).format(**self._sizes())

    def right(self, now: int) -> pa.Table:
        """What the query must answer at an instant."""
        con = duckdb.connect()
        for name, relation in RELATIONS.items():
            con.register(name, relation)
        places = {"s": "s", "r": "r", "now": now, **self._sizes()}
        for name, rows in self.streams.items():
            con.register(f"{name}_rows", rows)
            con.execute(f"CREATE VIEW all_{name} AS SELECT * FROM {name}_rows WHERE epoch_us(ts) <= {now}")
            con.execute(f"CREATE VIEW {name} AS " + HELD[self.case.window].format(stream=name, **places))
        return con.sql((self.case.right or self.case.sql).format(**places)).to_arrow_table()

    def _sizes(self) -> dict[str, int]:
        return {
            "minutes": self.minutes,
            "range_us": 60 * SECOND_US * self.minutes,
            "rows": self.window_rows,
            "rows_of_each": max(1, self.window_rows // KEYS),
        }

    def _generated(self, rng: np.random.Generator, offset_us: int) -> pa.Table:
        rows = self.case.rate * self.seconds
        ts = np.arange(rows) * SECOND_US // self.case.rate + offset_us
        upto = {"k": KEYS, "j": self.window_rows, "g": SMALL, "v": 1_000_000}
        columns = {name: pa.array(rng.integers(0, high, rows)) for name, high in upto.items()}
        return pa.table({"ts": pa.array(ts, pa.timestamp("us", "UTC")), **columns})


class Fingerprint:
    """Of a bag of rows, from its changes; equal bags have equal ones."""

    def __init__(self) -> None:
        self._con = duckdb.connect()
        self.value = (0, 0)

    def add(self, rows: pa.Table, sign: pa.Array) -> None:
        names = [f"c{i}" for i in range(rows.num_columns)]
        self._con.register("changes", rows.rename_columns(names).append_column("sign", sign.cast(pa.int64())))
        hashed = f"sum(sign::HUGEINT * hash({', '.join(names)})::HUGEINT)"
        total, count = self._con.sql(f"SELECT coalesce({hashed}, 0), coalesce(sum(sign), 0) FROM changes").fetchall()[0]
        self.value = (self.value[0] + int(total), self.value[1] + int(count))

    def assert_is_of(self, answer: pa.Table, like: pa.Schema) -> None:
        right, ones = Fingerprint(), pa.array(np.ones(answer.num_rows, np.int64))
        right.add(answer.rename_columns(like.names).cast(like), ones)
        assert self.value == right.value, f"{self.value[1]} rows, should be {right.value[1]}, or others"
