"""A SELECT over the catalog's names becomes a logical plan over resolved, typed columns.

    FROM        Scan, Window                      from_binder
    WHERE       Filter                            over the window's contents; IN and EXISTS: subquery_conditions
    GROUP BY    Project, Aggregate                group_by, aggregate_binder
    HAVING      Filter
    OVER        Project, Over                     over_syntax, over_binder
    QUALIFY     Filter
    SELECT      Project, Aggregate for DISTINCT   select_list
    (SELECT x)  a column, where a value may stand subquery_values
    ORDER BY    TopK                              order_limit, with LIMIT only
    ISTREAM ..  ToStream                          or by default, if the answer can only grow

What is not there yet is refused in unsupported.py and from_binder.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import AlreadyExists, ArityMismatch, MillstreamError, NotSupported, Span, TypeMismatch, WindowInvalid
from millstream.language.aggregate_binder import Grouping, refuse_aggregate
from millstream.language.aggregate_syntax import find_aggregate, is_aggregate
from millstream.language.bound_select import BoundSelect
from millstream.language.catalog import Catalog
from millstream.language.from_binder import bind_from
from millstream.language.group_by import group_by
from millstream.language.join_binder import only
from millstream.language.nodes import OverFunction
from millstream.language.order_limit import Order, first_rows, order_items, order_of, sorted_columns, with_aliases
from millstream.language.outer_names import Outer, refused_elsewhere
from millstream.language.over_binder import OverBinder
from millstream.language.over_nulls import without_nulls
from millstream.language.over_syntax import refuse_over, with_over
from millstream.language.python_functions import with_functions
from millstream.language.scope import Scope, Visible
from millstream.language.select_list import Item, bind_items, find_alias, refuse_stars, written_out
from millstream.language.set_operations import combined, distinct
from millstream.language.spans import span_of
from millstream.language.subquery_conditions import SplitWhere, split_where, with_condition
from millstream.language.subquery_correlated import outer_names
from millstream.language.subquery_shapes import is_one_group
from millstream.language.subquery_values import Value, Values, below_groups, operands, scope_with, still_named, with_values
from millstream.language.typed import PlanColumns, Typed, bind_condition, bind_over
from millstream.language.unsupported import check_expression, check_select, check_set_operation, not_supported
from millstream.plan.expression import Named
from millstream.plan.logical import BoundQuery, Filter, Project, ToStream, moving


def bind_query(select: exp.Expr, catalog: Catalog, sql: str, *, copy_by_copy: bool = False) -> BoundQuery:
    """`sql` is the text that the places in `select` refer to; `copy_by_copy`: see set_operations."""
    try:
        return _Binder(catalog, sql, copy_by_copy=copy_by_copy).query(with_functions(select, catalog.functions))
    except MillstreamError as error:
        error.span = error.span or Span(0, max(len(sql), 1))
        raise error.in_sql(sql) from None
    except RecursionError:
        raise NotSupported("the query is nested too deeply", hint="Break it into several queries.", span=Span(0, 1), sql=sql) from None


_Names = dict[str, tuple[exp.CTE, "_Names"]]
"""By lower-case name: a query of WITH, and the names that it sees itself."""


class _Binder:
    def __init__(self, catalog: Catalog, sql: str, *, copy_by_copy: bool) -> None:
        self._catalog, self._sql, self._copy_by_copy = catalog, sql, copy_by_copy
        self._named: _Names = {}

    def query(self, tree: exp.Expr) -> BoundQuery:
        while isinstance(tree, exp.Subquery) and tree.is_wrapper:
            tree = tree.this
        bound = self.body(tree)
        kind = tree.args.get("to_stream")
        if kind is None and not bound.has_window and bound.grows_only:
            kind = "istream"
        plan = ToStream(bound.plan, kind, moving(bound.plan) if kind == "rstream" else ()) if kind is not None else bound.plan
        return BoundQuery(plan, tuple(visible.name for visible in bound.columns), self._sql)

    def body(self, tree: exp.Expr) -> BoundSelect:
        """A SELECT, or SELECTs joined by set operations, with the names that WITH gives to it."""
        while isinstance(tree, exp.Subquery) and tree.is_wrapper:
            tree = tree.this
        outer, self._named = self._named, self._with(tree.args.get("with_"))
        try:
            self._check_unread(tree)
            match tree:
                case exp.SetOperation():
                    check_set_operation(tree, self._sql)
                    bound = combined(tree, self._side(tree.this), self._side(tree.expression), self._sql, copy_by_copy=self._copy_by_copy)
                    return sorted_columns(bound, tree, self._sql)
                case exp.Select():
                    return self.select(tree)
            raise not_supported("this query", tree, self._sql)
        finally:
            self._named = outer

    def named(self, name: str) -> BoundSelect | None:
        """What WITH gave this name to."""
        found = self._named.get(name.lower())
        if found is None:
            return None
        cte, known = found
        outer, self._named = self._named, known
        try:
            bound = self.body(cte.this)
        finally:
            self._named = outer
        names = [identifier.name for identifier in cte.args["alias"].args.get("columns") or []]
        if names and len(names) != len(bound.columns):
            given = f'"{cte.alias}" names {len(names)} columns, but its query has {len(bound.columns)}'
            raise ArityMismatch(given, span=span_of(cte.args["alias"]), sql=self._sql)
        columns = [replace(visible, name=new) for visible, new in zip(bound.columns, names, strict=True)] if names else bound.columns
        return replace(bound, columns=tuple(columns))

    def from_of(self, select: exp.Select) -> tuple[BoundSelect, Scope]:
        """FROM alone, without WHERE: an inner query's may name columns of the outer one."""
        self._require_from(select)
        bound, scope, _ = bind_from(select, None, self._catalog, self, self._sql)
        return bound, scope

    def filtered(self, bound: BoundSelect, scope: Scope, conditions: list[exp.Expr]) -> BoundSelect:
        """The rows for which all conditions are true; queries may stand in them."""
        where = split_where(exp.Where(this=exp.and_(*conditions, copy=True)))
        plan = bound.plan
        if where.plain is not None:
            self._check_where(where.plain)
            plan = Filter(plan, bind_condition(scope.bare(where.plain.this), scope, self._sql, "WHERE"))
        found = self._with_queries(replace(bound, plan=plan), scope, where, Values())
        names = bound.plan.schema.names
        return found if found.plan.schema.names == names else replace(found, plan=only(found.plan, names))

    def _with(self, with_: exp.With | None) -> _Names:
        """The names before, and those of WITH; each sees the ones before it."""
        names = self._named
        if with_ is not None and with_.args.get("recursive"):
            raise not_supported("WITH RECURSIVE", with_, self._sql)
        own: set[str] = set()
        for cte in with_.expressions if with_ is not None else ():
            if cte.alias.lower() in own:
                raise AlreadyExists(f'WITH gives the name "{cte.alias}" twice', span=span_of(cte.args["alias"]), sql=self._sql)
            own.add(cte.alias.lower())
            names = {**names, cte.alias.lower(): (cte, names)}
        return names

    def _check_unread(self, tree: exp.Expr) -> None:
        """A query of WITH that nothing reads is checked all the same."""
        with_ = tree.args.get("with_")
        read = {table.name.lower() for table in tree.find_all(exp.Table)}
        for cte in with_.expressions if with_ is not None else ():
            if cte.alias.lower() not in read:
                self.named(cte.alias)

    def _side(self, tree: exp.Expr) -> BoundSelect:
        while isinstance(tree, exp.Subquery) and tree.is_wrapper:
            tree = tree.this
        if tree.args.get("to_stream"):
            raise not_supported("ISTREAM, DSTREAM or RSTREAM in a set operation", tree, self._sql, "Name it with CREATE QUERY.")
        return self.body(tree)

    def select(self, select: exp.Select) -> BoundSelect:
        check_select(select, self._sql)
        self._require_from(select)
        select = with_over(select, self._sql)
        order = order_of(select, self._sql)
        where = split_where(select.args.get("where"))
        self._check_where(where.plain)
        source, scope, conditions = bind_from(select, where.plain, self._catalog, self, self._sql)
        plan = source.plan
        for condition in conditions:
            plan = Filter(plan, bind_condition(condition, scope, self._sql, "WHERE"))
        parts = (*select.expressions, *(select.args.get(clause) for clause in ("where", "group", "having", "qualify", "order")))
        with refused_elsewhere(scope, parts):
            return self._clauses(select, replace(source, plan=plan), scope, where, order)

    def _clauses(self, select: exp.Select, source: BoundSelect, scope: Scope, where: SplitWhere, order: Order | None) -> BoundSelect:
        """All behind FROM and the plain conditions of WHERE."""
        values = Values()
        source = self._with_queries(source, scope, where, values)
        values.forget()
        listed, of_list = values.items_taken_out(select.expressions, scope, self)
        grouped, of_group = values.group_taken_out(select.args.get("group"), scope)
        order, of_order = values.order_taken_out(order, scope)
        shown = bind_items(exp.Select(expressions=listed), scope)
        group = group_by(grouped, shown, scope)
        qualify, of_qualify = self._qualify(select.args.get("qualify"), shown, values, scope)
        found = list(dict.fromkeys([*of_list, *of_group, *of_order, *of_qualify]))
        refuse_over(group.keys, "GROUP BY", self._sql)
        items, places = order_items(order, shown, scope)
        outer = Outer(scope, scope.bare)
        trees = [*(item.tree for item in items), *operands(found), *([qualify] if qualify is not None else [])]
        if select.args.get("group") or select.args.get("having") or any(find_aggregate(tree) is not None for tree in trees):
            below = below_groups(found, trees, group.keys)
            source = with_values(source, below, outer, self)
            grouping = Grouping(scope_with(scope, below, source.plan) if below else scope, group.keys, group.sets)
            bound = self._grouped(source, select, items, qualify, grouping, scope, values, found)
        else:
            source = with_values(source, found, outer, self)
            bound = self._projected(source, items, qualify, PlanColumns(source.plan) if found else scope)
        if select.args.get("distinct"):
            bound = self._distinct(bound, select, hidden=len(items) - len(shown))
        return first_rows(bound, order, places, len(shown)) if order is not None else bound

    # --- clauses ---------------------------------------------------------------------------

    def _require_from(self, select: exp.Select) -> None:
        if select.args.get("from_") is None:
            hint = "Name a stream: SELECT ... FROM my_stream."
            raise NotSupported("a continuous query needs FROM", hint=hint, span=span_of(select), sql=self._sql)

    def _check_where(self, where: exp.Where | None) -> None:
        if where is not None:
            check_expression(where.this, self._sql)
            refuse_stars(where.this, self._sql)
            refuse_aggregate(where.this, "WHERE", self._sql)

    def _with_queries(self, source: BoundSelect, scope: Scope, where: SplitWhere, values: Values) -> BoundSelect:
        """The rows for which the conditions of WHERE with queries in them are true."""
        for subquery in where.subqueries:
            if is_one_group(subquery.query) and outer_names(subquery.query, scope, self):
                source = self._where_value(source, subquery.place, values, scope)
            else:
                source = with_condition(source, scope, subquery, self)
        for condition in where.valued:
            source = self._where_value(source, condition, values, scope)
        return source

    def _where_value(self, source: BoundSelect, condition: exp.Expr, values: Values, scope: Scope) -> BoundSelect:
        """A condition of WHERE that compares with what queries answer."""
        tree, found = values.taken_out(condition, scope)
        check_expression(tree, self._sql)
        refuse_aggregate(tree, "WHERE", self._sql)
        source = with_values(source, found, Outer(scope, scope.bare), self)
        return replace(source, plan=Filter(source.plan, bind_condition(scope.bare(tree), PlanColumns(source.plan), self._sql, "WHERE")))

    def _grouped(
        self,
        source: BoundSelect,
        select: exp.Select,
        items: list[Item],
        qualify: exp.Expr | None,
        grouping: Grouping,
        scope: Scope,
        values: Values,
        found: list[Value],
    ) -> BoundSelect:
        def above(tree: exp.Expr) -> exp.Expr:
            return grouping.above(scope.bare(tree))

        shown = [replace(item, tree=grouping.above(item.tree)) for item in items]
        qualify = grouping.above(qualify) if qualify is not None else None
        having, condition = select.args.get("having"), None
        if having is not None:
            tree, of_having = values.taken_out(self._with_aliases(having.this, items, grouping, scope), scope)
            if below_groups(of_having, [tree, *operands(of_having)], []):
                raise not_supported("a query inside an aggregate of HAVING", having.this, self._sql, "Select the aggregate in a subquery.")
            found = list(dict.fromkeys([*found, *of_having]))
            condition = self._having(tree, grouping, scope)
        named = [*(item.tree for item in shown), *(tree for tree in (condition, qualify) if tree is not None)]
        found = still_named(found, named, above)
        bound = with_values(replace(source, plan=grouping.plan(source.plan)), found, Outer(scope, above), self)
        columns = PlanColumns(bound.plan)
        if condition is not None:
            bound = replace(bound, plan=Filter(bound.plan, bind_condition(condition, columns, self._sql, "HAVING")))
        grows_only = source.grows_only and grouping.is_distinct and not found
        bound = self._projected(bound, shown, qualify, columns)
        return replace(bound, grows_only=grows_only and bound.grows_only, mixes_rows=True)

    def _with_aliases(self, having: exp.Expr, items: list[Item], grouping: Grouping, scope: Scope) -> exp.Expr:
        """Aliases written out; a column of FROM comes first only if it is a key.  Inside aggregates and queries there are no aliases."""

        def written(node: exp.Expr) -> exp.Expr:
            if is_aggregate(node) or isinstance(node, exp.Query):
                return node
            if isinstance(node, exp.Column):
                if len(node.parts) > 1 or (scope.knows(node) and grouping.has_key(scope.bare(node))):
                    return node
                item = find_alias(node, items, self._sql)
                return written_out(item, node) if item is not None else node
            for child in list(node.iter_expressions()):
                new = written(child)
                if new is not child:
                    child.replace(new)
            return node

        return written(having.copy())

    def _having(self, having: exp.Expr, grouping: Grouping, scope: Scope) -> exp.Expr:
        check_expression(having, self._sql)
        refuse_stars(having, self._sql)
        condition = scope.bare(having)
        refuse_over([condition], "HAVING", self._sql)
        return grouping.above(condition)

    def _qualify(self, qualify: exp.Qualify | None, items: list[Item], values: Values, scope: Scope) -> tuple[exp.Expr | None, list[Value]]:
        """Its condition over the plan's columns; the functions with OVER stand in it, or in the select list under their aliases."""
        if qualify is None:
            return None, []
        tree, found = values.taken_out(with_aliases(qualify.this, items, self._sql), scope)
        check_expression(tree, self._sql)
        refuse_stars(tree, self._sql)
        condition = scope.bare(tree)
        if not any(part.find(OverFunction) for part in (condition, *(item.tree for item in items))):
            what = "QUALIFY needs a function with OVER, in its condition or in the select list"
            raise WindowInvalid(what, hint="Use WHERE, or HAVING for groups.", span=span_of(qualify.this), sql=self._sql)
        return condition, found

    def _projected(self, source: BoundSelect, items: list[Item], qualify: exp.Expr | None, columns: Typed) -> BoundSelect:
        trees = [*(item.tree for item in items), *([qualify] if qualify is not None else [])]
        numbers = OverBinder(source.plan, columns, self._sql)
        trees = [without_nulls(tree, numbers, self._sql) for tree in trees]
        if numbers.has_calls:
            source, columns = replace(source, plan=numbers.plan()), numbers
        over = OverBinder(source.plan, columns, self._sql)
        trees = [over.above(tree) for tree in trees]
        if over.has_calls:
            source, columns = replace(source, plan=over.plan(), grows_only=False, mixes_rows=True), over
        condition = trees.pop() if qualify is not None else None
        items = [replace(item, tree=tree) for item, tree in zip(items, trees, strict=True)]
        if condition is not None:
            source = replace(source, plan=Filter(source.plan, bind_condition(condition, columns, self._sql, "QUALIFY")))
        names = _plan_names(item.name for item in items)
        named = tuple(Named(name, bind_over(item.tree, columns, self._sql)) for name, item in zip(names, items, strict=True))
        visible = tuple(Visible(item.name, named_.name, named_.expr.type) for item, named_ in zip(items, named, strict=True))
        return replace(source, plan=Project(source.plan, named), columns=visible)

    def _distinct(self, bound: BoundSelect, select: exp.Select, *, hidden: int) -> BoundSelect:
        if hidden:
            hint = "Add it to the select list."
            raise not_supported("ORDER BY something that SELECT DISTINCT does not show", select.args["order"], self._sql, hint)
        for visible in bound.columns:
            if pa.types.is_map(visible.type):
                raise TypeMismatch(f'DISTINCT cannot compare the MAP "{visible.name}"', span=span_of(select.expressions[0]), sql=self._sql)
        return replace(bound, plan=distinct(bound.plan, copy_by_copy=self._copy_by_copy), mixes_rows=True)


def _plan_names(names: Iterable[str]) -> list[str]:
    """Plain, different names for the plan's columns, as close as can be to those the user sees."""
    taken: list[str] = []
    for name in names:
        plain = re.sub(r"[^0-9A-Za-z_]+", "_", name).strip("_") or "column"
        plain = f"c{plain}" if plain[0].isdigit() else plain
        candidate, number = plain, 2
        while candidate.lower() in (other.lower() for other in taken):
            candidate, number = f"{plain}_{number}", number + 1
        taken.append(candidate)
    return taken
