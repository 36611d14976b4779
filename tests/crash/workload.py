"""A program that is killed on purpose, without a JVM: some seventy steps that do to a database whatever can be done to it.

    run(location, progress)      goes on where the last run ended, however it ended, and returns what can be seen at the end

`progress` is a file outside the database: a line when a step begins, another when it has returned.  A step that had begun and not
returned may have happened or not; each step knows how to find out, and that there is no third possibility.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inline import open_inline
from millstream.api import Database
from millstream.core.instant import LAST, NEVER_BEFORE, to_micros
from millstream.runtime import families, rounds
from millstream.state import delta_log, relation_log
from millstream.state.changelog import Changelog
from millstream.state.file_journal import FileJournal, FoundFile
from millstream.state.relation_log import RelationLog
from millstream.state.stream_log import StreamLog

ROUNDS, ROWS = 9, 15

QUERIES = {
    "sums": "SELECT k, sum(v) AS s, count(*) AS n, min(x) AS lo FROM a [RANGE 40 MICROSECONDS] GROUP BY k",
    "pairs": "SELECT a.k, a.v, b.w FROM a [RANGE 6 MICROSECONDS], b [RANGE 6 MICROSECONDS] WHERE a.k = b.k",
    "large": "SELECT k, s FROM sums WHERE s > 20",
    "newest": "SELECT count(*) AS n, sum(w) AS s FROM b [ROWS 7]",
    "entering": "SELECT ISTREAM(k, v) FROM a [RANGE 10 MICROSECONDS] WHERE v > 2",
    "named": "SELECT ISTREAM(b.k, b.w, r.name) FROM b [NOW], r WHERE b.k = r.k",
    "names": "SELECT name, count(*) AS n FROM r GROUP BY name",
    "small": "SELECT k, w FROM b [RANGE 12 MICROSECONDS] WHERE w < 3",
    "middle": "SELECT k, w FROM b [RANGE 12 MICROSECONDS] WHERE w >= 1 AND w <= 3",
    "letters": "SELECT ISTREAM(w, k) FROM b [RANGE 12 MICROSECONDS] WHERE k > 'a'",
}
"""The last three run together, and so does one that comes later."""
DEFINITIONS = [
    "CREATE STREAM IF NOT EXISTS a (ts TIMESTAMP, k STRING, v INT, x DOUBLE) TIMESTAMP BY ts SLACK 5 MICROSECONDS "
    "PARTITION BY k RETAIN 30 MICROSECONDS",
    "CREATE STREAM IF NOT EXISTS b (ts TIMESTAMP, k STRING, w INT) TIMESTAMP BY ts SLACK 3 MICROSECONDS",
    "CREATE RELATION IF NOT EXISTS r (k STRING PRIMARY KEY, name STRING, n INT)",
    "CREATE RELATION IF NOT EXISTS bag (k STRING, n INT)",
    *(f"CREATE QUERY IF NOT EXISTS {name} AS {sql}" for name, sql in QUERIES.items()),
    "CREATE QUERY IF NOT EXISTS changing AS SELECT k, count(*) AS n FROM b [RANGE 5 MICROSECONDS] GROUP BY k",
    "CREATE QUERY IF NOT EXISTS kept RETAIN 20 MICROSECONDS AS SELECT k, count(*) AS n FROM b [RANGE 15 MICROSECONDS] GROUP BY k",
]
LATER = {
    "late_sums": "SELECT k, sum(w) AS s FROM b [RANGE 20 MICROSECONDS] GROUP BY k",
    "late_entering": "SELECT ISTREAM(k, w) FROM b [RANGE 9 MICROSECONDS]",
    "late_chosen": "SELECT w FROM b [RANGE 12 MICROSECONDS] WHERE w > 0",
}
"""Created when time has come somewhere already."""


def tune() -> None:
    """Everything that happens seldom, often."""
    rounds.SNAPSHOT_TICKS, rounds.KEPT_TICKS = 5, 3
    families.FEWEST, families.MOST_WAITING, families.WORTH_A_FILE = 3, 20, 1
    delta_log.CHECKPOINT_EVERY = 6
    delta_log._TABLE_PROPERTIES["delta.logRetentionDuration"] = "interval 0 seconds"
    relation_log._FEWEST_TO_FOLD = 4
    Changelog.fold.__kwdefaults__["fewest"] = 1  # type: ignore[attr-defined]
    for log in (StreamLog, Changelog, RelationLog):
        log.vacuum.__kwdefaults__["grace_s"] = 0.0  # type: ignore[attr-defined]
        log.compact.__kwdefaults__["fan_in"] = 3  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Step:
    name: str
    do: Callable[[Database], None]
    is_done: Callable[[Database], bool] | None = None  # None: doing it twice is doing it once


def steps() -> list[Step]:
    found = [_statement(sql) for sql in DEFINITIONS]
    for number in range(ROUNDS):
        found += _round(number)
    return [*found, Step("advance", lambda db: db.advance(ROUNDS * ROWS + 100)), _flush(), _maintain(), _maintain()]


def _round(number: int) -> Iterator[Step]:
    yield _insert("a", number, rows_a(number))
    yield _insert("b", number, rows_b(number))
    yield from _relation_changes(number)
    yield _flush()
    if number == 3:
        yield from (_statement(f"CREATE QUERY IF NOT EXISTS {name} AS {sql}") for name, sql in LATER.items())
        yield _statement("CREATE QUERY IF NOT EXISTS passing AS SELECT count(*) AS n FROM b [RANGE 5 MICROSECONDS]")
        yield _statement(
            "CREATE QUERY IF NOT EXISTS from_past START AT TIMESTAMP '1970-01-01T00:00:00.000025Z' "
            "AS SELECT k, count(*) AS n FROM b [RANGE 9 MICROSECONDS] GROUP BY k"
        )
        yield _statement("CREATE STREAM IF NOT EXISTS c (ts TIMESTAMP, u INT) TIMESTAMP BY ts")
        yield _insert("c", 0, [(4 * ROWS, 1), (4 * ROWS + 1, 2)])
        yield Step("advance c", lambda db: db.advance("c", 6 * ROWS + 12))  # further than the others are when it is dropped
        yield _statement("CREATE RELATION IF NOT EXISTS gone (n INT)")
    if number in (2, 4):
        yield _statement(f"ALTER QUERY changing SET WINDOW [RANGE {4 * number} MICROSECONDS]")
    if number == 5:
        yield from (_statement(f"ALTER QUERY {name} PAUSE") for name in ("changing", "middle"))
    if number == 7:
        yield from (_statement(f"ALTER QUERY {name} RESUME") for name in ("changing", "middle"))
    if number == 5:
        yield _statement("DROP QUERY IF EXISTS passing")
        yield _statement("DROP STREAM IF EXISTS c")
        yield _statement("DROP RELATION IF EXISTS gone")
    if number == 6:
        yield _statement("CREATE STREAM IF NOT EXISTS c (ts TIMESTAMP, other STRING) TIMESTAMP BY ts")
        yield _insert("c", 1, [(7 * ROWS + 5, "x")])
        yield _statement("CREATE QUERY IF NOT EXISTS passing AS SELECT other, count(*) AS n FROM c GROUP BY other")
    if number % 2:
        yield _maintain()
    if number in (4, 8):
        yield Step("advance b", lambda db: db.advance("b", number * ROWS + ROWS // 2))
        yield Step("result", lambda db: _ignore(db.query("sums").result()))


def rows_a(number: int) -> list[tuple[int, str | None, int | None, float]]:
    """Ties, disorder within the slack, late rows and NULLs."""
    found = []
    for i in range(number * ROWS, (number + 1) * ROWS):
        ts = i + (i * 7919 % 5) - (40 if i % 11 == 10 else 0)
        found.append((ts, None if i % 13 == 0 else "abcd"[i % 4], None if i % 7 == 0 else i * 31 % 7, i * 0.1))
    return found


def rows_b(number: int) -> list[Any]:
    """One of them cannot be taken."""
    rows = [(i - (30 if i % 9 == 8 else 0), "abcd"[i * 3 % 4], i % 5) for i in range(number * ROWS, (number + 1) * ROWS, 2)]
    return [*rows, ("no time", "a", number)]


def _relation_changes(number: int) -> Iterator[Step]:
    """Upserts, updates, deletes, and some that wait for an instant to come."""
    key = "abcd"[number % 4]
    yield Step(
        f"upsert {number}",
        lambda db: _ignore(db.insert("r", [(key, f"n{number % 3}", number), ("b", f"n{number % 2}", -number)])),
        lambda db: {"k": "b", "name": f"n{number % 2}", "n": -number} in _contents(db, "r"),
    )
    yield Step(
        f"bag {number}",
        lambda db: _ignore(db.insert("bag", [("x", number), ("x", number), (None, number)])),
        lambda db: any(row["n"] == number for row in _contents(db, "bag")),
    )
    if number % 3 == 1:
        yield _statement(f"DELETE FROM bag WHERE n < {number - 2}")
        yield _statement(f"DELETE FROM r WHERE k = '{'abcd'[(number + 1) % 4]}'")
    if number % 4 == 2:
        at = number * ROWS + 2 * ROWS
        yield Step(f"scheduled {number}", lambda db: _ignore(db.insert("r", [("e", f"at {at}", at)], at=at)), lambda db: _scheduled(db, at))


def _statement(sql: str) -> Step:
    return Step(sql[:40], lambda db: _ignore(db.execute(sql)))


def _flush() -> Step:
    return Step("flush", lambda db: db.flush())


def _maintain() -> Step:
    return Step("maintain", lambda db: db._engine.maintain())


def _insert(stream: str, number: int, rows: list[Any]) -> Step:
    return Step(f"insert {stream} {number}", lambda db: _ignore(db.insert(stream, rows)), lambda db: _inserted(db, stream, number, rows))


def _inserted(db: Database, stream: str, number: int, rows: list[Any]) -> bool:
    """All of the batch or nothing: the batches before it have been acknowledged."""
    info = {info.name: info for info in db.streams()}[stream]
    before = 0 if stream == "c" else sum(len(rows_a(i) if stream == "a" else rows_b(i)) for i in range(number))
    has = info.rows + info.late + info.rejected
    assert has in (before, before + len(rows)), f"{stream} has {has} rows, {before} were acknowledged"
    return has > before


def _scheduled(db: Database, at: int) -> bool:
    relations = db._engine.relations
    done = relations.log("r").last_scheduled
    return any(change.instant == at for change in relations._open["r"].scheduled.upto(at)) or (done is not None and done[0] >= at)


def _contents(db: Database, relation: str) -> list[dict[str, Any]]:
    return db._engine.relations.contents(relation).to_pylist()


def _ignore(_: object) -> None:
    return None


# --- running it -------------------------------------------------------------------------------


def run(location: Path, progress: Path, journal: Path) -> dict[str, Any]:
    with open_inline(location) as db, progress.open("a+") as told:
        begun, returned = _told(progress)
        for number, step in enumerate(steps()):
            if number < returned:
                continue
            if number >= begun:
                told.write(f"begin {number}\n")
                told.flush()
            if number >= begun or step.is_done is None or not step.is_done(db):
                step.do(db)
            told.write(f"end {number}\n")
            told.flush()
        seen = observe(db)
    read_files(journal)
    with open_inline(location) as db:  # what a crash left, and what it kept others from clearing away, goes now
        db._engine.maintain()
        assert observe(db) == seen, "closing and opening again changes something"
    return seen


def _told(progress: Path) -> tuple[int, int]:
    lines = [line.split() for line in progress.read_text().splitlines()]
    return tuple(max((int(number) + 1 for what, number in lines if what == wanted), default=0) for wanted in ("begin", "end"))  # type: ignore[return-value]


def read_files(directory: Path) -> None:
    """A source of files: seven batches, merged after every third."""
    journal = FileJournal(directory, 10**15)
    done = -1 if journal.last is None else journal.last[0]
    for number in range(done + 1, 7):
        assert journal.begin([FoundFile(number, f"file {number}", 1)]) == number
    assert not any(journal.is_new(f"file {number}") for number in range(7))
    assert journal.is_new("file 7")


def observe(db: Database) -> dict[str, Any]:
    """Everything that a user can see, in an order that does not depend on how ticks were cut."""
    queries = {query.name: query for query in db.queries()}
    return {
        "changes": {name: _changes(query) for name, query in sorted(queries.items())},
        "results": {name: sorted(map(str, query.result().to_pylist())) for name, query in sorted(queries.items())},
        "frontiers": {name: query.frontier for name, query in sorted(queries.items())},
        "relations": {name: sorted(map(str, _contents(db, name))) for name in sorted(db._engine.relations)},
        "streams": [[info.name, info.frontier, info.rows, info.late, info.rejected] for info in sorted(db.streams())],
        # stream a drops late rows with its other old ones, when snapshots allow
        "late": sorted(map(str, db.execute("SELECT * FROM b.late").to_pylist())),  # type: ignore[union-attr]
        "rejected": sorted(map(str, db.execute("SELECT row, reason, source FROM b.rejected").to_pylist())),  # type: ignore[union-attr]
    }


def _changes(query: Any) -> list[str]:
    """A query that was created late owes up to that instant only what its changes add up to, one that forgets its past no more ever."""
    netted_to = {"kept": LAST, **dict.fromkeys([*LATER, "from_past"], query._running.created_at)}.get(query.name, NEVER_BEFORE - 1)
    lines: list[str] = []
    net: dict[str, int] = {}
    for instant, diff, *row in zip(*(column.to_pylist() for column in query.changes().columns), strict=True):
        if to_micros(instant) <= netted_to:
            net[str(row)] = net.get(str(row), 0) + diff
        else:
            lines.append(f"{instant.isoformat()} {diff:+d} {row}")
    start = [] if query.is_stream else [f"start {count:+d} {row}" for row, count in net.items() if count]
    return sorted(start) + sorted(lines)


def leftovers(location: Path) -> list[str]:
    """Files of a closed database that nothing names."""
    record = json.loads(max(location.glob("ticks/*.json")).read_text().splitlines()[0])
    known = {"millstream.json", "catalog.json", "dropped.json", "lock"}
    found = [path.name for path in location.iterdir() if path.is_file() and path.name not in known]
    named = tuple(f"{location}/{stem}-" for stem, *_ in record["snapshots"].values())
    found += [str(path) for path in location.glob("snapshots/*/*") if not str(path).startswith(named)]
    found += [str(path) for path in location.rglob(".tmp-*")] + [str(path) for path in location.rglob("*#*")]
    found += [str(path) for path in location.glob("exchange/*")]
    for log in location.glob("*/*/_delta_log"):
        found += _unnamed(log.parent)
    return found


def _unnamed(table: Path) -> list[str]:
    from deltalake import DeltaTable

    listed = table / "_retired.json"
    retired = json.loads(listed.read_text().splitlines()[0]) if listed.exists() else {}
    named = {*DeltaTable(str(table)).file_uris(), *(str(table / path) for path in retired)}
    return [str(path) for path in table.rglob("*.parquet") if str(path) not in named and path.parent.name != "_delta_log"]
