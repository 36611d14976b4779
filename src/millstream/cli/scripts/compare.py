"""What was expected against what came: bags of rows, with floats equal up to a relative 1e-9.

Rows are plain values (`cells.py`).  A change is a row with its sign in front and, by instant, its instant
before that: so one comparison of bags serves results and changes alike, and ties are free.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from millstream.cli.scripts.cells import Row

RELATIVE_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Comparison:
    """Indices of expected rows that did not come, and of rows that came unexpected."""

    missing: tuple[int, ...]
    extra: tuple[int, ...]

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra


def compare_bags(expected: Sequence[Row], actual: Sequence[Row]) -> Comparison:
    """Pairs each expected row with one that came; exactly first, then, of what is left, the close ones."""
    waiting: dict[Row, list[int]] = defaultdict(list)
    for i, row in enumerate(actual):
        waiting[_exact_key(row)].append(i)
    left = []
    for i, row in enumerate(expected):
        candidates = waiting[_exact_key(row)]
        if candidates:
            candidates.pop(0)
        else:
            left.append(i)
    extra = sorted(i for indices in waiting.values() for i in indices)
    missing = []
    for i in left:
        close = next((j for j in extra if same(expected[i], actual[j])), None)
        if close is None:
            missing.append(i)
        else:
            extra.remove(close)
    return Comparison(tuple(missing), tuple(extra))


def same(left: Any, right: Any) -> bool:
    """Equal values, with the tolerance for floats at any depth; NaN equals NaN, NULL equals NULL."""
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=RELATIVE_TOLERANCE)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _exact_key(value: Any) -> Any:
    # NaN is unequal to itself, which a bag cannot count
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return tuple(map(_exact_key, value)) if isinstance(value, tuple) else value


def net(changes: Iterable[tuple[int, Row]]) -> list[tuple[int, Row]]:
    """Changes with what cancels taken out, as (sign, row), one for each copy."""
    total: Counter[Row] = Counter()
    rows: dict[Row, Row] = {}
    for sign, row in changes:
        key = _exact_key(row)
        rows[key] = row
        total[key] += sign
    return [(1 if count > 0 else -1, rows[key]) for key, count in total.items() for _ in range(abs(count))]
