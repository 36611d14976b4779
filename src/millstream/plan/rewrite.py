"""Applies the rewrite rules until none fires.  Each can be switched off by name; answers never change."""

from __future__ import annotations

from collections.abc import Callable

from millstream.plan.logical import Plan, children, with_children
from millstream.plan.rules.aggregate_by_panes import aggregate_by_panes
from millstream.plan.rules.drop_idle_projects import drop_idle_projects
from millstream.plan.rules.drop_padded_rows import drop_padded_rows
from millstream.plan.rules.extremes_before_exchange import extremes_before_exchange
from millstream.plan.rules.extremes_of_pairs import extremes_of_pairs
from millstream.plan.rules.fold_constants import fold_constants
from millstream.plan.rules.follow_threshold import follow_threshold
from millstream.plan.rules.join_by_equality import join_by_equality
from millstream.plan.rules.keep_first_rows import keep_first_rows
from millstream.plan.rules.merge_filters import merge_filters
from millstream.plan.rules.merge_projects import merge_projects
from millstream.plan.rules.prune_columns import prune_columns
from millstream.plan.rules.push_filter_below_aggregate import push_filter_below_aggregate
from millstream.plan.rules.push_filter_below_join import push_filter_below_join
from millstream.plan.rules.push_filter_below_project import push_filter_below_project
from millstream.plan.rules.push_filter_below_union import push_filter_below_union
from millstream.plan.rules.push_filter_below_window import push_filter_below_window
from millstream.plan.rules.push_project_below_window import push_project_below_window
from millstream.plan.rules.share_distinct_values import share_distinct_values
from millstream.plan.rules.sums_of_products import sums_of_products

Rule = Callable[[Plan], Plan]

NODE_RULES: tuple[Rule, ...] = (
    share_distinct_values,
    fold_constants,
    drop_padded_rows,
    push_filter_below_project,
    push_filter_below_union,
    push_filter_below_aggregate,
    keep_first_rows,
    push_filter_below_join,
    join_by_equality,
    follow_threshold,
    push_filter_below_window,
    push_project_below_window,
    merge_filters,
    merge_projects,
)
"""In order; tried at every node, from the root down, until nothing changes."""

PLAN_RULES: tuple[Rule, ...] = (prune_columns, drop_idle_projects)
"""In order, over the whole plan, after the others; then everything once more."""

_PLANNERS = (aggregate_by_panes, extremes_before_exchange, extremes_of_pairs, sums_of_products)

RULES: tuple[str, ...] = tuple(rule.__name__ for rule in (*NODE_RULES, *PLAN_RULES, *_PLANNERS))
"""All that can be switched off; the last are the planner's."""


def rewrite(plan: Plan, *, off: frozenset[str] = frozenset()) -> Plan:
    """The plan after all rules but those named in `off`."""
    node_rules = [rule for rule in NODE_RULES if rule.__name__ not in off]
    if prune_columns.__name__ not in off:
        plan = prune_columns(plan)  # no rule is to fire for what nobody reads
    for _ in range(2):  # what nobody reads may have kept a rule from firing
        while (better := _pass(plan, node_rules)) is not plan:
            plan = better
        for rule in PLAN_RULES:
            if rule.__name__ not in off:
                plan = rule(plan)
    return plan


def _pass(plan: Plan, rules: list[Rule]) -> Plan:
    for rule in rules:
        plan = rule(plan)
    return with_children(plan, [_pass(child, rules) for child in children(plan)])
