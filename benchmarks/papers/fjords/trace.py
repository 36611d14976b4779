"""A trace like the paper's: 10,767 records of 30 bytes, what one loop detector of a motorway tells every 30 seconds.

The records of June 2000 are not to be had, so these are made from a seed: two lanes in turn, speeds that fall in the rush hours, and
flows that rise.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

RECORDS, RECORD_BYTES = 10_767, 30
PERIOD_US = 30_000_000
STATIONS = 8
DDL = "CREATE STREAM traffic (ts TIMESTAMP, lane SMALLINT, station INT, speed DOUBLE, flow DOUBLE) TIMESTAMP BY ts"


def trace(records: int = RECORDS, seed: int = 2000) -> pa.Table:
    """time 8 bytes, lane 2, station 4, avg(speed) 8, flow 8."""
    random = np.random.default_rng(seed)
    time = np.arange(records, dtype=np.int64) * PERIOD_US
    hour = time / 3_600e6 % 24
    rush = np.exp(-((hour - 8) ** 2) / 2) + np.exp(-((hour - 17) ** 2) / 3)
    speed = np.clip(65 - 40 * rush + random.normal(0, 6, records), 1, 100)
    flow = np.clip(5 + 20 * rush + random.normal(0, 3, records), 0, 60)
    return pa.table(
        {
            "ts": pa.array(time, pa.timestamp("us", "UTC")),
            "lane": pa.array(np.arange(records) % 2, pa.int16()),
            "station": pa.array(random.integers(0, STATIONS, records), pa.int32()),
            "speed": pa.array(speed),
            "flow": pa.array(flow),
        }
    )


def incidents(count: int = 40, seed: int = 80) -> pa.Table:
    """Where something has happened, and what."""
    random = np.random.default_rng(seed)
    kinds = ["accident", "stalled car", "debris", "roadworks", "fog"]
    return pa.table(
        {
            "id": pa.array(np.arange(count), pa.int32()),
            "station": pa.array(random.integers(0, STATIONS, count), pa.int32()),
            "description": [kinds[i] for i in random.integers(0, len(kinds), count)],
        }
    )
