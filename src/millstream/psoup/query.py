"""What a client registers, as data that cannot be wrong.

    SELECT select | aggregates  FROM sources  WHERE factors AND joins AND conditions  BEGIN begin END end

FROM and WHERE are the clause, which stands in the query SteM; queries with the same clause share it, whatever their windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.core.errors import ColumnNotFound, NotSupported, StreamNotFound, TypeMismatch, WindowInvalid, did_you_mean
from millstream.core.instant import Micros
from millstream.core.schema import Schema, type_name
from millstream.kernels.arrow_buffers import is_word
from millstream.kernels.comparison_keys import OPERATORS, Operator, constant_array
from millstream.kernels.predicate_index import Factor
from millstream.kernels.sort_keys import is_sortable

Mask = npt.NDArray[np.bool_]
Variant = Literal["none", "partial", "complete"]
VARIANTS: tuple[Variant, ...] = ("none", "partial", "complete")
Function = Literal["count", "sum", "avg", "min", "max"]


@dataclass(frozen=True, slots=True)
class Now:
    """NOW - minus_us."""

    minus_us: Micros = 0

    def __post_init__(self) -> None:
        if self.minus_us < 0:
            raise WindowInvalid("a window cannot reach beyond now", hint="Give NOW, or NOW minus a length of time.")


Bound = Micros | Now
"""An end of a window: an instant, or an instant relative to that of the invocation."""


@dataclass(frozen=True, slots=True)
class Source:
    """FROM stream AS name."""

    name: str
    stream: str


@dataclass(frozen=True, slots=True)
class ColumnOf:
    source: str
    column: str

    def __str__(self) -> str:
        return f"{self.source}.{self.column}"


@dataclass(frozen=True, slots=True)
class Selection:
    """`source.column op constant`; goes into the predicate index."""

    source: str
    factor: Factor


@dataclass(frozen=True, slots=True)
class JoinFactor:
    """`left op right + plus`, over two sources."""

    left: ColumnOf
    op: Operator
    right: ColumnOf
    plus: int | float | Decimal = 0


@dataclass(frozen=True, slots=True)
class Condition:
    """Any other condition, kept in the predicate list.

    `holds` is SQL for the evaluator, or a function of a whole batch; it sees the columns under the names in `reads`.  SQL that is
    not true for a row drops it, and so does False.
    """

    reads: tuple[tuple[str, ColumnOf], ...]
    holds: str | Callable[[pa.RecordBatch], Mask]

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(of.source for _, of in self.reads)


@dataclass(frozen=True, slots=True)
class Clause:
    """FROM and WHERE: what of a query stands in the query SteM."""

    sources: tuple[Source, ...]
    factors: tuple[Selection, ...] = ()
    joins: tuple[JoinFactor, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(source.name for source in self.sources)

    def factors_of(self, position: int) -> tuple[Factor, ...]:
        return tuple(each.factor for each in self.factors if each.source == self.sources[position].name)

    def conditions_of(self, position: int) -> tuple[Condition, ...]:
        """Those that only this source decides."""
        return tuple(each for each in self.conditions if each.sources == {self.sources[position].name})

    @property
    def shape(self) -> tuple[object, ...]:
        """Clauses of one shape join the same streams in the same way; what they want of each stream alone may differ."""
        place = self.names.index
        joins = tuple((place(j.left.source), j.left.column, j.op, place(j.right.source), j.right.column, j.plus) for j in self.joins)
        several = tuple(
            (each.holds, tuple((name, place(of.source), of.column) for name, of in each.reads))
            for each in self.conditions
            if len(each.sources) != 1
        )
        return tuple(source.stream for source in self.sources), joins, several


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`name` := function(column); there is no column for count(*)."""

    name: str
    function: Function
    of: ColumnOf | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """`select`: names and columns of the answer; with aggregates there are none, and the answer is one row.

    `begin` and `end` are both part of the window: two instants make a snapshot, an instant and NOW a landmark window, two times
    relative to NOW a sliding one.  `variant` None: the soup's.
    """

    clause: Clause
    select: tuple[tuple[str, ColumnOf], ...] = ()
    begin: Bound = field(default_factory=Now)
    end: Bound = field(default_factory=Now)
    distinct: bool = False
    aggregates: tuple[Aggregate, ...] = ()
    variant: Variant | None = None

    @property
    def columns(self) -> tuple[ColumnOf, ...]:
        """All that the answer reads, each once."""
        return tuple(dict.fromkeys([*(of for _, of in self.select), *(call.of for call in self.aggregates if call.of is not None)]))


def window_at(query: Query, now: Micros) -> tuple[Micros, Micros]:
    """BEGIN and END at an instant; nothing is later than now."""
    begin, end = (now - bound.minus_us if isinstance(bound, Now) else bound for bound in (query.begin, query.end))
    return begin, min(end, now)


# --- checks -----------------------------------------------------------------------------------


def check(query: Query, streams: Mapping[str, Schema]) -> None:
    """Names and types fit, or an error that says what does not."""
    clause = query.clause
    for source in clause.sources:
        if source.stream not in streams:
            raise StreamNotFound(f'stream "{source.stream}" does not exist', hint=_one_of(source.stream, streams))
    if not clause.sources or len(set(clause.names)) < len(clause.names):
        raise NotSupported("a query reads one stream or more, each under a name of its own", hint="Give each source another name.")
    schemas = {source.name: streams[source.stream] for source in clause.sources}
    for selection in clause.factors:
        _check_factor(selection.factor, _type_of(ColumnOf(selection.source, selection.factor.column), schemas))
    for join in clause.joins:
        _check_join(join, _type_of(join.left, schemas), _type_of(join.right, schemas))
    if any(not each.reads for each in clause.conditions):
        raise NotSupported("a condition reads some column", hint="Leave out what is always true.")
    for of in (*query.columns, *(of for each in clause.conditions for _, of in each.reads)):
        _type_of(of, schemas)
    _check_answer(query, schemas)


def _one_of(name: str, names: Iterable[str]) -> str:
    names = list(names)
    return did_you_mean(name, names) or f"There are: {', '.join(names) or 'none'}."


def _type_of(of: ColumnOf, schemas: Mapping[str, Schema]) -> pa.DataType:
    if of.source not in schemas:
        raise StreamNotFound(f'"{of.source}" is not in FROM', hint=_one_of(of.source, schemas))
    schema = schemas[of.source]
    if of.column not in schema:
        raise ColumnNotFound(f'column "{of.column}" does not exist in "{of.source}"', hint=_one_of(of.column, schema.names))
    return schema[of.column].type


def _check_factor(factor: Factor, type_: pa.DataType) -> None:
    if factor.op not in OPERATORS or not is_sortable(type_):
        raise NotSupported(
            f'column "{factor.column}" of {type_name(type_)} cannot be indexed by {factor.op}', hint="Write it as a condition."
        )
    constant_array(factor.constant, type_)


def _check_join(join: JoinFactor, left: pa.DataType, right: pa.DataType) -> None:
    if join.left.source == join.right.source:
        raise NotSupported(f'{join.left} {join.op} {join.right} joins "{join.left.source}" with nothing', hint="Write it as a condition.")
    if join_domain(left, right) is not None and (join_domain(left, right) != "name" or (join.op == "=" and not join.plus)):
        if join_domain(left, right) == "integer":
            added_as_key(join.plus, right)
        return
    raise NotSupported(
        f"{join.left} ({type_name(left)}) {join.op} {join.right} ({type_name(right)}) cannot be indexed", hint="Write it as a condition."
    )


def join_domain(left: pa.DataType, right: pa.DataType) -> Literal["integer", "double", "name"] | None:
    """In which keys two columns are compared; None if they cannot be.  Instants, dates and decimals only with their own type."""
    if is_number(left) and is_number(right):
        return "double" if pa.types.is_floating(left) or pa.types.is_floating(right) else "integer"
    if left != right or not is_sortable(left):
        return None
    return "integer" if is_word(left) else "name"


def added_as_key(plus: int | float | Decimal, type_: pa.DataType) -> int:
    """What is added to keys of a column where `plus` is added to its values."""
    scaled = Decimal(plus) * 10**type_.scale if pa.types.is_decimal(type_) else plus
    if scaled != int(scaled) or isinstance(plus, float):
        raise TypeMismatch(f"{plus!r} cannot be added to {type_name(type_)}", hint="Give a number with no more digits than the type has.")
    return int(scaled)


def is_number(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_))


def _check_answer(query: Query, schemas: Mapping[str, Schema]) -> None:
    if bool(query.select) == bool(query.aggregates):
        raise NotSupported("a query has either a select list or aggregates", hint="Register two queries: they share their work.")
    for call in query.aggregates:
        if call.of is None and call.function != "count":
            raise NotSupported(f"{call.function}(*) means nothing", hint="Name a column.")
        if call.of is not None:
            type_ = _type_of(call.of, schemas)
            numeric = is_number(type_) or pa.types.is_decimal(type_)
            if not is_sortable(type_) or (call.function in ("sum", "avg") and not numeric):
                raise TypeMismatch(f"{call.function}({call.of}) of {type_name(type_)} is not defined", hint="Aggregate another column.")
    if isinstance(query.begin, int) and isinstance(query.end, int) and query.begin > query.end:
        raise WindowInvalid("the window ends before it begins", hint="Exchange BEGIN and END.")
    if isinstance(query.begin, Now) and isinstance(query.end, Now) and query.begin.minus_us < query.end.minus_us:
        raise WindowInvalid("the window ends before it begins", hint="Exchange BEGIN and END.")
