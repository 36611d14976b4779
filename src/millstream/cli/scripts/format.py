"""The text of a stream script: into blocks, and back with other expected lines.

Blocks are separated by blank lines; a line that starts with `#` is a comment wherever it stands.
The first line of a block says what it is, the lines below are its SQL or its rows.  Nothing here
knows types or databases: rows stay text (`cells.py` reads them).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from millstream.cli.scripts.blocks import (
    Advance,
    AnyBlock,
    Change,
    Changes,
    Condition,
    CreateQuery,
    Push,
    QueryOnce,
    Record,
    Region,
    Restart,
    Result,
    ScriptInvalid,
    Statement,
)
from millstream.core.errors import Span, did_you_mean
from millstream.core.instant import Micros, parse_instant

_SEPARATOR = "----"
_CONDITIONS = ("skipif", "onlyif")
_CHANGE = re.compile(r"(?:@(?P<instant>\S+) +)?(?P<sign>[+-])(?: (?P<row>.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Script:
    path: str
    lines: tuple[str, ...]  # with their line ends, so that the file can be written back byte for byte
    blocks: tuple[AnyBlock, ...]


def parse_script(text: str, path: str) -> Script:
    lines = tuple(re.findall(r"[^\n]*\n|[^\n]+", text))
    reader = _Reader(path, lines)
    blocks = []
    while reader.skip_to_block():
        blocks.append(_block(reader))
    return Script(path, lines, tuple(blocks))


def rewrite(script: Script, replacements: Mapping[Region, Sequence[str]]) -> str:
    """The script's text with other expected rows.  Comments among the old rows stay, in front of the new ones."""
    newline = "\r\n" if script.lines and script.lines[0].endswith("\r\n") else "\n"
    out: list[str] = []
    done = 0
    for region in sorted(replacements, key=lambda region: region.start):
        out += script.lines[done : region.start]
        if out and not out[-1].endswith("\n"):
            out[-1] += newline
        out += [line for line in script.lines[region.start : region.stop] if line.startswith("#")]
        out += [row + newline for row in replacements[region]]
        done = region.stop
    return "".join([*out, *script.lines[done:]])


class _Reader:
    """A cursor over the lines of a script; knows how to point at the line it stands on."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self.path = path
        self.lines = lines
        self.at = 0  # the next line, counted from 0

    def skip_to_block(self) -> bool:
        while self.at < len(self.lines) and (self._is_blank() or self._is_comment()):
            self.at += 1
        return self.at < len(self.lines)

    def next_line(self) -> Record | None:
        """The next line of the block, comments left out; None at its end."""
        while self.at < len(self.lines) and self._is_comment():
            self.at += 1
        if self.at >= len(self.lines) or self._is_blank():
            return None
        self.at += 1
        return Record(self.at, self.lines[self.at - 1].rstrip("\r\n"))

    def next_record(self) -> Record | None:
        """The next row: as many lines as its quotes need."""
        first = self.next_line()
        if first is None:
            return None
        text = self.lines[first.line - 1]
        while text.count('"') % 2:
            if self.at >= len(self.lines):
                raise self.error(first, "a quote is opened here and never closed")
            text += self.lines[self.at]
            self.at += 1
        return Record(first.line, text.rstrip("\r\n"))

    def error(self, place: Record, message: str, hint: str | None = None) -> ScriptInvalid:
        line = self.lines[place.line - 1].rstrip("\r\n")
        return ScriptInvalid(f"{self.path}:{place.line}: {message}", hint=hint, sql=line, span=Span(0, len(line)))

    def _is_blank(self) -> bool:
        return not self.lines[self.at].strip()

    def _is_comment(self) -> bool:
        return self.lines[self.at].startswith("#")


def _block(reader: _Reader) -> AnyBlock:
    conditions: list[Condition] = []
    while True:
        header = reader.next_line()
        if header is None:
            raise reader.error(Record(reader.at, ""), "a condition stands here without a block below it")
        words = header.text.split()
        if words[0] not in _CONDITIONS:
            break
        if len(words) != 2:
            raise reader.error(header, f"{words[0]} wants one key")
        conditions.append(Condition("skipif" if words[0] == "skipif" else "onlyif", words[1]))
    if words[0] not in _KINDS:
        known = (*_KINDS, *_CONDITIONS)
        hint = did_you_mean(words[0], known) or f"A block starts with one of: {', '.join(known)}."
        raise reader.error(header, f'"{words[0]}" is no kind of block', hint)
    return _KINDS[words[0]](reader, header, words[1:], tuple(conditions))


def _statement(reader: _Reader, header: Record, words: list[str], conditions: tuple[Condition, ...]) -> AnyBlock:
    match words:
        case ["ok"]:
            error = None
        case ["error", *_]:
            error = header.text.split(None, 2)[2].strip() if len(words) > 1 else ""
            _check_regex(reader, header, error)
        case _:
            raise reader.error(header, "a statement is expected to be `ok` or `error`", "Write `statement ok` or `statement error CODE`.")
    return Statement(line=header.line, header=header.text, conditions=conditions, sql=_sql(reader, header), error=error)


def _check_regex(reader: _Reader, header: Record, pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as failure:
        raise reader.error(header, f"{pattern!r} is not a regular expression: {failure}") from None


def _query(reader: _Reader, header: Record, words: list[str], conditions: tuple[Condition, ...]) -> AnyBlock:
    if len(words) != 1:
        raise reader.error(header, "a query wants a name, or `once`")
    if words[0] != "once":
        return CreateQuery(line=header.line, header=header.text, conditions=conditions, name=words[0], sql=_sql(reader, header))
    sql = _sql(reader, header, until=_SEPARATOR)
    expected, region = _expected_rows(reader)
    return QueryOnce(line=header.line, header=header.text, conditions=conditions, sql=sql, expected=expected, region=region)


def _push(reader: _Reader, header: Record, words: list[str], conditions: tuple[Condition, ...]) -> AnyBlock:
    match words:
        case [target]:
            at = None
        case [target, instant] if instant.startswith("@"):
            at = _instant(reader, header, instant[1:])
        case _:
            raise reader.error(
                header, "push wants a stream, or a relation and perhaps an instant", "Write `push trades` or `push rates @12.5`."
            )
    rows, _ = _records(reader)
    return Push(line=header.line, header=header.text, conditions=conditions, target=target, at=at, rows=rows)


def signed(record: Record) -> Change:
    """A line pushed to a relation: `+ ROW`, `- ROW`, or just the row."""
    match = _CHANGE.fullmatch(record.text)
    if match is None or match["instant"] is not None:
        return Change(record, 1, None)
    return Change(Record(record.line, match["row"] or ""), _sign(match["sign"]), None)


def _advance(reader: _Reader, header: Record, words: list[str], conditions: tuple[Condition, ...]) -> AnyBlock:
    if len(words) not in (1, 2):
        raise reader.error(header, "advance wants an instant, and perhaps a stream before it", "Write `advance 10` or `advance trades 10`.")
    _no_body(reader, header)
    stream = words[0] if len(words) == 2 else None
    return Advance(line=header.line, header=header.text, conditions=conditions, stream=stream, instant=_instant(reader, header, words[-1]))


def _changes(reader: _Reader, header: Record, words: list[str], conditions: tuple[Condition, ...]) -> AnyBlock:
    if len(words) not in (1, 3) or words[1:] not in ([], ["by", "instant"]):
        raise reader.error(header, "changes wants a query, and perhaps `by instant`")
    by_instant = len(words) == 3
    records, region = _records(reader)
    expected = tuple(_expected_change(reader, record, by_instant=by_instant) for record in records)
    for before, after in pairwise(expected):
        if before.instant is not None and after.instant is not None and after.instant < before.instant:
            raise reader.error(after.record, "expected changes stand in the order of their instants")
    return Changes(
        line=header.line, header=header.text, conditions=conditions, query=words[0], by_instant=by_instant, expected=expected, region=region
    )


def _expected_change(reader: _Reader, record: Record, *, by_instant: bool) -> Change:
    match = _CHANGE.fullmatch(record.text)
    if match is None or (match["instant"] is not None) != by_instant:
        form = "@INSTANT + ROW" if by_instant else "+ ROW"
        raise reader.error(record, f"a change is written `{form}`, or with a minus sign")
    instant = _instant(reader, record, match["instant"]) if by_instant else None
    return Change(Record(record.line, match["row"] or ""), _sign(match["sign"]), instant)


def _result(reader: _Reader, header: Record, words: list[str], conditions: tuple[Condition, ...]) -> AnyBlock:
    if len(words) != 1:
        raise reader.error(header, "result wants the name of a query")
    expected, region = _expected_rows(reader)
    return Result(line=header.line, header=header.text, conditions=conditions, query=words[0], expected=expected, region=region)


def _restart(reader: _Reader, header: Record, words: list[str], conditions: tuple[Condition, ...]) -> AnyBlock:
    if words:
        raise reader.error(header, "restart takes nothing")
    _no_body(reader, header)
    return Restart(line=header.line, header=header.text, conditions=conditions)


def _sql(reader: _Reader, header: Record, until: str | None = None) -> str:
    lines = []
    while (line := reader.next_line()) is not None and line.text.strip() != until:
        lines.append(line.text)
    if not lines:
        raise reader.error(header, "the SQL is missing below this line")
    if until is not None and line is None:
        raise reader.error(header, f"the line {until} between SQL and rows is missing")
    return "\n".join(lines)


def _records(reader: _Reader) -> tuple[tuple[Record, ...], Region]:
    """The rows of a block, and the lines from the first to the last of them."""
    start = stop = reader.at
    records: list[Record] = []
    while (record := reader.next_record()) is not None:
        start = start if records else record.line - 1
        stop = reader.at
        records.append(record)
    return tuple(records), Region(start, stop)


def _expected_rows(reader: _Reader) -> tuple[tuple[Record, ...], Region]:
    """Rows without a sign.  One NULL alone is written `+`, as among changes: an empty line would end the block."""
    records, region = _records(reader)
    return tuple(Record(record.line, "") if record.text == "+" else record for record in records), region


def _no_body(reader: _Reader, header: Record) -> None:
    if (line := reader.next_line()) is not None:
        raise reader.error(line, f"`{header.text}` has no lines below it", "Separate blocks with a blank line.")


def _instant(reader: _Reader, place: Record, text: str) -> Micros:
    try:
        return parse_instant(text)
    except ValueError:
        hint = "Write seconds since 1970, such as 10.5, or ISO-8601."
        raise reader.error(place, f"{text!r} is not an instant", hint) from None


def _sign(text: str) -> Literal[1, -1]:
    return 1 if text == "+" else -1


_KINDS: dict[str, Callable[[_Reader, Record, list[str], tuple[Condition, ...]], AnyBlock]] = {
    "statement": _statement,
    "query": _query,
    "push": _push,
    "advance": _advance,
    "changes": _changes,
    "result": _result,
    "restart": _restart,
}
