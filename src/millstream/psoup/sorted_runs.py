"""Rows of one column in order of their keys, for batches: a few sorted runs, merged as they grow.

A new batch becomes a run; runs of similar size are merged, so that there are never more than log n of them and each row is sorted
log n times in its life.  Looking up is bisection in each.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from millstream.kernels.compiled import Ints

Run = tuple[Ints, Ints]
"""Keys in order, and the ids of their rows."""


class SortedRuns:
    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._first = self._purged = 0

    def add(self, keys: Ints, ids: Ints) -> None:
        if not len(keys):
            return
        order = np.argsort(keys, kind="stable")
        self._runs.append((keys[order], ids[order]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            self._merge()

    def drop_before(self, row: int) -> None:
        """Ids below are gone; they leave their run when it is merged, or when there are as many as others."""
        self._first = row
        if 2 * (row - self._purged) >= sum(len(keys) for keys, _ in self._runs):
            self._purged = row
            self._runs = [run for run in (_without(run, row) for run in self._runs) if len(run[0])]

    def count(self, low: int, high: int) -> int:
        """How many rows have a key from low to high, some of them gone perhaps."""
        return sum(stop - start for _, start, stop in self._stretches(low, high))

    def ids(self, low: int, high: int) -> Ints:
        """The ids of those that are there, in any order."""
        found = [ids[start:stop] for (_, ids), start, stop in self._stretches(low, high)]
        together = np.concatenate([*found, np.empty(0, np.int64)])
        return together[together >= self._first]

    @property
    def runs(self) -> tuple[Run, ...]:
        """All of it; some ids may be gone."""
        return tuple(self._runs)

    def _stretches(self, low: int, high: int) -> Iterator[tuple[Run, int, int]]:
        for run in self._runs:
            yield run, int(np.searchsorted(run[0], low, "left")), int(np.searchsorted(run[0], high, "right"))

    def _merge(self) -> None:
        (keys, ids), (more_keys, more_ids) = self._runs[-2:]
        both, both_ids = np.concatenate([keys, more_keys]), np.concatenate([ids, more_ids])
        there = both_ids >= self._first
        both, both_ids = both[there], both_ids[there]
        order = np.argsort(both, kind="stable")  # two runs: a merge
        self._runs[-2:] = [(both[order], both_ids[order])]


def _without(run: Run, row: int) -> Run:
    there = run[1] >= row
    return run[0][there], run[1][there]
