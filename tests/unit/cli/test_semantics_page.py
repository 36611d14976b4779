"""Every example of docs/semantics.md stands word for word in the script that the page names above it, so it is tested there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "semantics.md"
LINK = re.compile(r"\]\(\.\./tests/scripts/([a-z0-9_/]+\.slt)\)")


def examples() -> list[tuple[str, str]]:
    """(script, text) of each example; the script is the last one linked before it."""
    found, script, text = [], "", PAGE.read_text()
    for match in re.finditer(LINK.pattern + r"|```slt\n(.*?)```", text, re.DOTALL):
        if match[1]:
            script = match[1]
        else:
            found.append((script, match[2]))
    return found


def test_the_page_has_examples() -> None:
    assert len(examples()) >= 10


@pytest.mark.parametrize(("script", "text"), examples())
def test_an_example_is_part_of_its_script(script: str, text: str) -> None:
    assert text in (ROOT / "tests" / "scripts" / script).read_text()


def test_every_linked_script_exists() -> None:
    for name in LINK.findall(PAGE.read_text()):
        assert (ROOT / "tests" / "scripts" / name).is_file(), name
