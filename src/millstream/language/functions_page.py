"""The page docs/functions.md, written from the function table: `python -m millstream.language.functions_page`."""

from __future__ import annotations

from millstream.language.aggregate_syntax import FUNCTIONS as AGGREGATE_FUNCTIONS
from millstream.language.functions import Function
from millstream.language.functions_known import AGGREGATES, KNOWN, VOLATILE
from millstream.language.functions_lambda import HIGHER_ORDER
from millstream.language.functions_table import BY_NAME, SUBJECTS

_INTRODUCTION = """# Functions

Expressions mean what they mean in Spark SQL 4 (ANSI mode, session time zone UTC): the same types, the same implicit casts,
the same values. One thing differs on purpose: **a row that fails gives NULL**. Where Spark would stop the query (overflow,
division by zero, a cast of text that is no number, an index that does not exist), only that part of the expression is NULL,
as if it had been written with Spark's `try_` functions.

Operators: `+ - * / % div`, `& | ^ ~ << >>`, `= == <> != < <= > >= <=>`, `AND OR NOT !`, `IS [NOT] NULL/TRUE/FALSE`,
`IS [NOT] DISTINCT FROM`, `[NOT] BETWEEN`, `[NOT] IN (...)`, `[NOT] LIKE ... [ESCAPE ...]`, `ILIKE`, `RLIKE`, `REGEXP`, `||`,
`CASE`, `CAST`, `TRY_CAST`, `::`, `array[i]`, `map[key]`, `struct.field`, `x -> ...`.

This page is written by `python -m millstream.language.functions_page > docs/functions.md`.
"""

_AGGREGATES = """## Aggregates

Over the rows of a group, with `DISTINCT` and `FILTER (WHERE ...)`; they pass over NULL:
{names}.

- `first`, `last` and their other names go by the instant at which a row came, ties by the value. To them a NULL is a value, unless
  `IGNORE NULLS` or a second argument `true` says otherwise. They take no `DISTINCT`.
- `collect_list` goes by the same order, `collect_set` by the order of the values. Ties of `min_by` and `max_by` go by the first argument.
- `collect_list(x) WITHIN GROUP (ORDER BY y, z DESC)` goes by that order. `listagg` and `string_agg` join such a list:
  `listagg(x, ',') WITHIN GROUP (ORDER BY y)`; without an order by that in which the values came, with `DISTINCT` by the values'.
- `mode` is the least of the values that are there most often, with `mode() WITHIN GROUP (ORDER BY x DESC)` the greatest.
- `approx_count_distinct` and `percentile_approx` are exact; what they are told of accuracy is not needed.
- Fractions of percentiles are written in the query; `percentile_cont` and `percentile_disc` want `WITHIN GROUP (ORDER BY ...)`.
- Variances come from exact sums; a value beyond 1e150 counts as infinite.
- `first`, `last`, `any_value`, `min`, `max`, `min_by`, `max_by`, `mode`, `collect_list`, `collect_set` and their other names
  take no arrays, maps or structs yet; `first` and `last` with `OVER` do.
- `median`, `percentile`, `percentile_cont` and `percentile_disc` are over numbers and give DOUBLE; `percentile_approx` takes dates
  and timestamps as well.
- `grouping(key)` and `grouping_id()` tell the sets of `ROLLUP`, `CUBE` and `GROUPING SETS` apart.
"""

_LIMITS = """## Limits

- Regular expressions are RE2's: look-around, back references, possessive quantifiers and class intersections are refused.
- Patterns, formats, units, time zones and JSON paths are written in the query, as literals.
- Bytes that are not UTF-8 become NULL when they are cast to STRING. Text with the name of a region as its time zone
  (`2024-01-01 10:00:00 Europe/Paris`) becomes NULL when it is cast to TIMESTAMP; offsets are fine.
- A literal such as `DATE '2024-01-31'` that cannot be read is refused when the query is created.
- Arrays and structs can be compared for equality, not for order.
- Months (`INTERVAL '1' MONTH`) can be added to dates and timestamps; a column of such intervals does not exist.
- `levenshtein`, `hash`, `xxhash64`, `sha2` beyond 256 bits and the other names below are not there yet.
"""


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for subject, functions in SUBJECTS.items():
        parts.append(_section(subject, [_shown(name, function) for function in functions for name in function.names]))
    parts.append(_section("Functions of functions", [f"`{name}`" for name in HIGHER_ORDER]))
    missing = sorted(KNOWN - BY_NAME.keys() - HIGHER_ORDER.keys() - AGGREGATES)
    parts.append(_AGGREGATES.format(names=", ".join(f"`{name}`" for name in (*AGGREGATE_FUNCTIONS, "listagg", "string_agg"))))
    parts.append(_LIMITS)
    parts.append("Refused, because an answer may depend on the data alone: " + ", ".join(f"`{name}`" for name in sorted(VOLATILE)) + ".\n")
    parts.append("Known to Spark and not supported: " + ", ".join(f"`{name}`" for name in missing) + ".\n")
    return "\n".join(parts)


def _section(title: str, entries: list[str]) -> str:
    return f"## {title}\n\n" + ", ".join(entries) + "\n"


def _shown(name: str, function: Function) -> str:
    """The name and its numbers of arguments."""
    if function.most is None:
        return f"`{name}({function.least}..)`"
    count = str(function.least) if function.least == function.most else f"{function.least}..{function.most}"
    return f"`{name}({count})`"


if __name__ == "__main__":
    print(page(), end="")
