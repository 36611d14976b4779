from __future__ import annotations

from dataclasses import replace

from millstream.plan.expression import Expr
from millstream.plan.logical import Filter, Plan, Window
from millstream.plan.window import RowsWindow, WindowSpec


def push_filter_below_window(plan: Plan) -> Plan:
    """Filter before the window, so rows that cannot matter never enter state.

        Filter p                     Window w
        └─ Window w         =>       └─ Filter p
           └─ x                         └─ x

    Fires only if:
      (1) p is deterministic: it will run once, on arrival, and not again when the row leaves.
      (2) w depends on time alone, or p reads only w's PARTITION BY columns.  A ROWS window
          counts rows: the last 5 of the filtered are not the filtered last 5.
    """
    match plan:
        case Filter(Window() as window, predicate) if _commutes(window.spec, predicate):
            return replace(window, input=Filter(window.input, predicate))
        case _:
            return plan


def _commutes(spec: WindowSpec, predicate: Expr) -> bool:
    if not predicate.deterministic:
        return False  # (1)
    return not isinstance(spec, RowsWindow) or predicate.columns <= set(spec.partition_by)  # (2)
