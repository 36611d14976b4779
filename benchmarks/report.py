"""How benchmarks tell their results: a table on the screen, and the same table committed with versions and machine."""

from __future__ import annotations

import datetime as dt
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    packages = ", ".join(f"{name} {version(name)}" for name in ("millstream", "pyspark", "pyarrow", "numba", "duckdb", "deltalake"))
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}; {packages}"


def goal(text: str, *, reached: bool) -> str:
    """A goal and whether this run reached it, for the foot of a table."""
    return f"{'Reached' if reached else 'MISSED'}: {text}"


def write_table(name: str, title: str, header: list[str], rows: list[list[str]], note: str, goals: Sequence[str] = ()) -> None:
    lines = [f"# {title}", "", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    lines += [line for goal in goals for line in ("", goal)]
    lines += ["", f"{dt.date.today().isoformat()}; {note}", ""]
    text = "\n".join(lines)
    print(text)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text)
