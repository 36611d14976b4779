"""A relation with a primary key whose changes come in any order of their instants, against doing them in that order."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from inline import open_inline
from millstream.core.instant import BEGINNING, format_instant
from millstream.state import relation_log
from property.test_engine import assert_netted, changes_of, contents_at

LAST = 12
Held = dict[int, int]


@dataclass
class Model:
    """`done` has what was asked for and when: a function of what the relation holds."""

    done: list[tuple[int, str, Any]] = field(default_factory=list)

    def at(self, t: int) -> Held:
        held: Held = {}
        for _, what, how in sorted((change for change in self.done if change[0] <= t), key=lambda change: change[0]):
            held = changed(held, what, how)
        return held


def changed(held: Held, what: str, how: Any) -> Held:
    match what:
        case "insert":
            return held | dict(how)
        case "remove":
            return {k: v for k, v in held.items() if (k, v) not in how}
        case "delete":
            return {k: v for k, v in held.items() if v != how}
        case "update":
            return {k: v + 1 if k >= how else v for k, v in held.items()}
        case _:
            shifted = {k + 1 if v == how else k: v for k, v in held.items()}
            return shifted if len(shifted) == len(held) else held


rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3)
changes = (
    st.tuples(st.sampled_from(["insert", "insert", "remove"]), rows)
    | st.tuples(st.sampled_from(["delete", "update", "shift"]), st.integers(0, 3))
)  # fmt: skip
steps = st.lists(
    st.tuples(st.just("change"), changes, st.none() | st.integers(1, LAST))
    | st.tuples(st.just("advance"), st.integers(1, LAST))
    | st.tuples(st.sampled_from(["reopen", "flush", "maintain"])),
    max_size=14,
)


def sql(what: str, how: int) -> str:
    match what:
        case "delete":
            return f"DELETE FROM r WHERE v = {how}"
        case "update":
            return f"UPDATE r SET v = v + 1 WHERE k >= {how}"
        case _:
            return f"UPDATE r SET k = k + 1 WHERE v = {how}"


@settings(max_examples=60, deadline=None)
@given(steps)
def test_changes_happen_in_the_order_of_their_instants(steps: list[tuple[Any, ...]]) -> None:
    model, frontier = Model(), 0
    with tempfile.TemporaryDirectory() as directory, patch.object(relation_log, "_FEWEST_TO_FOLD", 1):
        db = open_inline(directory)
        db.execute("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; CREATE RELATION r (k INT PRIMARY KEY, v INT)")
        db.execute("CREATE QUERY q AS SELECT k, v FROM r")
        db.advance(0)
        for step in steps:
            match step:
                case "change", (what, how), later:
                    at = later if later is not None and later > frontier else None
                    instant = frontier + 1 if at is None else at
                    if what == "shift" and refused_now(model, how, instant):
                        continue
                    if what == "insert":
                        db.insert("r", how, at=at)
                    elif what == "remove":
                        db.delete("r", how, at=at)
                    else:
                        db.execute(sql(what, how) + ("" if at is None else f" AT TIMESTAMP '{format_instant(at)}'"))
                    model.done.append((instant, what, how))
                case "advance", ts:
                    frontier = max(frontier, ts)
                    db.advance(ts)
                case ("reopen",):
                    db.close()
                    db = open_inline(directory)
                case ("flush",):
                    db.flush()
                case ("maintain",):
                    db.flush()
                    db._engine.maintain()
            now = db.execute("SELECT k, v FROM r")
            assert {row["k"]: row["v"] for row in now.to_pylist()} == model.at(frontier + 1)
        db.advance(LAST + 1)
        db.flush()
        changes = changes_of(db.query("q").changes())
        assert_netted(changes)
        for t in [BEGINNING, *range(LAST + 2)]:
            assert dict(contents_at(changes, t)) == dict.fromkeys(model.at(t).items(), 1), t
        db.close()


def refused_now(model: Model, how: int, instant: int) -> bool:
    """Told at once, if it is known already."""
    held = model.at(instant)
    return len({k + 1 if v == how else k for k, v in held.items()}) < len(held)
