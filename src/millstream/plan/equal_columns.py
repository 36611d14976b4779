"""Which columns of a relation have one value in every row of it, as a join on their equality leaves them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class EqualColumns:
    sets: tuple[frozenset[str], ...] = ()
    """Without a column in common; those that equal no other are in none."""

    def joined(self, pairs: Iterable[tuple[str, str]]) -> EqualColumns:
        """The two of each pair are equal besides."""
        sets = list(self.sets)
        for pair in pairs:
            met = [each for each in sets if not each.isdisjoint(pair)]
            sets = [each for each in sets if each.isdisjoint(pair)] + [frozenset(pair).union(*met)]
        return EqualColumns(tuple(sets))

    def beside(self, other: EqualColumns) -> EqualColumns:
        """Of rows that are one of ours and one of theirs, without a name in common."""
        return EqualColumns(self.sets + other.sets)

    def renamed(self, names: Mapping[str, str]) -> EqualColumns:
        """Of the columns that are left, by their new names."""
        kept = (frozenset(names[name] for name in each if name in names) for each in self.sets)
        return EqualColumns(tuple(each for each in kept if len(each) > 1))

    def one_of(self, names: Collection[str], name: str) -> str | None:
        """The column itself if it is among `names`, else one of them that equals it, if any does."""
        if name in names:
            return name
        return min((other for each in self.sets if name in each for other in each if other in names), default=None)


NONE_EQUAL = EqualColumns()
