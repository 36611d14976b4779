"""The table of bad inputs: cases from text files, what each gets, and the page that shows it (docs/bad-inputs.md).

A case is a line `EXPECTED  INPUT`.  EXPECTED is the code of an error, or what becomes of rows: `rejected` (at least one), `taken`
(all of them).  The page adds what the engine really said; a test holds both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "bad-inputs.md"
SPARK = ("json",)
"""Kinds whose cases need a JVM."""
KINDS = ("insert", "values", "csv", "json", "sql", "calls", "functions", "scripts")

INTRODUCTION = """# Bad inputs, and what each gets

A test runs every line of this page and writes what came of it (`tests/unit/test_bad_inputs.py`, `tests/spark/test_bad_inputs.py`).
*taken* means that all rows are in the stream; *rejected* rows are in `s.rejected` with the reason shown, and the others
were taken ([sources](sources.md#rows-that-cannot-be-taken)). A code in brackets is an error: nothing happened. What is longer than
200 characters is cut here.
"""


@dataclass(frozen=True)
class Case:
    kind: str
    section: str
    expected: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.text[:60]}"


def cases(kind: str) -> list[Case]:
    found, section = [], ""
    for line in (HERE / f"{kind}.txt").read_text().splitlines():
        if line.startswith("#"):
            section = f"{section} {line[2:]}" if section and (not found or found[-1].section != section) else line[2:]
        elif line:
            expected, text = line.split(None, 1)
            found.append(Case(kind, section, expected, text))
    return found


ALL = {kind: cases(kind) for kind in KINDS}


def line_of(case: Case, outcome: str) -> str:
    return f"| `` {_cell(case.text)} `` | {_cell(outcome)} |"


def _cell(text: str) -> str:
    text = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text.replace("|", "\\|"))
    return text if len(text) <= 200 else f"{text[:200]}..."


def page(outcomes: dict[Case, str]) -> str:
    """With the outcomes of the cases that ran; the others keep the lines that they have."""
    old = _lines()
    lines, section = [INTRODUCTION], None
    for case in (case for kind in KINDS for case in ALL[kind]):
        if case.section != section:
            section = case.section
            lines += [f"\n## {section}\n\n| input | gets |\n|---|---|\n"]
        lines.append((line_of(case, outcomes[case]) if case in outcomes else old.get(_key(case), "")) + "\n")
    return "".join(lines)


def _key(case: Case) -> tuple[str, str]:
    return case.section, f"| `` {_cell(case.text)} `` |"


def _lines() -> dict[tuple[str, str], str]:
    """The page's lines as they are, by section and input."""
    found, section = {}, ""
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        if line.startswith("## "):
            section = line[3:]
        elif line.startswith("| ``"):
            found[section, line[: line.index(" `` |") + 5]] = line
    return found


def recorded(case: Case) -> str | None:
    return _lines().get(_key(case))
