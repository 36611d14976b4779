"""Names and links cannot lead out of the location."""

from __future__ import annotations

import stat
import unicodedata
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inline import open_inline
from millstream.core.errors import ConfigInvalid, MillstreamError
from millstream.state.location import Location
from millstream.state.names import encode_name

EVIL = [
    "../../etc/passwd",
    "..",
    ".",
    "/",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "nul",
    "con",
    "a\0b",
    "%2e%2e%2f",
    "-2e-2e",
    "a.late",
    "~root",
    "*",
]
names = st.one_of(
    st.sampled_from(EVIL),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=30),
    st.text(st.sampled_from("aAéÉ.\\/%-_~ İıßſK"), min_size=1, max_size=12),
)


@given(names, names)
@example("é", unicodedata.normalize("NFD", "é"))
@example("Straße", "STRASSE")
@example("-2e", ".")
def test_two_names_share_a_directory_only_if_they_are_the_same_to_the_catalog(one: str, other: str) -> None:
    """The catalog compares lower-cased names; file systems that fold or normalise see plain ASCII."""
    same = encode_name(one) == encode_name(other)
    assert same == (one.lower() == other.lower())
    assert same == (
        unicodedata.normalize("NFKC", encode_name(one)).casefold() == unicodedata.normalize("NFKC", encode_name(other)).casefold()
    )


@given(names)
def test_every_path_of_a_name_lies_directly_where_it_belongs(name: str) -> None:
    location = Location(Path("/db"), 0, buckets=1, database_id="x")
    for path, folder in [
        (location.stream_dir(name), "streams"), (location.late_dir(name), "streams"), (location.relation_dir(name), "relations"),
        (location.query_dir(name), "queries"), (location.snapshot_dir(name), "snapshots"), (location.checkpoint_dir(name), "checkpoints"),
        (location.sink_path(name), "sinks"),
    ]:  # fmt: skip
        assert path.parent == Path("/db") / folder
        assert path.name not in ("", ".", "..")
        assert "\0" not in path.name
        assert not path.name.startswith(".tmp-")


@pytest.mark.parametrize("name", [*EVIL, "n" * 201, "é" * 60, "\ud800"])
def test_objects_of_any_name_stay_inside(name: str, tmp_path: Path) -> None:
    """They work, or are refused and leave nothing."""
    quoted = "`" + name.replace("`", "``") + "`"
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; CREATE QUERY q AS SELECT ts FROM s")
        for sql in (
            f"CREATE STREAM {quoted} (ts TIMESTAMP) TIMESTAMP BY ts", f"CREATE RELATION {quoted} (k INT)",
            f"CREATE QUERY {quoted} AS SELECT ts FROM s", f"CREATE SINK {quoted} FROM q INTO 'console'",
        ):  # fmt: skip
            try:
                db.execute(sql)
            except MillstreamError:
                assert len(name) > 30 or name in ("\ud800", "a\0b"), sql
            else:
                db.execute(f"DROP {sql.split()[1]} {quoted}")
    assert [path.name for path in tmp_path.iterdir()] == ["db"]
    open_inline(tmp_path / "db").close()


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match="not a text"):
        encode_name("a\ud800")


def test_only_its_owner_reads_the_catalog(tmp_path: Path) -> None:
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts FROM 'kafka' OPTIONS (password 'x')")
    assert stat.S_IMODE((tmp_path / "db" / "catalog.json").stat().st_mode) == 0o600


def test_deleting_never_follows_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.parquet").write_text("mine")
    with open_inline(tmp_path / "db") as db:
        db.execute("CREATE STREAM s (ts TIMESTAMP) TIMESTAMP BY ts; CREATE RELATION r (k INT)")
        location = Path(db._location.path)
        real = location / "relations" / "r"
        real.rename(tmp_path / "elsewhere")
        real.symlink_to(outside)
        db.execute("DROP RELATION r")
        assert not real.is_symlink()
    for planted in (location / "queries" / "planted", location / "streams" / f".tmp-{uuid4().hex}", location / "exchange"):
        planted.parent.mkdir(exist_ok=True)
        planted.symlink_to(outside)
    open_inline(tmp_path / "db").close()
    assert (outside / "precious.parquet").read_text() == "mine"
    assert not [path for path in location.rglob("*") if path.is_symlink()]
