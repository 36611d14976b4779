"""Every stream script of the project, without a JVM, under every way of cutting rows into ticks."""

from __future__ import annotations

from pathlib import Path

import pytest

from inline import open_inline
from millstream.cli.script_test import find_scripts, run_one
from millstream.cli.scripts.format import parse_script, rewrite

ROOT = Path(__file__).parents[3]
SCRIPTS = [path.relative_to(ROOT) for path in find_scripts([ROOT / "tests" / "scripts", ROOT / "examples"])]


@pytest.mark.parametrize("batching", ["default", "rows", "one", "random:1"])
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path: Path, batching: str) -> None:
    script = parse_script((ROOT / path).read_text(), str(path))
    outcome = run_one(script, open_inline, batching, frozenset({"millstream", "inline"}))
    assert outcome.passed, "\n".join(
        f"{path}:{failure.line}: {failure.title}\n  " + "\n  ".join(failure.details) for failure in outcome.failures
    )


def test_scripts_are_well_formed() -> None:
    assert len(SCRIPTS) >= 40
    for path in SCRIPTS:
        text = (ROOT / path).read_text()
        assert rewrite(parse_script(text, str(path)), {}) == text
