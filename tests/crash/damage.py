"""One file of a database is taken away or changed; then the database is opened, used and looked at.

Whatever is looked at is either as it would have been, or an error that names the file.  There is no third possibility.
"""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from crash import workload
from inline import open_inline
from millstream.api import Database
from millstream.core.errors import MillstreamError
from millstream.state.location import Location

Damage = Callable[[Path, random.Random], None]


def delete(path: Path, _: random.Random) -> None:
    path.unlink()


def empty(path: Path, _: random.Random) -> None:
    path.write_bytes(b"")


def truncate(path: Path, chance: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: chance.randrange(max(1, path.stat().st_size))])


def flip_header(path: Path, chance: random.Random) -> None:
    _flip(path, chance, 0.0, 0.05)


def flip_middle(path: Path, chance: random.Random) -> None:
    _flip(path, chance, 0.05, 0.9)


def flip_footer(path: Path, chance: random.Random) -> None:
    _flip(path, chance, 0.9, 1.0)


def mistake(path: Path, chance: random.Random) -> None:
    """It becomes another one of its kind, whole; nothing happens if there is none."""
    others = [other for other in sorted(path.parent.iterdir()) if other != path and kind(other.name) == kind(path.name)]
    if others:
        _replace(path, chance.choice(others).read_bytes())


def _flip(path: Path, chance: random.Random, low: float, high: float) -> None:
    """A byte somewhere there becomes another."""
    data = bytearray(path.read_bytes())
    place = min(len(data) - 1, int(len(data) * chance.uniform(low, high)))
    data[place] ^= chance.randrange(1, 256)
    _replace(path, bytes(data))


def _replace(path: Path, data: bytes) -> None:
    """Not in place: another name of the same file stays as it is."""
    path.unlink()
    path.write_bytes(data)


DAMAGES: list[Damage] = [delete, empty, truncate, flip_header, flip_middle, flip_footer, mistake]


def kind(path: str) -> str:
    """Files of one kind are alike: `streams/N/_delta_log/N.json`."""
    path = re.sub(r"^(streams|relations|queries|snapshots)/\w+", r"\1/N", path)
    path = re.sub(r"[0-9a-f]{32}(-[0-9a-f]{8})?", "N", path)
    return re.sub(r"\d+(-[0-9a-f]{8})?(-\d)?(-\d)?", "N", path)


def kinds(location: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in sorted(location.rglob("*")):
        if path.is_file():
            name = str(path.relative_to(location))
            found.setdefault(kind(name), []).append(name)
    return found


Seen = dict[str, Any]


def use(location: Path) -> Seen:
    """Everything that can be seen, before and after some more rows; what fails is its error."""
    try:
        place = Location.open(location, buckets=2)
    except MillstreamError as error:
        return {"open": error}
    try:
        with open_inline(location, location=place) as db:
            seen = {f"before, {name}": value for name, value in _look(db).items()}
            _go_on(db, seen)
            return seen | {f"after, {name}": value for name, value in _look(db).items()}
    except MillstreamError as error:
        return {"open": error}
    finally:
        place.close()


def _go_on(db: Database, seen: Seen) -> None:
    for stream, rows in (("a", workload.rows_a(30)), ("b", workload.rows_b(30))):
        seen[f"insert {stream}"] = _tried(lambda stream=stream, rows=rows: db.insert(stream, rows))  # type: ignore[misc]
    seen["insert r"] = _tried(lambda: db.insert("r", [("a", "another", 99)]))
    seen["flush"] = _tried(db.flush)
    seen["maintain"] = _tried(db._engine.maintain)


def _look(db: Database) -> Seen:
    seen: Seen = {}
    for query in db.queries():
        if db._engine.standing(query._running)[0] == "waiting":  # for one that has stopped: it says no more, and nothing wrong
            continue
        seen[f"changes of {query.name}"] = _tried(lambda query=query: workload._changes(query))  # type: ignore[misc]
        seen[f"result of {query.name}"] = _tried(lambda query=query: sorted(map(str, query.result().to_pylist())))  # type: ignore[misc]
    for name in ("r", "bag"):
        seen[f"relation {name}"] = _tried(lambda name=name: sorted(map(str, workload._contents(db, name))))  # type: ignore[misc]
    seen["late rows"] = _tried(lambda: sorted(map(str, db.execute("SELECT * FROM b.late").to_pylist())))  # type: ignore[union-attr]
    seen["streams"] = sorted([info.name, info.frontier, info.rows, info.late] for info in db.streams())
    return seen


def _tried(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except MillstreamError as error:
        return error


def outcome(base: Path, expected: Seen, name: str, damage: Damage, seed: int, workplace: Path) -> str:
    """`right`, or `told` if there were errors and all of them named the file; AssertionError otherwise."""
    location = workplace / "db"
    shutil.rmtree(location, ignore_errors=True)
    shutil.copytree(base, location)
    damage(location / name, random.Random(f"{name} {seed}"))
    seen = use(location)
    errors = [value for value in seen.values() if isinstance(value, MillstreamError)]
    case = f"{name}, {damage.__name__}, seed {seed}"
    for error in errors:
        assert names(error, name), f"{case}: {error}"
    for what, value in seen.items():
        assert isinstance(value, MillstreamError) or value == expected[what], f"{case}: {what} is wrong\n{value}\n{expected[what]}"
    return "told" if errors else "right"


def names(error: MillstreamError, name: str) -> bool:
    return Path(name).name in error.message and bool(error.hint)
