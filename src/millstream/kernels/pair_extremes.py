"""The greatest value over all pairs of rows with equal keys, for each group, at every instant; pairs themselves are never made.

Rows of a side come in the order of time and end in the order in which they came, so a side is a ring: `first` is the oldest row that is
there, `next` where the next one goes; both count all rows that ever were.  Every row points to older ones of its key; what is before
`first` has ended: nobody has to take rows out.

One side, the first, says which group a pair belongs to.  Of the rows of the other side one is enough for each key and call: the greatest
of the key at the time, which its key OFFERS to the rows of the first side.  The other rows wait: a greater one takes its place when it
comes; when it ends, the greatest of those that are left does.  Where the value is of the first side, any row will do until it ends, and
then the newest.  So a row meets its partners only if it is the greatest of its key, and it hardly matters how many they are.

    other side, one key     5   9   2   7   4   3         9 is what the key offers; when it ends, 7; then 4, then 3
                                        └─GREATER──┐
                                    7 ◄─► 4 ◄─► 3  a row points to the newest one before it that is greater, and that one to the row,
                                                   until another row points to it: so the greatest that are left are linked both ways

    first side, one key     i   g   h   g   g             what is offered goes to the newest g, then to h, to g, to i
                                    └──────┘
                                             a row points to the newest one before it whose pairs it does not make useless: of another
                                             group, or with a greater value of its own; and to as many of those that this one points to
                                             as there is room for, so few rows are looked at to find all

A pair ends with the first of its rows (of its first side, if both end at once).  It is offered to the staircase of its group
(staircase.py), which drops nearly all of them.  Where a step of a staircase ends, one of its two rows does: a row of the first side that
is CHARGED with it, or what a key offers.  Only when such rows end are there staircases to look at.

    places of a row:  UNTIL    when it ends
                      CODES    of its key, and of its group, on the first side (GROUP_BITS up)
                      PRESENT  which of its values are not NULL: a bit for each call
                      CHARGED  on the first side, whether a step of some staircase ends with it; on the other, a bit for each call for
                               which its key offers it, or did
                      VALUES   from here on a value for each call that is about a column of this side, 0 for NULL; then on the other side
                               GREATER for each of them and AFTER for each of them, and on the first side, in all places that are left,
                               the older rows: how many rows before, and their groups (GROUP_BITS up), 0 if there are no more

    places of a key:  NEWEST         the newest row of the first side
                      NEWEST_GROUP   its group
                      OTHER_NEWEST   the newest row of the other side
                      OFFERS         from here on, for each call, what it offers: the row, NONE if there is none, when that ends, its
                                     value, and whether it has one; then the greatest that is left: the same row, or a newer equal one

    places of a group, for each call:  ROOT         of the staircase, NONE without pairs
                                       TOP_VALUE    the greatest value, and whether there is one
                                       TOP_PRESENT
                                       TOP_ENDS     when the pair ends that has it, NO_END without pairs
                                       HIDES        of some pair that there is or was: when it ends,
                                       HIDES_VALUE  its value, and whether there is one; it hides what is no greater and ends no later,
                                       HIDES_PRESENT  and one look at it is mostly enough

What happens to a group at one instant is noted as a row of

    INSTANT, GROUP_OF   when, and which group
    WAS, IS             whether there were pairs before the instant, and after it
    RESULTS             from here on, for each call: value and presence before it, value and presence after it
"""

from __future__ import annotations

import numpy as np

from millstream.core.instant import NEVER_BEFORE, Micros
from millstream.core.signed_batch import Instants
from millstream.kernels.compiled import AHEAD, Address, Ints, address, get, inlined, kernel, prefetch_at, put
from millstream.kernels.row_treap import HIGH, NONE, WORDS
from millstream.kernels.staircase import PRESENT as STEP_PRESENT
from millstream.kernels.staircase import UNUSED, VALUE, add, greatest, hiding, without_ended

UNTIL, CODES, PRESENT, CHARGED, VALUES = 0, 1, 2, 3, 4
GROUP_BITS = 32
_LOW = (1 << GROUP_BITS) - 1
NEWEST, NEWEST_GROUP, OTHER_NEWEST, OFFERS = 0, 1, 2, 3
_ROW, _UNTIL, _VALUE, _PRESENT, _GREATEST = 0, 1, 2, 3, 4
OFFER = 5
"""So many places has what a key offers for a call."""
INSTANT, GROUP_OF, WAS, IS, RESULTS = 0, 1, 2, 3, 4
ROOT, TOP_VALUE, TOP_PRESENT, TOP_ENDS, HIDES, HIDES_VALUE, HIDES_PRESENT = 0, 1, 2, 3, 4, 5, 6
TOP = 8
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


def whole_lines(places: int) -> int:
    """So many places, and those that are left of a cache line."""
    return -(-places // 8) * 8


def no_keys(calls: int) -> Ints:
    return np.empty((0, whole_lines(OFFERS + OFFER * calls)), np.int64)


def offered(keys: Ints, calls: int, key: Ints, first: int) -> Ints:
    """A bit for each call for which a row of the other side is offered by its key; `key` are those of all rows that are there."""
    numbers, bits = np.arange(first, first + len(key)), np.zeros(len(key), np.int64)
    for call in range(calls):
        bits |= (keys[key, OFFERS + OFFER * call + _ROW] == numbers).astype(np.int64) << call
    return bits


def more_tops(tops: Ints, groups: int) -> Ints:
    """Those of so many groups, the new ones without pairs."""
    if groups <= len(tops):
        return tops
    larger = np.zeros((groups, tops.shape[1]), np.int64)
    larger[:, ROOT::TOP] = NONE
    larger[:, TOP_ENDS::TOP] = NO_END
    larger[:, HIDES::TOP] = NO_END
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
def _key(rows: Address, row: int) -> int:
    return get(rows, row + CODES) & _LOW


@inlined
def _group(rows: Address, row: int) -> int:
    return get(rows, row + CODES) >> GROUP_BITS


@inlined
def _draw_near(
    rows: Address, at: int, many: int, width: int, keys: Address, key_width: int, newest_place: int, ring: Address, mask: int
) -> None:
    """What rows will ask for that come soon."""
    if at + AHEAD < many:
        prefetch_at(keys, _key(rows, (at + AHEAD) * width) * key_width)
    if at + NEAR < many:
        newest = get(keys, _key(rows, (at + NEAR) * width) * key_width + newest_place)
        if newest != NONE:
            prefetch_at(ring, (newest & mask) * width)


@inlined
def _enter(rows: Address, at: int, width: int, ring: Address, row: int) -> None:
    """A new row takes its place in the ring; nobody finds it yet."""
    for k in range(width):
        put(ring, row + k, get(rows, at * width + k))


@inlined
def _is_less(value: int, present: int, other_value: int, other_present: int) -> bool:
    return present < other_present or (present == other_present and value < other_value)


@inlined
def _makes_useless(ring: Address, newer: int, older: int, calls: int, own: Address) -> bool:
    """Of two rows of the first side that have one key and one group: whether the newer one's pairs make all of the older one's useless."""
    for call in range(calls):
        at = get(own, call)
        if at >= 0:
            value, present = get(ring, newer + VALUES + at), (get(ring, newer + PRESENT) >> at) & 1
            if _is_less(value, present, get(ring, older + VALUES + at), (get(ring, older + PRESENT) >> at) & 1):
                return False
    return True


@inlined
def _point_to_older(
    ring: Address, mask: int, width: int, number: int, older: int, group: int, first: int, calls: int, own: Address, links: int
) -> None:
    """A new row of the first side is linked to those of its key, of which `older` is the newest; `links` is their place."""
    row = (number & mask) * width
    while older >= first and group == _group(ring, row) and _makes_useless(ring, row, (older & mask) * width, calls, own):
        link = get(ring, (older & mask) * width + links)
        older, group = (older - (link & _LOW), link >> GROUP_BITS) if link != 0 else (NONE, 0)
    if older < first:
        return
    put(ring, row + links, (number - older) | group << GROUP_BITS)
    for place in range(links, width - 1):
        link = get(ring, (older & mask) * width + place)
        if link == 0 or older - (link & _LOW) < first:
            break
        put(ring, row + place + 1, link + number - older)


@inlined
def _older_that_is_greater(
    ring: Address, mask: int, width: int, older: int, first: int, value: int, present: int, at: int, values: int
) -> int:
    """For a new row of the other side, from the newest one of its key on, by its value at this place of so many."""
    while older >= first:
        row = (older & mask) * width
        if _is_less(value, present, get(ring, row + VALUES + at), (get(ring, row + PRESENT) >> at) & 1):
            break
        older = get(ring, row + VALUES + values + at)
    return older


@inlined
def _greatest_left(ring: Address, mask: int, width: int, newest: int, greatest: int, ended: int, now: Micros, at: int, values: int) -> int:
    """Of the rows of a key on the other side that do not end at this instant; the newest for a call that is not about them (-1).

    `ended` was offered, `greatest` is the same or a newer row with an equal value.
    """
    if at < 0:
        return newest if get(ring, (newest & mask) * width + UNTIL) > now else NONE
    after = VALUES + 2 * values + at
    found = get(ring, (ended & mask) * width + after) if greatest == ended else greatest
    while found != NONE and get(ring, (found & mask) * width + UNTIL) <= now:
        found = get(ring, (found & mask) * width + after)
    return found


@inlined
def _take_offer(keys: Address, place: int, call: int, other_ring: Address, row: int, number: int, at: int) -> None:
    """A key offers a row of the other side from now on, or, with NONE for its number, none."""
    offer = place + OFFERS + OFFER * call
    put(keys, offer + _ROW, number)
    if number != NONE:
        put(keys, offer + _UNTIL, get(other_ring, row + UNTIL))
        put(keys, offer + _VALUE, get(other_ring, row + VALUES + at) if at >= 0 else 0)
        put(keys, offer + _PRESENT, (get(other_ring, row + PRESENT) >> at) & 1 if at >= 0 else 0)
        put(keys, offer + _GREATEST, number)
        put(other_ring, row + CHARGED, get(other_ring, row + CHARGED) | (1 << call))


@inlined
def _is_hidden(steps: Address, tops: Address, top: int, value: int, present: int, end: int) -> bool:
    if get(tops, top + HIDES) >= end and not _is_less(get(tops, top + HIDES_VALUE), get(tops, top + HIDES_PRESENT), value, present):
        return True
    step = hiding(steps, get(tops, top + ROOT), value, present, end)
    if step == NONE:
        return False
    put(tops, top + HIDES, get(steps, step * WORDS + HIGH))
    put(tops, top + HIDES_VALUE, get(steps, step * WORDS + VALUE))
    put(tops, top + HIDES_PRESENT, get(steps, step * WORDS + STEP_PRESENT))
    return True


@inlined
def _pair(
    ring: Address, row: int, own: int, until: Micros, value: int, present: int, call: int, calls: int,
    steps: Address, tops: Address, now: Micros, turns: Address, turn: int, notes: Address, n: int, room: int,
) -> int:  # fmt: skip
    """A row of the first side meets what its key offers for a call; gives how many notes there are, less 1 and negated if there is no
    room."""
    own_until, group = get(ring, row + UNTIL), _group(ring, row)
    if own >= 0:
        value, present = get(ring, row + VALUES + own), (get(ring, row + PRESENT) >> own) & 1
    end, top = min(own_until, until), (group * calls + call) * TOP
    if _is_hidden(steps, tops, top, value, present, end):
        return n
    if n == room or get(steps, UNUSED) == 0:
        return -1 - n
    root, is_greatest = add(steps, get(tops, top + ROOT), value, present, end)
    put(tops, top + ROOT, root)
    if is_greatest:
        n = _touch(tops, calls, group, now, turns, turn, notes, n)
        _set_top(tops, top, value, present, end)
    put(ring, row + CHARGED, get(ring, row + CHARGED) | (own_until <= until))
    return n


@kernel
def _tell(
    ring: Address, mask: int, width: int, newest: int, group: int, first: int, links: int, own: int,
    is_there: bool, until: Micros, value: int, present: int, call: int, calls: int,
    steps: Address, tops: Address, now: Micros, turns: Address, turn: int, notes: Address, n: int, room: int,
) -> int:  # fmt: skip
    """All rows of the first side that have a key, from the newest one and its group on, are told what the key offers from now on, and that
    what it offered may have ended; gives how many notes there are, less 1 and negated if there is no room."""
    number, place, row = newest, links, (newest & mask) * width
    bound = min(until, get(ring, row + UNTIL))  # no pair of this row and those that it points to ends later
    while number >= first:
        if _has_ended(tops, calls, group, now):
            if n == room:
                return -1 - n
            n = _touch(tops, calls, group, now, turns, turn, notes, n)
            _end_tops(steps, tops, calls, group, now)
        if is_there and (own >= 0 or not _is_hidden(steps, tops, (group * calls + call) * TOP, value, present, bound)):
            partner = (number & mask) * width
            told = _pair(ring, partner, own, until, value, present, call, calls, steps, tops, now, turns, turn, notes, n, room)
            if told < 0:
                return told
            n = told
        if place == width:
            newest, place, row = number, links, (number & mask) * width
            bound = min(until, get(ring, row + UNTIL))
        link = get(ring, row + place)
        if link == 0:
            break
        number, group = newest - (link & _LOW), link >> GROUP_BITS
        place += 1
    return n


@kernel
def follow(
    instant: Instants, rows: Ints, ring: Ints, other_instant: Instants, other_rows: Ints, other_ring: Ints, keys: Ints,
    place: Ints, upto: Micros, own: Ints, steps: Ints, tops: Ints, turns: Ints, noted: Ints, is_silent: bool,
) -> bool:  # fmt: skip
    """All that happens up to this instant, from `place` on; False if there is no room for another note or step: then make some and go on.

    `own` says for each call its place among the values of the first side, or, less 1 and negated, of the other.  There is room in both
    rings.  With `is_silent` nothing ends, what is noted does not matter, and rows of the other side that are CHARGED are what their keys
    offer.  What is met twice, as there was no room, changes nothing.
    """
    first, stop, other_first, other_stop, turn = place[0], place[1], place[2], place[3], place[4]
    i, j, n, began, goes_on = place[5], place[6], place[7], place[8], place[9] != 0
    calls, mask, other_mask, width, other_width, key_width = (
        len(own),
        len(ring) - 1,
        len(other_ring) - 1,
        ring.shape[1],
        other_ring.shape[1],
        keys.shape[1],
    )
    news, one_ring, times = address(rows), address(ring), address(instant)
    other_news, two_ring, other_times, partners = address(other_rows), address(other_ring), address(other_instant), address(keys)
    tree, best, seen, sides, notes = address(steps), address(tops), address(turns), address(own), address(noted)
    many, other_many, room, has_room, values = len(rows), len(other_rows), len(noted), True, 0
    for call in range(calls):
        values += get(sides, call) < 0
    links = VALUES + calls - values
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
        ended = NEVER_BEFORE if is_silent else now
        if not goes_on:
            turn += 1
            began = n
        goes_on = False
        while not is_silent and has_room and first < stop and get(one_ring, (first & mask) * width + UNTIL) <= now:
            row = (first & mask) * width
            soon = ((first + AHEAD) & mask) * width
            if get(one_ring, soon + CHARGED) != 0:
                prefetch_at(best, _group(one_ring, soon) * calls * TOP)
            if get(one_ring, row + CHARGED) != 0 and _has_ended(best, calls, _group(one_ring, row), now):
                has_room = n < room
                if has_room:
                    n = _touch(best, calls, _group(one_ring, row), now, seen, turn, notes, n)
                    _end_tops(tree, best, calls, _group(one_ring, row), now)
            first += has_room
        while not is_silent and has_room and other_first < other_stop:
            row = (other_first & other_mask) * other_width
            if get(two_ring, row + UNTIL) > now:
                break
            soon = ((other_first + AHEAD) & other_mask) * other_width
            if get(two_ring, soon + CHARGED) != 0:
                prefetch_at(partners, _key(two_ring, soon) * key_width)
            if get(two_ring, row + CHARGED) != 0:
                key = _key(two_ring, row) * key_width
                for call in range(calls):
                    if has_room and get(partners, key + OFFERS + OFFER * call) == other_first:
                        at = -1 - get(sides, call)
                        newest = get(partners, key + OTHER_NEWEST)
                        greatest = get(partners, key + OFFERS + OFFER * call + _GREATEST)
                        left = _greatest_left(two_ring, other_mask, other_width, newest, greatest, other_first, now, at, values)
                        found = (left & other_mask) * other_width
                        value = get(two_ring, found + VALUES + at) if at >= 0 else 0
                        present = (get(two_ring, found + PRESENT) >> at) & 1 if at >= 0 else 0
                        told = _tell(
                            one_ring, mask, width, get(partners, key + NEWEST), get(partners, key + NEWEST_GROUP), first, links,
                            get(sides, call),
                            left != NONE, get(two_ring, found + UNTIL), value, present, call, calls,
                            tree, best, ended, seen, turn, notes, n, room,
                        )  # fmt: skip
                        has_room, n = told >= 0, max(told, -1 - told)
                        if has_room:
                            _take_offer(partners, key, call, two_ring, found, left, at)
            other_first += has_room
        while has_room:
            if i < many and get(times, i) == now:
                _draw_near(news, i, many, width, partners, key_width, NEWEST, one_ring, mask)
                if i + AHEAD < many:
                    prefetch_at(best, _group(news, (i + AHEAD) * width) * calls * TOP)
                row = (stop & mask) * width
                _enter(news, i, width, one_ring, row)
                key = _key(one_ring, row) * key_width
                newest, group = get(partners, key + NEWEST), get(partners, key + NEWEST_GROUP)
                _point_to_older(one_ring, mask, width, stop, newest, group, first, calls, sides, links)
                for call in range(calls):
                    offer = key + OFFERS + OFFER * call
                    if has_room and get(partners, offer + _ROW) != NONE:
                        told = _pair(
                            one_ring, row, get(sides, call), get(partners, offer + _UNTIL), get(partners, offer + _VALUE),
                            get(partners, offer + _PRESENT), call, calls, tree, best, ended, seen, turn, notes, n, room,
                        )  # fmt: skip
                        has_room, n = told >= 0, max(told, -1 - told)
                if not has_room:
                    put(news, i * width + CHARGED, get(one_ring, row + CHARGED))
                    break
                put(partners, key + NEWEST, stop)
                put(partners, key + NEWEST_GROUP, _group(one_ring, row))
                stop += 1
                i += 1
            elif j < other_many and get(other_times, j) == now:
                _draw_near(other_news, j, other_many, other_width, partners, key_width, OTHER_NEWEST, two_ring, other_mask)
                row = (other_stop & other_mask) * other_width
                _enter(other_news, j, other_width, two_ring, row)
                key = _key(two_ring, row) * key_width
                for call in range(calls):
                    at, value, present = -1 - get(sides, call), 0, 0
                    if at >= 0:
                        value, present = get(two_ring, row + VALUES + at), (get(two_ring, row + PRESENT) >> at) & 1
                        older = get(partners, key + OTHER_NEWEST)
                        older = _older_that_is_greater(two_ring, other_mask, other_width, older, other_first, value, present, at, values)
                        put(two_ring, row + VALUES + values + at, older)
                        put(two_ring, row + VALUES + 2 * values + at, NONE)
                        if older >= other_first:
                            put(two_ring, (older & other_mask) * other_width + VALUES + 2 * values + at, other_stop)
                        else:
                            put(partners, key + OFFERS + OFFER * call + _GREATEST, other_stop)
                    offer = key + OFFERS + OFFER * call
                    if is_silent:
                        is_offered = (get(other_news, j * other_width + CHARGED) >> call) & 1 != 0
                    else:
                        is_offered = get(partners, offer + _ROW) == NONE or _is_less(
                            get(partners, offer + _VALUE), get(partners, offer + _PRESENT), value, present
                        )
                    if has_room and is_offered:
                        told = _tell(
                            one_ring, mask, width, get(partners, key + NEWEST), get(partners, key + NEWEST_GROUP), first, links,
                            get(sides, call),
                            True, get(two_ring, row + UNTIL), value, present, call, calls,
                            tree, best, ended, seen, turn, notes, n, room,
                        )  # fmt: skip
                        has_room, n = told >= 0, max(told, -1 - told)
                        if has_room:
                            _take_offer(partners, key, call, two_ring, row, other_stop, at)
                if not has_room:
                    put(other_news, j * other_width + CHARGED, get(two_ring, row + CHARGED))
                    break
                put(partners, key + OTHER_NEWEST, other_stop)
                other_stop += 1
                j += 1
            else:
                break
        if has_room:
            for at in range(began, n):
                _complete(best, calls, notes, at)
    place[0], place[1], place[2], place[3], place[4] = first, stop, other_first, other_stop, turn
    place[5], place[6], place[7], place[8], place[9] = i, j, n, began, not has_room
    return has_room
