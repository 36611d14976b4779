"""Queries in the place of a value: each becomes a column that a join brings.

    SELECT v - (SELECT avg(v) FROM s [ROWS 9]) FROM ...            every row beside the one row of the inner query
    ... WHERE v > (SELECT avg(v) FROM s [ROWS 9] AS b WHERE b.k = a.k)   LEFT JOIN (SELECT k, avg(v) ... GROUP BY k) ON k = a.k
    ... CASE WHEN EXISTS (SELECT 1 FROM ...) THEN ...              (SELECT count(*) FROM ...) > 0
    ... a.v IN (SELECT w FROM ...) OR ...                          counts of equal values, of NULLs and of all
    ... a.v IN (SELECT max(w) FROM ...) OR ...                     a.v = (SELECT max(w) FROM ...)
    ... (a.v, a.x) IN (SELECT w, y FROM ...) OR ...                counts of equal rows, and of those that may be

The inner query has one row, so it aggregates or has LIMIT 1.  What names columns of the outer one: subquery_correlated.
IN and EXISTS as whole conditions of WHERE are cheaper: subquery_conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.core.errors import ArityMismatch, NotSupported
from millstream.language.aggregate_binder import refuse_aggregate
from millstream.language.aggregate_syntax import find_aggregate, is_aggregate
from millstream.language.bound_select import BoundSelect
from millstream.language.column_names import column_name, note_outer
from millstream.language.join_binder import conjuncts, inner_join, only, outer_join, renamed
from millstream.language.nodes import OverFunction
from millstream.language.order_limit import Order
from millstream.language.outer_names import Outer, Selects
from millstream.language.scope import Scope, Source, Visible, at_place, is_bound, is_value, plan_column, plan_scope, value_column
from millstream.language.spans import span_of
from millstream.language.subquery_correlated import correlated, outer_names
from millstream.language.subquery_shapes import behind_exists, behind_in, is_one_group, unwrapped
from millstream.language.typed import PlanColumns, bind_over
from millstream.language.unsupported import not_supported
from millstream.plan.expression import Named, column
from millstream.plan.logical import Plan, Project

_PLAIN = {"expressions", "from_", "joins", "where", "hint"}


@dataclass(frozen=True)
class Value:
    """A query that was taken out of an expression, or what stands before IN, and the column that stands in its place."""

    name: str
    query: exp.Expr
    place: exp.Expr

    @property
    def is_operand(self) -> bool:
        return not isinstance(self.query, exp.Query)


class Values:
    """Takes queries out of expressions; the columns get names that differ, unless the queries are the same."""

    def __init__(self) -> None:
        self._count = 0
        self._known: dict[tuple[str, tuple[bool, ...]], Value] = {}

    def forget(self) -> None:
        """What was taken out so far stands somewhere else: the same query is another column from here on."""
        self._known.clear()

    def taken_out(self, tree: exp.Expr, scope: Scope) -> tuple[exp.Expr, list[Value]]:
        """`tree` with a column in the place of each query, and those queries.  Names outside of them are those of `scope`."""
        found: list[Value] = []
        if not has_query(tree):
            return tree, found
        return self._replaced(tree.copy(), found, scope), found

    def items_taken_out(self, items: list[exp.Expr], scope: Scope, selects: Selects) -> tuple[list[exp.Expr], list[Value]]:
        """The same for a select list, whose items keep the names that they have with the queries in them."""
        plain, values = [], []
        for item in items:
            _note_outer(item, scope, selects)
            tree, found = self.taken_out(item, scope)
            values += found
            plain.append(exp.alias_(tree, column_name(item), quoted=True) if found and not isinstance(tree, exp.Alias) else tree)
        return plain, values

    def group_taken_out(self, group: exp.Group | None, scope: Scope) -> tuple[exp.Group | None, list[Value]]:
        if group is None:
            return None, []
        tree, found = self.taken_out(group, scope)
        assert isinstance(tree, exp.Group)
        return tree, found

    def order_taken_out(self, order: Order | None, scope: Scope) -> tuple[Order | None, list[Value]]:
        if order is None:
            return None, []
        taken = [self.taken_out(key, scope) for key in order.keys]
        return replace(order, keys=tuple(key for key, _ in taken)), [value for _, found in taken for value in found]

    def _replaced(self, tree: exp.Expr, found: list[Value], scope: Scope) -> exp.Expr:
        match tree:
            case exp.Exists():
                return self._replaced(_as_count(behind_exists(tree.this), tree), found, scope)
            case exp.In() if tree.args.get("query") is not None:
                return self._replaced(_membership(tree, self._operand(tree, found, scope)), found, scope)
            case exp.Subquery():
                value = self._value(tree)
                found += [] if value in found else [value]
                return value_column(value.name, tree)
        for child in list(tree.iter_expressions()):
            new = self._replaced(child, found, scope)
            if new is not child:
                child.replace(new)
        return tree

    def _operand(self, tree: exp.In, found: list[Value], scope: Scope) -> exp.Expr:
        """What stands before IN: its names are the outer query's, also where it stands inside the inner one."""
        operand = scope.bare(self._replaced(tree.this, found, scope))
        over = operand.find(OverFunction)
        if over is not None:
            hint = "Select it in a query of WITH, and put IN into the query that reads that."
            raise not_supported("OVER before IN with a query", over, scope.sql, hint)
        if not isinstance(operand, exp.Tuple):
            return self._column(operand, found)
        operand.set("expressions", [self._column(part, found) for part in operand.expressions])
        return operand

    def _column(self, operand: exp.Expr, found: list[Value]) -> exp.Expr:
        """An aggregate is a column of the groups, for the inner query is none of its own."""
        if find_aggregate(operand) is None:
            return operand
        value = self._value(operand)
        found += [] if value in found else [value]
        return value_column(value.name, operand)

    def _value(self, tree: exp.Expr) -> Value:
        text = repr(tree), tuple(is_bound(column) for column in tree.find_all(exp.Column))  # qualifiers, windows and all
        if text not in self._known:
            self._count += 1
            self._known[text] = Value(f"_value {self._count}", unwrapped(tree), tree)
        return self._known[text]


def _note_outer(item: exp.Expr, scope: Scope, selects: Selects) -> None:
    """For the item's name."""
    for node in item.walk(prune=lambda node: isinstance(node, exp.Select)):
        query = unwrapped(node.args.get("query") or node.this) if isinstance(node, exp.Subquery | exp.Exists | exp.In) else None
        if isinstance(query, exp.Select):
            note_outer(node, [name.parts[-1].name for name in outer_names(query, scope, selects)])


def has_query(tree: exp.Expr) -> bool:
    return tree.find(exp.Subquery, exp.Exists) is not None or any(node.args.get("query") for node in tree.find_all(exp.In))


def _as_count(query: exp.Expr, place: exp.Expr) -> exp.Expr:
    """EXISTS: there is a row to count."""
    if is_one_group(query):
        return exp.true()
    return at_place(_some(_counted(query, place)), place)


def _counted(query: exp.Expr, place: exp.Expr, condition: exp.Expr | None = None) -> exp.Subquery:
    """(SELECT count(*) FROM ... WHERE ... AND condition)"""
    _require_plain(query, place)
    count = at_place(exp.Anonymous(this="count", expressions=[exp.Star()]), place)
    counting = query.copy()
    counting.set("expressions", [count])
    if condition is not None:
        before = conjuncts(query.args["where"].this if query.args.get("where") else None)
        counting.set("where", exp.Where(this=exp.and_(*before, condition, copy=True)))
    return at_place(exp.Subquery(this=counting), place)


def _membership(tree: exp.In, operand: exp.Expr) -> exp.Expr:
    """TRUE if there is an equal value, else NULL if there may be one, else FALSE."""
    query = behind_in(tree.args["query"])
    if not is_one_group(query):
        _require_plain(query, tree)
    ours = operand.expressions if isinstance(operand, exp.Tuple) else [operand]
    if any(isinstance(item, exp.Star) for item in query.expressions):
        raise ArityMismatch("the columns of the query behind IN have names", span=span_of(tree))
    if len(query.expressions) != len(ours):
        found = f"the query behind IN has {len(query.expressions)} columns, and what stands before it {len(ours)}"
        raise ArityMismatch(found, span=span_of(tree))
    pairs = list(zip((item.unalias() for item in query.expressions), ours, strict=True))
    if is_one_group(query):
        return at_place(exp.and_(*(exp.EQ(this=mine.copy(), expression=_selected(query, item, tree)) for item, mine in pairs)), tree)
    equal = [exp.EQ(this=item.copy(), expression=mine.copy()) for item, mine in pairs]
    case = exp.Case(
        ifs=[
            exp.If(this=_some(_counted(query, tree, exp.and_(*equal))), true=exp.true()),
            exp.If(this=_unknown(query, tree, pairs, equal), true=exp.null()),
        ],
        default=exp.false(),
    )
    return at_place(case, tree)


def _selected(query: exp.Expr, item: exp.Expr, place: exp.Expr) -> exp.Subquery:
    """The query with this column alone."""
    selecting = query.copy()
    selecting.set("expressions", [item.copy()])
    return at_place(exp.Subquery(this=selecting), place)


def _unknown(query: exp.Expr, tree: exp.In, pairs: list[tuple[exp.Expr, exp.Expr]], equal: list[exp.EQ]) -> exp.Expr:
    """Whether a row is there that would be equal if NULL were the right value."""
    if len(pairs) > 1:
        may_be = [exp.or_(one, _is_null(item), _is_null(mine)) for one, (item, mine) in zip(equal, pairs, strict=True)]
        return _some(_counted(query, tree, exp.and_(*may_be)))
    item, mine = pairs[0]  # without a comparison of all with all
    of_operand = exp.And(this=_is_null(mine), expression=_some(_counted(query, tree)))
    return exp.Or(this=_some(_counted(query, tree, _is_null(item))), expression=of_operand)


def _is_null(tree: exp.Expr) -> exp.Is:
    return exp.Is(this=tree.copy(), expression=exp.null())


def _some(count: exp.Expr) -> exp.GT:
    return exp.GT(this=count, expression=exp.Literal.number(0))


def _require_plain(query: exp.Expr, place: exp.Expr) -> None:
    """Rows of FROM that pass WHERE: then they can be counted under one more condition."""
    is_plain = isinstance(query, exp.Select) and not any(value for key, value in query.args.items() if key not in _PLAIN)
    if is_plain and all(find_aggregate(item) is None for item in query.expressions):
        return
    raise NotSupported(
        "IN and EXISTS inside an expression need a query of FROM and WHERE alone",
        hint="Give the inner query a name in WITH, and select from that.",
        span=span_of(place),
    )


def below_groups(values: list[Value], items: list[exp.Expr], keys: list[exp.Expr]) -> list[Value]:
    """Those that stand inside an aggregate or a key: they are values of a row, not of a group."""
    inside = [*keys, *(node for item in items for node in item.walk() if is_aggregate(node))]
    return _named(values, inside, lambda operand: operand)


def still_named(values: list[Value], trees: list[exp.Expr], above: Callable[[exp.Expr], exp.Expr]) -> list[Value]:
    """Those that stand in one of these trees, which have the columns of the groups already; `above` gives them to operands."""
    return _named(values, trees, above)


def operands(values: list[Value]) -> list[exp.Expr]:
    return [value.query for value in values if value.is_operand]


def _named(values: list[Value], trees: list[exp.Expr], seen: Callable[[exp.Expr], exp.Expr]) -> list[Value]:
    """Those that stand in one of these trees, or in what stands there."""
    names = _value_names(trees)
    for value in reversed(values):  # a query comes behind the operand that it names
        if value.name in names:
            names |= _value_names([seen(value.query) if value.is_operand else value.query])
    return [value for value in values if value.name in names]


def _value_names(trees: list[exp.Expr]) -> set[str]:
    return {column.name for tree in trees for column in tree.find_all(exp.Column) if is_value(column)}


def scope_with(scope: Scope, values: list[Value], plan: Plan) -> Scope:
    """The same names, where expressions may also hold the columns of these values."""
    columns = tuple(Visible("", value.name, plan.schema[value.name].type) for value in values)
    return replace(scope, sources=(*scope.sources, Source(None, "a query", columns, frozenset(value.name for value in values))))


# --- joins ------------------------------------------------------------------------------------


def with_values(bound: BoundSelect, values: list[Value], outer: Outer, selects: Selects) -> BoundSelect:
    """`bound` with a column for each value, unless it has it: several conditions may hold the same query."""
    for value in values:
        if value.name not in bound.plan.schema:
            bound = _with_value(bound, value, outer, selects)
    return bound


def _with_value(bound: BoundSelect, value: Value, outer: Outer, selects: Selects) -> BoundSelect:
    query, sql = value.query, outer.scope.sql
    if value.is_operand:
        tree = outer.bare(query)
        refuse_aggregate(tree, "this place", sql)
        return replace(bound, plan=_with_column(bound.plan, bound.plan, value.name, tree, sql))
    if not isinstance(query, exp.Select) or len(query.expressions) != 1 or isinstance(query.expressions[0], exp.Star):
        raise _refused("a query in the place of a value is a SELECT of one column", value, sql)
    if outer_names(query, outer.scope, selects):
        joined, tree, inner = correlated(bound, query, selects.from_of(query), outer, selects, value.place)
    else:
        joined, tree, inner = _by_itself(bound, value, query, selects, sql)
    plan = _with_column(bound.plan, joined, value.name, tree, sql)
    return BoundSelect(plan, bound.columns, bound.has_window or inner.has_window, grows_only=False, mixes_rows=True)


def _with_column(plan: Plan, joined: Plan, name: str, tree: exp.Expr, sql: str) -> Plan:
    """The columns of `plan`, and behind them what `tree` computes of the joined row."""
    kept = tuple(Named(field.name, column(field.name, field.type)) for field in plan.schema)
    return Project(joined, (*kept, Named(name, bind_over(tree, PlanColumns(joined), sql))))


def _by_itself(bound: BoundSelect, value: Value, query: exp.Select, selects: Selects, sql: str) -> tuple[Plan, exp.Expr, BoundSelect]:
    """Every row beside the inner query's only one."""
    if not _has_one_row(query):
        hint = "Aggregate it, as in max(...), or add LIMIT 1."
        raise _refused("a query in the place of a value has one row", value, sql, hint)
    inner = selects.body(query)
    right, columns = renamed(only(inner.plan, [inner.columns[0].column]), inner.columns, bound.plan.schema.names)
    both = plan_scope(sql, bound.plan, right)
    always = not query.args.get("having") and not query.args.get("limit")
    joined = inner_join(bound.plan, right, [], both, "ON") if always else outer_join(bound.plan, right, [], both, "LEFT")
    return joined, plan_column(columns[0].column, value.place), inner


def _has_one_row(query: exp.Select) -> bool:
    """Or none."""
    limit = query.args.get("limit")
    if limit is not None and limit.expression is not None and limit.expression.name == "1":
        return True
    aggregates = query.args.get("having") is not None or any(find_aggregate(item) is not None for item in query.expressions)
    return aggregates and not query.args.get("group")


def _refused(what: str, value: Value, sql: str, hint: str | None = None) -> NotSupported:
    return NotSupported(what, hint=hint, span=span_of(value.place) or span_of(value.query), sql=sql)
