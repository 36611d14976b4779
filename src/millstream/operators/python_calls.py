"""Calling a user's Python function over Arrow columns.

    scalar       f(value, value, ...) -> value, once for each row; NULL is None; values as pyarrow's to_pylist gives them
    vectorised   f(array, array, ...) -> array, once for the batch; a numpy array, a list or a pandas Series will do too

What comes back is cast to the declared type, never with a loss.  Whatever goes wrong is the function's failure, told with
the values that it was called with: it ends the query that called it and nothing else.  A call that does not end is ended
(call_limit.py).
"""

from __future__ import annotations

import datetime as dt
import math
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa

from millstream.core.errors import FunctionFailed
from millstream.core.schema import type_name
from millstream.core.value_text import value_text
from millstream.operators.call_limit import CallLimit, CallTimedOut
from millstream.operators.call_note import may_be_noted, python_value, row_at, shortened, shown_row
from millstream.plan.python_function import PythonFunction

DEFAULT_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Body:
    """What travels to the workers: the function itself, and how long a call of it may take."""

    call: Callable[..., Any]
    timeout_s: float = DEFAULT_TIMEOUT_S


_LOADED: dict[str, Body] = {}
"""By key: a process loads a function once, however many queries and ticks bring it."""

_ARRAYS = (pa.Array, pa.ChunkedArray, np.ndarray, list, tuple)


def called(function: PythonFunction, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
    """The results for `rows` rows, of exactly the declared type."""
    if rows == 0:
        return pa.array([], function.type)
    try:
        call = _of_arrays if function.vectorized else _of_values
        return call(function, _loaded(function), arguments, rows)
    except FunctionFailed:
        raise
    except BaseException as error:  # what it gave is the user's own, too, and may raise SystemExit when it is looked at
        raise FunctionFailed(
            f'function "{function.name}" gave what cannot be looked at on {_rows_text(arguments, rows)}: {_reason(error)}'
        ) from error


def _loaded(function: PythonFunction) -> Body:
    if function.key not in _LOADED:
        if function.pickled is None:
            raise FunctionFailed(f'function "{function.name}" is not there', hint="Register it with db.function.")
        try:
            _LOADED[function.key] = pickle.loads(function.pickled)
        except Exception as error:
            raise FunctionFailed(
                f'function "{function.name}" cannot be loaded by the workers: {_reason(error)}',
                hint="Modules that it imports must be there for the workers too.",
            ) from error
    return _LOADED[function.key]


def _of_values(function: PythonFunction, body: Body, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
    try:
        columns = [argument.to_pylist() for argument in arguments]
    except Exception as error:
        raise FunctionFailed(f'function "{function.name}" takes values that Python has none for: {_reason(error)}') from error
    results, call, row = [], body.call, ()
    try:
        with _limit(function, body, arguments, rows) as limit:
            for limit.row[0], row in enumerate(zip(*columns, strict=True) if columns else [()] * rows):
                results.append(call(*row))
    except CallTimedOut:
        raise _timed_out(function, body, shown_row(row)) from None
    except BaseException as error:
        raise FunctionFailed(f'function "{function.name}" failed on {shown_row(row)}: {_reason(error)}') from error
    return _from_values(function, results, arguments)


def _limit(function: PythonFunction, body: Body, arguments: Sequence[pa.Array], rows: int) -> CallLimit:
    """Of calls row by row."""
    if may_be_noted(arguments):
        return CallLimit(body.timeout_s, f'function "{function.name}" failed on', arguments)
    return CallLimit(body.timeout_s, _call_text(function, arguments, rows))


def _call_text(function: PythonFunction, arguments: Sequence[pa.Array], rows: int) -> str:
    return f'function "{function.name}" failed on {_rows_text(arguments, rows)}'


def _rows_text(arguments: Sequence[pa.Array], rows: int) -> str:
    return f"{rows} rows, the first {shown_row(row_at(arguments, 0))}"


def _timed_out(function: PythonFunction, body: Body, given: str) -> FunctionFailed:
    return FunctionFailed(
        f'function "{function.name}" gave no answer on {given} within {body.timeout_s:g} seconds',
        hint="db.function(..., timeout=seconds) says how long one call may take.",
    )


def _from_values(function: PythonFunction, results: Sequence[object], arguments: Sequence[pa.Array]) -> pa.Array:
    """Each value by itself: what becomes of it does not depend on those beside it in the batch."""
    if _may_lose(function.type):
        for i, result in enumerate(results):
            if _loses(result, function.type):
                _refuse(function, result, arguments, i)
    try:
        return pa.array(results, function.type)
    except Exception:
        return pa.concat_arrays([_one(function, result, arguments, i) for i, result in enumerate(results)])


def _may_lose(type_: pa.DataType) -> bool:
    """Arrow cuts fractions off whole numbers, and times of day off dates, without a word."""
    return bool(
        pa.types.is_integer(type_)
        or pa.types.is_date(type_)
        or (pa.types.is_nested(type_) and any(_may_lose(type_.field(i).type) for i in range(type_.num_fields)))
    )


def _loses(value: object, type_: pa.DataType) -> bool:
    if isinstance(value, float | Decimal | np.floating):
        return bool(pa.types.is_integer(type_) and not (math.isfinite(value) and value % 1 == 0))
    if isinstance(value, dt.datetime):
        return bool(pa.types.is_date(type_) and value.time() != dt.time())
    if isinstance(value, list | tuple) and pa.types.is_list(type_):
        return any(_loses(each, type_.value_type) for each in value)
    if isinstance(value, Mapping) and pa.types.is_struct(type_):
        return any(_loses(value.get(field.name), field.type) for field in type_)
    if isinstance(value, Mapping | list) and pa.types.is_map(type_):
        entries = (
            value.items() if isinstance(value, Mapping) else [entry for entry in value if isinstance(entry, tuple) and len(entry) == 2]
        )
        return any(_loses(key, type_.key_type) or _loses(item, type_.item_type) for key, item in entries)
    return False


def _one(function: PythonFunction, result: object, arguments: Sequence[pa.Array], row: int) -> pa.Array:
    """A result that Arrow does not take for the type as it is: cast, or refused."""
    try:
        return pa.array([result], function.type)
    except Exception:
        try:
            return pa.array([result]).cast(function.type)
        except Exception:
            _refuse(function, result, arguments, row)


def _of_arrays(function: PythonFunction, body: Body, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
    told, given = _call_text(function, arguments, rows), _rows_text(arguments, rows)
    try:
        with CallLimit(body.timeout_s, told):
            result = body.call(*arguments)
    except CallTimedOut:
        raise _timed_out(function, body, given) from None
    except BaseException as error:
        raise FunctionFailed(f"{told}: {_reason(error)}") from error
    if not isinstance(result, _ARRAYS) and not (hasattr(result, "__array__") and hasattr(result, "__len__")):
        raise FunctionFailed(
            f'function "{function.name}" gave {type(result).__name__}, not an array, on {given}',
            hint="A vectorised function gives an array.",
        )
    length = np.size(result) if isinstance(result, np.ndarray) else len(result)
    if length != rows:
        raise FunctionFailed(f'function "{function.name}" gave {length} values for {given}', hint="One value for each row.")
    if isinstance(result, list | tuple) or getattr(result, "dtype", None) == np.dtype(object):
        return _from_values(function, result, arguments)
    return _cast(function, _as_array(function, result, given), arguments)


def _cast(function: PythonFunction, array: pa.Array, arguments: Sequence[pa.Array]) -> pa.Array:
    try:
        return _valid(array.cast(function.type))
    except Exception:
        for i in range(len(array)):
            try:
                _valid(array.slice(i, 1).cast(function.type))
            except Exception:
                _refuse(function, python_value(array, i), arguments, i)
        raise


def _valid(array: pa.Array) -> pa.Array:
    """Arrow takes anything for text until somebody reads it."""
    array.validate(full=True)
    return array


def _as_array(function: PythonFunction, result: object, given: str) -> pa.Array:
    if isinstance(result, pa.ChunkedArray):
        return pa.concat_arrays(result.chunks)
    if isinstance(result, pa.Array):
        return result
    try:
        array = pa.array(result)
    except Exception as error:
        raise FunctionFailed(f'function "{function.name}" gave what is no Arrow array on {given}: {_reason(error)}') from error
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def _refuse(function: PythonFunction, result: object, arguments: Sequence[pa.Array], row: int) -> NoReturn:
    given = shown_row(row_at(arguments, row))
    raise FunctionFailed(
        f'function "{function.name}" gave {shortened(value_text(result))} on {given}, which is no {type_name(function.type)}'
    )


def _reason(error: BaseException) -> str:
    try:
        return shortened(f"{type(error).__name__}: {error}")
    except BaseException:  # one of the user's own, that cannot say what it means
        return type(error).__name__
