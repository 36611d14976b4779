"""What a scalar function is: its names, its parameters, its result type, and what DuckDB does for it.

    simple("upper", "ucase", takes=[STRING], gives=STRING, duckdb="upper({0})")

The functions themselves are in `functions_*.py`, one file per subject; `functions_table.py` gathers them.
A rule that a table row cannot express is a Python function from a `Call` to a bound expression (`custom`).

A template must give exactly the declared type, and NULL where Spark would raise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

import pyarrow as pa
from sqlglot import exp

from millstream.core.errors import ArityMismatch, TypeMismatch
from millstream.language import coercion
from millstream.language.coercion import BIGINT, DOUBLE, VOID, implicitly, named
from millstream.language.scalar_casts import cast
from millstream.plan.duckdb_sql import lowered
from millstream.plan.expression import Expr


@dataclass(frozen=True)
class Call:
    """A function call whose arguments are bound."""

    name: str
    args: tuple[Expr, ...]
    names: tuple[str | None, ...] = ()
    """What each argument is called, where it is a column or a field."""

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        return tuple(arg.type for arg in self.args)

    def with_args(self, args: Sequence[Expr]) -> Call:
        return Call(self.name, tuple(args), self.names)

    def gives(self, type_: pa.DataType, template: str) -> Expr:
        tree = exp.Anonymous(this=self.name, expressions=[arg.tree for arg in self.args])
        return Expr(lowered(tree, template), type_)

    def refuse(self, message: str, hint: str | None = None) -> TypeMismatch:
        return TypeMismatch(f"{self.name}: {message}", hint=hint)


@dataclass(frozen=True)
class Param:
    """A place for an argument: what it takes, and the type that the argument is cast to."""

    label: str
    accept: Callable[[pa.DataType], pa.DataType | None]


Takes = Union[pa.DataType, Param]  # noqa: UP007 (Arrow's types are opaque to the type checker)
Gives = Union[pa.DataType, Callable[[Call], pa.DataType]]  # noqa: UP007
Template = str | Callable[[Call], str] | Sequence[str]


@dataclass(frozen=True)
class Function:
    names: tuple[str, ...]
    least: int
    most: int | None  # None: any number
    bind: Callable[[Call], Expr]

    def check_arity(self, call: Call) -> None:
        count = len(call.args)
        if count < self.least or (self.most is not None and count > self.most):
            raise ArityMismatch(f"{call.name} takes {_arity(self.least, self.most)}, found {count}")


def simple(
    *names: str, takes: Sequence[Takes] = (), rest: Takes | None = None, optional: int = 0, gives: Gives, duckdb: Template
) -> Function:
    """A function whose parameters are cast one by one.

    The last `optional` parameters may be left out; `duckdb` is then one template for each number of arguments.
    With `rest` any number of further arguments may follow.
    """
    params = [_param(each) for each in takes]
    more = _param(rest) if rest is not None else None

    def bind(call: Call) -> Expr:
        wanted = params + [more] * (len(call.args) - len(params)) if more else params[: len(call.args)]
        typed = call.with_args([coerced(call, i, param) for i, param in enumerate(wanted) if param])
        type_ = gives(typed) if callable(gives) else gives
        return typed.gives(type_, _template(typed, duckdb, len(params) - optional))

    return Function(names, len(params) - optional, None if rest is not None else len(params), bind)


def custom(*names: str, least: int, most: int | None, bind: Callable[[Call], Expr]) -> Function:
    return Function(names, least, most, bind)


def coerced(call: Call, position: int, param: Param) -> Expr:
    """The argument, cast to what the parameter takes."""
    arg = call.args[position]
    type_ = param.accept(arg.type)
    if type_ is None:
        raise TypeMismatch(f"{call.name} takes {param.label} as argument {position + 1}, found {named(arg.type)}")
    return cast(arg, type_)


def common(call: Call, args: Sequence[Expr], *, from_text: bool = True) -> pa.DataType:
    """The type in which the arguments meet."""
    type_ = coercion.widened([arg.type for arg in args], from_text=from_text)
    if type_ is None:
        raise call.refuse("the arguments have no common type: " + ", ".join(named(arg.type) for arg in args))
    return type_


def placeholders(count: int, start: int = 0) -> str:
    """`{0}, {1}, ...` for a template."""
    return ", ".join(f"{{{i}}}" for i in range(start, start + count))


def _template(call: Call, duckdb: Template, least: int) -> str:
    if isinstance(duckdb, str):
        return duckdb
    return duckdb(call) if callable(duckdb) else duckdb[len(call.args) - least]


def _param(takes: Takes) -> Param:
    return takes if isinstance(takes, Param) else exactly(takes)


def _arity(least: int, most: int | None) -> str:
    def plural(n: int) -> str:
        return f"{n} argument{'' if n == 1 else 's'}"

    if most is None:
        return f"at least {plural(least)}"
    return plural(least) if least == most else f"{least} to {plural(most)}"


# --- parameters that take more than one type ---------------------------------------------------


def exactly(type_: pa.DataType) -> Param:
    return Param(named(type_), lambda found: type_ if implicitly(found, type_) else None)


def of_kind(label: str, kind: Callable[[pa.DataType], bool], default: pa.DataType) -> Param:
    """Takes the kind as it is; strings and NULL become `default`."""

    def accept(found: pa.DataType) -> pa.DataType | None:
        if kind(found):
            return found
        return default if found == VOID or (found == coercion.STRING and implicitly(found, default)) else None

    return Param(label, accept)


def one_of(*types: pa.DataType) -> Param:
    """The first of `types` that the argument has, or else the first it can be cast to."""

    def accept(found: pa.DataType) -> pa.DataType | None:
        if found in types:
            return found
        return next((type_ for type_ in types if implicitly(found, type_)), None)

    return Param(" or ".join(map(named, types)), accept)


ANY = Param("any type", lambda found: found)
NUMERIC = of_kind("a number", coercion.is_numeric, DOUBLE)
INTEGRAL = of_kind("a whole number", coercion.is_integral, BIGINT)
ARRAY = of_kind("an array", coercion.is_array, pa.list_(VOID))
MAP = of_kind("a map", coercion.is_map, pa.map_(coercion.STRING, VOID))


def same_as(position: int) -> Callable[[Call], pa.DataType]:
    return lambda call: call.args[position].type
