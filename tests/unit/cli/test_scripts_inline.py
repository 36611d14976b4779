"""Every stream script of the project, without a JVM, under every way of cutting rows into ticks."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.cli.scripts.format import rewrite
from script_files import PATHS, ROOT, batchings, check_script, read_script

RUNS = [pytest.param(path, batching, id=f"{path.with_suffix('')}-{batching}") for path in PATHS for batching in batchings(path)]


@pytest.mark.parametrize(("path", "batching"), RUNS)
def test_script(path: Path, batching: str) -> None:
    check_script(path, open_inline, batching, "inline")


def test_scripts_are_well_formed() -> None:
    assert len(PATHS) >= 400
    for path in PATHS:
        assert rewrite(read_script(path), {}) == (ROOT / path).read_text()


def test_scripts_say_what_they_show() -> None:
    for path in PATHS:
        assert (ROOT / path).read_text().startswith("# "), f"{path}: the first line is a comment"
