"""The statements that made the database's objects, in order, as SQL text.  What they mean is the language's business.

{"next_id": 3, "statements": [{"id": 1, "sql": "CREATE STREAM ..."}, {"id": 2, "sql": "CREATE QUERY ...", "functions": {"f": "INT"}}]}

A query that was altered has the statement that would make it as it is now, how often that was, and where it was at the last time.

Of the Python functions that a statement calls the file holds names and types; the functions themselves end with the program.
Secrets in OPTIONS stand in it as they were given, so that only its owner may read it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from millstream.state.atomic import Replacement, atomic_write
from millstream.state.sealed import read_sealed_json, sealed

_MODE = 0o600


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    id: int
    sql: str
    functions: Mapping[str, str] = field(default_factory=dict)  # name -> type
    version: int = 0
    altered_at: tuple[int, int] | None = None  # the instant, and that from which its windows are complete
    paused: bool = False
    first_sql: str = ""  # the statement that made it, if it was altered since

    @property
    def incarnation(self) -> str:
        """Of the caches of a query: other plans have other ones."""
        return f"{self.id}.{self.version}" if self.version else str(self.id)


class CatalogFile:
    """Every change is on disk when the call returns; a crash leaves the list before or after it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next_id, self._entries = _read(path)
        self._lines: dict[int, tuple[CatalogEntry, str]] = {}  # as they stand in the file: there may be thousands

    @property
    def entries(self) -> tuple[CatalogEntry, ...]:
        return tuple(self._entries)

    def append(self, sql: str, functions: Mapping[str, str] | None = None) -> int:
        """Adds a statement at the end and returns its id, which is never used again."""
        with self.adding(sql, functions) as entry:
            return entry.id

    @contextmanager
    def adding(self, sql: str, functions: Mapping[str, str] | None = None) -> Iterator[CatalogEntry]:
        """The statement is there from here on, unless what is done inside fails.

        How the file looks without it is written beforehand: taking it back takes no space, which may be what is missing.
        """
        entry, before = CatalogEntry(self._next_id, sql, dict(functions or {})), self._entries
        with Replacement(self._path, self._written(before, entry.id + 1), mode=_MODE) as without:
            self._replace([*before, entry], entry.id + 1)
            try:
                yield entry
            except BaseException:
                without.put()
                self._entries = before
                raise

    def change(self, entry: CatalogEntry) -> None:
        """Another entry in the place of that with the same id."""
        self._replace([entry if each.id == entry.id else each for each in self._entries], self._next_id)

    def remove(self, ids: Sequence[int]) -> None:
        missing = set(ids) - {entry.id for entry in self._entries}
        assert not missing, f"no statements {sorted(missing)} in the catalog"
        self._replace([entry for entry in self._entries if entry.id not in ids], self._next_id)

    def _replace(self, entries: list[CatalogEntry], next_id: int) -> None:
        atomic_write(self._path, self._written(entries, next_id), mode=_MODE)
        self._entries, self._next_id = entries, next_id

    def _written(self, entries: Sequence[CatalogEntry], next_id: int) -> bytes:
        """A line for each."""
        kept, self._lines = self._lines, {}
        for entry in entries:
            known = kept.get(entry.id)
            self._lines[entry.id] = known if known is not None and known[0] is entry else (entry, json.dumps(_encoded(entry)))
        lines = ",\n ".join(line for _, line in self._lines.values())
        return sealed(f'{{"next_id": {next_id}, "statements": [\n {lines}\n]}}'.encode())


def _encoded(entry: CatalogEntry) -> dict[str, Any]:
    """Without what is not said of most."""
    more = {"functions": entry.functions, "version": entry.version, "altered_at": entry.altered_at, "paused": entry.paused}
    more["first_sql"] = entry.first_sql
    return {"id": entry.id, "sql": entry.sql, **{key: value for key, value in more.items() if value}}


def _read(path: Path) -> tuple[int, list[CatalogEntry]]:
    try:
        return read_sealed_json(path, _decoded)
    except FileNotFoundError:
        return 1, []


def _decoded(content: dict[str, Any]) -> tuple[int, list[CatalogEntry]]:
    return int(content["next_id"]), [_entry(each) for each in content["statements"]]


def _entry(saved: dict[str, Any]) -> CatalogEntry:
    at, complete_from = saved.get("altered_at", (None, None))
    altered_at = None if at is None else (int(at), int(complete_from))
    functions, version, paused = dict(saved.get("functions", {})), int(saved.get("version", 0)), bool(saved.get("paused", False))
    return CatalogEntry(int(saved["id"]), str(saved["sql"]), functions, version, altered_at, paused, str(saved.get("first_sql", "")))
