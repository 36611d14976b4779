"""Every query of the stream scripts that can be registered answers, when it is asked, what the standing query answers at that instant.

Written for other purposes, they are the widest choice of SQL there is here.  A third of them are tried, chosen by their names.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inline import open_inline
from millstream.api import Database, RegisteredQuery
from millstream.cli.scripts.batching import batching
from millstream.cli.scripts.blocks import Advance, Changes, CreateQuery, Push, QueryOnce, Result, Statement
from millstream.cli.scripts.cells import table_rows
from millstream.cli.scripts.compare import compare_bags
from millstream.cli.scripts.runner import _Run
from millstream.core.errors import MillstreamError
from millstream.core.instant import BEGINNING
from millstream.psoup.query import VARIANTS
from script_files import PATHS, read_script

GROUPS = 6
CHOSEN = [path for path in PATHS if zlib.crc32(path.as_posix().encode()) % 3 == 1]


class Mirror:
    """For each standing query, registered ones of all variants."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.pairs: dict[str, list[RegisteredQuery]] = {}

    def add(self, block: CreateQuery) -> bool:
        try:
            found = [self.db.register(f"{block.name}_{each}", block.sql, materialise=each) for each in VARIANTS]
        except MillstreamError as error:
            if error.code not in ("NOT_SUPPORTED", "WINDOW_INVALID") and "EXPIRY" not in error.message:
                raise
            return False
        self.pairs[block.name] = found
        return True

    def check(self) -> None:
        self.db.flush()
        for name, found in self.pairs.items():
            query = self.db.query(name)
            if query.is_stream or query._running.state != "running":
                continue
            expected = query.result()
            for each in found:
                assert max(each.frontier, BEGINNING) == max(query.frontier, BEGINNING)
                answer = each.invoke()
                assert answer.schema.types == expected.schema.types
                assert answer.column_names == expected.column_names
                assert compare_bags(table_rows(expected), table_rows(answer)).equal, (each.name, each.sql, query.frontier)


def steps(path: Path, location: Path) -> Iterator[tuple[_Run, Any]]:
    script = read_script(path)
    run = _Run(script, open_inline, location, batching("one", str(path)))
    try:
        for block in script.blocks:
            if block.applies(frozenset({"millstream"})) and not isinstance(block, Changes | Result | QueryOnce):
                yield run, block
    finally:
        run.db.close()


@pytest.mark.parametrize("group", range(GROUPS))
def test_registered_ones_answer_as_the_standing_ones(group: int, tmp_path: Path) -> None:
    registered = sum(mirrored(path, tmp_path / str(i)) for i, path in enumerate(CHOSEN[group::GROUPS]))
    assert registered >= 10, "else this says little"


def mirrored(path: Path, location: Path) -> int:
    """How many queries of a script were registered."""
    mirror: Mirror | None = None
    registered = 0
    for run, block in steps(path, location):
        if mirror is None or mirror.db is not run.db:
            mirror = Mirror(run.db)
        if isinstance(block, Statement) and (block.error is not None or block.sql.split()[0].upper() in ("ALTER", "DROP")):
            continue
        if isinstance(block, CreateQuery | Statement | Push | Advance):
            try:
                run._step(block)
            except MillstreamError:
                break  # it stands on something that was left out here
        if isinstance(block, CreateQuery):
            registered += mirror.add(block)
        elif isinstance(block, Push | Advance):
            mirror.check()
    return registered
