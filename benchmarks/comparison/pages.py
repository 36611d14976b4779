"""The table of all that was measured beside the peers, results/comparison.md, each goal below it; then what is made of the same figures."""

from __future__ import annotations

from statistics import median
from typing import Any

from comparison.auctions import QUERIES
from comparison.data import first_size
from comparison.pictures import draw
from comparison.results import JVM_PEERS, KEPT_DELAYS, OURS, Measured, kept, peak_after
from comparison.summaries import fill
from comparison.workloads import VARIANTS, WORKLOADS, Workload
from report import RESULTS, goal

_AGGREGATES = {"spark": 30.0, "pyflink": 15.0, "siddhi": 3.0, "duckdb": 2.0}
_JOINS = {"spark": 15.0, "pyflink": 10.0, "siddhi": 5.0, "duckdb": 1.5}
GOALS = {"w1": _AGGREGATES, "w2": _AGGREGATES, "w3": _JOINS, "w4": _JOINS, "w7": _AGGREGATES}
"""So many times the rows a second of each."""
QUERY_PEERS, QUERY_MEDIAN = ("spark", "pyflink"), 5.0
"""Of Nexmark: ahead of each of them on every query, and so many times in the median."""
RAW_BYTES = 3
"""Memory, in times the bytes of the rows that the windows hold, eight for a number or an instant."""
GROWTH = 1.3
"""A row costs at most so many times as much with ten times the window."""


def write_pages() -> None:
    everything = kept()
    texts = ["# Millstream beside its peers", "", _ABOUT]
    for workload in WORKLOADS.values():
        for variant, title in VARIANTS.items():
            varied = workload.varied(variant)
            measured = everything.get(varied.id)
            if measured and OURS in measured:
                heading = workload.title if variant == "base" else f"{workload.title}: {title}"
                texts += ["", f"## {varied.id}: {heading}", "", *_table(measured), *_goals(varied, measured)]
                if variant == "window10" and OURS in everything.get(workload.name, {}):
                    texts += _of_the_longer_window(workload, everything[workload.name][OURS], varied, measured[OURS])
    for query in QUERIES.values():
        measured = everything.get(query.id)
        if measured and OURS in measured:
            texts += ["", f"## {query.id}: {query.title}", "", *_table(measured), *_goals(query, measured)]
    texts += _ratios(everything)
    machines = sorted({each["machine"] for measured in everything.values() for each in measured.values()})
    (RESULTS / "comparison.md").write_text("\n".join([*texts, "", f"Machine: {'; or '.join(machines)}", ""]))
    draw(everything, kept(KEPT_DELAYS))
    fill(everything, kept(KEPT_DELAYS))


_ABOUT = (
    "Rows a second and processor time are of the rows between two sizes, so without what it takes to start; the ratio is Millstream's "
    "rows a second to theirs. Memory is the peak of all processes together, over all rows; where what is kept for ever grows with them, "
    "the goals compare it after as many rows as the peer was given, if those were fewer. `millstream bench` measures it again; "
    "[`docs/performance.md`](../../docs/performance.md) says what it means."
)


def _table(measured: Measured) -> list[str]:
    ours = measured[OURS]
    lines = [
        "| system | rows/s | Millstream is | µs of processor a row | peak memory | to start | measured |",
        "|---|---|---|---|---|---|---|",
    ]
    ranked = sorted(measured.items(), key=lambda each: -float(each[1]["rows_a_second"]))
    for name, each in ranked:
        label = f"{name} {each['version']}".strip()
        if each["failure"]:
            reason = str(each["failure"]).splitlines()[0]
            lines.append(f"| {label} | failed: {reason} | | | | | {each['date']} |")
            continue
        ratio = "" if name == OURS or ours["failure"] else f"{ours['rows_a_second'] / each['rows_a_second']:.1f} times as fast"
        lines.append(
            f"| {label} | {each['rows_a_second']:,.0f} | {ratio} | {each['cpu_us_a_row']:.2f} | {each['peak_mb']:,.0f} MB "
            f"| {max(0, each['start_s']):.0f} s | {each['date']}{', ' + middle if (middle := _middle(each)) else ''} |"
        )
    return lines


def _middle(each: dict[str, Any]) -> str:
    return f"the middle one of {each['runs']}" if each.get("runs", 1) > 1 else ""


def _goals(workload: Workload, measured: Measured) -> list[str]:
    ours = measured[OURS]
    if ours["failure"]:
        return []
    lines = []
    for name, times in GOALS.get(workload.name, {}).items():
        if name in measured and measured[name]["failure"]:
            lines.append(f"Not known: at least {times:g} times {name}, which failed")
        elif name in measured:
            ratio = ours["rows_a_second"] / measured[name]["rows_a_second"]
            lines.append(goal(f"at least {times:g} times {name}: {ratio:.1f}", reached=ratio >= times))
    for name in JVM_PEERS:
        if name in measured and not measured[name]["failure"]:
            rows = first_size(workload) + measured[name]["rows"]
            least = min(ours["peak_mb"], peak_after(ours.get("peaks", {}), rows))
            after = f" after the same {rows / 1e6:.1f} million rows" if least < ours["peak_mb"] else ""
            text = f"less memory than {name}{after}: {least:,.0f} against {measured[name]['peak_mb']:,.0f} MB"
            lines.append(goal(text, reached=least < measured[name]["peak_mb"]))
    if workload.name in GOALS:
        raw = workload.full_after * _bytes_a_row(workload) / 1e6
        text = f"at most {RAW_BYTES} times the {raw:,.0f} MB of the rows in the window: {ours['peak_mb'] / raw:,.0f} times"
        lines.append(goal(text, reached=ours["peak_mb"] <= RAW_BYTES * raw))
    return [line for each in lines for line in ("", each)]


def _of_the_longer_window(workload: Workload, usual: dict[str, Any], longer: Workload, ours: dict[str, Any]) -> list[str]:
    """What a row costs with the longer window, and what the rows that it holds more take, apart from what every process has."""
    if workload.name not in GOALS or usual["failure"] or ours["failure"]:
        return []
    clock, processor = usual["rows_a_second"] / ours["rows_a_second"], ours["cpu_us_a_row"] / usual["cpu_us_a_row"]
    text = f"a row costs at most {GROWTH} times as much with the longer window: {clock:.2f} by the clock, {processor:.2f} of processor time"
    raw = (longer.full_after * _bytes_a_row(longer) - workload.full_after * _bytes_a_row(workload)) / 1e6
    more = ours["peak_mb"] - usual["peak_mb"]
    held = f"the {raw:,.0f} MB of rows that it holds more take at most {RAW_BYTES} times that: {more:,.0f} MB, {more / raw:.1f} times"
    return ["", goal(text, reached=clock <= GROWTH), "", goal(held, reached=more <= RAW_BYTES * raw)]


def _bytes_a_row(workload: Workload) -> float:
    """On the average over its streams; a key that is text has eleven."""
    sizes = [sum(11 if kind == "STRING" else 8 for kind in workload.columns(stream).values()) for stream in workload.streams]
    return sum(sizes) / len(sizes)


def _ratios(everything: dict[str, Measured]) -> list[str]:
    """Nexmark in one table: how many times as fast we are, by query, and whether that is what we want."""
    ratios = {name: _ratios_of(everything[name]) for name in QUERIES if OURS in everything.get(name, {})}
    if not ratios:
        return []
    lines = [
        "",
        "## w5: all queries of Nexmark",
        "",
        f"| Millstream is | {' | '.join(ratios)} | median |",
        "|---|" + "---|" * (len(ratios) + 1),
    ]
    goals = []
    for peer in QUERY_PEERS:
        found = {name: each[peer] for name, each in ratios.items() if peer in each}
        if not found:
            continue
        middle = median(found.values())
        cells = [f"{found[name]:.1f}" if name in found else "" for name in ratios]
        lines.append(f"| times {peer} | {' | '.join(cells)} | {middle:.1f} |")
        behind = [name for name, ratio in found.items() if ratio <= 1]
        told = f"ahead of {peer} on every query that it can run: on {len(found) - len(behind)} of {len(found)}"
        goals.append(goal(f"{told}, not on {', '.join(behind)}" if behind else told, reached=not behind))
        goals.append(goal(f"{QUERY_MEDIAN:g} times {peer} in the median: {middle:.1f}", reached=middle >= QUERY_MEDIAN))
    return [*lines, *(line for each in goals for line in ("", each))] if goals else []


def _ratios_of(measured: Measured) -> dict[str, float]:
    """By peer, of those that ran; where we failed there is nothing to divide."""
    ours = measured[OURS]["rows_a_second"]
    return {name: ours / each["rows_a_second"] for name, each in measured.items() if name != OURS and not each["failure"]}
