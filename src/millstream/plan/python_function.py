"""Functions that users write in Python, and their calls in bound expressions.

A function travels as bytes: the driver never calls it, a worker loads it once.  Two are the same if they have
the same key, a hash of all that they are, so plans that hold them can be compared and sent like any other data.

In a bound tree a call is an ordinary call node that carries a `PythonCall`.  DuckDB never sees it: the planner takes
calls out of the expressions (`plan.function_calls`), workers call them between DuckDB's passes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

_CALL = "python_call"


@dataclass(frozen=True)
class PythonFunction:
    name: str
    type: pa.DataType
    key: str
    pickled: bytes | None = field(repr=False, compare=False)  # None: known from a saved query only, not yet given again
    vectorized: bool = False
    deterministic: bool = True
    least: int = 0  # arguments
    most: int | None = None  # None: any number

    @staticmethod
    def absent(name: str, type_: pa.DataType) -> PythonFunction:
        """What a saved query knows of a function: enough to be planned, not to run."""
        return PythonFunction(name, type_, "absent", None)

    def __deepcopy__(self, memo: object) -> PythonFunction:
        return self  # sqlglot copies trees deeply


@dataclass(frozen=True)
class PythonCall:
    function: PythonFunction
    argument_types: tuple[pa.DataType, ...]

    def __deepcopy__(self, memo: object) -> PythonCall:
        return self


def key_of(pickled: bytes, type_: pa.DataType, *, vectorized: bool) -> str:
    return hashlib.sha256(f"{type_} {vectorized} ".encode() + pickled).hexdigest()


def with_call(node: exp.Anonymous, call: PythonCall) -> exp.Anonymous:
    """`node`, knowing that it is a call of Python."""
    node.meta[_CALL] = call
    return node


def call_at(node: exp.Expr) -> PythonCall | None:
    call = node.meta.get(_CALL)
    assert call is None or isinstance(call, PythonCall)
    return call


def calls_python(tree: exp.Expr) -> bool:
    return any(call_at(node) is not None for node in tree.find_all(exp.Anonymous))
