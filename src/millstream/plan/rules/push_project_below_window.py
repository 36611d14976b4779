from __future__ import annotations

from dataclasses import replace

from millstream.plan.logical import Plan, Project, Window
from millstream.plan.window import RowsWindow


def push_project_below_window(plan: Plan) -> Plan:
    """Compute columns once, on arrival, and keep only those in the window.

        Project e                    Window w
        └─ Window w         =>       └─ Project e
           └─ x                         └─ x

    Fires only if:
      (1) every e is deterministic: the row that leaves must be the row that entered.
      (2) w depends on time alone.  A ROWS window needs its PARTITION BY columns, which e may drop.
    """
    match plan:
        case Project(Window() as window, columns) if not isinstance(window.spec, RowsWindow):  # (2)
            if all(named.expr.deterministic for named in columns):  # (1)
                return replace(window, input=Project(window.input, columns))
            return plan
        case _:
            return plan
