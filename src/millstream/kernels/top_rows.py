"""ORDER BY ... LIMIT: how the first rows of a partition change.

A partition's first rows, at least `stop` if it has them, stand in an ordered multiset, the others are cold: kernels/cold_rows.py.
What is shown are the positions from `skipped` up to `stop`.  Changes of cold rows, and those behind the last row shown, which is known,
show nothing and need no position.  Of others, what stands before the first changed row stays: the rest, at most stop - skipped rows, is
compared.
"""

from __future__ import annotations

from millstream.core.signed_batch import Signs
from millstream.kernels.cold_rows import HORIZON, HOT, MOST, SINCE, draw_near_slots, is_cold, make_new, raise_horizon, spill, warm
from millstream.kernels.compiled import Address, Bytes, Ints, address, bytes_before, inlined, kernel
from millstream.kernels.join_lists import COUNT, count_in
from millstream.kernels.ordered_multiset import (
    EMPTY,
    LAST_WORD,
    NOT_THERE,
    TOGETHER,
    copy_range,
    count_before,
    delete,
    has_room,
    insert,
    kth,
    new_ahead,
    size,
)
from millstream.kernels.row_store import LENGTH, START

DONE, OUT_OF_NODES, FULL, NEVER_THERE = range(4)
WHERE, PHASE, CHANGE, FIRST, HELD, FILLED, LOOKED = range(7)
"""Of `progress`: the slot, what is to be done for it, the next of its changes; the first position that may change,
how many rows stood from there on; how many changes have been filled in; and how many cold rows have been looked at to refill."""
_AS_IT_WAS, _APPLY, _WARM, _AS_IT_IS = range(4)
UNKNOWN = -1
"""The last row shown of a partition that shows all its rows, or that has not changed yet."""


@inlined
def _first_changed(trees: Address, root: int, changed: Ints, arena: Bytes, spans: Ints) -> int:
    """The least position of a changed row."""
    least = size(trees, root)
    for i in range(len(changed)):
        here = count_before(
            trees, root, spans[changed[i], START], spans[changed[i], LENGTH], False,
            address(arena), address(spans), address(spans) + 8, 2,
        )  # fmt: skip
        least = min(least, here)
    return least


@inlined
def _are_behind(last: int, changed: Ints, arena: Bytes, spans: Ints) -> bool:
    for i in range(len(changed)):
        if not bytes_before(
            address(arena), spans[last, START], spans[last, LENGTH], spans[changed[i], START], spans[changed[i], LENGTH]
        ):  # fmt: skip
            return False
    return True


@inlined
def _first_compared(trees: Address, root: int, last: int, changed: Ints, skipped: int, stop: int, arena: Bytes, spans: Ints) -> int:
    """The first position shown at which another row may stand after the changes; `stop` if there is none."""
    if last != UNKNOWN and _are_behind(last, changed, arena, spans):
        return stop
    first = 0 if root == EMPTY else _first_changed(trees, root, changed, arena, spans)
    return min(max(first, skipped), stop)


@inlined
def _shown(trees: Address, root: int, first: int, stop: int, out: Ints) -> int:
    """Copies the rows at positions first, first + 1, ..., as far as they are shown; their number."""
    if root == EMPTY or first >= stop:
        return 0
    count = max(0, min(stop, size(trees, root)) - first)
    if count > 0:
        copy_range(trees, root, first, count, address(out), 0)
    return count


@kernel
def _compared(
    was: Ints, held: int, now: Ints, holds: int, first: int, numbered: bool, slot: int, arena: Bytes, spans: Ints,
    progress: Ints, out: Ints, sign: Signs,
) -> None:  # fmt: skip
    """Notes (row, slot, position) of what is different."""
    n, i, j = progress[FILLED], 0, 0
    while i < held or j < holds:
        if i < held and j < holds and was[i] == now[j] and (not numbered or i == j):
            i += 1
            j += 1
            continue
        if numbered:
            leaves = i < held and (i <= j or j == holds)
        else:
            leaves = i < held and (
                j == holds
                or bytes_before(address(arena), spans[was[i], START], spans[was[i], LENGTH], spans[now[j], START], spans[now[j], LENGTH])
            )
        if leaves:
            out[n, 0], out[n, 1], out[n, 2], sign[n] = was[i], slot, first + i, -1
            i += 1
        else:
            out[n, 0], out[n, 1], out[n, 2], sign[n] = now[j], slot, first + j, 1
            j += 1
        n += 1
    progress[FILLED] = n


@inlined
def _are_cold(
    changed: Ints, delta: Ints, part: int, rows: Ints, zones: Ints, trees: Address, text: Address, texts: Address
) -> bool:  # fmt: skip
    for i in range(len(changed)):  # noqa: SIM110 - numba compiles no generators inline
        if not is_cold(changed[i], part, delta[i], rows, zones, trees, text, texts):
            return False
    return True


@inlined
def _apply(
    row: int, delta: int, part: int, trees: Address, roots: Ints, rows: Ints, zones: Ints, path: Address, text: Address, texts: Address
) -> int:
    """One change of a partition; DONE, or why not."""
    if is_cold(row, part, delta, rows, zones, trees, text, texts):
        if rows[row, COUNT] + delta < 0:
            return NEVER_THERE
        count_in(row, part, delta, rows, zones)
        return DONE
    if delta > 0:
        if not has_room(trees):
            return OUT_OF_NODES
        roots[part] = insert(trees, roots[part], row, delta, True, text, texts)
    for _ in range(-delta):
        roots[part] = delete(trees, roots[part], row, path, True, text, texts)
        if roots[part] == NOT_THERE:
            return NEVER_THERE
    zones[part, HOT] += delta
    if zones[part, HOT] > zones[part, MOST]:
        roots[part] = spill(part, trees, roots[part], rows, zones, path, text, texts)
    return DONE


@kernel
def follow(
    slot_start: Ints, slot_part: Ints, code: Ints, delta: Ints, nodes: Ints, roots: Ints, rows: Ints, zones: Ints, last: Ints, path: Ints,
    skipped: int, stop: int, kept: int, numbered: bool, arena: Bytes, spans: Ints, progress: Ints, was: Ints, now: Ints,
    out: Ints, sign: Signs,
) -> int:  # fmt: skip
    """Apply the changes slot by slot, and note what each slot changes in what is shown.

    Stops when it is done, when an insert might find no node, when `was`, `now` or `out` may not have room (the caller makes
    it and calls again), or at a row that was never there.
    """
    trees, text, texts, way, ahead = address(nodes), address(arena), address(spans), address(path), new_ahead()
    while progress[WHERE] < len(slot_part):
        s = progress[WHERE]
        part, begin, end = slot_part[s], slot_start[s], slot_start[s + 1]
        if progress[PHASE] == _AS_IT_WAS:
            if s % TOGETHER == 0:
                draw_near_slots(s, slot_start, slot_part, code, delta, trees, roots, rows, zones, ahead, text, texts)
            zones[part, SINCE] += end - begin
            if _are_cold(code[begin:end], delta[begin:end], part, rows, zones, trees, text, texts):
                progress[FIRST], progress[HELD] = stop, 0
            else:
                progress[FIRST] = _first_compared(trees, roots[part], last[part], code[begin:end], skipped, stop, arena, spans)
                progress[HELD] = _shown(trees, roots[part], progress[FIRST], stop, was)
            progress[PHASE], progress[CHANGE] = _APPLY, 0
        if progress[PHASE] == _APPLY:
            for i in range(begin + progress[CHANGE], end):
                progress[CHANGE] = i - begin
                state = _apply(code[i], delta[i], part, trees, roots, rows, zones, way, text, texts)
                if state != DONE:
                    return state
            progress[PHASE] = _AS_IT_IS
            if zones[part, HOT] < stop and zones[part, HORIZON] < LAST_WORD:
                progress[LOOKED] += raise_horizon(part, kept, trees, rows, zones, text, texts)
                progress[PHASE] = _WARM
        if progress[PHASE] == _WARM:
            if not warm(part, kept, trees, roots, rows, zones, text, texts):
                return OUT_OF_NODES
            progress[PHASE] = _AS_IT_IS
        holds = _shown(trees, roots[part], progress[FIRST], stop, now)
        if progress[FILLED] + progress[HELD] + holds > len(out):
            return FULL
        if progress[FIRST] < stop or last[part] == UNKNOWN:
            _compared(was, progress[HELD], now, holds, progress[FIRST], numbered, s, arena, spans, progress, out, sign)
            last[part] = kth(trees, roots[part], stop - 1) if 0 < stop <= size(trees, roots[part]) else UNKNOWN
        if zones[part, HOT] == 0:
            make_new(part, kept, zones)
        progress[PHASE] = _AS_IT_WAS
        progress[WHERE] += 1
    return DONE
