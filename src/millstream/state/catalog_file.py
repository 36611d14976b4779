"""The statements that made the database's objects, in order, as SQL text.  What they mean is the language's business.

{"next_id": 3, "statements": [{"id": 1, "sql": "CREATE STREAM ..."}, {"id": 2, "sql": "CREATE QUERY ...", "functions": {"f": "INT"}}]}

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


class CatalogFile:
    """Every change is on disk when the call returns; a crash leaves the list before or after it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next_id, self._entries = _read(path)

    @property
    def entries(self) -> tuple[CatalogEntry, ...]:
        return tuple(self._entries)

    def append(self, sql: str, functions: Mapping[str, str] | None = None) -> int:
        """Adds a statement at the end and returns its id, which is never used again."""
        with self.adding(sql, functions) as number:
            return number

    @contextmanager
    def adding(self, sql: str, functions: Mapping[str, str] | None = None) -> Iterator[int]:
        """The statement is there from here on, unless what is done inside fails.

        How the file looks without it is written beforehand: taking it back takes no space, which may be what is missing.
        """
        entry, before = CatalogEntry(self._next_id, sql, dict(functions or {})), self._entries
        with Replacement(self._path, _written(before, entry.id + 1), mode=_MODE) as without:
            self._replace([*before, entry], entry.id + 1)
            try:
                yield entry.id
            except BaseException:
                without.put()
                self._entries = before
                raise

    def remove(self, ids: Sequence[int]) -> None:
        missing = set(ids) - {entry.id for entry in self._entries}
        assert not missing, f"no statements {sorted(missing)} in the catalog"
        self._replace([entry for entry in self._entries if entry.id not in ids], self._next_id)

    def _replace(self, entries: list[CatalogEntry], next_id: int) -> None:
        atomic_write(self._path, _written(entries, next_id), mode=_MODE)
        self._entries, self._next_id = entries, next_id


def _written(entries: Sequence[CatalogEntry], next_id: int) -> bytes:
    statements = [{"id": entry.id, "sql": entry.sql, **({"functions": entry.functions} if entry.functions else {})} for entry in entries]
    return sealed(json.dumps({"next_id": next_id, "statements": statements}, indent=1).encode())


def _read(path: Path) -> tuple[int, list[CatalogEntry]]:
    try:
        return read_sealed_json(path, _decoded)
    except FileNotFoundError:
        return 1, []


def _decoded(content: dict[str, Any]) -> tuple[int, list[CatalogEntry]]:
    entries = [CatalogEntry(int(entry["id"]), str(entry["sql"]), dict(entry.get("functions", {}))) for entry in content["statements"]]
    return int(content["next_id"]), entries
