"""How many bytes a running operator keeps between steps: the arrays that can be reached from it, each once.

Whatever says `nbytes` is asked: arrays of numpy and Arrow, and those of our own classes that keep many small pieces and count as
they go.  Other objects of operators and kernels are looked into, attribute by attribute.  So the cost is that of the number of
arrays, never of rows, and an operator need not tell what it keeps.

Memory that is reserved counts, as it is not there for others.  What belongs to the worker does not: the evaluator serves all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from millstream.operators.evaluator import Evaluator

_OURS = ("millstream.operators.", "millstream.kernels.", "millstream.core.signed_batch")


def state_bytes(operator: object) -> int:
    total, seen, ahead = 0, set[int](), [operator]
    while ahead:
        thing = ahead.pop()
        kind: Any = type(thing)  # mypy takes the hash of a type for that of its instances
        parts = _parts_of(kind)
        if parts is None or id(thing) in seen:
            continue
        seen.add(id(thing))
        size = getattr(thing, "nbytes", None)
        if size is None:
            ahead.extend(parts(thing))
        else:
            total += size
    return total


Look = Callable[[Any], Iterable[object]]


@cache
def _parts_of(kind: Any) -> Look | None:
    """How to look into things of this type, if there may be arrays in them."""
    if issubclass(kind, list | tuple):
        return iter
    if issubclass(kind, dict):
        return dict.values
    if hasattr(kind, "nbytes"):
        return _nothing
    if not kind.__module__.startswith(_OURS) or kind is Evaluator:
        return None
    return _attributes if kind.__dictoffset__ else _slots


def _attributes(thing: object) -> Iterable[object]:
    return vars(thing).values()


def _slots(thing: object) -> Iterable[object]:
    return [getattr(thing, name) for name in type(thing).__slots__]  # type: ignore[attr-defined]


def _nothing(thing: object) -> Iterable[object]:
    return ()
