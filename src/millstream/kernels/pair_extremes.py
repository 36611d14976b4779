"""The greatest value over all pairs of rows with equal keys, for each group, at every instant; pairs themselves are never made.

Rows of a side come in the order of time and end in the order in which they came, so a side is a ring: `first` is the oldest row that is
there, `next` where the next one goes; both count all rows that ever were.  Every row points to the one of its key before it, if that has
not ended: nobody has to take rows out.

    heads  ──► newest row of a key ──BEFORE──► older ──BEFORE──► ... a number below `first`: no more

One side, the first, says which group a pair belongs to.  A pair ends with the first of its rows (of its first side, if both end at once).
It is offered to the staircase of its group (staircase.py), which drops nearly all of them; the row with which a step of a staircase ends is
CHARGED with it, and only when such rows end are there staircases to look at.

    places of a row:  UNTIL    when it ends
                      KEY      the code of its key
                      GROUP    the code of its group, on the first side
                      PRESENT  which of its values are not NULL: a bit for each call
                      BEFORE   the row of its key before it
                      CHARGED  whether a step of some staircase ends with it
                      VALUES   from here on a value for each call that is about a column of this side, 0 for NULL

    places of a group, for each call:  ROOT         of the staircase, NONE without pairs
                                       TOP_VALUE    the greatest value, and whether there is one
                                       TOP_PRESENT
                                       TOP_ENDS     when the pair ends that has it, NO_END without pairs

What happens to a group at one instant is noted as a row of

    INSTANT, GROUP_OF   when, and which group
    WAS, IS             whether there were pairs before the instant, and after it
    RESULTS             from here on, for each call: value and presence before it, value and presence after it
"""

from __future__ import annotations

import numpy as np

from millstream.core.instant import Micros
from millstream.core.signed_batch import Instants
from millstream.kernels.compiled import AHEAD, Address, Ints, address, get, inlined, kernel, prefetch_at, put
from millstream.kernels.row_treap import HIGH, NONE, WORDS
from millstream.kernels.staircase import PRESENT as STEP_PRESENT
from millstream.kernels.staircase import UNUSED, VALUE, add, greatest, is_hidden, without_ended

UNTIL, KEY, GROUP, PRESENT, BEFORE, CHARGED, VALUES = 0, 1, 2, 3, 4, 5, 6
INSTANT, GROUP_OF, WAS, IS, RESULTS = 0, 1, 2, 3, 4
ROOT, TOP_VALUE, TOP_PRESENT, TOP_ENDS = 0, 1, 2, 3
TOP = 4
"""So many places has each call."""
NO_END = -(2**63)
"""Where a group has no pairs; every other instant may be one at which a pair ends."""
_DONE = 5
"""Of a walk's places, those from here on are about one step only."""
NOTED = 7
"""The place where a walk says how many notes there are."""
NEAR = AHEAD // 2


def first_place() -> Ints:
    """The oldest row of the first side, where its next one goes, the same of the other, and a number for each instant; then, of one step:
    how many rows of each side are done, how many notes there are, which are of this instant, and whether this one goes on."""
    return np.zeros(10, np.int64)


def next_step(place: Ints) -> None:
    place[_DONE:] = 0


def more_tops(tops: Ints, groups: int) -> Ints:
    """Those of so many groups, the new ones without pairs."""
    if groups <= len(tops):
        return tops
    larger = np.zeros((groups, tops.shape[1]), np.int64)
    larger[:, ROOT::TOP] = NONE
    larger[:, TOP_ENDS::TOP] = NO_END
    larger[: len(tops)] = tops
    return larger


def ring(first: int, stop: int, width: int, old: Ints, room: int) -> Ints:
    """A ring with the rows that are there, and room for so many more: the old one if it will do."""
    wanted = stop - first + room
    if wanted <= len(old):
        return old
    larger: Ints = np.zeros((1 << (wanted - 1).bit_length(), width), np.int64)
    numbers = np.arange(first, stop)
    larger[numbers & (len(larger) - 1)] = old[numbers & (len(old) - 1)]
    return larger


@inlined
def _set_top(tops: Address, top: int, value: int, present: int, end: int) -> None:
    put(tops, top + TOP_VALUE, value)
    put(tops, top + TOP_PRESENT, present)
    put(tops, top + TOP_ENDS, end)


@inlined
def _touch(tops: Address, calls: int, group: int, now: Micros, turns: Address, turn: int, noted: Address, n: int) -> int:
    """Before the first change of a group at an instant.  There is room for another note."""
    if get(turns, group) == turn:
        return n
    put(turns, group, turn)
    note = n * (RESULTS + 4 * calls)
    put(noted, note + INSTANT, now)
    put(noted, note + GROUP_OF, group)
    put(noted, note + WAS, get(tops, group * calls * TOP + TOP_ENDS) != NO_END)
    for call in range(calls):
        top, result = (group * calls + call) * TOP, note + RESULTS + 4 * call
        put(noted, result, get(tops, top + TOP_VALUE))
        put(noted, result + 1, get(tops, top + TOP_PRESENT))
    return n + 1


@inlined
def _complete(tops: Address, calls: int, noted: Address, at: int) -> None:
    """After the last change of a group at an instant."""
    note = at * (RESULTS + 4 * calls)
    group = get(noted, note + GROUP_OF)
    put(noted, note + IS, get(tops, group * calls * TOP + TOP_ENDS) != NO_END)
    for call in range(calls):
        top, result = (group * calls + call) * TOP, note + RESULTS + 4 * call
        put(noted, result + 2, get(tops, top + TOP_VALUE))
        put(noted, result + 3, get(tops, top + TOP_PRESENT))


@inlined
def _has_ended(tops: Address, calls: int, group: int, now: Micros) -> bool:
    """Whether the greatest value for some call has."""
    for call in range(calls):
        end = get(tops, (group * calls + call) * TOP + TOP_ENDS)
        if end != NO_END and end <= now:
            return True
    return False


@kernel
def _end_tops(steps: Address, tops: Address, calls: int, group: int, now: Micros) -> None:
    """Where the greatest value has ended, the next one is the greatest."""
    for call in range(calls):
        top = (group * calls + call) * TOP
        root = without_ended(steps, get(tops, top + ROOT), now)
        put(tops, top + ROOT, root)
        step = greatest(steps, root)
        if step != NONE:
            value, present = get(steps, step * WORDS + VALUE), get(steps, step * WORDS + STEP_PRESENT)
            _set_top(tops, top, value, present, get(steps, step * WORDS + HIGH))
        else:
            _set_top(tops, top, 0, 0, NO_END)


@inlined
def _draw_near(
    rows: Address, at: int, many: int, width: int, own_heads: Address, heads: Address, ring: Address, ring_width: int, mask: int
) -> None:
    """What the rows to come will ask for."""
    if at + AHEAD < many:
        key = get(rows, (at + AHEAD) * width + KEY)
        prefetch_at(own_heads, key)
        prefetch_at(heads, key)
    if at + NEAR < many:
        head = get(heads, get(rows, (at + NEAR) * width + KEY))
        if head >= 0:
            prefetch_at(ring, (head & mask) * ring_width)


@inlined
def _enter(rows: Address, at: int, width: int, ring: Address, place: int, heads: Address) -> None:
    """A new row takes its place in the ring; nobody finds it yet."""
    for k in range(width):
        put(ring, place * width + k, get(rows, at * width + k))
    put(ring, place * width + BEFORE, get(heads, get(rows, at * width + KEY)))


@kernel
def follow(
    instant: Instants, rows: Ints, ring: Ints, heads: Ints, other_instant: Instants, other_rows: Ints, other_ring: Ints, other_heads: Ints,
    place: Ints, upto: Micros, own: Ints, steps: Ints, tops: Ints, turns: Ints, noted: Ints, is_silent: bool,
) -> bool:  # fmt: skip
    """All that happens up to this instant, from `place` on; False if there is no room for another note or step: then make some and go on.

    `own` says for each call its place among the values of the first side, or, less 1 and negated, of the other.  There is room in both
    rings.  With `is_silent` nothing ends, and what is noted does not matter.  What is met twice, as there was no room, changes nothing.
    """
    first, stop, other_first, other_stop, turn = place[0], place[1], place[2], place[3], place[4]
    i, j, n, began, goes_on = place[5], place[6], place[7], place[8], place[9] != 0
    calls, mask, other_mask, width, other_width = (
        tops.shape[1] // TOP,
        len(ring) - 1,
        len(other_ring) - 1,
        ring.shape[1],
        other_ring.shape[1],
    )
    news, one_ring, one_heads, times = address(rows), address(ring), address(heads), address(instant)
    other_news, two_ring, two_heads, other_times = address(other_rows), address(other_ring), address(other_heads), address(other_instant)
    tree, best, seen, sides, notes = address(steps), address(tops), address(turns), address(own), address(noted)
    many, other_many, room, has_room = len(rows), len(other_rows), len(noted), True
    while has_room:
        now = upto + 1
        if not is_silent and first < stop:
            now = min(now, get(one_ring, (first & mask) * width + UNTIL))
        if not is_silent and other_first < other_stop:
            now = min(now, get(two_ring, (other_first & other_mask) * other_width + UNTIL))
        if i < many:
            now = min(now, get(times, i))
        if j < other_many:
            now = min(now, get(other_times, j))
        if now > upto:
            break
        if not goes_on:
            turn += 1
            began = n
        goes_on = False
        while not is_silent and has_room and first < stop and get(one_ring, (first & mask) * width + UNTIL) <= now:
            row = (first & mask) * width
            if get(one_ring, row + CHARGED) != 0 and _has_ended(best, calls, get(one_ring, row + GROUP), now):
                has_room = n < room
                if has_room:
                    n = _touch(best, calls, get(one_ring, row + GROUP), now, seen, turn, notes, n)
                    _end_tops(tree, best, calls, get(one_ring, row + GROUP), now)
            first += has_room
        while not is_silent and has_room and other_first < other_stop:
            row = (other_first & other_mask) * other_width
            if get(two_ring, row + UNTIL) > now:
                break
            partner = get(one_heads, get(two_ring, row + KEY)) if get(two_ring, row + CHARGED) != 0 else -1
            while has_room and partner >= first:
                group = get(one_ring, (partner & mask) * width + GROUP)
                if _has_ended(best, calls, group, now):
                    has_room = n < room
                    if has_room:
                        n = _touch(best, calls, group, now, seen, turn, notes, n)
                        _end_tops(tree, best, calls, group, now)
                partner = get(one_ring, (partner & mask) * width + BEFORE)
            other_first += has_room
        while has_room:
            if i < many and get(times, i) == now:
                _draw_near(news, i, many, width, one_heads, two_heads, two_ring, other_width, other_mask)
                one, other = stop & mask, -1
                _enter(news, i, width, one_ring, one, one_heads)
                key = get(news, i * width + KEY)
                partner, oldest = get(two_heads, key), other_first
            elif j < other_many and get(other_times, j) == now:
                _draw_near(other_news, j, other_many, other_width, two_heads, one_heads, one_ring, width, mask)
                one, other = -1, other_stop & other_mask
                _enter(other_news, j, other_width, two_ring, other, two_heads)
                key = get(other_news, j * other_width + KEY)
                partner, oldest = get(one_heads, key), first
            else:
                break
            is_first = other < 0
            while has_room and partner >= oldest:
                if is_first:
                    other = partner & other_mask
                else:
                    one = partner & mask
                left, right = one * width, other * other_width
                until, other_until = get(one_ring, left + UNTIL), get(two_ring, right + UNTIL)
                end, group = min(until, other_until), get(one_ring, left + GROUP)
                for call in range(calls):
                    at = get(sides, call)
                    if at >= 0:
                        value, present = get(one_ring, left + VALUES + at), (get(one_ring, left + PRESENT) >> at) & 1
                    else:
                        value, present = get(two_ring, right + VALUES - 1 - at), (get(two_ring, right + PRESENT) >> (-1 - at)) & 1
                    top = (group * calls + call) * TOP
                    root = get(best, top + ROOT)
                    if is_hidden(tree, root, value, present, end):
                        continue
                    if n == room or get(tree, UNUSED) == 0:
                        has_room = False
                        break
                    root, is_greatest = add(tree, root, value, present, end)
                    put(best, top + ROOT, root)
                    if is_greatest:
                        n = _touch(best, calls, group, now, seen, turn, notes, n)
                        _set_top(best, top, value, present, end)
                    put(one_ring, left + CHARGED, get(one_ring, left + CHARGED) | (until <= other_until))
                    put(two_ring, right + CHARGED, get(two_ring, right + CHARGED) | (until > other_until))
                partner = get(two_ring, right + BEFORE) if is_first else get(one_ring, left + BEFORE)
            if not has_room and is_first:
                put(news, i * width + CHARGED, get(one_ring, (stop & mask) * width + CHARGED))
            elif not has_room:
                put(other_news, j * other_width + CHARGED, get(two_ring, (other_stop & other_mask) * other_width + CHARGED))
            elif is_first:
                put(one_heads, key, stop)
                stop += 1
                i += 1
            else:
                put(two_heads, key, other_stop)
                other_stop += 1
                j += 1
        if has_room:
            for at in range(began, n):
                _complete(best, calls, notes, at)
    place[0], place[1], place[2], place[3], place[4] = first, stop, other_first, other_stop, turn
    place[5], place[6], place[7], place[8], place[9] = i, j, n, began, not has_room
    return has_room
