"""From the text of a query to a plan that workers run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.language.binder import bind_query
from millstream.language.catalog import Catalog
from millstream.plan.explain import explain
from millstream.plan.logical import BoundQuery, Plan
from millstream.plan.physical import PhysicalPlan
from millstream.plan.planner import plan_physical
from millstream.plan.rewrite import rewrite


@dataclass(frozen=True)
class Compiled:
    bound: BoundQuery
    rewritten: Plan
    physical: PhysicalPlan

    def explain(self) -> str:
        return explain(self.bound, self.rewritten, self.physical)


def compile_query(select: exp.Expr, catalog: Catalog, sql: str, *, rules_off: frozenset[str] = frozenset()) -> Compiled:
    bound = bind_query(select, catalog, sql)
    rewritten = rewrite(bound.plan, off=rules_off)
    partition_by = {stream.name: stream.partition_by for stream in catalog.streams}
    return Compiled(bound, rewritten, plan_physical(replace(bound, plan=rewritten), partition_by))
