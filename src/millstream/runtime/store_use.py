"""What the stores of all workers add up to, for people who look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from millstream.plan.physical import FilterStep, SourceExec
from millstream.runtime.messages import StoreSize


@dataclass(frozen=True)
class StoreUse:
    """Rows of a stream, or of a query that gives one, that are kept for its readers."""

    source: str
    columns: tuple[str, ...]
    kept_if: tuple[str, ...]  # filters that the rows have passed
    spread: str  # over the buckets
    rows: int
    bytes: int
    queries: tuple[str, ...]
    windows: int  # that hold their rows here and nowhere else, in the bucket where there are most


def used_stores(sizes: Iterable[StoreSize], names: Mapping[str, str]) -> list[StoreUse]:
    """`names` are those of the queries that still run, by incarnation."""
    found: dict[tuple[SourceExec, tuple[str, ...]], list[StoreSize]] = {}
    for size in sizes:
        queries = tuple(sorted({names[incarnation] for incarnation, _ in size.readers if incarnation in names}))
        if queries:
            found.setdefault((size.read, queries), []).append(size)
    return [_together(read, queries, parts) for (read, queries), parts in found.items()]


def _together(read: SourceExec, queries: tuple[str, ...], parts: list[StoreSize]) -> StoreUse:
    return StoreUse(
        read.name,
        read.schema.names,
        tuple(step.predicate_sql for step in read.prefix if isinstance(step, FilterStep)),
        str(read.distribution),
        sum(part.rows for part in parts),
        sum(part.bytes for part in parts),
        queries,
        max(part.windows for part in parts),
    )
