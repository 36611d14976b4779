"""What a user can say, as data.  One frozen class per statement.

Two statements are equal if they say the same: the text they came from and the places of their parts
(always relative to `text`) do not take part in comparison.  Nothing here is checked against a
catalog; column types are still names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from millstream.core.errors import Span
from millstream.core.instant import Micros
from millstream.core.secrets import Options
from millstream.language.nodes import StreamWindow
from millstream.plan.expiry import Expiry
from millstream.plan.rate import Rate

Kind = Literal["stream", "relation", "query", "registered query", "sink"]
Kinds = Literal["streams", "relations", "queries", "registered", "sinks", "sharing"]
Materialisation = Literal["none", "partial", "complete"]
"""How much is kept of the answer of a registered query before somebody asks for it: see psoup.md."""
Start = Literal["now"] | Micros
"""From where on a query answers that is created late: see semantics.md."""
OnError = Literal["reject", "fail"]
"""What becomes of a row that a stream cannot take: it is kept aside, or whoever brought it fails."""


@dataclass(frozen=True)
class _Statement:
    """`spans` maps the parts of a statement to their places: "name", "timestamp_by", "columns.0", "columns.0.type"."""

    text: str = field(default="", compare=False, repr=False, kw_only=True)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False, kw_only=True)

    def place(self, part: str, index: int | None = None, detail: str | None = None) -> Span | None:
        """Where a part stands in `text`; `index` for the parts that are lists."""
        key = ".".join(str(piece) for piece in (part, index, detail) if piece is not None)
        return self.spans.get(key)


@dataclass(frozen=True)
class ColumnDefinition:
    name: str
    type_name: str  # as written


@dataclass(frozen=True)
class CreateStream(_Statement):
    name: str
    columns: tuple[ColumnDefinition, ...]
    timestamp_by: str
    slack_us: Micros = 0
    idle_timeout_us: Micros | None = None
    partition_by: tuple[str, ...] = ()
    retain_us: Micros | None = None
    format: str | None = None
    options: Options = field(default_factory=Options)
    if_not_exists: bool = False
    on_error: OnError = "reject"
    max_ahead_us: Micros | None = None


@dataclass(frozen=True)
class CreateRelation(_Statement):
    name: str
    columns: tuple[ColumnDefinition, ...]
    primary_key: tuple[str, ...] = ()
    format: str | None = None
    options: Options = field(default_factory=Options)
    if_not_exists: bool = False
    refresh_us: Micros | None = None  # of one that is read from elsewhere: not more often than this; None: whenever somebody needs it


@dataclass(frozen=True)
class CreateQuery(_Statement):
    name: str
    select: exp.Query
    if_not_exists: bool = False
    expiry: Expiry | None = None
    retain_us: Micros | None = None
    start: Start | None = None  # None: where its inputs are, with what they retain in its windows
    rate: Rate | None = None

    @property
    def select_text(self) -> str:
        """The query alone, as the user wrote it."""
        span = self.place("select")
        return self.text[span.start : span.end] if span else ""


@dataclass(frozen=True)
class CreateSink(_Statement):
    name: str
    source: str
    format: str
    options: Options = field(default_factory=Options)
    if_not_exists: bool = False


@dataclass(frozen=True)
class InsertValues(_Statement):
    """Rows of expressions, or a query whose answer is inserted.  Without `columns` all columns are meant."""

    target: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[exp.Expr, ...], ...] = ()
    select: exp.Query | None = None
    at: Micros | None = None


@dataclass(frozen=True)
class DeleteFrom(_Statement):
    target: str
    where: exp.Expr | None = None
    at: Micros | None = None


@dataclass(frozen=True)
class UpdateSet(_Statement):
    target: str
    assignments: Mapping[str, exp.Expr]
    where: exp.Expr | None = None
    at: Micros | None = None


@dataclass(frozen=True)
class Select(_Statement):
    select: exp.Query
    expiry: Expiry | None = None
    rate: Rate | None = None


@dataclass(frozen=True)
class AlterWindow(_Statement):
    """Another window for what is called `of` in the query; None: for the only thing that has one."""

    name: str
    window: StreamWindow
    of: str | None = None


@dataclass(frozen=True)
class AlterSelect(_Statement):
    """Another question, with an answer of the same columns."""

    name: str
    select: exp.Query
    expiry: Expiry | None = None
    rate: Rate | None = None


@dataclass(frozen=True)
class AlterRetain(_Statement):
    """None: for ever."""

    name: str
    retain_us: Micros | None


@dataclass(frozen=True)
class Pause(_Statement):
    name: str


@dataclass(frozen=True)
class Resume(_Statement):
    name: str


Alter = AlterWindow | AlterSelect | AlterRetain | Pause | Resume


@dataclass(frozen=True)
class Register(_Statement):
    """A query that is asked now and then."""

    name: str
    select: exp.Query
    materialise: Materialisation = "partial"
    if_not_exists: bool = False

    @property
    def select_text(self) -> str:
        span = self.place("select")
        return self.text[span.start : span.end] if span else ""


@dataclass(frozen=True)
class Invoke(_Statement):
    name: str


@dataclass(frozen=True)
class Unregister(_Statement):
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Drop(_Statement):
    kind: Kind
    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class Show(_Statement):
    kind: Kinds


@dataclass(frozen=True)
class Describe(_Statement):
    name: str


@dataclass(frozen=True)
class Explain(_Statement):
    """`statement` has the same text as the EXPLAIN around it, so that its places fit."""

    statement: Select | CreateQuery
    analyze: bool = False

    @property
    def select(self) -> exp.Query:
        return self.statement.select

    @property
    def expiry(self) -> Expiry | None:
        return self.statement.expiry


Statement = (
    CreateStream | CreateRelation | CreateQuery | CreateSink | InsertValues | DeleteFrom | UpdateSet
    | Select | Drop | Show | Describe | Explain | Alter | Register | Invoke | Unregister
)  # fmt: skip
