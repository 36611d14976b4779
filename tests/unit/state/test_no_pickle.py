"""Nothing in the location is ever unpickled: whoever can write a file there must not be able to run code here."""

from __future__ import annotations

import ast
import pickle
import pickletools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import inline
import millstream
from inline import open_inline

SOURCES = Path(millstream.__file__).parent
UNSAFE = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib", "yaml"}
# functions that the program itself registers, and what thousands of selections want, travel to workers as messages, never as files
MAY_IMPORT = {"operators/python_calls.py", "spark/functions.py", "runtime/messages.py"}


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {part for alias in node.names for part in alias.name.split(".")}
        elif isinstance(node, ast.ImportFrom):
            names |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
    return names


def is_pickle(content: bytes) -> bool:
    try:
        return bool(list(pickletools.genops(content)))
    except Exception:
        return False


def only_for_numba(unpickle: Callable[..., Any]) -> Callable[..., Any]:
    """numba keeps compiled kernels as pickles, beside the program's own code."""

    def checked(*args: Any, **options: Any) -> Any:
        assert sys._getframe(1).f_globals["__name__"].startswith("numba."), "something was unpickled"
        return unpickle(*args, **options)

    return checked


def test_a_pickle_is_known_as_one() -> None:
    assert is_pickle(pickle.dumps({"a": [1, print]}))
    assert not is_pickle(b'{"a": 1}')


def test_only_messages_are_pickled_and_never_by_the_state() -> None:
    found = {str(path.relative_to(SOURCES)): imported(ast.parse(path.read_text())) & UNSAFE for path in SOURCES.rglob("*.py")}
    assert {path for path, names in found.items() if names} == MAY_IMPORT


def test_arrays_are_read_without_objects() -> None:
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("load", "read_array"):
                of_numpy = ast.unparse(node.func).startswith(("np.", "numpy."))
                assert not of_numpy or any(k.arg == "allow_pickle" and ast.unparse(k.value) == "False" for k in node.keywords), path


def test_a_populated_location_holds_no_pickle_and_opens_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_inline(tmp_path / "db") as db:
        db.function("twice", lambda v: 2 * v, "INT")
        db.execute("CREATE STREAM s (ts TIMESTAMP, k STRING, v INT) TIMESTAMP BY ts; CREATE RELATION r (k STRING)")
        db.execute(
            "CREATE QUERY q AS SELECT k, sum(twice(v)) AS n FROM s [RANGE 1 SECOND] GROUP BY k; CREATE QUERY m AS SELECT max(v) FROM s"
        )
        db.execute("CREATE SINK o FROM q INTO 'console'; INSERT INTO r VALUES ('a')")
        db.insert("s", [(i, "ab"[i % 2], i) for i in range(100)])
        db.flush()
    files = [path for path in (tmp_path / "db").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".parquet", ".npz"}
    assert not [path for path in files if is_pickle(path.read_bytes())]
    monkeypatch.setattr(inline, "_sent", lambda message: message)
    for name in ("load", "loads"):
        monkeypatch.setattr(pickle, name, only_for_numba(getattr(pickle, name)))
    with open_inline(tmp_path / "db") as db:
        db.insert("s", [(200, "a", 1)])
        db.advance(300)
        db.flush()
        assert db.query("m").result().num_rows == 1
