"""Cells of plain CSV, straight from its bytes into columns.

Plain is what nearly every file is, cell by cell: digits with a sign, decimal fractions, times as 2024-01-01 05:00:00.123, dates, true and
false, texts without quotes; nothing at all is NULL.  Of anything else the kernel says no, and who knows all of CSV reads the file.

Eight digits are one word: what is no digit shows in the upper bits of its byte, and three multiplications add them up.  A text is
looked through and copied 32 bytes at a time.

Whoever calls owes `PADDING` readable bytes behind the rows, and in the room for texts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from millstream.kernels.compiled import Address, Bytes, Ints, address, copied_32, get, inlined, kernel, load_u8, load_u64, put
from millstream.kernels.limbs import trailing_zeros

PADDING = 64
NUMBER, TIME, DATE, BOOLEAN, DECIMAL, DOUBLE, TEXT = range(7)
"""Kinds of columns.  The first five give an int64 a cell: as it is, microseconds, days, 0 or 1, unscaled digits."""
NO = -1
"""In the place of where a cell ends: it is not plain."""

Place = int
Value = int | np.int64


def _word(text: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(text, "little"))


_NEWLINE, _PLUS, _MINUS, _POINT, _SPACE, _LARGE_E, _T, _SMALL_E = b"\n+-. ETe"
_DIGITS_0, _CLOCK_0, _DATE_0 = _word(b"00000000"), _word(b"00:00:00"), _word(b"0000-00-")
_TRUE, _FALSE, _FOUR_BYTES = _word(b"true"), _word(b"fals"), _word(b"\xff" * 4)
_COLONS, _DASHES, _BYTE = _word(b"\0\0\xff\0\0\xff\0\0"), _word(b"\0\0\0\0\xff\0\0\xff"), _word(b"\xff")
_UP_TO_9, _TOPS = _word(b"\x76" * 8), _word(b"\x80" * 8)
"""A byte from 0 to 9 plus the first has no top bit."""
_ONES_BY, _PAIRS_BY, _FOURS_BY = np.uint64(10 * 2**8 + 1), np.uint64(100 * 2**16 + 1), np.uint64(10_000 * 2**32 + 1)
_PAIRS, _FOURS = _word(b"\xff\0" * 4), _word(b"\xff\xff\0\0" * 2)
_TEN = np.uint64(10)
_8, _16, _24, _32, _40, _48, _64 = (np.uint64(bits) for bits in (8, 16, 24, 32, 40, 48, 64))
_POWERS = np.array([10**power for power in range(19)], np.int64)
_MOST_DIGITS = 18
"""So many fit an int64, whatever they are."""
_GREATEST = np.uint64(2**63 - 1)
_EXACT = 2**53
_DAY_S = 86_400
_NO_DATE = -(10**9)
_DAYS_IN_MONTH = np.array([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


@inlined
def _has_others(word: np.uint64) -> np.uint64:
    """The top bit of the first byte that is no number from 0 to 9; behind it anything."""
    return ((word + _UP_TO_9) | word) & _TOPS


@inlined
def _digits(data: Address, at: Place) -> tuple[Place, Value]:
    """Where the digits end that begin here, and what they say; NO if there are none, or more than an int64 holds."""
    value, count = np.uint64(0), 0
    while True:
        word = load_u64(data, at + count) ^ _DIGITS_0
        found = trailing_zeros(_has_others(word)) >> 3
        if found:
            word = word << np.uint64(64 - 8 * found)
            word = (word * _ONES_BY) >> _8
            word = ((word & _PAIRS) * _PAIRS_BY) >> _16
            word = ((word & _FOURS) * _FOURS_BY) >> _32
            value = value * np.uint64(_POWERS[found]) + word
            count += found
        if found < 8 or count > _MOST_DIGITS + 1:
            break
    if count == 0 or count > _MOST_DIGITS + 1 or value > _GREATEST:
        return NO, 0
    return at + count, np.int64(value)


@inlined
def _number(data: Address, at: Place) -> tuple[Place, Value]:
    negative = load_u8(data, at) == _MINUS
    stop, value = _digits(data, at + 1 if negative else at)
    return stop, -value if negative else value


@inlined
def _date(data: Address, at: Place) -> Value:
    """Days since 1970 of yyyy-mm-dd."""
    word = load_u64(data, at) ^ _DATE_0
    tens, ones = np.int64(load_u8(data, at + 8)) - 48, np.int64(load_u8(data, at + 9)) - 48
    if _has_others(word) | (word & _DASHES) or tens < 0 or tens > 9 or ones < 0 or ones > 9:
        return _NO_DATE
    pairs = word * _TEN + (word >> _8)
    year = 100 * np.int64(pairs & _BYTE) + np.int64((pairs >> _16) & _BYTE)
    month, day = np.int64((pairs >> _40) & _BYTE), 10 * tens + ones
    if year == 0 or month == 0 or month > 12 or day == 0:
        return _NO_DATE
    is_leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if day > _DAYS_IN_MONTH[month] + (1 if is_leap and month == 2 else 0):
        return _NO_DATE
    # of years that begin in March the day that only some have is the last
    march, months = (year, month - 3) if month > 2 else (year - 1, month + 9)
    leaps = march // 4 - march // 100 + march // 400
    return 365 * march + leaps + (153 * months + 2) // 5 + day - 1 - 719_468


@inlined
def _clock(data: Address, at: Place) -> Value:
    """Seconds of hh:mm:ss, or NO."""
    word = load_u64(data, at) ^ _CLOCK_0
    if _has_others(word) | (word & _COLONS):
        return NO
    pairs = word * _TEN + (word >> _8)
    hours, minutes, seconds = np.int64(pairs & _BYTE), np.int64((pairs >> _24) & _BYTE), np.int64((pairs >> _48) & _BYTE)
    return NO if hours > 23 or minutes > 59 or seconds > 59 else (60 * hours + minutes) * 60 + seconds


@inlined
def _fraction(data: Address, at: Place, most: int) -> tuple[Place, Value]:
    """What stands behind a number, in units of 10**-most; NO if it has more digits than that."""
    if load_u8(data, at) != _POINT:
        return at, 0
    stop, value = _digits(data, at + 1)
    count = stop - at - 1
    if stop == NO or count > most:
        return NO, 0
    return stop, value * _POWERS[most - count]


@inlined
def _time(data: Address, at: Place, known: Address) -> tuple[Place, Value]:
    """`known` has the last date's bytes and its days: most rows are of the same day as the row before."""
    one, other = np.int64(load_u64(data, at)), np.int64(load_u64(data, at + 2))
    if one != get(known, 0) or other != get(known, 1):
        put(known, 0, one)
        put(known, 1, other)
        put(known, 2, _date(data, at))
    days, between, clock = get(known, 2), load_u8(data, at + 10), _clock(data, at + 11)
    if days == _NO_DATE or clock == NO or (between != _SPACE and between != _T):
        return NO, 0
    stop, micros = _fraction(data, at + 19, 6)
    return stop, (days * _DAY_S + clock) * 1_000_000 + micros


@inlined
def _boolean(data: Address, at: Place) -> tuple[Place, Value]:
    word = load_u64(data, at) & _FOUR_BYTES
    if word == _TRUE:
        return at + 4, 1
    return (at + 5, 0) if word == _FALSE and load_u8(data, at + 4) == _SMALL_E else (NO, 0)


@inlined
def _decimal(data: Address, at: Place, precision: int, scale: int) -> tuple[Place, Value]:
    negative = load_u8(data, at) == _MINUS
    first = at + 1 if negative else at
    stop, whole = _digits(data, first)
    if stop == NO or stop - first + scale > _MOST_DIGITS:
        return NO, 0
    stop, parts = _fraction(data, stop, scale)
    value = whole * _POWERS[scale] + parts
    if stop == NO or value >= _POWERS[precision]:
        return NO, 0
    return stop, -value if negative else value


@inlined
def _cell(data: Address, at: Place, kind: int, precision: int, scale: int, known: Address) -> tuple[Place, Value]:
    """A cell that gives an int64."""
    if kind == NUMBER:
        return _number(data, at)
    if kind == TIME:
        return _time(data, at, known)
    if kind == DECIMAL:
        return _decimal(data, at, precision, scale)
    if kind == BOOLEAN:
        return _boolean(data, at)
    days = _date(data, at)
    return NO if days == _NO_DATE else at + 10, days


@inlined
def _double(data: Address, at: Place) -> tuple[Place, float]:
    """A number whose digits and whose power of ten are exact as doubles: then their quotient is the nearest double."""
    negative = load_u8(data, at) == _MINUS
    first = at + 1 if negative else at
    stop, whole = _digits(data, first)
    point = stop
    parts: Value = 0
    if stop != NO and load_u8(data, stop) == _POINT:
        stop, parts = _digits(data, point + 1)
    places = stop - point - 1 if stop > point else 0
    if stop == NO or stop - first - 1 > _MOST_DIGITS or places > _MOST_DIGITS:
        return NO, 0.0
    whole, follows = whole * _POWERS[places] + parts, load_u8(data, stop)
    if whole > _EXACT or follows in (_LARGE_E, _SMALL_E):
        return NO, 0.0
    value = np.float64(whole) / np.float64(_POWERS[places])
    return stop, -value if negative else value


@inlined
def _past_digits(data: Address, at: Place) -> Place:
    first = at
    while 48 <= load_u8(data, at) <= 57:
        at += 1
    return at if at > first else NO


@inlined
def _past_double(data: Address, at: Place) -> Place:
    """Behind a number of any number of digits, perhaps with a power of ten."""
    at = _past_digits(data, at + 1 if load_u8(data, at) == _MINUS else at)
    if at != NO and load_u8(data, at) == _POINT:
        at = _past_digits(data, at + 1)
    if at != NO and load_u8(data, at) in (_LARGE_E, _SMALL_E):
        sign = load_u8(data, at + 1)
        at = _past_digits(data, at + 2 if sign in (_MINUS, _PLUS) else at + 1)
    return at


@inlined
def _text(data: Address, at: Place, room: Address, to: Place, delimiter: int) -> tuple[Place, Place]:
    """Copies bytes up to the delimiter or the end of the line; where both then stand."""
    while True:
        found = copied_32(data, at, room, to, delimiter, _NEWLINE)
        if found:
            count = trailing_zeros(found)
            return at + count, to + count
        at += 32
        to += 32


@kernel
def read_cells(
    data: Bytes, start: int, stop: int, delimiter: int, columns: Ints,
    cells: Ints, doubles: npt.NDArray[np.float64], nulls: Bytes, texts: Bytes, ends: npt.NDArray[np.int32], hard: Ints,
) -> tuple[int, int]:  # fmt: skip
    """(rows, hard ones) from `start` to `stop`, which is behind a newline; (NO, 0) if a row is not plain.

    `columns` has (kind, slot, precision, scale) of each; `cells`, `doubles`, `texts` and `ends` a line for each slot of their kinds,
    `nulls` one for each column.  `hard` gets (slot, row, start, stop) of the doubles that are left to others; NO if there is no room
    for them.
    """
    base, room, row, at, left = address(data), texts.shape[1], 0, start, 0
    known = np.array([0, 0, _NO_DATE], np.int64)
    while at < stop:
        for column in range(len(columns)):
            kind, slot = columns[column, 0], columns[column, 1]
            terminator = _NEWLINE if column == len(columns) - 1 else delimiter
            first = at
            if kind == TEXT:
                at, ends[slot, row + 1] = _text(base, at, address(texts) + slot * room, ends[slot, row], delimiter)
            elif load_u8(base, at) == terminator:
                pass  # NULL: the value is anything
            elif kind == DOUBLE:
                at, doubles[slot, row] = _double(base, at)
                if at == NO:
                    at = _past_double(base, first)
                    if left == len(hard):
                        return NO, 0
                    hard[left, 0], hard[left, 1], hard[left, 2], hard[left, 3] = slot, row, first, at
                    left += 1
            else:
                at, cells[slot, row] = _cell(base, at, kind, columns[column, 2], columns[column, 3], address(known))
            if at == NO or load_u8(base, at) != terminator:
                return NO, 0
            if at == first:
                if len(columns) == 1:  # an empty line is no row
                    return NO, 0
                nulls[column, row] = 1
            at += 1
        row += 1
    return row, left
