"""The page shows what really happens: its first example is run as it stands."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

import millstream
from inline import open_inline

PAGE = Path(__file__).parents[3] / "docs" / "psoup.md"


def test_the_first_example_works_when_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(millstream, "connect", lambda: open_inline(tmp_path / "db"))
    found = re.search(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    with contextlib.redirect_stdout(printed := io.StringIO()):
        exec(compile(found["code"], "psoup.md", "exec"), {})
    assert printed.getvalue() == found["output"]
