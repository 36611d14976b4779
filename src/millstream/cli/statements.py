"""A text of several statements, cut at its semicolons; those in quotes and comments do not count.

Only the cutting lives here: whether a statement means anything is the language's business.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
    '(?:[^'\\]|\\.)*(?P<open_string>'|\Z)
  | "(?:[^"\\]|\\.)*(?P<open_quoted>"|\Z)
  | `[^`]*(?P<open_name>`|\Z)
  | --[^\n]*
  | /\*.*?(?P<open_comment>\*/|\Z)
  | (?P<semicolon>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENTS = re.compile(r"--[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement without its semicolon, and the line it starts on, counted from 1."""

    sql: str
    line: int


def split_statements(text: str) -> list[Piece]:
    """The statements of `text`, those without any content left out.  The last one needs no semicolon.

    >>> [piece.sql for piece in split_statements("SELECT ';' -- ;\\n; SHOW STREAMS")]
    ["SELECT ';' -- ;", 'SHOW STREAMS']
    """
    pieces, start = [], 0
    for match in _TOKEN.finditer(text):
        if match["semicolon"]:
            pieces.append((start, match.start()))
            start = match.end()
    pieces.append((start, len(text)))
    return [_piece(text, begin, end) for begin, end in pieces if _has_content(text[begin:end])]


def is_complete(text: str) -> bool:
    """Whether the last thing in `text` besides comments is a semicolon that ends a statement."""
    end = None
    for match in _TOKEN.finditer(text):
        if any(match[group] == "" for group in ("open_string", "open_quoted", "open_name", "open_comment")):
            return False
        if match["semicolon"]:
            end = match.end()
    return end is not None and not _has_content(text[end:])


def _piece(text: str, begin: int, end: int) -> Piece:
    while text[begin].isspace():
        begin += 1
    return Piece(text[begin:end].rstrip(), text.count("\n", 0, begin) + 1)


def _has_content(sql: str) -> bool:
    return bool(_COMMENTS.sub("", sql).strip())
