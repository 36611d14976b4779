"""The tables of docs/performance.md, between the marks that stand there for them: the words around them are written by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from comparison.auctions import QUERIES
from comparison.results import OURS, Measured
from comparison.workloads import VARIANTS, WORKLOADS

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
NAMES = {
    OURS: "Millstream", "spark": "Spark", "pyflink": "Flink", "siddhi": "Siddhi", "duckdb": "DuckDB, each 100,000 rows",
    "deephaven": "Deephaven", "pathway": "Pathway", "bytewax": "numpy by hand (Bytewax)",
}  # fmt: skip
"""As the page calls them, in the order of its columns."""
Everything = dict[str, Measured]


def fill(everything: Everything, delays: Everything, page: Path = PAGE) -> None:
    """Each table anew; a mark that is not there is nobody's."""
    text = page.read_text()
    tables = {
        "workloads": _workloads(everything),
        "nexmark": _nexmark(everything),
        "variants": _variants(everything),
        "memory": _memory(everything),
        "delays": _delays(delays),
    }
    for name, lines in tables.items():
        marked = re.compile(rf"(<!-- {name}:.*?-->\n).*?(<!-- end -->)", re.DOTALL)
        text = marked.sub(lambda found, lines=lines: found[1] + "\n".join(lines) + "\n" + found[2], text)
    page.write_text(text)


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    header = list(header)
    return [_line(header), "|" + "---|" * len(header), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(measured: Measured, system: str, told: Callable[[dict[str, Any]], str]) -> str:
    """Nothing of whoever did not run; those who failed say so."""
    if system not in measured:
        return ""
    return "failed" if measured[system].get("failure") else told(measured[system])


def _thousands(each: dict[str, Any]) -> str:
    return f"{each['rows_a_second'] / 1e3:,.0f}"


def _gigabytes(each: dict[str, Any]) -> str:
    return f"{each['peak_mb'] / 1e3:.1f}"


def _by_system(everything: Everything, told: Callable[[Measured, str], str]) -> list[str]:
    """A line for each workload, a column for each system that ran one of them."""
    found = {name: everything[name] for name in WORKLOADS if OURS in everything.get(name, {})}
    systems = [system for system in NAMES if any(system in measured for measured in found.values())]
    return _table(
        ["", *(NAMES[system] for system in systems)], ([name, *(told(each, system) for system in systems)] for name, each in found.items())
    )


def _workloads(everything: Everything) -> list[str]:
    def told(measured: Measured, system: str) -> str:
        ratio = "" if system == OURS else f" ({_times(measured, system)})"
        return _cell(measured, system, _thousands) + ratio.replace(" ()", "")

    return _by_system(everything, told)


def _memory(everything: Everything) -> list[str]:
    return _by_system(everything, lambda measured, system: _cell(measured, system, _gigabytes))


def _times(measured: Measured, system: str) -> str:
    """How many times as fast we are; nothing where one of us did not run."""
    ours, theirs = measured[OURS], measured.get(system)
    if ours["failure"] or theirs is None or theirs["failure"]:
        return ""
    ratio = float(ours["rows_a_second"] / theirs["rows_a_second"])
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _nexmark(everything: Everything) -> list[str]:
    def told(each: dict[str, Any]) -> str:
        return f"{_thousands(each)} ({each['cpu_us_a_row']:.2g})"

    systems = (OURS, "spark", "pyflink")
    rows = []
    for name, query in QUERIES.items():
        measured = everything.get(name, {})
        if OURS in measured:
            ratios = [_times(measured, system) for system in systems[1:]]
            title = query.title.removeprefix("Nexmark, ").partition(":")[0]
            rows.append([f"{name}, {title}", *(_cell(measured, system, told) or "cannot" for system in systems), *ratios])
    return _table(["", *(NAMES[system] for system in systems), *(f"times {NAMES[system]}" for system in systems[1:])], rows)


def _variants(everything: Everything) -> list[str]:
    """Ours, and how many times as fast we are as those who ran it too."""
    rows = []
    for workload in WORKLOADS.values():
        usual = everything.get(workload.name, {}).get(OURS)
        for variant, title in VARIANTS.items():
            measured = everything.get(workload.varied(variant).id, {})
            if variant == "base" or usual is None or usual["failure"] or OURS not in measured:
                continue
            ours = measured[OURS]
            rate = _cell(measured, OURS, _thousands)
            part = "" if ours["failure"] else f"{ours['rows_a_second'] / usual['rows_a_second']:.2f}"
            memory = _cell(measured, OURS, _gigabytes)
            beside = [
                f"{NAMES[system].partition(',')[0]} {_times(measured, system)}" for system in NAMES if system in measured and system != OURS
            ]
            rows.append([f"{workload.name}, {title}", rate, part, memory, ", ".join(beside)])
    return _table(["", "thousand rows/s", "of the usual", "GB", "times the peers"], rows)


def _delays(delays: Everything) -> list[str]:
    def told(each: dict[str, Any]) -> str:
        return f"{each['p50_s'] * 1e3:,.0f} / {each['p99_s'] * 1e3:,.0f}"

    return _by_system(delays, lambda measured, system: _cell(measured, system, told))
