"""The streams of the experiments: sales, which arrive at random, and what the two queries make of them.

    Q1    the count of sales, in a window, of items that are favourites
    Q2    the greatest price among pairs of sales in the same store, one of each of two streams, both in a window

No row arrives at the instant at which another arrives or leaves: arrivals lie on a grid of 7 microseconds, which no window's length fits,
and streams share no point of it.  So every change is alone at its instant, and can be told from all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

SECOND_US = 1_000_000
ITEMS = 1_200
GRID_US = 7
ENDS_OF_CYCLES = "BBBEBEEE"
"""Where qualifying rows stand in each window's length of time: at its beginning or its end.  Said again and again, each three
that follow each other occur equally often, as they do at random in the long run."""


@dataclass(frozen=True)
class Workload:
    """Rows by stream, each with its instants and other columns, and when results of the join begin and end."""

    sql: str
    window_us: int
    streams: Mapping[str, tuple[Ints, Mapping[str, Ints]]]
    favourites: Ints
    entered: Ints
    ended: Ints

    def __post_init__(self) -> None:
        assert self.window_us % GRID_US, "rows would leave at instants at which others may arrive"

    @property
    def statements(self) -> list[str]:
        columns = "ts TIMESTAMP, store BIGINT, item BIGINT, price BIGINT, quantity BIGINT"
        return [
            *(f"CREATE STREAM {name} ({columns}) TIMESTAMP BY ts" for name in self.streams),
            "CREATE RELATION favourites (item BIGINT)",
        ]

    @property
    def arrivals(self) -> Ints:
        return np.sort(np.concatenate([ts for ts, _ in self.streams.values()]))

    @property
    def events(self) -> Ints:
        """The instants at which rows arrive or leave."""
        return np.sort(np.concatenate([self.arrivals, self.arrivals + self.window_us]))


def favourites(rate: float, seconds: float, window_s: float, selectivity: float, *, clustered: bool, seed: int = 1) -> Workload:
    """Q1.  Qualifying rows stand together at one end of each window's length of time, or anywhere."""
    rng = np.random.default_rng(seed)
    window_us = int(window_s * SECOND_US)
    ts = _arrivals(rng, rate, seconds, place=0)
    many = round(ITEMS * selectivity)
    qualifies = _in_clusters(ts, window_us, selectivity) if clustered else rng.random(len(ts)) < selectivity
    item = np.where(qualifies, rng.integers(0, many, len(ts)), rng.integers(many, max(ITEMS, many + 1), len(ts)))
    sql = f"SELECT count(*) AS n FROM sales {_range(window_us)} AS s JOIN favourites AS f ON s.item = f.item"
    streams = {"sales": (ts, _columns(rng, len(ts), item=item))}
    return Workload(sql, window_us, streams, np.arange(many), ts[qualifies], ts[qualifies] + window_us)


def stores(rate: float, seconds: float, window_s: float, selectivity: float, seed: int = 1) -> Workload:
    """Q2.  A sale of one stream and one of the other are in the same store with this probability."""
    rng = np.random.default_rng(seed)
    many = round(1 / selectivity)
    ts1, ts2 = (_arrivals(rng, rate, seconds, place=place) for place in (0, 1))
    return _two_streams(rng, ts1, rng.integers(0, many, len(ts1)), ts2, rng.integers(0, many, len(ts2)), window_s)


def partners(
    rate: float, seconds: float, window_s: float, selectivity: float, multiplicity: int, *, follow: bool, seed: int = 1
) -> Workload:  # fmt: skip
    """Q2.  So many rows of the second stream have a partner, each row of the first that has some has `multiplicity` of them; they
    follow it, or each comes before or after it with equal chance."""
    rng = np.random.default_rng(seed)
    ts1, ts2 = (_arrivals(rng, rate, seconds, place=place) for place in (0, 1))
    store1, store2 = np.arange(len(ts1)), -1 - np.arange(len(ts2))
    window_us = int(window_s * SECOND_US)
    inner = np.flatnonzero((ts1 > window_us) & (ts1 < ts1[-1] - window_us))
    for head in rng.choice(inner, round(selectivity * len(inner) / multiplicity), replace=False):
        side = np.ones(multiplicity) if follow else rng.choice([-1, 1], multiplicity)
        wanted = ts1[head] + side * rng.uniform(0.02, 0.98, multiplicity) * window_us
        for place in np.searchsorted(ts2, wanted):
            free = place + np.flatnonzero(store2[place : place + 1_000] < 0)[0]
            store2[free] = head
    return _two_streams(rng, ts1, store1, ts2, store2, window_s)


def _two_streams(rng: np.random.Generator, ts1: Ints, store1: Ints, ts2: Ints, store2: Ints, window_s: float) -> Workload:
    window_us = int(window_s * SECOND_US)
    one, other = _pairs(store1, store2)
    met = np.abs(ts1[one] - ts2[other]) < window_us
    first, last = np.minimum(ts1[one], ts2[other])[met], np.maximum(ts1[one], ts2[other])[met]
    window = _range(window_us)
    sql = f"SELECT max(b.price) AS m FROM s1 {window} AS a JOIN s2 {window} AS b ON a.store = b.store"
    streams = {"s1": (ts1, _columns(rng, len(ts1), store=store1)), "s2": (ts2, _columns(rng, len(ts2), store=store2))}
    return Workload(sql, window_us, streams, np.empty(0, np.int64), np.sort(last), np.sort(first) + window_us)


def _pairs(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """The places of equal values."""
    order = np.argsort(other, kind="stable")
    low, high = (np.searchsorted(other[order], one, side=side) for side in ("left", "right"))
    left = np.repeat(np.arange(len(one)), high - low)
    within = np.arange(len(left)) - np.repeat(np.cumsum(high - low) - (high - low), high - low)
    return left, order[np.repeat(low, high - low) + within]


def _arrivals(rng: np.random.Generator, rate: float, seconds: float, place: int) -> Ints:
    """Exponential gaps, a mean of 1 / rate."""
    gaps = rng.exponential(SECOND_US / rate, int(rate * seconds * 1.2) + 100)
    instants = np.unique((np.cumsum(gaps) // (2 * GRID_US)).astype(np.int64)) * 2 * GRID_US + place * GRID_US
    return instants[instants < seconds * SECOND_US]


def _in_clusters(ts: Ints, window_us: int, selectivity: float) -> Bools:
    at_beginning = np.array([end == "B" for end in ENDS_OF_CYCLES])[ts // window_us % len(ENDS_OF_CYCLES)]
    within = ts % window_us / window_us
    found: Bools = np.where(at_beginning, within < selectivity, within >= 1 - selectivity)
    return found


def _columns(rng: np.random.Generator, rows: int, **known: Ints) -> dict[str, Ints]:
    drawn = {name: rng.integers(0, below, rows) for name, below in (("store", 100), ("item", ITEMS), ("price", 10_000), ("quantity", 10))}
    return drawn | known


def _range(window_us: int) -> str:
    return f"[RANGE {window_us} MICROSECONDS EXCLUSIVE]"
