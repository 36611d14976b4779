"""One look for all figures: lines over one quantity, a colour for each variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

COLOURS = {"none": "#d1495b", "partial": "#00798c", "complete": "#edae49", "other": "#30638e"}
MARKS = {"none": "o", "partial": "s", "complete": "^", "other": "D"}


@dataclass(frozen=True)
class Line:
    label: str
    points: Sequence[tuple[float, float]]
    variant: str
    dashed: bool = False


def panels(title: str, across: str, axes: Sequence[tuple[str, Sequence[Line]]], *, base: int = 2) -> Figure:
    """Side by side, each with what it shows upwards and its lines; logarithmic both ways."""
    figure = Figure(figsize=(5.4 * len(axes) + 1.2, 4.4), layout="constrained")
    for place, (upwards, lines) in enumerate(axes):
        ax = figure.add_subplot(1, len(axes), place + 1)
        for line in lines:
            x, y = zip(*line.points, strict=True)
            style, face = ("--", "white") if line.dashed else ("-", None)
            ax.plot(x, y, style, label=line.label, color=COLOURS[line.variant], marker=MARKS[line.variant], markerfacecolor=face, ms=5)
        ax.set_xlabel(across)
        ax.set_ylabel(upwards)
        ax.set_xscale("log", base=base)
        ax.set_yscale("log")
        ax.grid(alpha=0.25)
        ax.legend(fontsize=8)
    figure.suptitle(title, fontsize=11)
    return figure
