"""Spark SQL over tables in memory, with Spark's own complaints told in our form.

Spark names a condition, its parameters and the characters of the SQL it is about.  The conditions that users meet have a
sentence of ours; of the others Spark's first sentence is the message and what follows it is the hint.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.base import QueryContextType
from pyspark.sql import SparkSession

from millstream.core.errors import (
    ArityMismatch,
    ColumnAmbiguous,
    ColumnNotFound,
    FunctionNotFound,
    MillstreamError,
    NotGrouped,
    NotSupported,
    ParseError,
    QueryFailed,
    RelationNotFound,
    Span,
    TypeMismatch,
    did_you_mean,
)
from millstream.language.functions_known import AGGREGATES, KNOWN
from millstream.plan.python_function import PythonFunction
from millstream.spark.functions import failure_in, register
from millstream.spark.session import errors_told_by_us

_CODES: tuple[tuple[str, type[MillstreamError]], ...] = (
    ("UNRESOLVED_COLUMN", ColumnNotFound),
    ("FIELD_NOT_FOUND", ColumnNotFound),
    ("GROUP_BY_POS_OUT_OF_RANGE", ColumnNotFound),
    ("ORDER_BY_POS_OUT_OF_RANGE", ColumnNotFound),
    ("AMBIGUOUS_REFERENCE", ColumnAmbiguous),
    ("UNRESOLVED_ROUTINE", FunctionNotFound),
    ("TABLE_OR_VIEW_NOT_FOUND", RelationNotFound),
    ("WRONG_NUM_ARGS", ArityMismatch),
    ("NUM_COLUMNS_MISMATCH", ArityMismatch),
    ("DATATYPE_MISMATCH", TypeMismatch),
    ("CAST_INVALID_INPUT", TypeMismatch),
    ("INCOMPATIBLE_COLUMN_TYPE", TypeMismatch),
    ("MISSING_AGGREGATION", NotGrouped),
    ("MISSING_GROUP_BY", NotGrouped),
    ("GROUP_BY_AGGREGATE", NotGrouped),
    ("INVALID_WHERE_CONDITION", NotGrouped),
    ("PARSE", ParseError),
    ("UNSUPPORTED", NotSupported),
)

Parameters = Mapping[str, str]


def query_once(spark: SparkSession, sql: str, tables: Mapping[str, pa.Table], functions: Sequence[PythonFunction] = ()) -> pa.Table:
    """The place of an error is one in `sql`."""
    session = spark.newSession()
    try:
        with errors_told_by_us():
            for name, table in tables.items():
                session.createDataFrame(table).createOrReplaceTempView(name)
            for function in functions:
                register(session, function)
            return session.sql(sql).toArrow()
    except PySparkException as error:
        condition, parameters = error.getCondition() or "", error.getMessageParameters() or {}
        ours = failure_in(str(error)) or told(condition, parameters, str(error), _place(error), [function.name for function in functions])
        raise ours.in_sql(sql) from None
    except Py4JJavaError as error:
        raise told("", {}, spark_reason(error)).in_sql(sql) from None


def told(condition: str, parameters: Parameters, text: str, span: Span | None = None, functions: Sequence[str] = ()) -> MillstreamError:
    """Spark's complaint in our form; `text` is its own wording, `functions` are known beside Spark's."""
    kind = next((kind for prefix, kind in _CODES if condition.startswith(prefix)), QueryFailed)
    message, hint = _sentence(condition, parameters, functions) or _sentences(text)
    return kind(message, hint=hint, span=span)


def spark_reason(error: BaseException) -> str:
    """What Spark says in one line: without its codes, and without what Py4J puts in front of an exception of Java's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, Py4JJavaError):
        causes = [line for line in lines if line.startswith("Caused by: ")]
        if "ExecutionException" in "".join(lines[1:2]) and causes:  # of a job that somebody waited for: it says nothing itself
            lines = [lines[0], causes[0].removeprefix("Caused by: ")]
        lines = [re.sub(r"^:? *([\w$]+\.)+[\w$]+: *", "", line) for line in lines[1:]]
    return _without_codes(lines[0]) if lines else type(error).__name__


# --- sentences ------------------------------------------------------------------------------


def _sentence(condition: str, parameters: Parameters, functions: Sequence[str] = ()) -> tuple[str, str | None] | None:
    """Our own message and hint, for what users do wrong most."""
    try:
        match condition.split(".")[0]:
            case "UNRESOLVED_COLUMN":
                name, known = _names(parameters["objectName"])[-1], _names(parameters.get("proposal", ""))
                return f'column "{name}" does not exist', did_you_mean(name, known) or _listed("Columns are", known)
            case "FIELD_NOT_FOUND":
                name, known = _names(parameters["fieldName"])[-1], _names(parameters["fields"])
                return f'there is no field "{name}"', did_you_mean(name, known) or _listed("Fields are", known)
            case "AMBIGUOUS_REFERENCE":
                name, known = _names(parameters["name"])[-1], _paths(parameters["referenceNames"])
                return f'column "{name}" could be any of {len(known)}', f"Write {' or '.join(known)}."
            case "UNRESOLVED_ROUTINE":
                name = _names(parameters["routineName"])[-1].lower()
                return f'function "{name}" does not exist', did_you_mean(name, {*KNOWN, *AGGREGATES, *functions})
            case "WRONG_NUM_ARGS":
                name = _names(parameters["functionName"])[-1]
                return f"{name} takes {_counts(parameters['expectedNum'])}, not {parameters['actualNum']}", None
            case "MISSING_AGGREGATION":
                name = parameters["expression"].strip('"')
                hint = f"Add it to GROUP BY, or use an aggregate such as max({name})."
                return f'"{name}" is neither in GROUP BY nor inside an aggregate', hint
            case "MISSING_GROUP_BY":
                return "columns and aggregates stand side by side without a GROUP BY", "Add GROUP BY with the columns."
            case "PARSE_SYNTAX_ERROR":
                return f"unexpected {parameters['error']}", parameters.get("hint", "").strip() or None
            case _:
                return None
    except (KeyError, IndexError):  # another version of Spark may name its parameters differently
        return None


def _sentences(text: str) -> tuple[str, str | None]:
    """The first sentence as a message, the next as a hint; talk of Spark's own settings is left out."""
    line = next((line for line in text.splitlines() if line.strip()), "the query failed")
    first, *rest = re.split(r"(?<=[.!?])\s+(?=[A-Z])", _without_codes(line).replace("`", '"'))
    first = first.split("due to data type mismatch: ")[-1].rstrip(".")
    hint = " ".join(sentence for sentence in rest if "spark.sql" not in sentence)
    return (first[:1].lower() if first[1:2].islower() else first[:1]) + first[1:], hint or None


def _without_codes(line: str) -> str:
    return re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", line).split(" SQLSTATE:")[0].strip()


def _listed(opening: str, names: list[str]) -> str | None:
    return f"{opening} {', '.join(names)}." if names else None


def _counts(expected: str) -> str:
    """
    >>> _counts("[2, 3]"), _counts("1")
    ('2 or 3 arguments', '1 argument')
    """
    numbers = re.findall(r"\d+", expected)
    return f"{' or '.join(numbers) or expected} argument{'' if numbers == ['1'] else 's'}"


def _paths(text: str) -> list[str]:
    """
    >>> _paths("[`r`.`k`, `t`.`k`]")
    ['r.k', 't.k']
    """
    return [".".join(re.findall(r"`([^`]+)`", path)) for path in text.strip("[]").split(", ") if path]


def _names(text: str) -> list[str]:
    """The last part of each path.

    >>> _names("`r`.`price`, `k`")
    ['price', 'k']
    """
    return [re.findall(r"`([^`]+)`", path)[-1] for path in text.split(", ") if path]


# --- places ---------------------------------------------------------------------------------


def _place(error: PySparkException) -> Span | None:
    contexts = [context for context in error.getQueryContext() if context.contextType() == QueryContextType.SQL]
    if not contexts or contexts[0].startIndex() < 0:
        return None
    return Span(contexts[0].startIndex(), contexts[0].stopIndex() + 1)
