"""Rows meet rows of other streams.

A row of one stream turns the join factors of a clause into a predicate on another stream alone: row and rest of the predicate together
are a hybrid, which visits the SteM of that stream.  All hybrids of one step are bundled, since they have much in common:

    single query, multiple data    a new clause has found its rows of one stream: they share what it wants of the next
    single data, multiple query    a new row is wanted by several clauses of one shape: they share the join factors

A composite is such a bundle: combinations of rows of the sources visited so far, the clauses that want them, and the sources still to
visit (its interest list).  It meets the next SteM in one of two ways, whichever has less to look at:

    by the index     each hybrid looks its value up in the SteM's index of the join column; factors on the SteM alone come afterwards
    by merging       factors on the SteM alone are asked once for all; what is left is sorted and merged with the bundle, which for an
                     equality is a sort-merge join
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log2

import numpy as np
import pyarrow as pa

from millstream.kernels.arrow_buffers import canonical_doubles
from millstream.kernels.comparison_keys import Operator
from millstream.kernels.compiled import Ints
from millstream.kernels.sort_keys import turned
from millstream.psoup.data_stem import DataStem
from millstream.psoup.query import Clause, ColumnOf, JoinFactor, Mask, added_as_key, join_domain

TURNED: dict[Operator, Operator] = {"<": ">", "<=": ">=", "=": "=", ">=": "<=", ">": "<"}
Pairs = tuple[Ints, Ints]
"""Places in the bundle, and ids of rows of the SteM that it visits."""


@dataclass(frozen=True)
class Composite:
    """`rows[position]`: ids of the sources visited, all of one length; `wanted`: (combinations, clauses)."""

    clauses: tuple[int, ...]
    rows: dict[int, Ints]
    wanted: Mask
    stretches: tuple[tuple[int, int], ...]
    """For each source, the ids from where to where it is to meet: others have met this bundle's rows already, or will, or must not."""

    @property
    def interests(self) -> list[int]:
        return [position for position in range(len(self.stretches)) if position not in self.rows]

    def extended(self, position: int, pairs: Pairs, wanted: Mask) -> Composite:
        """With the rows of one more source."""
        place, ids = pairs
        return replace(self, rows={**{each: rows[place] for each, rows in self.rows.items()}, position: ids}, wanted=wanted)

    def kept(self, mask: Mask) -> Composite:
        return replace(self, rows={each: rows[mask] for each, rows in self.rows.items()}, wanted=self.wanted[mask])


def next_position(composite: Composite, clause: Clause) -> int:
    """The source to visit: one that an equality leads to, or some other factor, or any."""

    def rank(position: int) -> int:
        return min((0 if join.op == "=" else 1 for join in joins_to(clause, position, composite.rows)), default=2)

    return min(composite.interests, key=rank)


def joins_to(clause: Clause, position: int, visited: dict[int, Ints]) -> list[JoinFactor]:
    """The join factors between a source and those visited."""
    name, others = clause.sources[position].name, {clause.sources[each].name for each in visited}
    return [
        join
        for join in clause.joins
        if (join.left.source == name and join.right.source in others) or (join.right.source == name and join.left.source in others)
    ]


class Visit:
    """A composite at the SteM of one of its sources: which pairs satisfy all join factors, before anything is asked of the SteM alone."""

    def __init__(self, clause: Clause, stems: Sequence[DataStem], composite: Composite, position: int) -> None:
        self._clause, self._stems, self._rows, self.position = clause, stems, composite.rows, position
        self._stem = stems[position]
        self._size = len(composite.wanted)
        self.first, self.stop = composite.stretches[position]
        joins = joins_to(clause, position, composite.rows)
        self._joins = sorted(joins, key=lambda join: join.op != "=")

    def cost_of_index(self) -> float:
        """How many pairs the index of the first join column gives; infinite if it cannot be asked."""
        stretches = self._stretches()
        return float(sum((stops - starts).sum() for _, starts, stops in stretches)) if stretches is not None else np.inf

    def by_index(self) -> Pairs:
        stretches = self._stretches()
        assert stretches is not None
        found = [(place, run[row]) for run, starts, stops in stretches for place, row in [_expanded(starts, stops)]]
        place = np.concatenate([*(each for each, _ in found), np.empty(0, np.int64)])
        ids = np.concatenate([*(each for _, each in found), np.empty(0, np.int64)])
        there = (ids >= self.first) & (ids < self.stop)
        return self._verified(place[there], ids[there])

    def cost_of_merging(self, candidates: int) -> float:
        return candidates * (1 + log2(candidates + 1)) + (0 if self._joins else self._size * candidates)

    def by_merging(self, candidates: Ints) -> Pairs:
        if not self._joins:
            return np.repeat(np.arange(self._size), len(candidates)), np.tile(candidates, self._size)
        left, left_valid, right, right_valid = self._operands(self._joins[0], np.arange(self._size), candidates)
        places, candidates = np.flatnonzero(left_valid), candidates[right_valid]
        order = np.argsort(right[right_valid], kind="stable")
        starts, stops = _bounds(right[right_valid][order], left[left_valid], self._op(self._joins[0]))
        place, row = _expanded(starts, stops)
        return self._verified(places[place], candidates[order][row], skip=1)

    def _op(self, join: JoinFactor) -> Operator:
        """As `bundle op SteM`."""
        return join.op if join.right.source == self._clause.names[self.position] else TURNED[join.op]

    def _verified(self, place: Ints, ids: Ints, skip: int = 0) -> Pairs:
        for join in self._joins[skip:]:
            left, left_valid, right, right_valid = self._operands(join, place, ids)
            holds = left_valid & right_valid & _compared(left, self._op(join), right)
            place, ids = place[holds], ids[holds]
        return place, ids

    def _stretches(self) -> list[tuple[Ints, Ints, Ints]] | None:
        """For each run of the index on the first join column: its ids, and from where to where each hybrid matches.

        None where keys of the index are not those of the comparison: an int beside a double, a sum of doubles.
        """
        if not self._joins:
            return None
        join = self._joins[0]
        theirs, ours = (join.right, join.left) if join.right.source == self._clause.names[self.position] else (join.left, join.right)
        types = [self._type(each) for each in (theirs, ours)]
        floating = [bool(pa.types.is_floating(type_)) for type_ in types]
        if floating[0] != floating[1] or (floating[0] and join.plus):
            return None
        keys, valid = self._keys(ours, np.arange(self._size), None)
        plus = added_as_key(join.plus, types[0])
        shift = -plus if theirs == join.right else plus
        moved = keys + shift
        if bool(((moved > keys) != (shift > 0)).any()) and shift:
            return None  # beyond 64 bits: merging knows what that means
        op, result = self._op(join), []
        for run_keys, run_ids in self._stem.column(theirs.column).index.runs:
            starts, stops = _bounds(run_keys, moved, op)
            result.append((run_ids, np.where(valid, starts, 0), np.where(valid, stops, 0)))
        return result

    def _operands(self, join: JoinFactor, place: Ints, ids: Ints) -> tuple[Ints, Mask, Ints, Mask]:
        """Both sides as keys that compare: first that of the bundle."""
        domain = join_domain(self._type(join.left), self._type(join.right))
        sides = []
        for of, added in ((join.left, 0), (join.right, join.plus)):
            keys, valid = self._keys(of, place, ids)
            if domain == "double":
                sides.append((_doubles(keys, self._type(of), float(added)), valid))
            else:
                plus = added_as_key(added, self._type(of))
                moved = keys + plus
                sides.append((moved, valid & ((moved >= keys) == (plus >= 0)) if plus else valid))
        if join.left.source == self._clause.names[self.position]:
            sides.reverse()
        return *sides[0], *sides[1]

    def _keys(self, of: ColumnOf, place: Ints, ids: Ints | None) -> tuple[Ints, Mask]:
        position = self._clause.names.index(of.source)
        rows = self._rows[position][place] if position in self._rows else ids
        assert rows is not None
        keys, valid = self._stems[position].column(of.column).of(rows)
        return keys, valid == 1

    def _type(self, of: ColumnOf) -> pa.DataType:
        return self._stems[self._clause.names.index(of.source)].schema[of.column].type


def _doubles(keys: Ints, type_: pa.DataType, plus: float) -> Ints:
    values = turned(keys).view(np.float64) if pa.types.is_floating(type_) else keys.astype(np.float64)
    return turned(canonical_doubles(values + plus if plus else values).view(np.int64))


def _compared(left: Ints, op: Operator, right: Ints) -> Mask:
    compare = {"<": np.less, "<=": np.less_equal, "=": np.equal, ">=": np.greater_equal, ">": np.greater}[op]
    return np.asarray(compare(left, right), np.bool_)


def _bounds(ordered: Ints, keys: Ints, op: Operator) -> Pairs:
    """For each key, from where to where in the ordered ones `key op other` holds."""
    nothing, everything = np.zeros(len(keys), np.int64), np.full(len(keys), len(ordered), np.int64)
    match op:
        case "=":
            return np.searchsorted(ordered, keys, "left"), np.searchsorted(ordered, keys, "right")
        case "<":
            return np.searchsorted(ordered, keys, "right"), everything
        case "<=":
            return np.searchsorted(ordered, keys, "left"), everything
        case ">":
            return nothing, np.searchsorted(ordered, keys, "left")
        case ">=":
            return nothing, np.searchsorted(ordered, keys, "right")


def _expanded(starts: Ints, stops: Ints) -> Pairs:
    """(which stretch, place in it) of all places of all stretches."""
    sizes = stops - starts
    which = np.repeat(np.arange(len(sizes)), sizes)
    ends = np.cumsum(sizes)
    return which, np.arange(len(which)) - np.repeat(ends - sizes - starts, sizes)
