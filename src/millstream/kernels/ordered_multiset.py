"""One ordered multiset per group, all in one array: insert, delete, least, greatest, size, k-th.

Each multiset is a B+ tree.  Nodes are rows of one array, the first row heads the list of free ones:

    entries in use | level (0 = leaf) | FAN keys | FAN weights | FAN children (inner nodes only)

A leaf's entry is a distinct key and how often it is there; an inner entry is a lower bound of its
subtree's keys (the first one bounds nothing) and how many keys are below.  Full nodes are split on
the way down, thin ones merged with a neighbour on the way up; what is empty goes back to the list.

Keys are int64 and compare as numbers, or, with `by_bytes`, as ids of an Interner by the bytes behind
them (its `arena` and `spans`).  A node is named by its place in the array, counted in words; trees are
worked on through addresses (see compiled.py).  An empty multiset has the root EMPTY.
"""

from __future__ import annotations

import numpy as np

from millstream.kernels.compiled import Address, Ints, address, bytes_before, get, inlined, kernel, move, put

FAN = 15
EMPTY, NOT_THERE = -1, -2

_USED, _LEVEL = 0, 1
_KEY, _WEIGHT, _CHILD = 2, 2 + FAN, 2 + 2 * FAN
_WORDS = 48
_NEXT, _FREE = 0, 1
"""In the first row: a free node, and how many there are.  A free node names the next one in its first word."""
_THIN = FAN * 3 // 4
"""Two neighbours are merged if they have no more entries than this together."""
_DEEPEST = 40


def new_nodes(capacity: int = 64) -> Ints:
    """Room for so many nodes, none in use."""
    nodes = np.zeros((capacity, _WORDS), np.int64)
    _free_rows(nodes, 1)
    return nodes


def grown_nodes(nodes: Ints) -> Ints:
    """The same trees, with twice the room."""
    larger = np.zeros((2 * len(nodes), _WORDS), np.int64)
    larger[: len(nodes)] = nodes
    _free_rows(larger, len(nodes))
    return larger


def new_path() -> Ints:
    """Scratch space for `delete`: (node, entry) on the way down."""
    return np.zeros(2 * _DEEPEST, np.int64)


def nodes_in_use(nodes: Ints) -> int:
    return len(nodes) - 1 - int(nodes[0, _FREE])


@inlined
def has_room(nodes: Address) -> bool:
    """One insert cannot run out of nodes."""
    return get(nodes, _FREE) >= _DEEPEST


# --- nodes ------------------------------------------------------------------------------------


@kernel
def _free_rows(nodes: Ints, first: int) -> None:
    for row in range(len(nodes) - 1, first - 1, -1):
        _give_back(address(nodes), row * _WORDS)


@inlined
def _take(nodes: Address, level: int) -> int:
    node = get(nodes, _NEXT)
    put(nodes, _NEXT, get(nodes, node))
    put(nodes, _FREE, get(nodes, _FREE) - 1)
    put(nodes, node + _USED, 0)
    put(nodes, node + _LEVEL, level)
    return node


@inlined
def _give_back(nodes: Address, node: int) -> None:
    put(nodes, node, get(nodes, _NEXT))
    put(nodes, node + _LEVEL, -1)
    put(nodes, _NEXT, node)
    put(nodes, _FREE, get(nodes, _FREE) + 1)


@inlined
def _before(left: int, right: int, by_bytes: bool, arena: Address, spans: Address) -> bool:
    if not by_bytes:
        return left < right
    return bytes_before(arena, get(spans, 2 * left), get(spans, 2 * left + 1), get(spans, 2 * right), get(spans, 2 * right + 1))


@inlined
def _entry_of(nodes: Address, node: int, key: int, by_bytes: bool, arena: Address, spans: Address) -> int:
    """The entry of an inner node below which the key belongs: the last whose bound is not after it."""
    used, j = get(nodes, node + _USED), 0
    if by_bytes:
        behind = used  # the entry is in [j, behind)
        while j + 1 < behind:
            middle = (j + behind) // 2
            if _before(key, get(nodes, node + _KEY + middle), by_bytes, arena, spans):
                behind = middle
            else:
                j = middle
    else:
        for i in range(1, used):  # to count costs less than to guess where to stop
            j += get(nodes, node + _KEY + i) <= key
    return j


@inlined
def _place_of(nodes: Address, node: int, key: int, by_bytes: bool, arena: Address, spans: Address) -> int:
    """The first entry of a leaf that is not before the key."""
    used, j = get(nodes, node + _USED), 0
    if by_bytes:
        last = used  # the place is in [j, last]
        while j < last:
            middle = (j + last) // 2
            if _before(get(nodes, node + _KEY + middle), key, by_bytes, arena, spans):
                j = middle + 1
            else:
                last = middle
    else:
        for i in range(used):
            j += get(nodes, node + _KEY + i) < key
    return j


@inlined
def _set_entry(nodes: Address, node: int, at: int, key: int, weight: int) -> None:
    put(nodes, node + _KEY + at, key)
    put(nodes, node + _WEIGHT + at, weight)


@inlined
def _add_weight(nodes: Address, node: int, at: int, weight: int) -> int:
    weight += get(nodes, node + _WEIGHT + at)
    put(nodes, node + _WEIGHT + at, weight)
    return weight


@inlined
def _copy(nodes: Address, source: int, i: int, target: int, j: int, count: int) -> None:
    """Copy entries of one node, from i on, over those of another (or the same), from j on."""
    move(nodes, source + _KEY + i, target + _KEY + j, count)
    move(nodes, source + _WEIGHT + i, target + _WEIGHT + j, count)
    if get(nodes, source + _LEVEL) > 0:
        move(nodes, source + _CHILD + i, target + _CHILD + j, count)


@inlined
def _open_gap(nodes: Address, node: int, at: int) -> None:
    used = get(nodes, node + _USED)
    _copy(nodes, node, at, node, at + 1, used - at)
    put(nodes, node + _USED, used + 1)


@inlined
def _close_gap(nodes: Address, node: int, at: int) -> None:
    used = get(nodes, node + _USED)
    _copy(nodes, node, at + 1, node, at, used - at - 1)
    put(nodes, node + _USED, used - 1)


@inlined
def _weight(nodes: Address, node: int) -> int:
    total = 0
    for j in range(get(nodes, node + _USED)):
        total += get(nodes, node + _WEIGHT + j)
    return total


# --- insert -----------------------------------------------------------------------------------


@kernel
def _split(nodes: Address, parent: int, at: int) -> None:
    """Move the upper half of the full node behind entry `at` into a new entry after it."""
    left = get(nodes, parent + _CHILD + at)
    right = _take(nodes, get(nodes, left + _LEVEL))
    half = (FAN + 1) // 2
    _copy(nodes, left, half, right, 0, FAN - half)
    put(nodes, left + _USED, half)
    put(nodes, right + _USED, FAN - half)
    moved = _weight(nodes, right)
    _open_gap(nodes, parent, at + 1)
    _set_entry(nodes, parent, at + 1, get(nodes, right + _KEY), moved)
    put(nodes, parent + _CHILD + at + 1, right)
    _add_weight(nodes, parent, at, -moved)


@kernel
def _raise_root(nodes: Address, root: int) -> int:
    """A new root above a full one."""
    above = _take(nodes, get(nodes, root + _LEVEL) + 1)
    put(nodes, above + _USED, 1)
    _set_entry(nodes, above, 0, get(nodes, root + _KEY), _weight(nodes, root))
    put(nodes, above + _CHILD, root)
    _split(nodes, above, 0)
    return above


@kernel
def insert(nodes: Address, root: int, key: int, times: int, by_bytes: bool, arena: Address, spans: Address) -> int:
    """So many more of `key` in the multiset; its root from now on.  The caller has seen to it that there is room."""
    if root == EMPTY:
        root = _take(nodes, 0)
    elif get(nodes, root + _USED) == FAN:
        root = _raise_root(nodes, root)
    node = root
    while get(nodes, node + _LEVEL) > 0:
        j = _entry_of(nodes, node, key, by_bytes, arena, spans)
        if get(nodes, get(nodes, node + _CHILD + j) + _USED) == FAN:
            _split(nodes, node, j)
            if not _before(key, get(nodes, node + _KEY + j + 1), by_bytes, arena, spans):
                j += 1
        _add_weight(nodes, node, j, times)
        node = get(nodes, node + _CHILD + j)
    j = _place_of(nodes, node, key, by_bytes, arena, spans)
    if j == get(nodes, node + _USED) or get(nodes, node + _KEY + j) != key:
        _open_gap(nodes, node, j)
        _set_entry(nodes, node, j, key, 0)
    _add_weight(nodes, node, j, times)
    return root


# --- delete -----------------------------------------------------------------------------------


@kernel
def delete(nodes: Address, root: int, key: int, path: Address, by_bytes: bool, arena: Address, spans: Address) -> int:
    """One `key` less in the multiset; its root from now on, or NOT_THERE (and a broken tree)."""
    if root == EMPTY:
        return NOT_THERE
    node, depth = root, 0
    while get(nodes, node + _LEVEL) > 0:
        j = _entry_of(nodes, node, key, by_bytes, arena, spans)
        _add_weight(nodes, node, j, -1)
        put(path, 2 * depth, node)
        put(path, 2 * depth + 1, j)
        depth += 1
        node = get(nodes, node + _CHILD + j)
    j = _place_of(nodes, node, key, by_bytes, arena, spans)
    if j == get(nodes, node + _USED) or get(nodes, node + _KEY + j) != key:
        return NOT_THERE
    if _add_weight(nodes, node, j, -1) > 0:
        return root
    _close_gap(nodes, node, j)
    while depth > 0 and _thin_out(nodes, get(path, 2 * depth - 2), get(path, 2 * depth - 1)):
        depth -= 1
    return _lower_root(nodes, root)


@kernel
def _thin_out(nodes: Address, parent: int, at: int) -> bool:
    """Drop the node behind the entry if it is empty, merge it with a neighbour if both are thin; whether the parent lost an entry."""
    child = get(nodes, parent + _CHILD + at)
    used = get(nodes, child + _USED)
    if used == 0:
        _give_back(nodes, child)
        _close_gap(nodes, parent, at)
        return True
    if at + 1 < get(nodes, parent + _USED) and used + get(nodes, get(nodes, parent + _CHILD + at + 1) + _USED) <= _THIN:
        _merge(nodes, parent, at)
        return True
    if at > 0 and used + get(nodes, get(nodes, parent + _CHILD + at - 1) + _USED) <= _THIN:
        _merge(nodes, parent, at - 1)
        return True
    return False


@kernel
def _merge(nodes: Address, parent: int, at: int) -> None:
    """Append the node behind entry at + 1 to the one behind entry `at`."""
    left, right = get(nodes, parent + _CHILD + at), get(nodes, parent + _CHILD + at + 1)
    used, more = get(nodes, left + _USED), get(nodes, right + _USED)
    _copy(nodes, right, 0, left, used, more)
    if get(nodes, left + _LEVEL) > 0:
        # an inner node's first bound may be too high: its parent's is the one that holds
        put(nodes, left + _KEY + used, get(nodes, parent + _KEY + at + 1))
    put(nodes, left + _USED, used + more)
    _add_weight(nodes, parent, at, get(nodes, parent + _WEIGHT + at + 1))
    _give_back(nodes, right)
    _close_gap(nodes, parent, at + 1)


@kernel
def _lower_root(nodes: Address, root: int) -> int:
    """A root with one child is no root; a root with nothing is no tree."""
    while get(nodes, root + _LEVEL) > 0 and get(nodes, root + _USED) == 1:
        child = get(nodes, root + _CHILD)
        _give_back(nodes, root)
        root = child
    if get(nodes, root + _USED) == 0:
        _give_back(nodes, root)
        return EMPTY
    return root


# --- questions --------------------------------------------------------------------------------


@inlined
def size(nodes: Address, root: int) -> int:
    return _weight(nodes, root) if root != EMPTY else 0


@inlined
def least(nodes: Address, root: int) -> int:
    """The least key of a multiset that is not empty."""
    node = root
    while get(nodes, node + _LEVEL) > 0:
        node = get(nodes, node + _CHILD)
    return get(nodes, node + _KEY)


@inlined
def greatest(nodes: Address, root: int) -> int:
    """The greatest key of a multiset that is not empty."""
    node = root
    while get(nodes, node + _LEVEL) > 0:
        node = get(nodes, node + _CHILD + get(nodes, node + _USED) - 1)
    return get(nodes, node + _KEY + get(nodes, node + _USED) - 1)


@kernel
def kth(nodes: Address, root: int, k: int) -> int:
    """The k-th smallest key, counted from 0 and with repetitions; 0 <= k < size."""
    node = root
    while True:
        j = 0
        while k >= get(nodes, node + _WEIGHT + j):
            k -= get(nodes, node + _WEIGHT + j)
            j += 1
        if get(nodes, node + _LEVEL) == 0:
            return get(nodes, node + _KEY + j)
        node = get(nodes, node + _CHILD + j)


@kernel
def copy_keys(nodes: Address, root: int, once: bool, path: Address, out: Address, at: int) -> int:
    """Write all keys in order, each once or as often as it is there, from out[at] on; the place behind them.  There is room."""
    depth = 0 if root != EMPTY else -1
    put(path, 0, root)
    put(path, 1, 0)
    while depth >= 0:
        node, j = get(path, 2 * depth), get(path, 2 * depth + 1)
        if j == get(nodes, node + _USED):
            depth -= 1
            continue
        put(path, 2 * depth + 1, j + 1)
        if get(nodes, node + _LEVEL) > 0:
            depth += 1
            put(path, 2 * depth, get(nodes, node + _CHILD + j))
            put(path, 2 * depth + 1, 0)
            continue
        for _ in range(1 if once else get(nodes, node + _WEIGHT + j)):
            put(out, at, get(nodes, node + _KEY + j))
            at += 1
    return at


@kernel
def place_and_times(nodes: Address, root: int, key: int, by_bytes: bool, arena: Address, spans: Address) -> tuple[int, int]:
    """How many keys are before this one, and how often it is there."""
    if root == EMPTY:
        return 0, 0
    node, total = root, 0
    while get(nodes, node + _LEVEL) > 0:
        j = _entry_of(nodes, node, key, by_bytes, arena, spans)
        for i in range(j):
            total += get(nodes, node + _WEIGHT + i)
        node = get(nodes, node + _CHILD + j)
    j = _place_of(nodes, node, key, by_bytes, arena, spans)
    for i in range(j):
        total += get(nodes, node + _WEIGHT + i)
    there = j < get(nodes, node + _USED) and get(nodes, node + _KEY + j) == key
    return total, get(nodes, node + _WEIGHT + j) if there else 0


@kernel
def count_before(
    nodes: Address, root: int, start: int, length: int, or_equal: bool, arena: Address, spans: Address, lengths: Address, stride: int
) -> int:
    """How many keys are before a range of bytes, or also equal to it.  The multiset is ordered by bytes.

    Only the first so many bytes of a key count: lengths[key * stride].
    """
    if root == EMPTY:
        return 0
    node, total = root, 0
    while True:
        leaf, behind = get(nodes, node + _LEVEL) == 0, get(nodes, node + _USED)
        j = 0 if leaf else 1
        while j < behind:  # the first entry that is not before them is in [j, behind]
            middle = (j + behind) // 2
            key = get(nodes, node + _KEY + middle)
            here, many = get(spans, 2 * key), get(lengths, key * stride)
            before = not bytes_before(arena, start, length, here, many) if or_equal else bytes_before(arena, here, many, start, length)
            if before:
                j = middle + 1
            else:
                behind = middle
        for i in range(j if leaf else j - 1):
            total += get(nodes, node + _WEIGHT + i)
        if leaf:
            return total
        node = get(nodes, node + _CHILD + j - 1)


@kernel
def copy_range(nodes: Address, root: int, first: int, count: int, out: Address, at: int) -> None:
    """The keys from the first-th on, with repetitions, to out[at], out[at + 1], ..."""
    stop = at + count
    while at < stop:
        node, skip = root, first
        while True:
            j = 0
            while skip >= get(nodes, node + _WEIGHT + j):
                skip -= get(nodes, node + _WEIGHT + j)
                j += 1
            if get(nodes, node + _LEVEL) == 0:
                break
            node = get(nodes, node + _CHILD + j)
        while j < get(nodes, node + _USED) and at < stop:
            many = min(get(nodes, node + _WEIGHT + j) - skip, stop - at)
            for _ in range(many):
                put(out, at, get(nodes, node + _KEY + j))
                at += 1
            first += many
            skip = 0
            j += 1


@kernel
def keys_in_use(nodes: Ints) -> Ints:
    """Every key that some node holds, bounds included, in no order and with repetitions: what an Interner must keep."""
    out = np.empty(len(nodes) * FAN, np.int64)
    n = 0
    for row in range(1, len(nodes)):
        if nodes[row, _LEVEL] >= 0:
            for j in range(nodes[row, _USED]):
                out[n] = nodes[row, _KEY + j]
                n += 1
    return out[:n]


@kernel
def dump(nodes: Ints, roots: Ints) -> Ints:
    """Rows of (place in `roots`, key, how often), in key order inside each multiset."""
    out = np.empty((64, 3), np.int64)
    n = 0
    path = np.empty((_DEEPEST, 2), np.int64)
    for place in range(len(roots)):
        depth = 0 if roots[place] != EMPTY else -1
        path[0, 0], path[0, 1] = roots[place] // _WORDS, 0
        while depth >= 0:
            row, j = path[depth, 0], path[depth, 1]
            if j == nodes[row, _USED]:
                depth -= 1
                continue
            path[depth, 1] += 1
            if nodes[row, _LEVEL] > 0:
                depth += 1
                path[depth, 0], path[depth, 1] = nodes[row, _CHILD + j] // _WORDS, 0
                continue
            if n == len(out):
                out = np.concatenate((out, np.empty_like(out)))
            out[n, 0], out[n, 1], out[n, 2] = place, nodes[row, _KEY + j], nodes[row, _WEIGHT + j]
            n += 1
    return out[:n]
