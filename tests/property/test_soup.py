"""PSoup against its definition: random interleavings of rows, queries, expiry and time, for all variants, with and without sharing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.psoup.query import VARIANTS
from millstream.psoup.soup import Soup
from property.examples import examples
from property.soup_model import STREAMS, SlowSoup, answer_bag, batch_of, clauses, queries, rows_of

WAYS: list[dict[str, Any]] = [
    *({"variant": variant, "shared": shared} for variant in VARIANTS for shared in (True, False)),
    {"variant": "partial", "structure": "bitmap"}, {"variant": "partial", "structure": "list"},
]  # fmt: skip


def new_soup(**way: Any) -> Soup:
    soup = Soup(**way)
    for name, schema in STREAMS.items():
        soup.add_stream(name, schema)
    return soup


class Interleaving:
    """The same entries for several soups and the slow one; two clauses, so that queries share and sharing is not trivial."""

    def __init__(self, data: st.DataObject, ways: list[dict[str, Any]], *, apart: bool = False) -> None:
        """`apart`: streams have clocks of their own, so that rows of one may come behind later ones of another."""
        self.data, self.apart = data, apart
        self.clocks = dict.fromkeys(STREAMS, 0)
        self.soups = [new_soup(**way) for way in ways]
        self.slow = SlowSoup()
        self.queries: dict[int, Any] = {}
        few = data.draw(st.lists(clauses(), min_size=2, max_size=2))
        self.some = st.one_of(st.sampled_from(few), clauses())
        self.now = 0

    def enter(self) -> None:
        move = self.data.draw(st.sampled_from(["rows", "rows", "rows", "rows", "query", "query", "drop", "expire"]))
        if move == "rows":
            self.insert()
        elif move == "query":
            query = self.data.draw(queries(self.some))
            (number,) = {soup.offer_query(query) for soup in self.soups}
            self.queries[number] = query
        elif move == "drop" and self.queries:
            number = self.data.draw(st.sampled_from(sorted(self.queries)))
            del self.queries[number]
            for soup in self.soups:
                soup.unregister(number)
        elif move == "expire":
            before = self.data.draw(st.integers(0, (self.now + 1) // 2))
            for soup in self.soups:
                soup.run()
                soup.expire(before)
            self.slow.rows = {name: [each for each in rows if each[0] >= before] for name, rows in self.slow.rows.items()}

    def insert(self) -> None:
        stream = self.data.draw(st.sampled_from(sorted(STREAMS)))
        many = self.data.draw(st.integers(0, 5))  # left to itself, hypothesis draws short lists
        rows = self.data.draw(st.lists(rows_of(stream), min_size=many, max_size=many))
        gaps = self.data.draw(st.lists(st.sampled_from([0, 0, 1, 2]), min_size=many, max_size=many))
        ts = (self.clocks[stream] if self.apart else self.now) + np.cumsum(np.array(gaps, np.int64))
        self.clocks[stream] = int(ts[-1]) if len(rows) else self.clocks[stream]
        self.now = max(self.now, self.clocks[stream])
        for soup in self.soups:
            soup.offer_rows(stream, batch_of(stream, rows), ts)
        self.slow.rows[stream] += list(zip(ts.tolist(), rows, strict=True))

    def check(self) -> None:
        later = self.now + self.data.draw(st.sampled_from([0, 0, 2]))
        for number, query in self.queries.items():
            expected = self.slow.answer(query, later)
            for soup in self.soups:
                soup.run()
                assert answer_bag(soup.invoke(number, later)) == expected, query


@settings(max_examples=examples(25))
@given(st.data())
def test_all_variants_answer_as_defined_after_each_entry(data: st.DataObject) -> None:
    history = Interleaving(data, WAYS, apart=data.draw(st.booleans()))
    history.insert()
    for _ in range(data.draw(st.integers(3, 10))):
        history.enter()
        history.check()


@settings(max_examples=examples(25))
@given(st.data())
def test_an_answer_is_that_of_a_prefix_of_the_entries(data: st.DataObject) -> None:
    """Entries wait in the new pool; at any step an answer is that of the entries begun so far, and no other."""
    few = data.draw(st.lists(clauses(), min_size=1, max_size=2))
    soup, slow, now, begun = new_soup(variant=data.draw(st.sampled_from(VARIANTS))), SlowSoup(), 0, {}
    entries: list[Any] = []
    for _ in range(data.draw(st.integers(4, 12))):
        if data.draw(st.sampled_from([False, False, True])):
            query = data.draw(queries(st.sampled_from(few)))
            entries.append((soup.offer_query(query), query))
        else:
            stream = data.draw(st.sampled_from(sorted(STREAMS)))
            row, now = data.draw(rows_of(stream)), now + data.draw(st.integers(0, 2))
            soup.offer_rows(stream, batch_of(stream, [row]), np.array([now]))
            entries.append((stream, (now, row)))
    while True:
        for number, query in begun.items():
            assert answer_bag(soup.invoke(number, now)) == slow.answer(query, now)
        if not entries:
            return
        soup.step()  # the next entry, or what an earlier one left to do: an invocation finishes that first
        name, entry = entries.pop(0)
        if isinstance(name, int):
            begun[name] = entry
        else:
            slow.rows[name].append(entry)
        while data.draw(st.booleans()) and soup.is_busy:
            soup.step()


@settings(max_examples=examples(15))
@given(st.data())
def test_variants_of_single_queries_and_retention(data: st.DataObject) -> None:
    """Each query chooses its variant, and old rows go by themselves."""
    history = Interleaving(data, [{"retention_us": 10}])
    (soup,) = history.soups
    for _ in range(data.draw(st.integers(2, 8))):
        if data.draw(st.booleans()):
            history.insert()
        else:
            query = replace(data.draw(queries(history.some)), variant=data.draw(st.sampled_from(VARIANTS)))
            history.queries[soup.register(query)] = query
        soup.run()
        for number, query in history.queries.items():
            kept = SlowSoup({name: [each for each in rows if each[0] >= soup.retained_since] for name, rows in history.slow.rows.items()})
            assert answer_bag(soup.invoke(number)) == kept.answer(query, soup.clock), query
