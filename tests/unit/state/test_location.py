from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.errors import ConfigInvalid, DataDamaged, FormatVersion, LocationInUse
from millstream.state.location import Location
from millstream.state.names import decode_name, encode_name
from millstream.state.sealed import sealed_json


def test_the_bucket_count_and_the_id_stay_those_of_the_first_open(tmp_path: Path) -> None:
    with Location.open(tmp_path / "db", new_buckets=3) as first:
        identity = first.id
    with Location.open(tmp_path / "db", new_buckets=8) as second:
        assert (second.buckets, second.id) == (3, identity)


def test_another_bucket_count_stays_as_well(tmp_path: Path) -> None:
    for asked, has in ((3, 3), (None, 3), (8, 8), (None, 8)):
        with Location.open(tmp_path / "db", buckets=asked, new_buckets=2) as location:
            assert location.buckets == has


def test_a_second_opener_in_this_process_is_told_who_holds_it(tmp_path: Path) -> None:
    with Location.open(tmp_path, buckets=1), pytest.raises(LocationInUse, match=f"process {os.getpid()}"):
        Location.open(tmp_path, buckets=1)
    Location.open(tmp_path, buckets=1).close()


def test_the_lock_of_another_process_ends_with_it_even_by_kill_9(tmp_path: Path) -> None:
    code = "import sys\nfrom millstream.state.location import Location\n"
    code += "held = Location.open(sys.argv[1], buckets=1)\nprint('open', flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(LocationInUse, match=f"process {holder.pid}"):
            Location.open(tmp_path, buckets=1)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    Location.open(tmp_path, buckets=1).close()


def test_an_unknown_format_version_is_refused_and_the_lock_given_back(tmp_path: Path) -> None:
    (tmp_path / "millstream.json").write_text(json.dumps({"format_version": 99, "buckets": 1, "id": "x"}))
    for _ in range(2):
        with pytest.raises(FormatVersion, match="99") as caught:
            Location.open(tmp_path, buckets=1)
        assert caught.value.hint


def test_a_damaged_header_is_named(tmp_path: Path) -> None:
    (tmp_path / "millstream.json").write_text("{")
    with pytest.raises(DataDamaged, match=r"millstream\.json"):
        Location.open(tmp_path, buckets=1)


@pytest.mark.parametrize("path", ["s3://bucket/db", "/proc/nothing/db", __file__, "a%20b"])
def test_a_location_that_cannot_be_is_refused_with_a_hint(path: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        Location.open(path, buckets=1)
    assert caught.value.hint


@pytest.mark.parametrize("header", [{}, {"buckets": 0, "id": "x"}, {"buckets": "many", "id": "x"}, {"buckets": 1}])
def test_a_header_without_what_it_must_say_is_damaged_and_the_lock_given_back(tmp_path: Path, header: dict[str, object]) -> None:
    (tmp_path / "millstream.json").write_text(json.dumps({"format_version": 1, **header}))
    for _ in range(2):
        with pytest.raises(DataDamaged, match=r"millstream\.json"):
            Location.open(tmp_path)


def test_what_a_crash_left_unfinished_goes_at_the_next_open(tmp_path: Path) -> None:
    Location.open(tmp_path, buckets=1).close()
    (tmp_path / "streams" / f".tmp-{uuid4().hex}" / "_delta_log").mkdir(parents=True)
    (tmp_path / f".tmp-{uuid4().hex}").write_text("half")
    (tmp_path / ".tmp-mine").write_text("a user's own")
    (tmp_path / "exchange").mkdir()
    (tmp_path / "exchange" / "rows").write_text("of a tick that never ended")
    Location.open(tmp_path, buckets=1).close()
    assert not (tmp_path / "exchange").exists()
    assert [path.name for path in tmp_path.rglob(".tmp-*")] == [".tmp-mine"]


@pytest.mark.parametrize("folder", ["exchange", "checkpoints", "queries", "snapshots", "sinks", "ticks"])
def test_a_directory_of_somebody_else_is_refused_and_not_touched(tmp_path: Path, folder: str) -> None:
    """Files below names like ours were taken for leftovers, and deleted."""
    mine = tmp_path / folder / "mine" / "file"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(ConfigInvalid if folder != "ticks" else DataDamaged, match=folder if folder != "ticks" else "millstream.json"):
        Location.open(tmp_path)
    assert mine.read_text() == "mine"


def test_files_that_have_nothing_to_do_with_us_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".tmp-0123456789abcdef").write_text("mine")
    for _ in range(2):
        Location.open(tmp_path).close()
    assert (tmp_path / "notes.txt").exists()
    assert (tmp_path / ".tmp-0123456789abcdef").exists()


def test_another_version_is_refused_before_anything_is_touched(tmp_path: Path) -> None:
    Location.open(tmp_path).close()
    (tmp_path / "millstream.json").write_text(json.dumps({"format_version": 2}))
    (tmp_path / "exchange").mkdir()
    with pytest.raises(FormatVersion):
        Location.open(tmp_path)
    assert (tmp_path / "exchange").exists()


def test_dropping_removes_the_directories(location: Location) -> None:
    for directory in (location.stream_dir("s"), location.late_dir("s"), location.query_dir("q"), location.snapshot_dir("q")):
        directory.mkdir(parents=True)
    location.drop_stream("S")
    location.drop_query("q")
    location.drop_query("never there")
    assert [path.name for path in location.path.rglob("*") if path.is_dir()].count("s") == 0
    assert not location.query_dir("q").exists()
    assert not location.snapshot_dir("q").exists()


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=15))
def test_any_name_is_one_safe_directory_and_comes_back(name: str) -> None:
    encoded = encode_name(name)
    assert set(encoded) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")
    assert decode_name(encoded) == name.lower()


def test_names_do_not_collide_with_the_late_table_or_leave_the_location(location: Location) -> None:
    assert location.stream_dir("trades.late") != location.late_dir("trades")
    assert location.stream_dir("../../etc").parent == location.path / "streams"
    assert location.stream_dir("Trades") == location.stream_dir("trades")


@pytest.mark.parametrize("name", ["", "x" * 300])
def test_names_that_no_directory_can_have_are_refused(name: str) -> None:
    with pytest.raises(ConfigInvalid):
        encode_name(name)


@pytest.mark.parametrize("version", [True, 1.0, "1", None, 2])
def test_only_the_number_itself_is_this_version(tmp_path: Path, version: object) -> None:
    Location.open(tmp_path).close()
    (tmp_path / "millstream.json").write_bytes(sealed_json({"format_version": version, "buckets": 1, "id": "x"}))
    with pytest.raises(FormatVersion, match=f'millstream.json" has format version {json.dumps(version)}, this is version 1'):
        Location.open(tmp_path)


def test_another_version_is_told_before_a_checksum_is_looked_at(tmp_path: Path) -> None:
    Location.open(tmp_path).close()
    path = tmp_path / "millstream.json"
    path.write_bytes(path.read_bytes().replace(b'"format_version":1', b'"format_version":2'))
    with pytest.raises(FormatVersion, match="has format version 2"):
        Location.open(tmp_path)
