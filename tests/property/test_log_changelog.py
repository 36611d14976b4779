"""A changelog through random ticks, merges and reopenings: what a reader has seen only grows at its end."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.core.schema import Field
from millstream.core.signed_batch import SignedBatch
from millstream.state.changelog import Changelog, write_output
from millstream.state.location import Location

FIELDS = [Field("x", pa.int64())]
Seen = list[tuple[int, int, int]]
bucket = st.lists(st.tuples(st.integers(1, 4), st.sampled_from([1, -1])), max_size=4)
steps = st.lists(st.lists(bucket, max_size=3) | st.sampled_from(["compact", "reopen", "again"]), max_size=20)


def seen(log: Changelog, since: int | None = None, until: int | None = None) -> Seen:
    table = log.read(since, until)
    return list(zip(table["instant"].cast(pa.int64()).to_pylist(), table["diff"].to_pylist(), table["x"].to_pylist(), strict=True))


@settings(max_examples=40, deadline=None)
@given(steps, st.integers(-1, 20), st.integers(-1, 20))
def test_readers_see_each_change_once_and_in_a_place_that_stays(steps: list[object], since: int, until: int) -> None:
    with tempfile.TemporaryDirectory() as root, Location.open(root, buckets=1) as location:
        log, tick, published, before = Changelog.open(location, "q", FIELDS), 0, [], []
        changes: Seen = []
        for step in steps:
            if step == "compact":
                log.compact(fan_in=2)
            elif step == "reopen":
                log = Changelog.open(location, "q", FIELDS)
                log.sweep()
            elif step == "again":
                assert not log.publish(tick, published) or not published
            else:
                tick, published = tick + 1, []
                for part in step:  # type: ignore[attr-defined]
                    rows = [(4 * tick + after, sign, len(changes) + i) for i, (after, sign) in enumerate(sorted(part, key=lambda c: c[0]))]
                    if rows:
                        instant, sign, x = (np.array(column) for column in zip(*rows, strict=True))
                        batch = SignedBatch(instant, sign.astype(np.int8), pa.RecordBatch.from_arrays([pa.array(x)], names=["x"]))
                        published.append(write_output(log.directory, [batch], log.columns))
                        changes += rows
                assert log.publish(tick, published)
            now = seen(log)
            assert now[: len(before)] == before
            assert sorted(now) == sorted(changes)
            assert [change[:2] for change in now] == sorted(change[:2] for change in now)
            assert seen(log, since, until) == [change for change in now if since < change[0] <= until]
            before = now
