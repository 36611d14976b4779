"""WITH EXPIRY input_triggered, slowly: a plan is a tree of operators that hand changes up, one instant after the other.

A row comes at an instant and says when it ends.  Between operators flow, for each instant, how many copies of each (row, end) come, or
are taken back before their end (a number below zero); of a row that does both at once, only the difference.

Operators that hold rows (set operations, aggregates, and whoever reads the answer) know the time only from rows that come to them, from any
input.  All that happens at one instant happens together, in this order:

    1. if a row comes at T, everything that ends at or before T is over
    2. what is taken back goes
    3. what comes is there
    4. the operator makes its choice: representatives, pairs, results of groups

A row that is taken back tells nothing of the time, except, to a set operation, of the copies of the same row: one that has ended cannot
take another's place.

A join needs not be told anything: rows that come at T meet those that have not ended at T, whoever knows it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from property.engine_model import Bag, StreamModel, WindowModel

NEVER = 1_000_000
HORIZON = 100
START = -1_000_000
"""The beginning of time, when aggregates without groups answer for the first time."""

Row = tuple[Any, ...]  # (k, v)
Changes = Counter[tuple[Row, int]]  # of (row, end)


def netted(*parts: Changes) -> Changes:
    total: Changes = Counter()
    for part in parts:
        total.update(part)
    return Counter({key: n for key, n in total.items() if n})


def comes(changes: Changes) -> bool:
    return any(n > 0 for n in changes.values())


class Running(ABC):
    """An operator at work; `at` is called for every instant, in order."""

    @abstractmethod
    def at(self, t: int) -> Changes: ...

    def is_settled(self, t: int) -> bool:
        """Neither it nor what is below holds anything that has ended."""
        return True


class Held:
    """Rows with ends, as an aggregate holds them, or who reads an answer."""

    def __init__(self) -> None:
        self._rows: Changes = Counter()

    def take(self, changes: Changes, t: int) -> None:
        if comes(changes):
            self._rows = Counter({(row, end): n for (row, end), n in self._rows.items() if end > t})
        self._rows = netted(self._rows, changes)
        assert min(self._rows.values(), default=0) >= 0, "taken back, but never there"

    def bag(self) -> Bag:
        bag: Bag = Counter()
        for (row, _), n in self._rows.items():
            bag[row] += n
        return bag

    def is_settled(self, t: int) -> bool:
        return all(end > t for _, end in self._rows)


# --- set operations ---------------------------------------------------------------------------


class Copies(ABC):
    """The copies of one row in a set operation, known by their ends."""

    def move(self, changes: Sequence[Counter[int]], t: int) -> Counter[int]:
        """Changes of each input by end, as of t; gives those of what is shown."""
        before = Counter({end: n for end, n in self.shown().items() if end > t})  # the rest ends where it is held
        self.end(t)
        for side, by_end in enumerate(changes):
            for end, n in by_end.items():
                for _ in range(-n):
                    self.take_back(side, end)
        for side, by_end in enumerate(changes):
            for end, n in by_end.items():
                for _ in range(n):
                    self.add(side, end)
        self.choose()
        after = self.shown()
        return Counter({end: after[end] - before[end] for end in {*after, *before}})

    @abstractmethod
    def shown(self) -> Counter[int]: ...
    @abstractmethod
    def end(self, t: int) -> None: ...
    @abstractmethod
    def take_back(self, side: int, end: int) -> None: ...
    @abstractmethod
    def add(self, side: int, end: int) -> None: ...
    @abstractmethod
    def choose(self) -> None: ...
    @abstractmethod
    def is_settled(self, t: int) -> bool: ...


class Representative(Copies):
    """DISTINCT: one copy is shown as long as it is there, then the one that ends last."""

    def __init__(self) -> None:
        self._copies: list[int] = []
        self._chosen: int | None = None

    def shown(self) -> Counter[int]:
        return Counter([self._chosen] if self._chosen is not None else [])

    def end(self, t: int) -> None:
        self._copies = [end for end in self._copies if end > t]

    def take_back(self, side: int, end: int) -> None:
        self._copies.remove(end)

    def add(self, side: int, end: int) -> None:
        self._copies.append(end)

    def choose(self) -> None:
        if self._chosen not in self._copies:
            self._chosen = max(self._copies, default=None)

    def is_settled(self, t: int) -> bool:
        return all(end > t for end in self._copies)


class Matching(Copies):
    """Pairs of a copy on the left and one on the right; at most one side has free ones."""

    def __init__(self) -> None:
        self._pairs: list[tuple[int, int]] = []
        self._free: tuple[list[int], list[int]] = ([], [])

    def end(self, t: int) -> None:
        for pair in [pair for pair in self._pairs if min(pair) <= t]:
            self._part(pair)
        for free in self._free:
            free[:] = [end for end in free if end > t]

    def take_back(self, side: int, end: int) -> None:
        """A free copy, else one with the partner that ends last."""
        if end not in self._free[side]:
            self._part(max((pair for pair in self._pairs if pair[side] == end), key=lambda pair: pair[1 - side]))
        self._free[side].remove(end)

    def add(self, side: int, end: int) -> None:
        self._free[side].append(end)

    def choose(self) -> None:
        while all(self._free):
            pair = (max(self._free[0]), max(self._free[1]))
            for side in (0, 1):
                self._free[side].remove(pair[side])
            self._pairs.append(pair)

    def is_settled(self, t: int) -> bool:
        return all(end > t for end in (*(end for pair in self._pairs for end in pair), *self._free[0], *self._free[1]))

    def _part(self, pair: tuple[int, int]) -> None:
        self._pairs.remove(pair)
        for side in (0, 1):
            self._free[side].append(pair[side])


class InBoth(Matching):
    def shown(self) -> Counter[int]:
        return Counter(min(pair) for pair in self._pairs)


class OnlyLeft(Matching):
    def shown(self) -> Counter[int]:
        return Counter(self._free[0])


class SetOperation:
    def __init__(self, copies: Callable[[], Copies]) -> None:
        self._new = copies
        self._values: dict[Row, Copies] = {}

    def move(self, changes: Sequence[Changes], t: int) -> Changes:
        for row in {row for side in changes for row, _ in side}:
            self._values.setdefault(row, self._new())
        told = any(map(comes, changes))
        out: Changes = Counter()
        for row, copies in self._values.items():
            mine = [Counter({end: n for (other, end), n in side.items() if other == row}) for side in changes]
            if told or any(mine):
                out.update({(row, end): n for end, n in copies.move(mine, t).items()})
        return netted(out)

    def is_settled(self, t: int) -> bool:
        return all(copies.is_settled(t) for copies in self._values.values())


# --- plans ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    streams: dict[str, StreamModel]


class Plan(ABC):
    """A query over columns k and v: as text, at work, and exactly at an instant."""

    @property
    @abstractmethod
    def sql(self) -> str: ...
    @abstractmethod
    def run(self, world: World) -> Running: ...
    @abstractmethod
    def exactly(self, world: World, t: int) -> Bag: ...


@dataclass(frozen=True)
class Windowed(Plan):
    stream: str
    window: WindowModel

    @property
    def sql(self) -> str:
        return f"SELECT k, v FROM {self.stream} {self.window.sql}"

    def run(self, world: World) -> Running:
        return _Arrivals(world.streams[self.stream], self.window)

    def exactly(self, world: World, t: int) -> Bag:
        return Counter(row[1:] for row in world.streams[self.stream].window(self.window, t))


class _Arrivals(Running):
    def __init__(self, stream: StreamModel, window: WindowModel) -> None:
        self._at: dict[int, Changes] = {}
        for row in stream.rows:
            inside = [t for t in range(row[0], HORIZON) if window.member(row[0], t)]
            if inside:
                end = NEVER if inside[-1] == HORIZON - 1 else inside[-1] + 1
                self._at.setdefault(inside[0], Counter())[row[1:], end] += 1

    def at(self, t: int) -> Changes:
        return self._at.get(t, Counter())


ROW_WISE: dict[str, tuple[str, Callable[[Row], Row | None]]] = {
    "v > 1": ("SELECT k, v FROM ({0}) AS t WHERE v > 1", lambda row: row if row[1] is not None and row[1] > 1 else None),
    "k is a": ("SELECT k, v FROM ({0}) AS t WHERE k = 'a'", lambda row: row if row[0] == "a" else None),
    "v % 2": ("SELECT k, v % 2 AS v FROM ({0}) AS t", lambda row: (row[0], None if row[1] is None else row[1] % 2)),
    "2 as v": ("SELECT k, 2 AS v FROM ({0}) AS t", lambda row: (row[0], 2)),
    "a as k": ("SELECT 'a' AS k, v FROM ({0}) AS t", lambda row: ("a", row[1])),
}


@dataclass(frozen=True)
class RowWise(Plan):
    input: Plan
    name: str

    @property
    def sql(self) -> str:
        return ROW_WISE[self.name][0].format(self.input.sql)

    def run(self, world: World) -> Running:
        return _RowWise(self.input.run(world), ROW_WISE[self.name][1])

    def exactly(self, world: World, t: int) -> Bag:
        found: Bag = Counter()
        for row, n in self.input.exactly(world, t).items():
            new = ROW_WISE[self.name][1](row)
            if new is not None:
                found[new] += n
        return found


@dataclass
class _RowWise(Running):
    input: Running
    function: Callable[[Row], Row | None]

    def at(self, t: int) -> Changes:
        found: Changes = Counter()
        for (row, end), n in self.input.at(t).items():
            new = self.function(row)
            if new is not None:
                found[new, end] += n
        return netted(found)

    def is_settled(self, t: int) -> bool:
        return self.input.is_settled(t)


@dataclass(frozen=True)
class UnionAll(Plan):
    left: Plan
    right: Plan

    @property
    def sql(self) -> str:
        return f"SELECT k, v FROM ({self.left.sql}) AS a UNION ALL SELECT k, v FROM ({self.right.sql}) AS b"

    def run(self, world: World) -> Running:
        return _UnionAll(self.left.run(world), self.right.run(world))

    def exactly(self, world: World, t: int) -> Bag:
        return self.left.exactly(world, t) + self.right.exactly(world, t)


@dataclass
class _UnionAll(Running):
    left: Running
    right: Running

    def at(self, t: int) -> Changes:
        return netted(self.left.at(t), self.right.at(t))

    def is_settled(self, t: int) -> bool:
        return self.left.is_settled(t) and self.right.is_settled(t)


def pair_of(one: Row, other: Row) -> Row | None:
    if one[0] is None or one[0] != other[0]:
        return None
    return one[0], None if one[1] is None or other[1] is None else (one[1] + other[1]) % 4


@dataclass(frozen=True)
class Joined(Plan):
    left: Plan
    right: Plan

    @property
    def sql(self) -> str:
        return f"SELECT a.k, (a.v + b.v) % 4 AS v FROM ({self.left.sql}) AS a JOIN ({self.right.sql}) AS b ON a.k = b.k"

    def run(self, world: World) -> Running:
        return _Joined(self.left.run(world), self.right.run(world))

    def exactly(self, world: World, t: int) -> Bag:
        found: Bag = Counter()
        for one, n in self.left.exactly(world, t).items():
            for other, m in self.right.exactly(world, t).items():
                pair = pair_of(one, other)
                if pair is not None:
                    found[pair] += n * m
        return found


class _Joined(Running):
    def __init__(self, left: Running, right: Running) -> None:
        self._inputs = (left, right)
        self._sides: list[Changes] = [Counter(), Counter()]

    def at(self, t: int) -> Changes:
        self._sides = [Counter({key: n for key, n in side.items() if key[1] > t}) for side in self._sides]
        before = self._pairs()
        self._sides = [netted(side, running.at(t)) for side, running in zip(self._sides, self._inputs, strict=True)]
        after = self._pairs()
        return Counter({key: after[key] - before[key] for key in {*after, *before} if after[key] != before[key]})

    def is_settled(self, t: int) -> bool:
        return all(running.is_settled(t) for running in self._inputs)

    def _pairs(self) -> Changes:
        found: Changes = Counter()
        for (one, end), n in self._sides[0].items():
            for (other, other_end), m in self._sides[1].items():
                pair = pair_of(one, other)
                if pair is not None:
                    found[pair, min(end, other_end)] += n * m
        return found


@dataclass(frozen=True)
class Distinct(Plan):
    input: Plan

    @property
    def sql(self) -> str:
        return f"SELECT DISTINCT k, v FROM ({self.input.sql}) AS t"

    def run(self, world: World) -> Running:
        return _Set([self.input.run(world)], Representative)

    def exactly(self, world: World, t: int) -> Bag:
        return Counter(set(self.input.exactly(world, t)))


@dataclass(frozen=True)
class Intersect(Plan):
    left: Plan
    right: Plan
    all: bool

    @property
    def sql(self) -> str:
        return _both(self.left, "INTERSECT", self.right, every=self.all)

    def run(self, world: World) -> Running:
        return _Set([side.run(world) for side in _sides(self)], InBoth)

    def exactly(self, world: World, t: int) -> Bag:
        left, right = (side.exactly(world, t) for side in _sides(self))
        return left & right


@dataclass(frozen=True)
class Except(Plan):
    left: Plan
    right: Plan
    all: bool

    @property
    def sql(self) -> str:
        return _both(self.left, "EXCEPT", self.right, every=self.all)

    def run(self, world: World) -> Running:
        return _Set([side.run(world) for side in _sides(self)], OnlyLeft)

    def exactly(self, world: World, t: int) -> Bag:
        left, right = (side.exactly(world, t) for side in _sides(self))
        return left - right


def _both(left: Plan, word: str, right: Plan, *, every: bool) -> str:
    return f"SELECT k, v FROM ({left.sql}) AS a {word}{' ALL' if every else ''} SELECT k, v FROM ({right.sql}) AS b"


def _sides(plan: Intersect | Except) -> tuple[Plan, Plan]:
    """Without ALL each row counts once on both sides."""
    return (plan.left, plan.right) if plan.all else (Distinct(plan.left), Distinct(plan.right))


class _Set(Running):
    def __init__(self, inputs: Sequence[Running], copies: Callable[[], Copies]) -> None:
        self._inputs = inputs
        self._operation = SetOperation(copies)

    def at(self, t: int) -> Changes:
        return self._operation.move([running.at(t) for running in self._inputs], t)

    def is_settled(self, t: int) -> bool:
        return self._operation.is_settled(t) and all(running.is_settled(t) for running in self._inputs)


def _most(rows: Sequence[Row]) -> int | None:
    return max((row[1] for row in rows if row[1] is not None), default=None)


def _groups(bag: Bag, result: Callable[[Sequence[Row]], Any]) -> Bag:
    keys = {row[0] for row in bag}
    return Counter((key, result([row for row in bag.elements() if row[0] == key])) for key in keys)


AGGREGATES: dict[str, tuple[str, Callable[[Bag], Bag]]] = {
    "count by k": (
        "SELECT k, CAST(count(*) % 4 AS INT) AS v FROM ({0}) AS t GROUP BY k", lambda bag: _groups(bag, lambda rows: len(rows) % 4)
    ),
    "max by k": ("SELECT k, max(v) AS v FROM ({0}) AS t GROUP BY k", lambda bag: _groups(bag, _most)),
    "count": ("SELECT 'a' AS k, CAST(count(*) % 4 AS INT) AS v FROM ({0}) AS t", lambda bag: Counter([("a", bag.total() % 4)])),
}  # fmt: skip


@dataclass(frozen=True)
class Aggregated(Plan):
    input: Plan
    name: str

    @property
    def sql(self) -> str:
        return AGGREGATES[self.name][0].format(self.input.sql)

    def run(self, world: World) -> Running:
        return _Aggregated(self.input.run(world), AGGREGATES[self.name][1])

    def exactly(self, world: World, t: int) -> Bag:
        return AGGREGATES[self.name][1](self.input.exactly(world, t))


class _Aggregated(Running):
    """Its results end never: each is taken back when the next one comes."""

    def __init__(self, input: Running, function: Callable[[Bag], Bag]) -> None:
        self._input, self._function = input, function
        self._held = Held()
        self._told: Bag = Counter()

    def at(self, t: int) -> Changes:
        self._held.take(self._input.at(t), t)
        before, self._told = self._told, self._function(self._held.bag())
        rows = {*before, *self._told}
        return Counter({(row, NEVER): self._told[row] - before[row] for row in rows if self._told[row] != before[row]})

    def is_settled(self, t: int) -> bool:
        return self._held.is_settled(t) and self._input.is_settled(t)


@dataclass(frozen=True)
class Answer:
    bag: Bag
    is_settled: bool  # nobody in the plan holds anything that has ended


def answers(plan: Plan, world: World, first: int, last: int) -> dict[int, Answer]:
    """What the query answers at each instant."""
    running, held, found = plan.run(world), Held(), {}
    for t in [START, *range(first, last + 1)]:
        held.take(running.at(t), t)
        found[t] = Answer(held.bag(), running.is_settled(t) and held.is_settled(t))
    return found
