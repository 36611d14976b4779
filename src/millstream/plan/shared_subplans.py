"""What the plans of several queries have in common: equal parts, which one circuit can run once for all of them.

    a: Filter n > 3 ─┐
    b: Filter n > 5 ─┴─ Aggregate by k: count(*) AS n ─ Window [RANGE 1 MINUTE] ─ Source s (k), by k

Two parts are equal if they read the same and do the same; names are the planner's (`_agg0`), so what a query calls its columns hardly ever
matters.  A part that receives changes from another fragment is equal only if that fragment is.  It has to hold something: what looks at
rows one by one is not worth a circuit of several, and sources have stores of their own (shared_reading.py).

Left out are plans that call Python functions, which may not give the same twice, those whose rows end by themselves (WITH EXPIRY), and
selections that run together: these share in their own way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from millstream.plan.physical import (
    Exec,
    ExpireExec,
    MatchExec,
    PhysicalPlan,
    ReceiveExec,
    functions,
    in_order,
    inputs,
    receives,
    rows_go_alone,
)

Place = tuple[str, int]
"""Incarnation of a query, fragment."""


_REMEMBERED = 64


class CommonSubplans:
    """Remembers what it has found out about plans, and about those that were asked for together the last times."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._parts: dict[str, tuple[frozenset[str], ...]] = {}  # of each incarnation, by fragment
        self._groups: dict[tuple[str, ...], list[list[Place]]] = {}

    def together(self, alike: Iterable[Sequence[tuple[str, PhysicalPlan]]]) -> dict[Place, int]:
        """Numbers for the fragments that have something in common with others: equal for those of one circuit.

        In each of `alike` are the plans, by incarnation, of queries whose operators have seen the same.
        """
        groups = [group for plans in alike if self._on and len(plans) > 1 for group in self._of(plans)]
        return {place: number for number, group in enumerate(groups) for place in group}

    def _of(self, plans: Sequence[tuple[str, PhysicalPlan]]) -> list[list[Place]]:
        names = tuple(incarnation for incarnation, _ in plans)
        if names not in self._groups:
            if len(self._groups) >= _REMEMBERED:  # queries have come and gone
                self._groups, self._parts = {}, {}
            for incarnation, plan in plans:
                if incarnation not in self._parts:
                    self._parts[incarnation] = tuple(frozenset(parts) for parts in parts_of(plan))
            self._groups[names] = _connected({(name, i): parts for name in names for i, parts in enumerate(self._parts[name])})
        return self._groups[names]


def parts_of(plan: PhysicalPlan) -> list[dict[str, Exec]]:
    """Of each fragment: the parts that could be another's as well, by names that are equal for equal parts."""
    if any(functions(fragment.root) or _shares_nothing(fragment.root) for fragment in plan.fragments):
        return [{} for _ in plan.fragments]
    whole = [""] * len(plan.fragments)
    found = []
    for number, fragment in sorted(enumerate(plan.fragments), key=lambda numbered: numbered[1].stage):
        senders = "".join(f"{receive.fragment}:{whole[receive.fragment]}" for receive in sorted(receives(fragment.root), key=_sender))
        whole[number] = _digest(senders, fragment)
        parts = {_digest(senders, part): part for part in in_order(fragment.root) if not rows_go_alone(part)}
        found.append((number, parts))
    return [parts for _, parts in sorted(found, key=lambda numbered: numbered[0])]


def found_in(plan: PhysicalPlan, others: Mapping[str, PhysicalPlan]) -> list[dict[Exec, tuple[str, ...]]]:
    """Of each fragment: the parts that other plans have too, and their names; without what lies below one and is in the same plans."""
    theirs = {name: {digest for parts in parts_of(other) for digest in parts} for name, other in others.items()}
    found = []
    for fragment, parts in zip(plan.fragments, parts_of(plan), strict=True):
        users = {part: tuple(sorted(name for name, known in theirs.items() if digest in known)) for digest, part in parts.items()}
        found.append(_highest(fragment.root, users))
    return found


def _highest(part: Exec, users: Mapping[Exec, tuple[str, ...]], above: tuple[str, ...] = ()) -> dict[Exec, tuple[str, ...]]:
    names = users.get(part, ())
    found = {part: names} if names and names != above else {}
    for below in inputs(part):
        found |= _highest(below, users, names)
    return found


def _connected(parts: Mapping[Place, frozenset[str]]) -> list[list[Place]]:
    """Those that have parts in common, directly or through others; without those that have not."""
    group_of: dict[Place, list[Place]] = {place: [place] for place in parts}
    first: dict[str, Place] = {}
    for place, digests in parts.items():
        for digest in digests:
            one, other = group_of[first.setdefault(digest, place)], group_of[place]
            if one is not other:
                one.extend(other)
                group_of.update(dict.fromkeys(other, one))
    groups = {id(group): group for group in group_of.values() if len(group) > 1}
    return list(groups.values())


def _digest(senders: str, part: object) -> str:
    return hashlib.sha1(f"{senders} {part!r}".encode()).hexdigest()


def _sender(receive: ReceiveExec) -> int:
    return receive.fragment


def _shares_nothing(node: Exec) -> bool:
    return isinstance(node, ExpireExec | MatchExec) or any(map(_shares_nothing, inputs(node)))
