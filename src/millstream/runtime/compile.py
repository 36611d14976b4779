"""From the text of a query to a plan that workers run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.core.schema import Field
from millstream.language.binder import bind_query
from millstream.language.catalog import Catalog
from millstream.plan.expiry import DEFAULT_EXPIRY, MOVE_ARRIVALS, Expiry
from millstream.plan.explain import explain
from millstream.plan.logical import BoundQuery, Plan, with_differences
from millstream.plan.physical import Exec, PhysicalPlan
from millstream.plan.planner import plan_physical
from millstream.plan.rewrite import rewrite
from millstream.runtime.running_query import answer_fields
from millstream.state.changelog import output_columns


@dataclass(frozen=True)
class Compiled:
    bound: BoundQuery
    rewritten: Plan
    physical: PhysicalPlan

    @property
    def fields(self) -> tuple[Field, ...]:
        return answer_fields(self.bound, self.physical)

    @property
    def stored_as(self) -> tuple[str, ...]:
        """The answer's columns as its changelog names them."""
        return output_columns([field.name for field in self.fields])

    def explain(self, shared: Sequence[Mapping[Exec, Sequence[str]]] = ()) -> str:
        """`shared`: of each fragment, the parts that standing queries have already, and their names."""
        return explain(self.bound, self.rewritten, self.physical, shared)


def compile_query(
    select: exp.Expr, catalog: Catalog, sql: str, *, rules_off: frozenset[str] = frozenset(), expiry: Expiry | None = None
) -> Compiled:
    by_input = expiry == "input_triggered"
    bound = bind_query(select, catalog, sql, copy_by_copy=by_input)
    bound = replace(bound, plan=with_differences(bound.plan)) if by_input else bound
    rewritten = rewrite(bound.plan, off=rules_off | MOVE_ARRIVALS if by_input else rules_off)
    partition_by = {stream.name: stream.partition_by for stream in catalog.streams}
    return Compiled(
        bound, rewritten, plan_physical(replace(bound, plan=rewritten), partition_by, expiry or DEFAULT_EXPIRY, rules_off=rules_off)
    )
