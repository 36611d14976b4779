"""One look for all figures: lines over one quantity, a colour for each strategy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

COLOURS = {"input_triggered": "#d1495b", "negative": "#00798c", "time_message": "#edae49", "piggyback": "#30638e"}
MARKS = {"input_triggered": "o", "negative": "s", "time_message": "^", "piggyback": "D"}


@dataclass(frozen=True)
class Line:
    label: str
    points: Sequence[tuple[float, float]]
    strategy: str
    dashed: bool = False


def panels(
    title: str, across: str, axes: Sequence[tuple[str, Sequence[Line]]], *, logarithmic: bool = False, from_zero: bool = False
) -> Figure:  # fmt: skip
    """Side by side, each with what it shows upwards and its lines; one legend for all."""
    figure = Figure(figsize=(5.4 * len(axes) + 1.2, 4.4), layout="constrained")
    for place, (upwards, lines) in enumerate(axes):
        ax = figure.add_subplot(1, len(axes), place + 1)
        for line in lines:
            x, y = zip(*line.points, strict=True)
            style = "--" if line.dashed else "-"
            face = "white" if line.dashed else None
            ax.plot(x, y, style, label=line.label, color=COLOURS[line.strategy], marker=MARKS[line.strategy], markerfacecolor=face, ms=5)
        ax.set_xlabel(across)
        ax.set_ylabel(upwards)
        ax.set_yscale("log" if logarithmic else "linear")
        if from_zero:
            ax.set_ylim(bottom=0)
        ax.grid(alpha=0.25)
        if place == 0:
            ax.legend(fontsize=8)
    figure.suptitle(title, fontsize=11)
    return figure
