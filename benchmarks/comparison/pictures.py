"""The pictures of docs/performance.md."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

from comparison.auctions import QUERIES
from comparison.results import OURS, Measured
from comparison.summaries import NAMES
from comparison.workloads import VARIANTS, WORKLOADS, Variant

PICTURES = Path(__file__).parents[2] / "docs" / "performance"
COLUMNS = 3
"""Of a picture of all workloads."""
Everything = dict[str, Measured]


def draw(everything: Everything, delays: Everything, directory: Path = PICTURES) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    mpl.rcParams["svg.hashsalt"] = "millstream"  # the same numbers give the same file
    for name, figure in {
        "rows_a_second": _rates(everything), "nexmark": _nexmark(everything), "variants": _variants(everything), "delays": _delays(delays),
    }.items():  # fmt: skip
        figure.tight_layout()
        figure.savefig(directory / f"{name}.svg", metadata={"Date": None})
        plt.close(figure)


def _rates(everything: Everything) -> Any:
    """The fastest above, of each workload."""
    base = {name: everything[name] for name in WORKLOADS if name in everything}
    figure, axes = _grid(base)
    for axis, (name, measured) in zip(axes, base.items(), strict=False):
        ranked = sorted(((each["rows_a_second"], system) for system, each in measured.items() if not each["failure"]))
        axis.barh([system for _, system in ranked], [rate for rate, _ in ranked], color=_colours(system for _, system in ranked))
        axis.set_xscale("log")
        axis.set_xlim(1e4, 2e7)
        axis.set_title(name)
        axis.set_xlabel("rows a second")
    return figure


def _nexmark(everything: Everything) -> Any:
    """Bars of ours and theirs beside each other, of each query."""
    systems = (OURS, "pyflink", "spark")
    names = [name for name in QUERIES if name in everything]
    figure, axis = plt.subplots(figsize=(10, 3.2))
    for place, (system, colour) in enumerate(zip(systems, ("tab:orange", "tab:gray", "lightgray"), strict=True)):
        found = [(i + (place - 1) / 4, everything[name].get(system)) for i, name in enumerate(names)]
        bars = [(x, each["rows_a_second"]) for x, each in found if each and not each["failure"]]
        axis.bar([x for x, _ in bars], [rate for _, rate in bars], 1 / 4, label=NAMES[system], color=colour)
    axis.set_xticks(range(len(names)), names)
    axis.set_yscale("log")
    axis.set_ylabel("events a second")
    axis.legend()
    return figure


def _variants(everything: Everything) -> Any:
    varied: dict[str, list[tuple[Variant, float]]] = {}
    for name in WORKLOADS:
        rates = [(variant, everything.get(WORKLOADS[name].varied(variant).id, {}).get(OURS)) for variant in VARIANTS]
        varied[name] = [(variant, each["rows_a_second"]) for variant, each in rates if each and not each["failure"]]
    figure, axis = plt.subplots(figsize=(7, 3.2))
    for place, variant in enumerate(VARIANTS):
        points = [(i + (place - 1.5) / 6, rate) for i, rates in enumerate(varied.values()) for each, rate in rates if each == variant]
        if points:
            axis.bar([x for x, _ in points], [y for _, y in points], 1 / 6, label=VARIANTS[variant])
    axis.set_xticks(range(len(varied)), list(varied))
    axis.set_ylabel("rows a second")
    axis.legend()
    return figure


def _delays(delays: Everything) -> Any:
    """From the median to the 99th percentile, of each workload and system."""
    found = {name: delays[name] for name in WORKLOADS if name in delays}
    figure, axes = _grid(found)
    for axis, (name, measured) in zip(axes, found.items(), strict=False):
        ranked = sorted(((each["p50_s"], each["p99_s"], system) for system, each in measured.items()), reverse=True)
        for line, (p50, p99, system) in enumerate(ranked):
            (colour,) = _colours([system])
            axis.plot([p50 * 1e3, p99 * 1e3], [line, line], marker="o", color=colour)
        axis.set_yticks(range(len(ranked)), [system for *_, system in ranked])
        axis.set_xscale("log")
        axis.set_title(name)
        axis.set_xlabel("ms, median and 99th percentile")
    return figure


def _grid(found: Everything) -> tuple[Any, list[Any]]:
    lines = max(1, -(-len(found) // COLUMNS))
    figure, axes = plt.subplots(lines, COLUMNS, figsize=(4 * COLUMNS, 2.6 * lines), sharex=True, squeeze=False)
    for axis in axes.flat[len(found) :]:
        axis.set_visible(False)
    return figure, list(axes.flat)


def _colours(systems: Iterable[str]) -> list[str]:
    return ["tab:orange" if system == OURS else "tab:gray" for system in systems]
