from __future__ import annotations

import shutil
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from millstream.core.errors import DataDamaged
from millstream.state.location import Location
from millstream.state.snapshot import load_arrays, prune_snapshots, save_arrays
from unit.state.crash import run_until_killed


def test_arrays_come_back_with_names_types_and_shapes(tmp_path: Path) -> None:
    arrays = {
        "file": np.arange(5), "0.agg/sum": np.zeros((0,), np.float64), "x.npy": np.array([[1, 2], [3, 4]], np.int8),
        "text": np.array(["a", "ß"]), "one": np.array(7), "strided": np.arange(10)[::3], "flags": np.array([True, False]),
    }  # fmt: skip
    size = save_arrays(tmp_path / "deep" / "7-0.npz", arrays)
    loaded = load_arrays(tmp_path / "deep" / "7-0.npz")
    assert size == (tmp_path / "deep" / "7-0.npz").stat().st_size
    assert list(loaded) == list(arrays)
    for name, array in arrays.items():
        assert loaded[name].dtype == array.dtype
        assert np.array_equal(loaded[name], array)


def test_numpy_itself_can_read_it(tmp_path: Path) -> None:
    save_arrays(tmp_path / "s.npz", {"a": np.arange(3)})
    assert np.load(tmp_path / "s.npz")["a"].tolist() == [0, 1, 2]


def test_objects_are_refused_on_the_way_in_and_out(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        save_arrays(tmp_path / "s.npz", {"a": np.array([{}], object)})
    assert not list(tmp_path.iterdir())
    np.savez(tmp_path / "evil.npz", a=np.array([{}], object))
    with pytest.raises(DataDamaged, match=r"evil\.npz"):
        load_arrays(tmp_path / "evil.npz")


def test_a_damaged_snapshot_is_named_wherever_it_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "s.npz"
    arrays = {"a": np.arange(100), "b": np.linspace(0, 1, 50)}
    save_arrays(path, arrays)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :])
        try:
            loaded = load_arrays(path)
        except DataDamaged:
            continue
        # a bit of the zip directory that says nothing of the arrays: a date, an attribute
        assert {name: array.tolist() for name, array in loaded.items()} == {name: array.tolist() for name, array in arrays.items()}, (
            f"byte {at}"
        )


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_cut_or_missing_snapshot_is_named(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "s.npz"
    with pytest.raises(DataDamaged, match="missing"):
        load_arrays(path)
    save_arrays(path, {"a": np.arange(100)})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataDamaged, match=r"s\.npz"):
        load_arrays(path)


def test_snapshots_that_no_tick_names_go(tmp_path: Path) -> None:
    names = [f"{tick}-{bucket}.npz" for tick in (8, 9) for bucket in (0, 1)]
    for name in names:
        save_arrays(tmp_path / name, {"a": np.arange(3)})
    assert prune_snapshots(tmp_path, names[2:]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == names[2:]
    assert prune_snapshots(tmp_path / "never there", []) == 0


def test_a_crash_while_saving_leaves_the_old_state(tmp_path: Path) -> None:
    run_until_killed(
        tmp_path,
        "snapshot.before_replace:2",
        """
        from millstream.state.snapshot import save_arrays
        path = location.snapshot_dir("q") / "s.npz"
        save_arrays(path, {"a": np.arange(3)})
        save_arrays(path, {"a": np.arange(9)})
        """,
    )
    with Location.open(tmp_path, buckets=2) as location:
        assert load_arrays(location.snapshot_dir("q") / "s.npz")["a"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("copied", ["hot/8-ab-0-0.npz", "hot/9-ab-1-0.npz", "hot/9-ab-0-1.npz", "cold/9-ab-0-0.npz"])
def test_a_snapshot_of_another_tick_fragment_bucket_or_query_is_damaged(tmp_path: Path, copied: str) -> None:
    own = tmp_path / "hot" / "9-ab-0-0.npz"
    save_arrays(own, {"a": np.arange(3)})
    save_arrays(tmp_path / copied, {"a": np.arange(3) + 1})
    assert load_arrays(own)["a"].tolist() == [0, 1, 2]
    shutil.copy(tmp_path / copied, own)
    with pytest.raises(DataDamaged, match=rf'hot/9-ab-0-0\.npz" is damaged: it is that of snapshot {copied}'):
        load_arrays(own)


def test_a_snapshot_of_before_they_had_names_is_read(tmp_path: Path) -> None:
    save_arrays(tmp_path / "s.npz", {"a": np.arange(3)})
    with zipfile.ZipFile(tmp_path / "s.npz", "a") as archive:
        archive.comment = b"millstream %08x" % zlib.crc32(b"a.npy")
    assert load_arrays(tmp_path / "s.npz")["a"].tolist() == [0, 1, 2]
