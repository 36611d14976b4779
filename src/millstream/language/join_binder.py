"""Joins in FROM: equal keys where the conditions have them, a filter for the rest.

    a JOIN b ON a.k = b.k AND a.v > b.v     Filter(v > v_2, Join(a, b, k = k_2))
    a, b WHERE a.k = b.k                    the same, from WHERE
    a LEFT SEMI JOIN b ON a.k = b.k         a's columns of Join(a, distinct keys of b, k = k_2)
    a LEFT ANTI JOIN b ON ...               Union(a, what the semi join has taken away)
    a LEFT JOIN b ON ...                    Union(the inner join, the anti join with NULLs)

Items get column names that differ, so that a plan's columns need no qualifiers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ColumnNotFound, MillstreamError, did_you_mean
from millstream.core.schema import Field
from millstream.language.scalar_casts import cast
from millstream.language.scalar_predicates import comparable
from millstream.language.scope import Scope, Source, Visible, plan_column
from millstream.language.spans import span_of
from millstream.language.typed import bind_condition, bind_over
from millstream.plan.duckdb_sql import lowered
from millstream.plan.expression import Expr, Named, column
from millstream.plan.logical import Aggregate, Filter, Join, JoinKey, Negate, Plan, Project, Union


@dataclass(frozen=True)
class _Equality:
    left: Expr
    right: Expr
    null_safe: bool


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a condition that are joined by AND."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    return [] if condition is None else [condition]


def renamed(plan: Plan, columns: Sequence[Visible], taken: Iterable[str]) -> tuple[Plan, tuple[Visible, ...]]:
    """The plan with column names that nothing in `taken` has, in any case."""
    used = {name.lower() for name in taken}
    if not used & {name.lower() for name in plan.schema.names}:
        return plan, tuple(columns)
    names = {}
    for name in plan.schema.names:
        candidate, number = name, 2
        while candidate.lower() in used:
            candidate, number = f"{name}_{number}", number + 1
        used.add(candidate.lower())
        names[name] = candidate
    projected = Project(plan, tuple(Named(names[field.name], column(field.name, field.type)) for field in plan.schema))
    return projected, tuple(replace(visible, column=names[visible.column]) for visible in columns)


def merged_names(join: exp.Join, left: Scope, right: Source, sql: str) -> list[str]:
    """The columns of USING, or all common ones of a NATURAL join."""
    if join.args.get("method") == "NATURAL":
        return [visible.name for visible in right.columns if any(visible.name.lower() == other.name.lower() for other in left.starred)]
    names = []
    for identifier in join.args.get("using") or []:
        for known, where in ((left.starred, "the left side"), (right.columns, right.described)):
            if identifier.name.lower() not in (visible.name.lower() for visible in known):
                raise ColumnNotFound(
                    f'USING names the column "{identifier.name}", which {where} does not have',
                    hint=did_you_mean(identifier.name, [visible.name for visible in known]),
                    span=span_of(identifier) or span_of(join), sql=sql,
                )  # fmt: skip
        names.append(identifier.name)
    return names


def using(names: Sequence[str], left: Scope, right: Source, place: exp.Expr) -> list[exp.Expr]:
    """The equalities that USING stands for, over the plan's columns."""
    found: list[exp.Expr] = []
    for name in names:
        ours = next(visible for visible in left.starred if visible.name.lower() == name.lower())
        theirs = next(visible for visible in right.columns if visible.name.lower() == name.lower())
        found.append(exp.EQ(this=plan_column(ours.column, place), expression=plan_column(theirs.column, place)))
    return found


def with_merged(plan: Plan, scope: Scope, names: Sequence[str], place: exp.Expr) -> Plan:
    """The columns of a FULL JOIN's USING: the left's, or the right's where there is none."""
    merged = []
    for visible in scope.sources[0].columns:
        parts = [other.column for source in scope.sources[1:] for other in source.columns if other.name.lower() == visible.name.lower()]
        tree = exp.Anonymous(this="coalesce", expressions=[plan_column(part, place) for part in parts])
        merged.append(Named(visible.column, cast(bind_over(tree, scope, scope.sql), visible.type)))
    return Project(plan, (*(Named(field.name, column(field.name, field.type)) for field in plan.schema), *merged))


def inner_join(left: Plan, right: Plan, conditions: Sequence[exp.Expr], scope: Scope, clause: str) -> Plan:
    """`conditions` are over the plan's columns; all of them hold for every pair."""
    equalities, rest = split_equalities(left, right, conditions, scope)
    plan: Plan = keyed_join(left, right, equalities)
    for condition in rest:
        plan = Filter(plan, bind_condition(condition, scope, scope.sql, clause))
    return plan


def outer_join(left: Plan, right: Plan, conditions: Sequence[exp.Expr], scope: Scope, side: str) -> Plan:
    """`side` is LEFT, RIGHT or FULL: whose rows stay though they have no partner."""
    names = (*left.schema.names, *right.schema.names)
    parts: list[Plan] = [only(inner_join(left, right, conditions, scope, "ON"), names)]
    if side in ("LEFT", "FULL"):
        parts.append(padded(anti_join(left, right, conditions, scope), (*left.schema, *right.schema)))
    if side in ("RIGHT", "FULL"):
        parts.append(padded(anti_join(right, left, conditions, scope), (*left.schema, *right.schema)))
    return Union(tuple(parts))


def semi_join(left: Plan, right: Plan, conditions: Sequence[exp.Expr], scope: Scope) -> Plan:
    """The rows of the left that have a partner, each as often as it is there."""
    equalities, rest = split_equalities(left, right, conditions, scope)
    if equalities and not rest:
        # keys of the right, each once: a row meets at most one
        right, names = with_computed(right, [equality.right for equality in equalities], "right")
        partners = _distinct(right, names)
        left_too, left_names = with_computed(left, [equality.left for equality in equalities], "left")
        keys = zip(left_names, partners.schema.names, [equality.null_safe for equality in equalities], strict=True)
        return only(Join(left_too, partners, tuple(JoinKey(*key) for key in keys)), left.schema.names)
    partners = _distinct(inner_join(left, right, conditions, scope, "ON"), left.schema.names)
    same = tuple(JoinKey(*names, null_safe=True) for names in zip(left.schema.names, partners.schema.names, strict=True))
    return only(Join(left, partners, same), left.schema.names)


def anti_join(left: Plan, right: Plan, conditions: Sequence[exp.Expr], scope: Scope) -> Plan:
    """The rows of the left that have no partner."""
    return Union((left, Negate(semi_join(left, right, conditions, scope))))


def _distinct(plan: Plan, names: Sequence[str]) -> Aggregate:
    """These columns, each combination once, under names that nothing else has."""
    named = tuple(Named(f"_of_{i}_{name}", column(name, plan.schema[name].type)) for i, name in enumerate(names))
    return Aggregate(Project(plan, named), tuple(name.name for name in named), ())


def only(plan: Plan, names: Sequence[str]) -> Plan:
    return Project(plan, tuple(Named(name, column(name, plan.schema[name].type)) for name in names))


def padded(plan: Plan, fields: Sequence[Field]) -> Plan:
    """The plan with NULLs for the columns that it does not have."""
    nothing = Expr(lowered(exp.null(), "NULL"), pa.null())
    return Project(
        plan,
        tuple(
            Named(field.name, column(field.name, field.type) if field.name in plan.schema else cast(nothing, field.type))
            for field in fields
        ),
    )


def split_equalities(left: Plan, right: Plan, conditions: Sequence[exp.Expr], scope: Scope) -> tuple[list[_Equality], list[exp.Expr]]:
    """Equalities of something on the left with something on the right, and the other conditions."""
    equalities, rest = [], []
    for condition in conditions:
        equality = _equality(condition, left, right, scope)
        if equality is None:
            rest.append(condition)
        else:
            equalities.append(equality)
    return equalities, rest


def keyed_join(left: Plan, right: Plan, equalities: Sequence[_Equality]) -> Join:
    left, left_names = with_computed(left, [equality.left for equality in equalities], "left", right.schema.names)
    right, right_names = with_computed(right, [equality.right for equality in equalities], "right", left.schema.names)
    keys = tuple(JoinKey(*key) for key in zip(left_names, right_names, [equality.null_safe for equality in equalities], strict=True))
    return Join(left, right, keys)


def _equality(condition: exp.Expr, left: Plan, right: Plan, scope: Scope) -> _Equality | None:
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    one, other = condition.this, condition.expression
    if not reads(one, left) or not reads(other, right):
        one, other = other, one
    if not reads(one, left) or not reads(other, right):
        return None
    try:
        ours, theirs = comparable(bind_over(one, scope, scope.sql), bind_over(other, scope, scope.sql))
    except MillstreamError as error:
        error.span = error.span or span_of(condition)
        raise error.in_sql(scope.sql) from None
    return _Equality(ours, theirs, isinstance(condition, exp.NullSafeEQ))


def reads(tree: exp.Expr, plan: Plan) -> bool:
    """Reads columns of this plan, and of no other."""
    names = {node.name for node in tree.find_all(exp.Column)}
    return bool(names) and names <= set(plan.schema.names)


def with_computed(plan: Plan, keys: Sequence[Expr], side: str, taken: Sequence[str] = ()) -> tuple[Plan, list[str]]:
    """The plan with a column for every key, and their names, which nothing in `taken` has."""
    names: list[str] = []
    computed: list[Named] = []
    for key in keys:
        if key.is_column:
            names.append(next(iter(key.columns)))
            continue
        name = f"_{side}_key_{len(computed) + 1}"
        while name in plan.schema or name in taken:
            name += "_"
        computed.append(Named(name, key))
        names.append(name)
    if not computed:
        return plan, names
    own = [Named(field.name, column(field.name, field.type)) for field in plan.schema]
    return Project(plan, (*own, *computed)), names
