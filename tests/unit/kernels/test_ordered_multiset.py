"""Ordered multisets against a sorted list, under every kind of coming and going."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from millstream.kernels import ordered_multiset as om
from millstream.kernels.row_store import RowStore, SortColumn
from millstream.kernels.sort_keys import BY_NUMBER, Order, SortKeys


class Model:
    """Trees, and one sorted list of keys per group; `rank` gives a key's order."""

    def __init__(
        self, groups: int, manner: int = om.NUMBERS, order: Order = BY_NUMBER, rank: Callable[[int], object] = lambda key: key
    ) -> None:
        self.nodes, self.path = om.new_nodes(manner), om.new_path()
        self.roots = [om.EMPTY] * groups
        self.order = (order[0], order[1].ctypes.data, order[2].ctypes.data)
        self.rank = rank
        self.lists: list[list[int]] = [[] for _ in range(groups)]

    @property
    def at(self) -> int:
        return self.nodes.ctypes.data

    def insert(self, group: int, key: int) -> None:
        if not om.has_room(self.at):
            self.nodes = om.grown_nodes(self.nodes)
        self.roots[group] = om.insert(self.at, self.roots[group], key, 1, *self.order)
        bisect.insort(self.lists[group], key, key=self.rank)

    def delete(self, group: int, position: int) -> None:
        key = self.lists[group].pop(position)
        self.roots[group] = om.delete(self.at, self.roots[group], key, self.path.ctypes.data, *self.order)
        assert self.roots[group] != om.NOT_THERE

    def replace(self, group: int, position: int, new: int) -> bool:
        keys = self.lists[group]
        old = keys[position]
        done = bool(om.replace(self.at, self.roots[group], old, new, old == keys[0], old == keys[-1]))
        if done:
            keys.remove(old)
            bisect.insort(keys, new)
        return done

    def check_ends(self, group: int) -> None:
        keys = self.lists[group]
        assert om.size(self.at, self.roots[group]) == len(keys)
        if keys:
            assert om.least(self.at, self.roots[group]) == keys[0]
            assert om.greatest(self.at, self.roots[group]) == keys[-1]

    def check(self) -> None:
        for group, keys in enumerate(self.lists):
            self.check_ends(group)
            assert [om.kth(self.at, self.roots[group], k) for k in range(len(keys))] == keys
            both = [om.kth_and_next(self.at, self.roots[group], k) for k in range(len(keys) - 1)]
            assert both == list(itertools.pairwise(keys))
        dumped: list[list[int]] = [[] for _ in self.lists]
        for group, key, count in om.dump(self.nodes, np.array(self.roots)).tolist():
            dumped[group] += [key] * count
        assert dumped == self.lists


@pytest.mark.parametrize("domain", [3, 60, 10**12])
def test_random_inserts_and_deletes(domain: int) -> None:
    rng = np.random.default_rng(domain)
    model = Model(3)
    for target in (4000, 200, 3000, 0, 50):
        for step in range(5000):
            group = int(rng.integers(0, 3))
            size = len(model.lists[group])
            if rng.random() < (0.9 if size < target / 3 else 0.1) or not size:
                model.insert(group, int(rng.integers(-domain, domain)))
            else:
                model.delete(group, int(rng.integers(0, size)))
            if step % 7 == 0:
                model.check_ends(group)
        model.check()


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("oldest_first", [True, False])
def test_keys_in_order_through_a_sliding_window(rising: bool, oldest_first: bool) -> None:
    """Trees that grow at one end and are eaten at an end stay shallow, and their nodes are used again."""
    model = Model(1)
    for i in range(20_000):
        model.insert(0, i if rising else -i)
        if i >= 500:
            model.delete(0, 0 if oldest_first == rising else -1)
        if i % 500 == 0:
            model.check_ends(0)
    model.check()
    assert om.nodes_in_use(model.nodes) < 2.5 * 500 / (om.FAN / 2)
    assert len(model.nodes) <= 256


def test_thinned_out_trees_give_their_nodes_back() -> None:
    """One key in sixteen stays: without merging every leaf would."""
    model = Model(1)
    for i in range(16_000):
        model.insert(0, i)
    for position in range(1000):
        for _ in range(15):
            model.delete(0, position)
    model.check()
    assert om.nodes_in_use(model.nodes) < 1000
    for _ in range(1000):
        model.delete(0, 0)
    assert om.nodes_in_use(model.nodes) == 0


def test_ranges_that_empty_and_fill_again() -> None:
    """Keys come back below what is now the first bound of an inner node, before that node is merged into its neighbour."""
    rng = np.random.default_rng(4)
    model = Model(1)
    for key in range(0, 60_000, 10):
        model.insert(0, key)
    keys = model.lists[0]
    while len(keys) > 40:
        start = int(rng.integers(0, len(keys) - 30))
        low, high = keys[start], keys[start + 29]
        for _ in range(30):
            model.delete(0, start)
        for key in rng.integers(low, high, 3).tolist():
            model.insert(0, key)
        if len(keys) % 20 == 0:
            model.check_ends(0)
    model.check()


@pytest.mark.parametrize("keys", [1, 5, 15, 40, 2000])
def test_numbers_become_others_in_place(keys: int) -> None:
    """Where it is done it is right, also in trees whose lower bounds have gone; where there is room around a number it is done."""
    rng = np.random.default_rng(keys)
    model = Model(1)
    for key in range(0, 20 * keys, 20):
        model.insert(0, key)
    done = 0
    for step in range(6000):
        position, by = int(rng.integers(0, len(model.lists[0]))), int(rng.choice([-1, 0, 1, -30, 25, 10**6, -(10**6)]))
        done += model.replace(0, position, model.lists[0][position] + by)
        if step % 3 == 0:
            model.delete(0, int(rng.integers(0, len(model.lists[0]))))
            model.insert(0, int(rng.integers(-20, 20 * keys)))
        if step % 100 == 0:
            model.check()
    model.check()
    assert done > 1500
    assert not om.replace(model.at, model.roots[0], 10**9, 10**9 + 1, False, False)


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1])
def test_the_least_and_the_greatest_of_all_numbers_become_others(number: int) -> None:
    model = Model(1)
    for key in (-5, 0, 5):
        model.insert(0, key)
    assert model.replace(0, 2 if number > 0 else 0, number)
    model.check()
    model.insert(0, 7)
    assert model.replace(0, 0 if number < 0 else 2, -9 if number < 0 else 6)  # with that one beside it
    model.check()


def test_strings_go_by_bytes() -> None:
    rng = np.random.default_rng(0)
    letters = ["", "a", "b", "\0", "é", "z", "zz", "🂡", "long prefix of eight"]
    texts = list({"".join(rng.choice(letters, rng.integers(0, 4))) for _ in range(600)})
    keys = SortKeys(pa.string())
    ids = keys.keys(pa.array(texts)).tolist()
    by_id = dict(zip(ids, texts, strict=True))
    model = Model(2, om.STRINGS, keys.order, lambda key: by_id[key].encode())
    for _ in range(4000):
        group = int(rng.integers(0, 2))
        if len(model.lists[group]) < 400:
            model.insert(group, int(rng.choice(ids)))
        else:
            model.delete(group, int(rng.integers(0, 400)))
    model.check()
    assert set(om.keys_in_use(model.nodes).tolist()) >= {key for some in model.lists for key in some}


SORTS = {
    "number": [SortColumn(0, False, True)],
    "number, descending, NULLs last": [SortColumn(0, True, False)],
    "string": [SortColumn(1, False, False)],
    "string, descending": [SortColumn(1, True, True)],
    "few numbers, then string": [SortColumn(2, True, True), SortColumn(1, False, True)],
    "nothing": [],
}


def some_rows(count: int, rng: np.random.Generator) -> list[pa.Array]:
    """Different rows, with equal values, NULLs, and strings that begin each other in every column."""
    numbers = [None if rng.random() < 0.1 else int(rng.choice([-(2**63), -1, 0, 1, 255, 256, 2**63 - 1])) for _ in range(count)]
    texts = [None if rng.random() < 0.1 else "".join(rng.choice(["a", "b", "\0", "é"], rng.integers(0, 5))) for _ in range(count)]
    few = [int(value) for value in rng.integers(0, 3, count)]
    return [pa.array(numbers, pa.int64()), pa.array(texts, pa.string()), pa.array(few, pa.int64()), pa.array(range(count), pa.int64())]


@pytest.mark.parametrize("sort", SORTS.values(), ids=SORTS.keys())
def test_rows_go_by_their_bytes_and_are_counted_by_any_beginning_of_them(sort: list[SortColumn]) -> None:
    rng = np.random.default_rng(len(sort))
    columns = some_rows(500, rng)
    store = RowStore([column.type for column in columns], sort)
    codes = store.encode(columns).tolist()
    arena = store.arena.tobytes()
    whole = {code: arena[store.spans[code, 0] :][: store.spans[code, 1]] for code in codes}
    model = Model(2, om.ROWS, (True, store.arena, store.spans), whole.__getitem__)
    at = (store.arena.ctypes.data, store.spans.ctypes.data)
    for _ in range(3000):
        group = int(rng.integers(0, 2))
        if len(model.lists[group]) < 300:
            model.insert(group, int(rng.choice(codes)))
        else:
            model.delete(group, int(rng.integers(0, 300)))
    model.check()
    sorted_by = {code: whole[code][: store.prefixes[code]] for code in codes}
    for code in rng.choice(codes, 200).tolist():
        keys, root = model.lists[0], model.roots[0]
        place, times = om.place_and_times(model.at, root, code, True, *at)
        assert (place, times) == (sum(whole[key] < whole[code] for key in keys), keys.count(code))
        start, length = store.spans[code].tolist()
        assert om.count_before(model.at, root, start, length, False, *at, at[1] + 8, 2) == place
        prefix = int(store.prefixes[code])
        for or_equal in (False, True):
            right = sum(sorted_by[key] < sorted_by[code] or (or_equal and sorted_by[key] == sorted_by[code]) for key in keys)
            assert om.count_before(model.at, root, start, prefix, or_equal, *at, store.prefixes.ctypes.data, 1) == right


def test_deleting_what_is_not_there_is_noticed() -> None:
    model = Model(2)
    model.insert(0, 5)
    for root, key in [(model.roots[0], 6), (model.roots[1], 5)]:
        assert om.delete(model.at, root, key, model.path.ctypes.data, *model.order) == om.NOT_THERE
