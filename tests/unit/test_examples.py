"""The examples in Python run and show what they promise; here on the engine without a JVM."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import millstream
from inline import open_inline

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("first_query.py", ["A      12", "B       1"]),
        ("python_functions.py", ["ACME   15.0"]),
        ("sensor_proxy.py", ["no query: 0 samples", "7  35.0", "most samples were not sent: True"]),
        ("relation_from_file.py", ["12 metals", "12 mining"]),
        ("changing_queries.py", ["now, with a minute: [6, 7]", "as of 00:00:02: [5]", "since 00:00:03: [(1, 1), (-1, 1), (1, 2)"]),
        (
            "registered_queries.py",
            ["big trades: [{'sym': 'A', 'size': 500}]", "registered: ['big', 'volume']", "'total': 1730", "{'sym': 'E', 'most': 900}"],
        ),
        ("dead_letters.py", ["1 taken, 3 rejected", "takes INT, not 'seven'", "A      12"]),
    ],
)
def test_example(name: str, shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(millstream, "connect", lambda place=None: open_inline(place or tmp_path / "db"))
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    printed = capsys.readouterr().out
    assert all(text in printed for text in shown), printed
