"""Documents that show real output are run: each ```python block prints what the ```text block after it says.

MILLSTREAM_REGENERATE=1 pytest tests/unit/test_documents.py      writes the real output into the documents
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENTS = Path(__file__).parents[2] / "docs"
_BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.DOTALL)


def run(text: str) -> str:
    """The document with the real output of its code."""
    namespace: dict[str, Any] = {}

    def replaced(block: re.Match[str]) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block["code"], "document", "exec"), namespace)
        output = f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else ""
        return f"```python\n{block['code']}```\n{output}"

    return _BLOCK.sub(replaced, text)


@pytest.mark.parametrize("name", ["life-of-a-query.md"])
def test_document_shows_what_really_happens(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = DOCUMENTS / name
    text = path.read_text()
    monkeypatch.chdir(tmp_path)
    real = run(text)
    if os.environ.get("MILLSTREAM_REGENERATE"):
        path.write_text(real)
    else:
        assert real == text
