"""Is an answer right?  Each query asked once more, of DuckDB, as a question about the events up to an instant.

batch/q*.sql say what the queries mean in the SQL of tables.  They see the events with ts <= now, `now` as a variable and the
place at which a bid came in as `arrived`.  Where our answer is a stream they give all its elements up to now, the instant first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nexmark.generator import Events
from nexmark.queries import side_input

HERE = Path(__file__).parent


class Check:
    """The right answers over one set of events."""

    def __init__(self, events: Events) -> None:
        self._database = duckdb.connect()
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.register("side_input", side_input())
        bid = events.bid.append_column("arrived", pa.array(np.arange(events.bid.num_rows)))
        for name, table in {"person": events.person, "auction": events.auction, "bid": bid}.items():
            self._database.register(f"all_{name}", table)
            self._database.execute(f"CREATE VIEW {name} AS SELECT * FROM all_{name} WHERE ts <= getvariable('now')")

    def answer(self, name: str, now: int) -> pa.Table:
        self._database.execute("SET VARIABLE now = make_timestamptz(?)", [now])
        return self._database.sql((HERE / "batch" / f"{name}.sql").read_text(encoding="utf-8")).to_arrow_table()

    def differences(self, name: str, changes: pa.Table, now: int, *, is_stream: bool) -> list[tuple[Any, ...]]:
        """Rows of which the two answers at `now` have a different number: number in ours, number in the right one, row."""
        right = self.answer(name, now)
        past = changes.filter(pc.less_equal(changes["instant"], pa.scalar(now, pa.timestamp("us", "UTC"))))
        columns = [f"c{i}" for i in range(right.num_columns)]
        ours = past.select([1, *([0] if is_stream else []), *range(2, past.num_columns)])
        self._database.register("ours", ours.rename_columns(["diff", *columns]))
        self._database.register("theirs", right.rename_columns(columns))
        return self._database.sql(
            """
            SELECT sum(ours) AS ours, sum(theirs) AS theirs, * EXCLUDE (ours, theirs)
            FROM (SELECT diff AS ours, 0 AS theirs, * EXCLUDE (diff) FROM ours UNION ALL SELECT 0, 1, * FROM theirs)
            GROUP BY ALL
            HAVING sum(ours) <> sum(theirs)
            """
        ).fetchall()
