"""Folding changes gives the same answer as adding them all up, however they are cut."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.demos.live_answer import fold
from millstream.core.schema import TIMESTAMP

Change = tuple[int, int, str, int]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """Changes of a relation with one row per key, instants in order, cut between instants at random."""
    current: dict[str, int] = {}
    batches: list[list[Change]] = [[]]
    for instant in range(draw(st.integers(0, 12))):
        at: list[Change] = []
        for key in draw(st.sets(st.sampled_from("abc"))):
            new = draw(st.none() | st.integers(0, 3))
            if current.get(key) == new:
                continue
            if new is not None:
                at.append((instant, 1, key, new))
            if key in current:
                at.append((instant, -1, key, current.pop(key)))
            if new is not None:
                current[key] = new
        batches[-1].extend(draw(st.permutations(at)))
        if draw(st.booleans()):
            batches.append([])
    return batches


def table(changes: list[Change]) -> pa.Table:
    columns = list(zip(*changes, strict=True)) or [(), (), (), ()]
    types = [TIMESTAMP, pa.int8(), pa.string(), pa.int64()]
    arrays = [pa.array(list(column), type_) for column, type_ in zip(columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=["instant", "diff", "key", "n"])


@given(histories())
def test_folding_equals_adding_up(batches: list[list[Change]]) -> None:
    rows, total = None, Counter[tuple[str, int]]()
    for batch in batches:
        rows = fold(rows, table(batch))
        for _, diff, key, n in batch:
            total[key, n] += diff
        assert Counter(zip(rows["key"].to_pylist(), rows["n"].to_pylist(), strict=True)) == +total
