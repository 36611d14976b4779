"""Several items in FROM: in which order and how they are joined, and what a name means after each join.

Which rows pair is join_binder's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from millstream.core.errors import AlreadyExists, WindowInvalid
from millstream.language.bound_select import BoundSelect
from millstream.language.join_binder import (
    anti_join,
    conjuncts,
    inner_join,
    merged_names,
    only,
    outer_join,
    renamed,
    semi_join,
    using,
    with_merged,
)
from millstream.language.join_queries import Sides, side_of, with_queries
from millstream.language.outer_names import Selects
from millstream.language.scalar_predicates import comparison_type
from millstream.language.scope import Scope, Source, Visible
from millstream.language.spans import span_of
from millstream.language.subquery_values import has_query
from millstream.language.timed_joins import asof_join, zipper_join
from millstream.language.unsupported import check_expression, not_supported
from millstream.plan.expression import column
from millstream.plan.logical import Plan


def bind_joins(
    given: Sequence[tuple[BoundSelect, Scope]], joins: list[exp.Join], where: exp.Where | None, selects: Selects, sql: str
) -> tuple[BoundSelect, Scope, list[exp.Expr]]:
    """The items of FROM joined from left to right, what names mean after that, and the conditions of WHERE that became no keys."""
    items: list[tuple[BoundSelect, Scope]] = []
    for item in given:
        items.append(_distinct_names(item, items))
    _check_qualifiers([scope.sources[0] for _, scope in items], joins, sql)
    kinds = [_kind(join, sql) for join in joins]
    scopes = [items[0][1]]
    for join, kind, (_, own) in zip(joins, kinds, items[1:], strict=True):
        scopes.append(_scope_after(join, kind, scopes[-1], own.sources[0], sql))
    pending = [scopes[-1].bare(condition) for condition in conjuncts(where.this if where is not None else None)]
    equated = scopes[-1].with_equal(pending)  # as in CQL: what WHERE equates may go by the common name
    whole = items[0][0]
    for i, (join, kind, (right, own)) in enumerate(zip(joins, kinds, items[1:], strict=True)):
        names = merged_names(join, scopes[i], own.sources[0], sql)
        both = Scope((*scopes[i].sources, *own.sources), sql)
        on = conjuncts(join.args.get("on"))
        simple = [part for part in on if not has_query(part)]
        conditions = [*using(names, scopes[i], own.sources[0], join), *map(both.bare, simple)]
        if kind == "INNER" and not {"RIGHT", "FULL"} & {*kinds[i + 1 :]}:  # those bring rows back that WHERE is to judge
            fitting, pending = _fitting(pending, whole.plan, right.plan)
            conditions += fitting
        if len(simple) < len(on):
            whole = _with_queries(whole, right, join, kind, conditions, both, selects)
        else:
            whole = _combined(whole, right, join, kind, conditions, both)
        if kind in ("FULL", "ZIPPER") and names:
            whole = replace(whole, plan=with_merged(whole.plan, scopes[i + 1], names, join))
    return replace(whole, columns=scopes[-1].starred), equated, pending


def _distinct_names(item: tuple[BoundSelect, Scope], before: list[tuple[BoundSelect, Scope]]) -> tuple[BoundSelect, Scope]:
    bound, scope = item
    taken = [name for other, _ in before for name in other.plan.schema.names]
    plan, columns = renamed(bound.plan, bound.columns, taken)
    return replace(bound, plan=plan, columns=columns), Scope((replace(scope.sources[0], columns=columns),), scope.sql)


def _with_queries(
    left: BoundSelect, right: BoundSelect, join: exp.Join, kind: str, conditions: list[exp.Expr], scope: Scope, selects: Selects
) -> BoundSelect:
    """The same where queries stand in ON."""
    parts = [part for part in conjuncts(join.args.get("on")) if has_query(part)]
    given = Sides(left, right, scope)
    later = [part for part in parts if kind == "INNER" and side_of(part, given, selects) is None]
    sides, more = with_queries(given, kind, [part for part in parts if part not in later], selects)
    whole = _combined(sides.left, sides.right, join, kind, [*conditions, *more], sides.scope)
    names = left.plan.schema.names if kind in ("SEMI", "ANTI") else (*left.plan.schema.names, *right.plan.schema.names)
    whole = replace(whole, plan=only(whole.plan, names))
    return selects.filtered(whole, scope, later) if later else whole


def _combined(
    left: BoundSelect, right: BoundSelect, join: exp.Join, kind: str, conditions: list[exp.Expr], scope: Scope
) -> BoundSelect:  # fmt: skip
    match kind:
        case "INNER":
            plan = inner_join(left.plan, right.plan, conditions, scope, "ON")
        case "SEMI":
            plan = semi_join(left.plan, right.plan, conditions, scope)
        case "ANTI":
            plan = anti_join(left.plan, right.plan, conditions, scope)
        case "ASOF" | "LEFT ASOF":
            match_ = scope.bare(join.args["match_condition"])
            plan = asof_join(left.plan, right.plan, conditions, match_, scope, keeps_left=kind == "LEFT ASOF")
        case "ZIPPER":
            select = join.parent_select
            assert select is not None, "a join stands in a SELECT"
            _check_stream(left, select.args["from_"].this, scope.sql)
            _check_stream(right, join.this, scope.sql)
            plan = zipper_join(left.plan, right.plan, conditions, join.args["within_us"], scope)
        case _:
            plan = outer_join(left.plan, right.plan, conditions, scope, kind)
    grows_only = left.grows_only and right.grows_only and kind in ("INNER", "SEMI")
    return BoundSelect(plan, (), left.has_window or right.has_window, grows_only, mixes_rows=True)


def _scope_after(join: exp.Join, kind: str, before: Scope, source: Source, sql: str) -> Scope:
    """What the names mean after a join: columns of USING are one, whichever side has them."""
    if kind in ("SEMI", "ANTI"):
        return replace(before, used=before.used | {name.lower() for name in merged_names(join, before, source, sql)})
    names = {name.lower() for name in merged_names(join, before, source, sql)}
    left_too = kind in ("RIGHT", "FULL", "ZIPPER")
    sources = [_hiding(own, names) if left_too else own for own in before.sources]
    sources.append(source if kind == "RIGHT" else _hiding(source, names))
    if kind in ("FULL", "ZIPPER") and names:
        merged = tuple(_merged(visible, source) for visible in before.starred if visible.name.lower() in names)
        sources.insert(0, Source(None, "USING", merged))
    return Scope(tuple(sources), sql, used=before.used)


def _merged(ours: Visible, source: Source) -> Visible:
    """The column that holds the left's value or the right's, in a type that holds both."""
    theirs = source.named(ours.name)[0]
    type_ = comparison_type(column(ours.column, ours.type), column(theirs.column, theirs.type))
    return Visible(ours.name, f"_using_{ours.column}", type_)


def _hiding(source: Source, names: set[str]) -> Source:
    hidden = frozenset(visible.column for visible in source.columns if visible.name.lower() in names)
    return replace(source, merged=source.merged | hidden)


def _fitting(conditions: list[exp.Expr], left: Plan, right: Plan) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Equalities of WHERE that are about these two sides, and the other conditions."""
    both = {*left.schema.names, *right.schema.names}
    fitting: list[exp.Expr] = []
    others: list[exp.Expr] = []
    for condition in conditions:
        names = {node.name for node in condition.find_all(exp.Column)}
        is_key = isinstance(condition, exp.EQ | exp.NullSafeEQ) and names <= both
        (fitting if is_key and names & {*left.schema.names} and names & {*right.schema.names} else others).append(condition)
    return fitting, others


def _kind(join: exp.Join, sql: str) -> str:
    """INNER, LEFT, RIGHT, FULL, SEMI, ANTI, ASOF, LEFT ASOF or ZIPPER."""
    kind, side = (join.args.get("kind") or "").upper(), (join.args.get("side") or "").upper()
    timed = join.method in ("ASOF", "ZIPPER")
    for condition in (*conjuncts(join.args.get("on")), join.args.get("match_condition")):
        if condition is not None and (timed or not has_query(condition)):
            check_expression(condition, sql)
    match side, join.method if timed else kind:
        case _, "ZIPPER":
            return "ZIPPER"
        case "" | "LEFT", "ASOF":
            return f"{side} ASOF".strip()
        case _, "ASOF":
            raise not_supported(f"{side} ASOF JOIN", join, sql, "The left side looks for partners: swap the sides.")
        case "", "" | "INNER" | "CROSS":
            return "INNER"
        case "" | "LEFT", "SEMI" | "ANTI":
            return kind
        case "LEFT" | "RIGHT" | "FULL", "" | "OUTER":
            return side
    raise not_supported(f"{side} {kind} JOIN".strip(), join, sql)


def _check_stream(bound: BoundSelect, item: exp.Expr, sql: str) -> None:
    """A side of a zipper join: rows as they arrive, filtered and projected at most."""
    if bound.has_window:
        place = span_of(item.args.get("stream_window")) or span_of(item)
        raise WindowInvalid("a side of ZIPPER JOIN takes no window", hint="WITHIN bounds both sides.", span=place, sql=sql)
    if bound.mixes_rows or not bound.grows_only:
        raise not_supported("ZIPPER JOIN of what is not a stream", item, sql, "It takes two streams, filtered and projected at most.")


def _check_qualifiers(sources: list[Source], joins: list[exp.Join], sql: str) -> None:
    seen: set[str] = set()
    for source, join in zip(sources, [None, *joins], strict=True):
        name = (source.qualifier or "").lower()
        if name and name in seen and join is not None:
            raise AlreadyExists(
                f'"{source.qualifier}" stands twice in FROM', hint=f"Give one another name: {source.qualifier} AS other.",
                span=span_of(join.this), sql=sql,
            )  # fmt: skip
        seen.add(name)
