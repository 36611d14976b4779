"""docs/sinks.md says what really happens.  MILLSTREAM_REGENERATE=1 writes the real output into it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import millstream
from inline import open_inline
from unit.test_documents import DOCUMENTS, run


def test_the_page_shows_what_really_happens(postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = DOCUMENTS / "sinks.md"
    text = path.read_text()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DATABASE_URL", postgres)
    monkeypatch.setattr(millstream, "connect", open_inline)
    real = run(text)
    if os.environ.get("MILLSTREAM_REGENERATE"):
        path.write_text(real)
    else:
        assert real == text
