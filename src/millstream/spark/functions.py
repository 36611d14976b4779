"""Python functions on their way to executors, and in Spark SQL.

A function is pickled as PySpark pickles its own: what the executors can import goes by name, all else by value.  In a
question that is answered once it is an Arrow function of Spark's around the same calling code as in our workers, so it
is given the same values and its failures are told in the same words.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udf, udf
from pyspark.sql.pandas.types import from_arrow_type

from millstream.core.errors import ArityMismatch, ConfigInvalid, FunctionFailed, NotSupported, TypeMismatch
from millstream.core.schema import TIMESTAMP, type_from_name, type_name
from millstream.operators.python_calls import DEFAULT_TIMEOUT_S, Body, called
from millstream.plan.python_function import PythonFunction, key_of


def declared_function(
    name: str, function: Callable[..., Any], type_: str | pa.DataType, vectorized: bool, deterministic: bool,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> PythonFunction:  # fmt: skip
    """What `db.function` was given, checked."""
    if not callable(function):
        raise TypeMismatch(f'"{name}" is a function, not {function!r:.60} ({type(function).__name__})')
    declared = _declared_type(name, type_)
    least, most = _arity(name, function)
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
        raise ConfigInvalid(f'the timeout of function "{name}" is {timeout_s!r}', hint="A number of seconds above 0, or math.inf.")
    bytes_ = pickled(name, Body(function, timeout_s))
    if vectorized and most == 0:
        raise ArityMismatch(f'vectorised function "{name}" takes no arguments', hint="Without one it cannot know how many values to give.")
    least = max(least, 1) if vectorized else least
    return PythonFunction(name, declared, key_of(bytes_, declared, vectorized=vectorized), bytes_, vectorized, deterministic, least, most)


def _declared_type(name: str, given: object) -> pa.DataType:
    try:
        return type_from_name(type_name(given) if isinstance(given, pa.DataType) else str(given))
    except ValueError as error:
        raise TypeMismatch(f'function "{name}" cannot give {given}: {error}', hint='Name a type of SQL, such as "BOOLEAN".') from None


def _arity(name: str, function: Callable[..., Any]) -> tuple[int, int | None]:
    """The least and the greatest number of arguments; None: any number."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some that are written in C do not say
        return 0, None
    needed = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if needed:
        raise ArityMismatch(f'function "{name}" needs {", ".join(needed)} by keyword', hint="SQL gives arguments by position.")
    places = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    least = sum(each.default is each.empty for each in places)
    return least, None if any(each.kind is each.VAR_POSITIONAL for each in parameters) else len(places)


def pickled(name: str, function: Body) -> bytes:
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as error:
        raise NotSupported(
            f'function "{name}" cannot be sent to the workers: {type(error).__name__}: {error}',
            hint="It must not hold locks, connections or open files; make them inside the function.",
        ) from error


def register(session: SparkSession, function: PythonFunction) -> None:
    """Make it callable in the session's SQL."""
    type_ = from_arrow_type(function.type, prefer_timestamp_ntz=True)
    if function.most == 0:
        made = udf(_alone(function), type_)  # an Arrow function without arguments would not know how many rows there are
    else:
        made = arrow_udf(_over_columns(function), type_)
    session.udf.register(function.name, made if function.deterministic else made.asNondeterministic())


def failure_in(text: str) -> FunctionFailed | None:
    """The failure of a function in what Spark says about a task."""
    found = re.search(r"\[FUNCTION_FAILED\] (.+)", text)
    return FunctionFailed(found[1]) if found else None


def _over_columns(function: PythonFunction) -> Callable[..., pa.Array]:
    def over_columns(*arguments: pa.Array) -> pa.Array:
        return called(function, [_as_ours(argument) for argument in arguments], len(arguments[0]))

    return over_columns


def _alone(function: PythonFunction) -> Callable[[], Any]:
    return lambda: called(function, [], 1)[0].as_py()


def _as_ours(array: pa.Array) -> pa.Array:
    """Spark's timestamps carry the session's zone."""
    return array.cast(TIMESTAMP) if pa.types.is_timestamp(array.type) and array.type.tz is not None else array
