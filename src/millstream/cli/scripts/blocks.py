"""The blocks of a stream script, as data.  Line numbers count from 1, as editors do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from millstream.core.errors import ConfigError
from millstream.core.instant import Micros


class ScriptInvalid(ConfigError):
    """The script itself cannot be read; the database had no part in it."""

    code: ClassVar[str] = "SCRIPT_INVALID"


@dataclass(frozen=True, slots=True)
class Record:
    """One row as it is written: CSV, on one line unless a quoted cell holds line breaks."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Change:
    """`+ A,5`, or `@4 + A,5` with the instant."""

    record: Record
    sign: Literal[1, -1]
    instant: Micros | None


@dataclass(frozen=True, slots=True)
class Region:
    """The lines [start, stop) of the file, counted from 0, that hold expected rows; `--complete` replaces them."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Condition:
    """`skipif KEY` or `onlyif KEY` in front of a block."""

    kind: Literal["skipif", "onlyif"]
    key: str

    def holds(self, keys: frozenset[str]) -> bool:
        return (self.key.lower() in keys) == (self.kind == "onlyif")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    line: int
    header: str
    conditions: tuple[Condition, ...] = ()

    def applies(self, keys: frozenset[str]) -> bool:
        return all(condition.holds(keys) for condition in self.conditions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement(Block):
    """`statement ok`, or `statement error X` with what is expected of the error ("" for any)."""

    sql: str
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateQuery(Block):
    name: str
    sql: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOnce(Block):
    sql: str
    expected: tuple[Record, ...]
    region: Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Push(Block):
    """Rows for a stream, or for a relation: there perhaps with signs (`format.signed`) and at an instant."""

    target: str
    at: Micros | None
    rows: tuple[Record, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance(Block):
    stream: str | None
    instant: Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes(Block):
    query: str
    by_instant: bool
    expected: tuple[Change, ...]
    region: Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Block):
    query: str
    expected: tuple[Record, ...]
    region: Region


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart(Block):
    """Close the database and open it again at its location."""


AnyBlock = Statement | CreateQuery | QueryOnce | Push | Advance | Changes | Result | Restart
