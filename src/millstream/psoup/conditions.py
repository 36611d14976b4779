"""WHERE taken apart: what goes into the predicate index, what the data SteMs' indexes join by, and what is left for the predicate list.

    size > 100                      Selection                     a column and a constant
    a.k = b.k, a.ts >= b.ts - 5 s   JoinFactor                    columns of two sources, and a constant added to one
    sym LIKE 'A%', a.x + b.y > 3    Condition                     whatever else
    1 < 2                           nothing

Each part says exactly what the text says: where an index would compare otherwise than SQL does (another type, an overflow that SQL makes
NULL of), the part goes to the list.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa
from sqlglot import exp

from millstream.core.schema import INTERVAL
from millstream.kernels.comparison_keys import Operator
from millstream.kernels.predicate_index import Factor
from millstream.kernels.sort_keys import is_sortable
from millstream.operators.evaluator import Evaluator
from millstream.plan.comparison import Comparing, comparing
from millstream.plan.constant_folding import folded, truth
from millstream.plan.duckdb_sql import duckdb_type, render, to_duckdb
from millstream.plan.expression import Expr
from millstream.plan.rules.conditions import parts
from millstream.psoup.query import Clause, ColumnOf, Condition, JoinFactor, Selection, Source, is_number, join_domain

_OPERATORS: dict[type[exp.Expr], Operator] = {exp.LT: "<", exp.LTE: "<=", exp.EQ: "=", exp.GTE: ">=", exp.GT: ">"}
_LONGEST_MOVE_US = 10**18
"""So far an instant can be moved without leaving what SQL can hold."""
_ALONE = threading.Lock()


@dataclass(frozen=True)
class Base:
    """A column of a source."""

    of: ColumnOf
    type: pa.DataType


@dataclass(frozen=True)
class _Moved:
    """A column, and a constant that is added to it."""

    base: Base
    plus: int | float = 0


def clause_of(sources: Sequence[Source], wanted: Sequence[Expr], base: Mapping[str, Base]) -> Clause:
    """`wanted` all hold; they are over the columns of `base`."""
    factors: list[Selection] = []
    joins: list[JoinFactor] = []
    conditions: list[Condition] = []
    for condition in (part for each in wanted for part in parts(folded(each))):
        if truth(condition.tree) is True:
            continue
        compared = comparing(condition)
        sides = [compared, compared.turned] if compared is not None else []
        selections = [found for side in sides if (found := _selection(side, base)) is not None]
        if selections:
            factors.append(selections[0])
            continue
        joined = [pair for side in sides if (pair := _join(side, base)) is not None]
        if joined:
            joins.append(joined[0][0])
            factors += joined[0][1]
            continue
        conditions.append(_condition(condition, base))
    return Clause(tuple(sources), _each_once(factors), _each_once(joins), _each_once(conditions))


def _each_once(found: list[Any]) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(found))


def _condition(condition: Expr, base: Mapping[str, Base]) -> Condition:
    names = sorted(condition.columns) or list(base)[:1]  # one that reads nothing is never true
    return Condition(tuple((name, base[name].of) for name in names), to_duckdb(condition))


def _selection(compared: Comparing, base: Mapping[str, Base]) -> Selection | None:
    """column op constant."""
    found = _column(compared.left, base, widened_to=_same_kind)
    if found is None or not is_sortable(found.type) or compared.right.columns:
        return None
    return Selection(found.of.source, Factor(found.of.column, _OPERATORS[compared.kind], _constant(compared.right)))


def _join(compared: Comparing, base: Mapping[str, Base]) -> tuple[JoinFactor, list[Selection]] | None:
    """left op right + constant, with what keeps `right + constant` within its type."""
    left, right, op = _column(compared.left, base, widened_to=_as_numbers), _moved(compared.right, base), _OPERATORS[compared.kind]
    if left is None or right is None or left.of.source == right.base.of.source:
        return None
    domain = join_domain(left.type, right.base.type)
    if domain is None or (domain == "name" and (op != "=" or right.plus)):
        return None
    if pa.types.is_floating(compared.left.type) != (domain == "double"):
        return None
    return JoinFactor(left.of, op, right.base.of, right.plus), _within_type(right)


def _within_type(moved: _Moved) -> list[Selection]:
    """SQL makes NULL of a sum that its type cannot hold."""
    type_, plus = moved.base.type, moved.plus
    if not plus or not pa.types.is_integer(type_):
        return []
    most = 2 ** (type_.bit_width - 1) - 1
    op: Operator = "<=" if plus > 0 else ">="
    return [Selection(moved.base.of.source, Factor(moved.base.of.column, op, (most if plus > 0 else -most - 1) - plus))]


def _moved(side: Expr, base: Mapping[str, Base]) -> _Moved | None:
    """column, column + constant, constant + column or column - constant."""
    found = _column(side, base, widened_to=_as_numbers)
    if found is not None:
        return _Moved(found)
    tree = side.tree.unnest()
    if not isinstance(tree, exp.Add | exp.Sub):
        return None
    one, other = tree.this, tree.expression
    if isinstance(tree, exp.Add) and one.find(exp.Column) is None:
        one, other = other, one
    column = _column(Expr(one, side.type), base)
    if column is None or other.find(exp.Column) is not None:
        return None
    plus = _constant_plus(other, column.type)
    if plus is None:
        return None
    return _Moved(column, -plus if isinstance(tree, exp.Sub) else plus)


def _constant_plus(tree: exp.Expr, type_: pa.DataType) -> int | float | None:
    """What is added to a column of this type; None if an index cannot add it."""
    is_instant = pa.types.is_timestamp(type_)
    if not is_instant and type_ != pa.float64() and not pa.types.is_integer(type_):
        return None
    if is_instant and _value(f"typeof({render(tree)})", pa.string())[0].as_py() != duckdb_type(INTERVAL):
        return None  # months have no length
    (value,) = _value(render(tree), INTERVAL if is_instant else type_)
    if not value.is_valid:
        return None
    plus: int | float = value.cast(pa.int64()).as_py() if is_instant else value.as_py()
    limit = _LONGEST_MOVE_US if is_instant else 2 ** (type_.bit_width - 1) if pa.types.is_integer(type_) else float("inf")
    return plus if abs(plus) < limit else None  # NaN is not below anything


def _column(side: Expr, base: Mapping[str, Base], widened_to: Any = None) -> Base | None:
    """The column that `side` is, in its own type or in one in which its values compare as in their own."""
    tree = side.tree.unnest()
    if isinstance(tree, exp.Column) and base[tree.name].type == side.type:
        return base[tree.name]
    if widened_to is None or not isinstance(tree, exp.Cast):
        return None
    inner = tree.this.unnest()
    if isinstance(inner, exp.Column) and widened_to(base[inner.name].type, side.type):
        return base[inner.name]
    return None


def _same_kind(own: pa.DataType, to: pa.DataType) -> bool:
    if pa.types.is_integer(own) and pa.types.is_integer(to):
        return bool(own.bit_width <= to.bit_width)
    return bool(own == pa.float32() and to == pa.float64())


def _as_numbers(own: pa.DataType, to: pa.DataType) -> bool:
    return _same_kind(own, to) or (is_number(own) and bool(to == pa.float64()))


def _constant(side: Expr) -> Any:
    tree = side.tree.unnest()
    if isinstance(tree, exp.Literal) and not tree.is_string and pa.types.is_integer(side.type) and tree.this.isdecimal():
        return int(tree.this)  # most are such
    return _value(render(tree), side.type)[0].as_py()


@cache
def _evaluator() -> Evaluator:
    return Evaluator()


@lru_cache(maxsize=4096)
def _value(sql: str, type_: pa.DataType) -> pa.Array:
    """An array of one."""
    with _ALONE:
        return _evaluator().constants([(sql, type_)])[0]
