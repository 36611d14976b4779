"""How operators learn that rows have left their windows.

    negative          windows send every row that leaves, and all operators undo what it did
    time_message      joins do not: their pairs say when they end, and messages, one for each instant, say that some have
    piggyback         the same, but rows that follow a message in a queue take its place
    input_triggered   nobody says it: an operator learns the time from the rows that arrive, so answers may be late

Answers are the same at every instant, but for the last, which may show rows too long.  Reasons are in docs/design, "Four ways to expire".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

from millstream.plan.physical import Exec, ExpireExec, FilterExec, JoinExec, ProjectExec, UnionExec, WindowExec
from millstream.plan.window import TimeWindow

Expiry = Literal["input_triggered", "negative", "time_message", "piggyback"]
EXPIRIES: tuple[Expiry, ...] = get_args(Expiry)
DEFAULT_EXPIRY: Expiry = "negative"
MOVE_ARRIVALS = frozenset({"push_filter_below_aggregate"})
"""The rewrite rules that change which rows come to an operator that learns the time from them, and with that its answer."""


def ending(node: Exec) -> Exec | None:
    """The same rows, saying when they end instead of being taken back; None if none of them does."""
    match node:
        case ExpireExec():
            return _below_another(node.input)
        case WindowExec() if isinstance(node.spec, TimeWindow) and not node.spec.grows_only:
            return replace(node, says_until=True)
        case FilterExec() | ProjectExec():
            below = ending(node.input)
            return None if below is None else replace(node, input=below)
        case UnionExec():
            inputs = [ending(child) for child in node.inputs]
            if all(child is None for child in inputs):
                return None
            return replace(node, inputs=tuple(new if new is not None else old for new, old in zip(inputs, node.inputs, strict=True)))
        case _:
            return None


def _below_another(node: Exec) -> Exec:
    """A join below another operator with ends has to go on saying them."""
    match node:
        case JoinExec():
            return replace(node, may_become_exact=False)
        case FilterExec() | ProjectExec():
            return replace(node, input=_below_another(node.input))
        case _:
            return node


def above_rows(node: Exec, step: Callable[[Exec], Exec]) -> Exec:
    """An operator that looks at rows one by one, before they are taken back: then it need not look at them again."""
    if isinstance(node, ExpireExec):
        below = step(node.input)
        return ExpireExec(below, node.by_input, below.schema)
    return step(node)
