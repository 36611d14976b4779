from __future__ import annotations

import stat
from pathlib import Path

import pytest

from millstream.core.errors import DataDamaged
from millstream.state.catalog_file import CatalogEntry, CatalogFile
from millstream.state.location import Location
from unit.state.crash import run_until_killed


def test_statements_stay_in_order_and_ids_are_never_used_again(location: Location) -> None:
    catalog = CatalogFile(location.catalog_path)
    first, second, third = (catalog.append(f"CREATE STREAM s{i} (ü INT)") for i in range(3))
    catalog.remove([third, first])
    fourth = CatalogFile(location.catalog_path).append("CREATE QUERY q AS SELECT 1")
    assert fourth == third + 1
    assert CatalogFile(location.catalog_path).entries == (
        CatalogEntry(second, "CREATE STREAM s1 (ü INT)"),
        CatalogEntry(fourth, "CREATE QUERY q AS SELECT 1"),
    )


def test_a_new_database_has_an_empty_catalog(location: Location) -> None:
    assert CatalogFile(location.catalog_path).entries == ()


def test_a_damaged_catalog_is_named(location: Location) -> None:
    location.catalog_path.write_text('{"next_id": 1}')
    with pytest.raises(DataDamaged, match=r"catalog\.json"):
        CatalogFile(location.catalog_path)


def test_a_crash_before_the_rename_leaves_the_old_list(tmp_path: Path) -> None:
    # the first atomic write is the location's header
    run_until_killed(
        tmp_path,
        "atomic.before_replace:3",
        """
        from millstream.state.catalog_file import CatalogFile
        catalog = CatalogFile(location.catalog_path)
        catalog.append("first")
        catalog.append("second")
        """,
    )
    with Location.open(tmp_path, buckets=2) as location:
        assert [entry.sql for entry in CatalogFile(location.catalog_path).entries] == ["first"]
        assert not list(location.path.glob(".tmp-*"))


def test_only_its_owner_may_read_it_also_after_a_statement_that_failed(tmp_path: Path) -> None:
    """What it was before, secrets and all, is written beforehand and put back: that was open to everybody."""
    path = tmp_path / "catalog.json"
    catalog = CatalogFile(path)
    catalog.append("CREATE SINK s ... OPTIONS (password 'x')")
    modes: list[int] = []

    def note() -> None:
        modes.extend(stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir())

    def fail() -> None:
        with catalog.adding("CREATE SINK t"):
            note()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    note()
    assert modes == [0o600] * 3
    assert [entry.id for entry in CatalogFile(path).entries] == [1]
