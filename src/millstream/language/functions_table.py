"""All scalar functions, by name, and what to say about the others."""

from __future__ import annotations

from millstream.core.errors import FunctionNotFound, MillstreamError, did_you_mean
from millstream.language import functions_string
from millstream.language.functions import Function

FUNCTIONS: tuple[Function, ...] = (*functions_string.FUNCTIONS,)
BY_NAME: dict[str, Function] = {name: function for function in FUNCTIONS for name in function.names}


def find(name: str) -> Function:
    function = BY_NAME.get(name.lower())
    if function is None:
        raise missing(name)
    return function


def missing(name: str) -> MillstreamError:
    return FunctionNotFound(f'function "{name}" does not exist', hint=did_you_mean(name, BY_NAME))
