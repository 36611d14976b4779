"""The events of Nexmark: people register, open auctions and bid.

Of every fifty events one is a person, three are auctions and the rest are bids, in this order, so that whoever sells or
bids has registered and what is bid for is on sale.  Interest is uneven: half of the bids go to one auction of the moment,
three quarters of them come from one bidder, and three quarters of the auctions are one seller's.  An auction lives about
as long as those that bids go to, so a bid comes in time or too late.  Whole columns at once; the same seed gives the same
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

ROUND, PERSONS, AUCTIONS = 50, 1, 3
FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
HOT_EVERY = 100  # every hundredth person or auction is the one of the moment, until the next
ACTIVE_PERSONS = 1000
LONGEST_AUCTION_US = 60_000_000
START = datetime(2026, 1, 1, tzinfo=UTC)

FIRST_NAMES = ["Ada", "Boris", "Chloe", "Dario", "Elena", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Kaya", "Luca"]
LAST_NAMES = ["Abel", "Brandt", "Castro", "Dietz", "Egger", "Fontana", "Gruber", "Holm", "Ivanov", "Jansen"]
PLACES = [("Phoenix", "AZ"), ("Oakland", "CA"), ("Fresno", "CA"), ("Boise", "ID"), ("Salem", "OR"), ("Tacoma", "WA"), ("Cheyenne", "WY")]
BIG_CHANNELS = ["Apple", "Google", "Facebook", "Baidu"]

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Events:
    """One table for each stream, in the order of time."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table

    def tables(self) -> dict[str, pa.Table]:
        """The streams of schema.cql; `closing` is the auctions once more, by the time at which they end."""
        return {"person": self.person, "auction": self.auction, "bid": self.bid, "closing": self.auction}

    def part(self, first: int, last: int) -> Events:
        """The events from number `first` up to but without number `last`."""
        starts, ends = _counts(first), _counts(last)
        tables = (self.person, self.auction, self.bid)
        return Events(*(table.slice(start, end - start) for table, start, end in zip(tables, starts, ends, strict=True)))


def generate(
    events: int,
    *,
    seed: int | Sequence[int] = 0,
    first: int = 0,
    events_per_second: int = 10_000,
    start: datetime = START,
    granularity_ms: int = 1,
    auctions_in_flight: int = 100,
    uneven: bool = True,
    with_bids: bool = True,
) -> Events:
    """`events` of all three kinds together, evenly spread over time; those within one `granularity_ms` share their instant.

    From the event with the number `first` on, for who makes a long history in pieces, each with a seed of its own.
    Without bids the others are the same: most of the time goes into those.
    Without `uneven` no auction, bidder or seller stands out, and prices are so few that many are equal.
    """
    rng = np.random.default_rng(seed)
    number = np.arange(first, first + events)
    first_person, first_auction, _ = _counts(first)
    step_us = granularity_ms * 1000
    ts = _micros(start) + number * 1000 // events_per_second // granularity_ms * step_us
    place = number % ROUND
    is_person, is_auction = place < PERSONS, (place >= PERSONS) & (place < PERSONS + AUCTIONS)
    is_bid = ~is_person & ~is_auction & with_bids
    lifetime_us = 2 * auctions_in_flight * ROUND * 1_000_000 // (AUCTIONS * events_per_second)
    return Events(
        _persons(rng, first_person, ts[is_person]),
        _auctions(
            rng,
            first_auction,
            ts[is_auction],
            number[is_auction] // ROUND,
            step_us,
            min(lifetime_us, LONGEST_AUCTION_US) // step_us,
            uneven=uneven,
        ),
        _bids(rng, ts[is_bid], number[is_bid] // ROUND, auctions_in_flight, uneven=uneven),
    )


def _persons(rng: np.random.Generator, first: int, ts: Numbers) -> pa.Table:
    count = len(ts)
    name, surname = _pick(rng, FIRST_NAMES, count), _pick(rng, LAST_NAMES, count)
    places = rng.integers(0, len(PLACES), count)
    return pa.table(
        {
            "id": FIRST_ID + first + np.arange(count),
            "name": _joined(name, surname, between=" "),
            "email": _joined(pc.utf8_lower(name), "@", pc.utf8_lower(surname), ".example"),
            "credit_card": _joined(*(_digits(rng, count) for _ in range(4)), between=" "),
            "city": pa.array([city for city, _ in PLACES]).take(pa.array(places)),
            "state": pa.array([state for _, state in PLACES]).take(pa.array(places)),
            "ts": _stamps(ts),
            "extra": _letters(rng, count, 50, 100),
        }
    )


def _auctions(
    rng: np.random.Generator, first: int, ts: Numbers, newest_person: Numbers, step_us: int, most_steps: int, *, uneven: bool
) -> pa.Table:
    count = len(ts)
    initial = _prices(rng, count)
    return pa.table(
        {
            "id": FIRST_ID + first + np.arange(count),
            "item": _letters(rng, count, 10, 20),
            "description": _letters(rng, count, 50, 100),
            "initial_bid": initial,
            "reserve": initial + _prices(rng, count),
            "ts": _stamps(ts),
            "expires": _stamps(ts + rng.integers(1, most_steps + 1, count) * step_us),
            "seller": FIRST_ID + _uneven(rng, newest_person, ACTIVE_PERSONS, hot_share=0.75 * uneven),
            "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, count),
            "extra": _letters(rng, count, 50, 100),
        }
    )


def _bids(rng: np.random.Generator, ts: Numbers, newest_person: Numbers, auctions_in_flight: int, *, uneven: bool) -> pa.Table:
    count = len(ts)
    newest_auction = AUCTIONS * newest_person + AUCTIONS - 1
    channel, url = _channels(rng, count)
    return pa.table(
        {
            "auction": FIRST_ID + _uneven(rng, newest_auction, auctions_in_flight, hot_share=0.5 * uneven),
            # not the seller of the moment, but the one who registered next
            "bidder": FIRST_ID + np.minimum(_uneven(rng, newest_person, ACTIVE_PERSONS, hot_share=0.75 * uneven) + 1, newest_person),
            "price": _prices(rng, count) if uneven else 10_000 * rng.integers(1, 10, count) ** 4,
            "channel": channel,
            "url": url,
            "ts": _stamps(ts),
            "extra": _letters(rng, count, 20, 60),
        }
    )


def _uneven(rng: np.random.Generator, newest: Numbers, active: int, *, hot_share: float) -> Numbers:
    """One of those up to `newest`: the one of the moment with probability `hot_share`, else any of the `active` newest."""
    hot = newest // HOT_EVERY * HOT_EVERY
    oldest = np.maximum(newest - active + 1, 0)
    return np.where(rng.random(len(newest)) < hot_share, hot, rng.integers(oldest, newest + 1))


def _prices(rng: np.random.Generator, count: int) -> Numbers:
    """Cents, as many between 1 and 10 dollars as between 100,000 and a million."""
    return np.round(100 * 10 ** (6 * rng.random(count))).astype(np.int64)


def _channels(rng: np.random.Generator, count: int) -> tuple[pa.Array, pa.Array]:
    """Half of the bids come through the big channels; of the others one in ten does not say its number in the address."""
    number = rng.integers(0, 10_000, count)
    is_big, says_number = rng.random(count) < 0.5, rng.random(count) < 0.9
    digits = pa.array(number).cast(pa.string())
    channel = pc.if_else(pa.array(is_big), _pick(rng, BIG_CHANNELS, count), _joined("channel-", digits))
    parts = [_letters(rng, 1000, 3, 8).take(pa.array(rng.integers(0, 1000, count))) for _ in range(3)]
    page = _joined("https://auctions.example", *parts, "item.htm?query=1", between="/")
    return channel, pc.if_else(pa.array(~is_big & says_number), _joined(page, "&channel_id=", digits), page)


def _pick(rng: np.random.Generator, values: list[str], count: int) -> pa.Array:
    return pa.array(values).take(pa.array(rng.integers(0, len(values), count)))


def _digits(rng: np.random.Generator, count: int) -> pa.Array:
    return pc.utf8_lpad(pa.array(rng.integers(0, 10_000, count)).cast(pa.string()), 4, "0")


def _letters(rng: np.random.Generator, count: int, shortest: int, longest: int) -> pa.Array:
    """Random words of small letters."""
    ends = np.concatenate([[0], np.cumsum(rng.integers(shortest, longest + 1, count))])
    letters = rng.integers(ord("a"), ord("z") + 1, int(ends[-1]), dtype=np.uint8)
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(letters))


def _joined(*parts: pa.Array | str, between: str = "") -> pa.Array:
    return pc.binary_join_element_wise(*parts, between)


def _stamps(ts: Numbers) -> pa.Array:
    return pa.array(ts, pa.timestamp("us", "UTC"))


def _micros(instant: datetime) -> int:
    return round(instant.timestamp()) * 1_000_000


def _counts(events: int) -> tuple[int, int, int]:
    """How many of the first events are persons, auctions and bids."""
    rounds, rest = divmod(events, ROUND)
    persons = rounds * PERSONS + min(rest, PERSONS)
    auctions = rounds * AUCTIONS + min(max(rest - PERSONS, 0), AUCTIONS)
    return persons, auctions, events - persons - auctions
