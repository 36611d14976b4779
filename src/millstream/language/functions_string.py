"""String functions."""

from __future__ import annotations

from millstream.language.coercion import INT, STRING
from millstream.language.functions import Function, simple

FUNCTIONS: tuple[Function, ...] = (
    simple("upper", "ucase", takes=[STRING], gives=STRING, duckdb="upper({0})"),
    simple("lower", "lcase", takes=[STRING], gives=STRING, duckdb="lower({0})"),
    simple("length", "char_length", "character_length", "len", takes=[STRING], gives=INT, duckdb="CAST(length({0}) AS INTEGER)"),
)
