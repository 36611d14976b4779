"""All scalar functions, by name, and what to say about the others."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.core.errors import FunctionNotFound, MillstreamError, NotSupported, did_you_mean
from millstream.language import (
    functions_array,
    functions_bits,
    functions_conditional,
    functions_conversion,
    functions_datetime,
    functions_hash,
    functions_json,
    functions_map,
    functions_math,
    functions_regexp,
    functions_string,
    functions_time_text,
)
from millstream.language.functions import Function
from millstream.language.functions_known import AGGREGATES, KNOWN, ROW_MAKERS, VOLATILE
from millstream.language.functions_lambda import HIGHER_ORDER

SUBJECTS: dict[str, tuple[Function, ...]] = {
    "Conditions": functions_conditional.FUNCTIONS,
    "Numbers": functions_math.FUNCTIONS,
    "Bits and bases": functions_bits.FUNCTIONS,
    "Strings": functions_string.FUNCTIONS,
    "Regular expressions": functions_regexp.FUNCTIONS,
    "Dates and times": functions_datetime.FUNCTIONS,
    "Dates and times as text": functions_time_text.FUNCTIONS,
    "Arrays": functions_array.FUNCTIONS,
    "Maps and structs": functions_map.FUNCTIONS,
    "JSON": functions_json.FUNCTIONS,
    "Digests": functions_hash.FUNCTIONS,
    "Conversions": functions_conversion.FUNCTIONS,
}
BY_NAME: dict[str, Function] = {name: function for functions in SUBJECTS.values() for function in functions for name in function.names}


def find(name: str, others: Sequence[str] = ()) -> Function:
    function = BY_NAME.get(name.lower())
    if function is None:
        raise missing(name, others)
    return function


def missing(name: str, others: Sequence[str] = ()) -> MillstreamError:
    """The error for a function that is not in the table: refused, not yet there, or unknown to Spark too.

    `others` are names of functions that the table does not know, and the user may have meant.
    """
    lower = name.lower()
    known = [*BY_NAME, *HIGHER_ORDER, *others]
    if lower in VOLATILE:
        return NotSupported(f"{lower} is not supported: it gives another value each time", hint="An answer may depend on the data alone.")
    if lower in ROW_MAKERS:
        what = f"{lower} is not supported: it makes several rows of one"
        return NotSupported(what, hint="Insert the elements as rows, or look at arrays with exists, filter, transform and element_at.")
    if lower in AGGREGATES:
        return NotSupported(f"the aggregate {lower} cannot stand here", hint="Aggregates stand in the select list and in HAVING.")
    if lower in KNOWN:
        return NotSupported(f"the function {lower} is not supported", hint=did_you_mean(name, known))
    hint = did_you_mean(name, known) or "docs/functions.md lists those that do; db.function adds one in Python."
    return FunctionNotFound(f'function "{name}" does not exist', hint=hint)
