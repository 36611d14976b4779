"""What the README and the examples say is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millstream.cli.main import app

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *(ROOT / "docs" / f"{name}.md" for name in ("semantics", "statistics")),
]


def test_the_python_example_is_the_file() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert (ROOT / "examples" / "first_query.py").read_text().endswith(block)


def test_every_command_it_names_exists_and_every_command_is_named() -> None:
    named = set(re.findall(r"^\| `millstream (\w+)", README, re.MULTILINE))
    assert named == {command.name for command in app.registered_commands}


def test_every_target_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for target in re.findall(r"(?:^|`)make (\w+)", page.read_text(), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{page.name}: make {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / link).exists(), link


def test_continuous_integration_runs_what_the_readme_says() -> None:
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[-1] == "exec make test"
    assert "`.ci/run`, which is `make test`" in README
