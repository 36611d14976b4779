"""Merging, over a long life of appends: few small files are left, and no row is rewritten often."""

from __future__ import annotations

import itertools
import math

from hypothesis import given
from hypothesis import strategies as st

from millstream.state.merge_plan import plan_merges

SMALL, TARGET, FAN_IN = 4_000, 16_000, 4


@given(st.lists(st.integers(1, 500) | st.integers(1, 6_000), max_size=300), st.integers(1, 12))
def test_files_stay_few_and_rewriting_stays_logarithmic(sizes: list[int], every: int) -> None:
    files: list[tuple[int, int]] = []  # (size, how often its oldest row was rewritten)
    for i, size in enumerate(sizes):
        files.append((size, 0))
        if i % every:
            continue
        for start, stop in plan_merges([file[0] for file in files], small_bytes=SMALL, target_bytes=TARGET, fan_in=FAN_IN):
            run = files[start:stop]
            total = sum(file[0] for file in run)
            assert len(run) >= FAN_IN
            assert total <= TARGET
            assert all(file[0] < SMALL for file in run)
            files[start:stop] = [(total, 1 + max(file[1] for file in run))]
    assert sum(file[0] for file in files) == sum(sizes)
    assert all(rewritten <= 1 + math.log(TARGET, 1.5) for _, rewritten in files)


@given(st.integers(1, 400), st.integers(1, 300))
def test_equal_files_leave_a_logarithm_of_them(count: int, size: int) -> None:
    files: list[int] = []
    for _ in range(count):
        files.append(size)
        for start, stop in plan_merges(files, small_bytes=SMALL, target_bytes=TARGET, fan_in=FAN_IN):
            files[start:stop] = [sum(files[start:stop])]
    small = [file for file in files if file < SMALL]
    assert len(small) <= FAN_IN * (2 + math.log2(SMALL / size + 1))


@given(st.lists(st.integers(0, 10_000), max_size=60))
def test_runs_do_not_overlap(sizes: list[int]) -> None:
    runs = plan_merges(sizes, small_bytes=SMALL, target_bytes=TARGET, fan_in=FAN_IN)
    assert all(earlier[1] <= later[0] for later, earlier in itertools.pairwise(runs))
