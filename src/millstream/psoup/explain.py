"""How a registered query was taken apart, for people."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.instant import NEVER_BEFORE, format_duration
from millstream.plan.explain import describe
from millstream.plan.physical import Exec, FilterStep, RowWiseStep, SourceExec, inputs
from millstream.plan.window import instant_text
from millstream.psoup.from_plan import Planned
from millstream.psoup.query import Bound, Condition, JoinFactor, Now, Query


def explained(planned: Planned) -> str:
    query = planned.query
    streams = {source.name: source.stream for source in query.clause.sources}
    lines = ["streams          " + ", ".join(f"{name}: {stream}" for name, stream in streams.items()), f"window           {_window(query)}"]
    factors = [f"{each.source}.{each.factor.column} {each.factor.op} {each.factor.constant!r}" for each in query.clause.factors]
    lines += _listed("predicate index", factors)
    lines += _listed("joined by", [_join(join) for join in query.clause.joins])
    lines += _listed("predicate list", [_condition(condition) for condition in query.clause.conditions])
    lines += _listed("ranked trees", [f"{call.function}({'*' if call.of is None else call.of})" for call in query.aggregates])
    if query.select:
        lines += ["rows             " + ", ".join(str(of) for _, of in query.select)]
    for fragment in planned.finish.fragments if planned.finish is not None else ():
        lines += _listed("when asked", _tree(fragment.root, 0))
    return "\n".join(lines)


def _listed(title: str, items: Sequence[str]) -> list[str]:
    return [f"{title if not i else '':<16} {item}" for i, item in enumerate(items)]


def _window(query: Query) -> str:
    if query.begin == NEVER_BEFORE and query.end == Now():
        return "everything"
    return f"BEGIN {_bound(query.begin)} END {_bound(query.end)}"


def _bound(bound: Bound) -> str:
    if isinstance(bound, Now):
        return f"NOW - {format_duration(bound.minus_us)}" if bound.minus_us else "NOW"
    return "with the first row" if bound == NEVER_BEFORE else instant_text(bound)


def _join(join: JoinFactor) -> str:
    plus = f" {'-' if join.plus < 0 else '+'} {abs(join.plus)}" if join.plus else ""
    return f"{join.left} {join.op} {join.right}{plus}"


def _condition(condition: Condition) -> str:
    return (
        condition.holds if isinstance(condition.holds, str) else f"{condition.holds} of {', '.join(str(of) for _, of in condition.reads)}"
    )


def _tree(node: Exec, depth: int) -> list[str]:
    if isinstance(node, SourceExec):
        steps = [*(_step(step) for step in reversed(node.prefix)), "the rows"]
        return ["  " * (depth + i) + line for i, line in enumerate(steps)]
    return ["  " * depth + describe(node), *(line for below in inputs(node) for line in _tree(below, depth + 1))]


def _step(step: RowWiseStep) -> str:
    if isinstance(step, FilterStep):
        return f"Filter {step.predicate_sql}"
    return "Project " + ", ".join(f"{column.sql} AS {column.name}" for column in step.columns)
