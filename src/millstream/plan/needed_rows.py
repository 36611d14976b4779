"""Which rows of a log can matter to a source: the filters of its prefix, told over the log's own columns.

    Source s (k, v AS v_2)                                  ("v" > 3) AND (("v" + 1) < 9)
      - keep ("v_2" > 3)                             =>
      - compute "v_2" + 1 AS w;  keep ("w" < 9)

A row for which the condition is not true never gets beyond the source.  What a Python function decides is not known here: behind
the first step that calls one, every row may pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from millstream.plan.duckdb_sql import quoted
from millstream.plan.physical import FilterStep, ProjectStep, SourceExec

_TEXT_OR_NAME = re.compile(r"""'(?:[^']|'')*'|"(?P<name>(?:[^"]|"")+)\"""")


def needed_rows(source: SourceExec) -> str | None:
    """In DuckDB's SQL, over the columns of the log; None: every row."""
    now = {name: quoted(log) for log, name, _ in source.columns}
    conditions: list[str] = []
    for step in source.prefix:
        if step.calls:
            break
        match step:
            case FilterStep():
                conditions.append(_over(now, step.predicate_sql))
            case ProjectStep():
                now = {column.name: f"({_over(now, column.sql)})" for column in step.columns}
    return _joined("AND", conditions) or None


def needed_by_any(sources: Iterable[SourceExec]) -> str | None:
    """The rows that one of them needs; None: every row."""
    conditions = [needed_rows(source) for source in sources]
    known = [condition for condition in conditions if condition is not None]
    return _joined("OR", list(dict.fromkeys(known))) or "FALSE" if len(known) == len(conditions) else None


def _joined(word: str, conditions: list[str]) -> str:
    return conditions[0] if len(conditions) == 1 else f" {word} ".join(f"({condition})" for condition in conditions)


def _over(names: Mapping[str, str], sql: str) -> str:
    """The expression with what its columns are in the place of their names."""

    def replaced(found: re.Match[str]) -> str:
        name = found["name"]
        return found[0] if name is None else names.get(name.replace('""', '"'), found[0])

    return _TEXT_OR_NAME.sub(replaced, sql)
