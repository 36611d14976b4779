"""One look for all figures: lines over a quantity, a colour for each kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

COLOURS = ("#00798c", "#d1495b", "#edae49")
MARKS = ("o", "s", "^")


@dataclass(frozen=True)
class Line:
    label: str
    points: Sequence[tuple[float, float]]
    kind: int
    dashed: bool = False


def panels(title: str, across: str, axes: Sequence[tuple[str, Sequence[Line]]], *, logarithmic: bool = False) -> Figure:
    """Side by side, each with what it shows upwards and its lines."""
    figure = Figure(figsize=(5.4 * len(axes) + 1.2, 4.4), layout="constrained")
    for place, (upwards, lines) in enumerate(axes):
        ax = figure.add_subplot(1, len(axes), place + 1)
        for line in lines:
            x, y = zip(*line.points, strict=True)
            face = "white" if line.dashed else None
            style = "--" if line.dashed else "-"
            ax.plot(x, y, style, label=line.label, color=COLOURS[line.kind], marker=MARKS[line.kind], markerfacecolor=face, ms=5)
        ax.set_xlabel(across)
        ax.set_ylabel(upwards)
        if logarithmic:
            ax.set_xscale("log")
            ax.set_yscale("log")
        ax.grid(alpha=0.25)
        ax.legend(fontsize=8)
    figure.suptitle(title, fontsize=11)
    return figure
