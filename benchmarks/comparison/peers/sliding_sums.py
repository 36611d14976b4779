"""w1 by hand, for peers that only bring the rows: columns of one file at a time, in numpy.

`read_rows` parses a file, `halves` cuts it into two buckets of keys, and a `SlidingSums` holds the window of one bucket.
"""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv


def read_rows(source: str | pa.Buffer, *, string_keys: bool) -> pa.Table:
    """The rows of a file of events, their keys dictionary-encoded."""
    types = {"ts": pa.timestamp("us"), "key": pa.string() if string_keys else pa.int64(), "value": pa.int64()}
    rows = pa.csv.read_csv(
        source if isinstance(source, str) else pa.BufferReader(source),
        read_options=pa.csv.ReadOptions(column_names=list(types), use_threads=False),
        convert_options=pa.csv.ConvertOptions(column_types=types),
    ).combine_chunks()
    return rows.set_column(1, "key", rows["key"].combine_chunks().dictionary_encode())


def halves(rows: pa.Table) -> list[pa.Table]:
    keys = rows["key"].combine_chunks()
    hashed = pd.util.hash_array(keys.dictionary.to_numpy(zero_copy_only=False)) & 1
    second = hashed[keys.indices.to_numpy()] == 1
    return [rows.filter(pa.array(~second)), rows.filter(pa.array(second))]


class SlidingSums:
    """sum(value) and count(*) over the last `range_us` of each row's key, closed at both ends, for every row.

    A row counts +value when it comes and -value just after it leaves; `step` sorts these changes by key and instant
    and sums along each key, from what the window held before.  Its cost is that of the batch and of what leaves with it.
    """

    def __init__(self, range_us: int) -> None:
        self.range_us = range_us
        self.names: np.ndarray | None = None
        self.at, self.code, self.value, self.total, self.n = (np.zeros(0, np.int64) for _ in range(5))

    def step(self, rows: pa.Table) -> dict[str, np.ndarray]:
        code = self._codes(rows["key"].combine_chunks())
        new = len(self.at)
        at = np.concatenate([self.at, rows["ts"].cast(pa.int64()).to_numpy()])
        code = np.concatenate([self.code, code])
        value = np.concatenate([self.value, rows["value"].to_numpy()])
        left = int(np.searchsorted(at, at[-1] - self.range_us))
        self.at, self.code, self.value = at[left:], code[left:], value[left:]

        instant = np.concatenate([at[:left] + self.range_us + 1, at[new:]])
        changed = np.concatenate([code[:left], code[new:]])
        order = np.argsort(instant, kind="stable")
        # numpy sorts short integers by radix
        order = order[np.argsort(changed[order].astype(np.uint16 if len(self.names) <= 1 << 16 else np.int64), kind="stable")]
        changed, asks = changed[order], order >= left
        total = sum_along(changed, np.concatenate([-value[:left], value[new:]])[order], self.total)
        n = sum_along(changed, np.where(asks, 1, -1), self.n)
        return {
            "ts": instant[order[asks]].view("datetime64[us]"),
            "key": self.names[changed[asks]],
            "total": total[asks],
            "n": n[asks],
        }

    def _codes(self, keys: pa.DictionaryArray) -> np.ndarray:
        """The keys as positions in `names`, which grows with them."""
        arrived = keys.dictionary.to_numpy(zero_copy_only=False)
        known = 0 if self.names is None else len(self.names)
        codes, self.names = pd.factorize(arrived if self.names is None else np.concatenate([self.names, arrived]))
        fresh = np.zeros(len(self.names) - known, np.int64)
        self.total, self.n = np.concatenate([self.total, fresh]), np.concatenate([self.n, fresh])
        return codes[known:][keys.indices.to_numpy()]


def sum_along(group: np.ndarray, change: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Running sums of `change` within each run of equal groups, starting from and updating what is `held` for each."""
    ends = np.append(np.flatnonzero(group[1:] != group[:-1]), len(group) - 1)
    running = np.cumsum(change)
    sofar = np.concatenate([[0], running[ends[:-1]]])
    running += np.repeat(held[group[ends]] - sofar, np.diff(ends, prepend=-1))
    held[group[ends]] = running[ends]
    return running
