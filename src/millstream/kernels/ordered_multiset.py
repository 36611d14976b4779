"""One ordered multiset per group, all in one array: insert, delete, least, greatest, size, k-th.

Each multiset is a B+ tree.  Nodes are rows of one array, the first row heads the list of free ones:

    entries in use | level (0 = leaf) | FAN words | FAN weights | FAN children (inner nodes only) | FAN keys (not of numbers)

A leaf's entry is a distinct key and how often it is there; an inner entry is a lower bound of its
subtree's keys (the first one bounds nothing) and how many keys are below.  Full nodes are split on
the way down, thin ones merged with a neighbour on the way up; what is empty goes back to the list.

Keys are int64 and compare as numbers, or, with `by_bytes`, as ids by the bytes behind them (`arena` and `spans` of an
Interner or a RowStore).  Words are what is compared first: the number itself, or eight of the bytes, so that other keys' bytes are
looked for only where words are equal.  A node is named by its place in the array, counted in words; trees are
worked on through addresses (see compiled.py).  An empty multiset has the root EMPTY.

In large trees nearly every node on the way down is a cache miss.  `draw_near` goes down for several changes at once, so that
their misses overlap; when they are then made one by one, what they need is near.
"""

from __future__ import annotations

import numpy as np

from millstream.kernels.compiled import (
    Address,
    Bytes,
    Ints,
    address,
    bytes_before,
    count_less,
    get,
    inlined,
    kernel,
    load_u8,
    load_u64,
    move,
    prefetch_at,
    put,
    swapped,
)

FAN = 15
EMPTY, NOT_THERE = -1, -2
NUMBERS, STRINGS, ROWS = range(3)
"""What keys are: numbers, ids of byte strings, or codes of rows, whose bytes begin with one that says whether they are NULL."""
TOGETHER = 16
"""So many changes are drawn near at once."""

_USED, _LEVEL = 0, 1
_WORD, _WEIGHT, _CHILD, _KEY = (2 + i * FAN for i in range(4))
_NEXT, _FREE, _MANNER, _KEYS_AT = range(4)
"""In the first row: a free node, and how many there are; what keys are, and where in a node they stand.
A free node names the next one in its first word."""
_THIN = FAN * 3 // 4
"""Two neighbours are merged if they have no more entries than this together."""
_DEEPEST = 40
_LINE = 8
_SIGN = np.int64(-(2**63))
_FIRST_WORD, LAST_WORD = _SIGN, ~_SIGN


def new_nodes(manner: int, capacity: int = 64) -> Ints:
    """Room for so many nodes, none in use."""
    nodes = _room(capacity, _KEY if manner == NUMBERS else _KEY + FAN)
    nodes[0, _MANNER], nodes[0, _KEYS_AT] = manner, _WORD if manner == NUMBERS else _KEY
    _free_rows(nodes, 1)
    return nodes


def grown_nodes(nodes: Ints) -> Ints:
    """The same trees, with twice the room."""
    larger = _room(2 * len(nodes), nodes.shape[1])
    larger[: len(nodes)] = nodes
    _free_rows(larger, len(nodes))
    return larger


def _room(rows: int, words: int) -> Ints:
    """Rows of whole cache lines."""
    words = -(-words // _LINE) * _LINE
    space = np.zeros(rows * words + _LINE, np.int64)
    skipped = -(space.ctypes.data // space.itemsize) % _LINE
    return space[skipped : skipped + rows * words].reshape(rows, words)


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
        _give_back(address(nodes), row * nodes.shape[1])


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
def _key(nodes: Address, node: int, at: int) -> int:
    return get(nodes, node + get(nodes, _KEYS_AT) + at)


@inlined
def precedes(left: int, right: int, by_bytes: bool, arena: Address, spans: Address) -> bool:
    """One key is before another."""
    if not by_bytes:
        return left < right
    return bytes_before(arena, get(spans, 2 * left), get(spans, 2 * left + 1), get(spans, 2 * right), get(spans, 2 * right + 1))


@kernel
def _leading(nodes: Address, arena: Address, start: int, length: int) -> np.int64:
    """A word that never decreases as these bytes increase: the first eight, as a number; of a row, those behind its first byte."""
    if get(nodes, _MANNER) == ROWS and length > 0:
        flag = load_u8(arena, start)
        if flag != 1:  # NULL: before or after all values
            return _FIRST_WORD if flag == 0 else LAST_WORD
        start, length = start + 1, length - 1
    if length >= 8:
        return np.int64(swapped(load_u64(arena, start))) ^ _SIGN
    word = np.uint64(0)
    for i in range(length):
        word |= np.uint64(load_u8(arena, start + i)) << np.uint64(56 - 8 * i)
    return np.int64(word) ^ _SIGN


@inlined
def word_of(nodes: Address, key: int, by_bytes: bool, arena: Address, spans: Address) -> int:
    """What is compared first: of two keys with different words, the one with the lesser word is before the other."""
    return int(_leading(nodes, arena, get(spans, 2 * key), get(spans, 2 * key + 1))) if by_bytes else key


@inlined
def _words_before(nodes: Address, node: int, first: int, word: int) -> int:
    """The first entry from `first` on whose word is not less."""
    return first + count_less(nodes, node + _WORD, first, get(nodes, node + _USED), word)


@inlined
def _behind_equal(nodes: Address, node: int, at: int, word: int) -> int:
    """The first entry from `at` on with another word."""
    used = get(nodes, node + _USED)
    while at < used and get(nodes, node + _WORD + at) == word:
        at += 1
    return at


@inlined
def _place_of(nodes: Address, node: int, first: int, key: int, word: int, by_bytes: bool, arena: Address, spans: Address) -> int:
    """The first entry from `first` on that is not before the key."""
    j = _words_before(nodes, node, first, word)
    if by_bytes and j < get(nodes, node + _USED) and get(nodes, node + _WORD + j) == word:
        last = _behind_equal(nodes, node, j, word)  # the place is in [j, last]
        while j < last:
            middle = (j + last) // 2
            if precedes(_key(nodes, node, middle), key, by_bytes, arena, spans):
                j = middle + 1
            else:
                last = middle
    return j


@inlined
def _holds(nodes: Address, node: int, at: int, key: int, word: int) -> bool:
    return at < get(nodes, node + _USED) and get(nodes, node + _WORD + at) == word and _key(nodes, node, at) == key


@inlined
def _entry_of(nodes: Address, node: int, key: int, word: int, by_bytes: bool, arena: Address, spans: Address) -> int:
    """The entry of an inner node below which the key belongs: the last whose bound is not after it."""
    j = _place_of(nodes, node, 1, key, word, by_bytes, arena, spans)
    return j if _holds(nodes, node, j, key, word) else j - 1


@inlined
def _set_entry(nodes: Address, node: int, at: int, word: int, key: int, weight: int) -> None:
    put(nodes, node + _WORD + at, word)
    put(nodes, node + get(nodes, _KEYS_AT) + at, key)
    put(nodes, node + _WEIGHT + at, weight)


@inlined
def _add_weight(nodes: Address, node: int, at: int, weight: int) -> int:
    weight += get(nodes, node + _WEIGHT + at)
    put(nodes, node + _WEIGHT + at, weight)
    return weight


@inlined
def _copy(nodes: Address, source: int, i: int, target: int, j: int, count: int) -> None:
    """Copy entries of one node, from i on, over those of another (or the same), from j on."""
    move(nodes, source + _WORD + i, target + _WORD + j, count)
    move(nodes, source + _WEIGHT + i, target + _WEIGHT + j, count)
    if get(nodes, source + _LEVEL) > 0:
        move(nodes, source + _CHILD + i, target + _CHILD + j, count)
    if get(nodes, _KEYS_AT) == _KEY:
        move(nodes, source + _KEY + i, target + _KEY + j, count)


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


# --- ahead of several changes -----------------------------------------------------------------


@inlined
def new_ahead() -> Ints:
    """Scratch space for `draw_near`: where each change begins, its key and its word."""
    return np.zeros((3, TOGETHER), np.int64)


@inlined
def _prefetch_node(nodes: Address, node: int, is_leaf: bool) -> None:
    """What a change will read there; in a leaf it may move all entries, elsewhere keys are seldom asked for."""
    for at in range(0, _CHILD, _LINE):
        prefetch_at(nodes, node + at)
    if not is_leaf:
        for at in range(_CHILD, _KEY, _LINE):
            prefetch_at(nodes, node + at)
    elif get(nodes, _KEYS_AT) == _KEY:
        for at in range(_KEY, _KEY + FAN, _LINE):
            prefetch_at(nodes, node + at)


@inlined
def _prefetch_bytes(keys: Address, many: int, arena: Address, spans: Address) -> None:
    for i in range(many):
        prefetch_at(spans, 2 * get(keys, i))
    for i in range(many):
        prefetch_at(arena + get(spans, 2 * get(keys, i)), 0)


@inlined
def _rival(nodes: Address, leaf: int, key: int, word: int) -> int:
    """The first other key of a leaf with the same word, or the key itself."""
    j = _words_before(nodes, leaf, 0, word)
    while _holds(nodes, leaf, j, key, word):
        j += 1
    return _key(nodes, leaf, j) if j < get(nodes, leaf + _USED) and get(nodes, leaf + _WORD + j) == word else key


@kernel
def draw_near(nodes: Address, many: int, ahead: Address, by_bytes: bool, arena: Address, spans: Address) -> None:
    """Start to load what changes of these keys below these roots will read.  Never changes an outcome."""
    node_of, key_of, words = ahead, ahead + 8 * TOGETHER, ahead + 16 * TOGETHER
    for i in range(many):
        if get(node_of, i) != EMPTY:
            _prefetch_node(nodes, get(node_of, i), False)
    if by_bytes:
        _prefetch_bytes(key_of, many, arena, spans)
    for i in range(many):
        put(words, i, word_of(nodes, get(key_of, i), by_bytes, arena, spans))
    inner = True
    while inner:
        inner = False
        for i in range(many):
            node = get(node_of, i)
            level = get(nodes, node + _LEVEL) if node != EMPTY else 0
            if level > 0:
                child = get(nodes, node + _CHILD + _words_before(nodes, node, 1, get(words, i) + 1) - 1)
                put(node_of, i, child)
                _prefetch_node(nodes, child, level == 1)
                inner |= level > 1
    if by_bytes:
        for i in range(many):
            if get(node_of, i) != EMPTY:
                put(key_of, i, _rival(nodes, get(node_of, i), get(key_of, i), get(words, i)))
        _prefetch_bytes(key_of, many, arena, spans)


@kernel
def draw_near_turns(
    turn: int, code: Ints, order: Ints, keys: Ints, valid: Bytes, nodes: Address, roots: Ints, ahead: Ints,
    by_bytes: bool, arena: Address, spans: Address,
) -> None:  # fmt: skip
    """The same for the next changes of groups, in the given order if there is one."""
    many = min(TOGETHER, len(code) - turn)
    for t in range(many):
        i = order[turn + t] if len(order) > 0 else turn + t
        there = len(valid) == 0 or valid[i] != 0
        ahead[0, t], ahead[1, t] = roots[code[i]] if there else EMPTY, keys[i] if there else 0
    draw_near(nodes, many, address(ahead), by_bytes, arena, spans)


@kernel
def draw_near_rank(turn: int, code: Ints, order: Ints, nodes: Address, roots: Ints, ahead: Ints, fraction: float) -> None:
    """The same for whoever will ask for what stands so far along the order of the groups that change next."""
    many = min(TOGETHER, len(code) - turn)
    node_of, rank_of = address(ahead), address(ahead) + 8 * TOGETHER
    for t in range(many):
        root = roots[code[order[turn + t] if len(order) > 0 else turn + t]]
        put(node_of, t, root)
        put(rank_of, t, int(fraction * max(size(nodes, root) - 1, 0)))
    inner = True
    while inner:
        inner = False
        for t in range(many):
            node = get(node_of, t)
            level = get(nodes, node + _LEVEL) if node != EMPTY else 0
            if level > 0:
                j, rank = _entry_at(nodes, node, get(rank_of, t))
                child = get(nodes, node + _CHILD + j)
                put(node_of, t, child)
                put(rank_of, t, rank)
                for at in range(0, _CHILD if level == 1 else _KEY, _LINE):
                    prefetch_at(nodes, child + at)
                inner |= level > 1


@kernel
def draw_near_slots(
    slot: int, slot_start: Ints, slot_part: Ints, code: Ints, nodes: Address, roots: Ints, ahead: Ints, arena: Address, spans: Address
) -> None:
    """The same for the first changes of the next slots, whose rows are code[slot_start[s]:slot_start[s + 1]]."""
    many = 0
    for s in range(slot, min(slot + TOGETHER, len(slot_part))):
        if slot_start[s] < slot_start[s + 1]:
            ahead[0, many], ahead[1, many] = roots[slot_part[s]], code[slot_start[s]]
            many += 1
    draw_near(nodes, many, address(ahead), True, arena, spans)


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
    _set_entry(nodes, parent, at + 1, get(nodes, right + _WORD), _key(nodes, right, 0), moved)
    put(nodes, parent + _CHILD + at + 1, right)
    _add_weight(nodes, parent, at, -moved)


@kernel
def _raise_root(nodes: Address, root: int) -> int:
    """A new root above a full one."""
    above = _take(nodes, get(nodes, root + _LEVEL) + 1)
    put(nodes, above + _USED, 1)
    _set_entry(nodes, above, 0, get(nodes, root + _WORD), _key(nodes, root, 0), _weight(nodes, root))
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
    node, word = root, word_of(nodes, key, by_bytes, arena, spans)
    while get(nodes, node + _LEVEL) > 0:
        j = _entry_of(nodes, node, key, word, by_bytes, arena, spans)
        if get(nodes, get(nodes, node + _CHILD + j) + _USED) == FAN:
            _split(nodes, node, j)
            j = _entry_of(nodes, node, key, word, by_bytes, arena, spans)
        _add_weight(nodes, node, j, times)
        node = get(nodes, node + _CHILD + j)
    j = _place_of(nodes, node, 0, key, word, by_bytes, arena, spans)
    if not _holds(nodes, node, j, key, word):
        _open_gap(nodes, node, j)
        _set_entry(nodes, node, j, word, key, 0)
    _add_weight(nodes, node, j, times)
    return root


# --- delete -----------------------------------------------------------------------------------


@kernel
def delete(nodes: Address, root: int, key: int, path: Address, by_bytes: bool, arena: Address, spans: Address) -> int:
    """One `key` less in the multiset; its root from now on, or NOT_THERE (and a broken tree)."""
    if root == EMPTY:
        return NOT_THERE
    node, depth, word = root, 0, word_of(nodes, key, by_bytes, arena, spans)
    while get(nodes, node + _LEVEL) > 0:
        j = _entry_of(nodes, node, key, word, by_bytes, arena, spans)
        _add_weight(nodes, node, j, -1)
        put(path, 2 * depth, node)
        put(path, 2 * depth + 1, j)
        depth += 1
        node = get(nodes, node + _CHILD + j)
    j = _place_of(nodes, node, 0, key, word, by_bytes, arena, spans)
    if not _holds(nodes, node, j, key, word):
        return NOT_THERE
    if _add_weight(nodes, node, j, -1) > 0:
        return root
    _close_gap(nodes, node, j)
    while depth > 0 and _thin_out(nodes, get(path, 2 * depth - 2), get(path, 2 * depth - 1)):
        depth -= 1
    return _lower_root(nodes, root)


@kernel
def replace(nodes: Address, root: int, old: int, new: int, is_least: bool, is_greatest: bool) -> bool:
    """One number becomes another, if it is there once and none that its leaf knows of is between them; else nothing happens.

    The caller says whether the old one is the least or the greatest of all: then there is none beyond it in other leaves either.
    """
    node = root
    while get(nodes, node + _LEVEL) > 0:
        node = get(nodes, node + _CHILD + _words_before(nodes, node, 1, old + 1) - 1)
    at, used = _words_before(nodes, node, 0, old), get(nodes, node + _USED)
    if at == used or get(nodes, node + _WORD + at) != old or get(nodes, node + _WEIGHT + at) != 1:
        return False
    if new < old and not (get(nodes, node + _WORD + at - 1) < new if at > 0 else is_least):
        return False
    if new > old and not (new < get(nodes, node + _WORD + at + 1) if at + 1 < used else is_greatest):
        return False
    put(nodes, node + _WORD + at, new)
    return True


@kernel
def _thin_out(nodes: Address, parent: int, at: int) -> bool:
    """Drop the node behind the entry if it is empty, merge it with a neighbour if both are thin; whether the parent lost an entry."""
    child = get(nodes, parent + _CHILD + at)
    used = get(nodes, child + _USED)
    if used == 0:
        _give_back(nodes, child)
        _close_gap(nodes, parent, at)
        return True
    if 2 * used > _THIN:  # its neighbours are not near; a thinner one will ask
        return False
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
        put(nodes, left + _WORD + used, get(nodes, parent + _WORD + at + 1))
        put(nodes, left + get(nodes, _KEYS_AT) + used, _key(nodes, parent, at + 1))
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
    return _key(nodes, node, 0)


@inlined
def greatest(nodes: Address, root: int) -> int:
    """The greatest key of a multiset that is not empty."""
    node = root
    while get(nodes, node + _LEVEL) > 0:
        node = get(nodes, node + _CHILD + get(nodes, node + _USED) - 1)
    return _key(nodes, node, get(nodes, node + _USED) - 1)


@inlined
def _entry_at(nodes: Address, node: int, k: int) -> tuple[int, int]:
    """The entry with the k-th key of a node, and how many of the entry's keys are before it."""
    j = 0
    while k >= get(nodes, node + _WEIGHT + j):
        k -= get(nodes, node + _WEIGHT + j)
        j += 1
    return j, k


@inlined
def _leaf_at(nodes: Address, root: int, k: int) -> tuple[int, int, int]:
    """The same, with the leaf that has it."""
    node = root
    while True:
        j, k = _entry_at(nodes, node, k)
        if get(nodes, node + _LEVEL) == 0:
            return node, j, k
        node = get(nodes, node + _CHILD + j)


@kernel
def kth(nodes: Address, root: int, k: int) -> int:
    """The k-th smallest key, counted from 0 and with repetitions; 0 <= k < size."""
    leaf, j, _ = _leaf_at(nodes, root, k)
    return _key(nodes, leaf, j)


@kernel
def kth_and_next(nodes: Address, root: int, k: int) -> tuple[int, int]:
    """The k-th smallest key, and the one behind it; 0 <= k < size - 1."""
    leaf, j, before = _leaf_at(nodes, root, k)
    key = _key(nodes, leaf, j)
    if before + 1 < get(nodes, leaf + _WEIGHT + j):
        return key, key
    return key, _key(nodes, leaf, j + 1) if j + 1 < get(nodes, leaf + _USED) else kth(nodes, root, k + 1)


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
            put(out, at, _key(nodes, node, j))
            at += 1
    return at


@kernel
def place_and_times(nodes: Address, root: int, key: int, by_bytes: bool, arena: Address, spans: Address) -> tuple[int, int]:
    """How many keys are before this one, and how often it is there."""
    if root == EMPTY:
        return 0, 0
    node, total, word = root, 0, word_of(nodes, key, by_bytes, arena, spans)
    while get(nodes, node + _LEVEL) > 0:
        j = _entry_of(nodes, node, key, word, by_bytes, arena, spans)
        for i in range(j):
            total += get(nodes, node + _WEIGHT + i)
        node = get(nodes, node + _CHILD + j)
    j = _place_of(nodes, node, 0, key, word, by_bytes, arena, spans)
    for i in range(j):
        total += get(nodes, node + _WEIGHT + i)
    return total, get(nodes, node + _WEIGHT + j) if _holds(nodes, node, j, key, word) else 0


@kernel
def count_before(
    nodes: Address, root: int, start: int, length: int, or_equal: bool, arena: Address, spans: Address, lengths: Address, stride: int
) -> int:
    """How many keys are before a range of bytes, or also equal to it.  The multiset is one of rows.

    Only the first so many bytes of a key count: lengths[key * stride].
    """
    if root == EMPTY:
        return 0
    word, told = _leading(nodes, arena, start, length), _told(length)
    node, total = root, 0
    while True:
        leaf, used = get(nodes, node + _LEVEL) == 0, get(nodes, node + _USED)
        j = 0 if leaf else 1
        while j < used and (get(nodes, node + _WORD + j) & told) < (word & told):
            j += 1
        behind = j
        while behind < used and (get(nodes, node + _WORD + behind) & told) == (word & told):
            behind += 1
        while j < behind:  # the first entry that is not before them is in [j, behind]
            middle = (j + behind) // 2
            key = _key(nodes, node, middle)
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


@inlined
def _told(length: int) -> np.int64:
    """The bits of a row's word that so many of its bytes tell: a longer row that begins with them may have others behind."""
    return np.int64(0) if length <= 1 else np.int64(-1) << np.int64(8 * max(0, 9 - length))


@kernel
def copy_range(nodes: Address, root: int, first: int, count: int, out: Address, at: int) -> None:
    """The keys from the first-th on, with repetitions, to out[at], out[at + 1], ..."""
    stop = at + count
    while at < stop:
        node, j, skip = _leaf_at(nodes, root, first)
        while j < get(nodes, node + _USED) and at < stop:
            many = min(get(nodes, node + _WEIGHT + j) - skip, stop - at)
            for _ in range(many):
                put(out, at, _key(nodes, node, j))
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
                out[n] = nodes[row, nodes[0, _KEYS_AT] + j]
                n += 1
    return out[:n]


@kernel
def dump(nodes: Ints, roots: Ints) -> Ints:
    """Rows of (place in `roots`, key, how often), in key order inside each multiset."""
    out = np.empty((64, 3), np.int64)
    n, words, keys_at = 0, nodes.shape[1], nodes[0, _KEYS_AT]
    path = np.empty((_DEEPEST, 2), np.int64)
    for place in range(len(roots)):
        depth = 0 if roots[place] != EMPTY else -1
        path[0, 0], path[0, 1] = roots[place] // words, 0
        while depth >= 0:
            row, j = path[depth, 0], path[depth, 1]
            if j == nodes[row, _USED]:
                depth -= 1
                continue
            path[depth, 1] += 1
            if nodes[row, _LEVEL] > 0:
                depth += 1
                path[depth, 0], path[depth, 1] = nodes[row, _CHILD + j] // words, 0
                continue
            if n == len(out):
                out = np.concatenate((out, np.empty_like(out)))
            out[n, 0], out[n, 1], out[n, 2] = place, nodes[row, keys_at + j], nodes[row, _WEIGHT + j]
            n += 1
    return out[:n]
