"""What several queries have in common, for people who look: operators that run once for all of them, and rows that are kept once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from millstream.runtime.messages import CommonPart
from millstream.runtime.store_use import StoreUse


@dataclass(frozen=True)
class SharedPart:
    """`kind` is "selections" that run together, "operator", with all that lies below it in the plans, or "rows", of a source."""

    kind: str
    part: str
    queries: tuple[str, ...]


def shared_parts(parts: Iterable[CommonPart], names: Mapping[str, str]) -> list[SharedPart]:
    """The parts of all buckets, each once; `names` are those of the queries that still run, by incarnation."""
    found = set()
    for common in parts:
        queries = tuple(sorted({names[incarnation] for incarnation, _ in common.users if incarnation in names}))
        if len(queries) > 1:
            found.add(SharedPart("operator", common.part, queries))
    return sorted(found, key=lambda part: (part.queries, part.part))


def shared_rows(stores: Sequence[StoreUse]) -> list[SharedPart]:
    """The stores with more than one query."""
    return [SharedPart("rows", _described(use), use.queries) for use in stores if len(use.queries) > 1]


def _described(use: StoreUse) -> str:
    kept = "".join(f", keep {predicate}" for predicate in use.kept_if)
    return f"{use.source} ({', '.join(use.columns)}){kept}"
