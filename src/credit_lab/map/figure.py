"""The map as a figure: heat maps over noise and turns, and the other axes one at a time."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from analysis.drawing.style import WIDTH, look
from analysis.table import Number
from credit_lab.map.outcomes import GRPO, TERMINAL, UNDECIDED, TrainedCell
from credit_lab.map.table import LABELS

RIVALS = {GRPO: "GRPO", TERMINAL: "Terminal-only"}
LOW, HIGH = -7.5, 10.0  # range of the dot plots in points; what lies beyond is printed


def draw(
    cells: Sequence[TrainedCell],
    grid: dict[str, list[float]],
    axes: dict[str, list[float]],
    centre: dict[str, float],
) -> Figure:
    """Points by which PCQC is ahead at equal cost.

    Args:
        cells: of the map.
        grid: the two settings of the heat maps and their values, rows first.
        axes: the settings of the dot plots and their values.
        centre: value of every setting at the centre.
    """
    figure = Figure(figsize=(WIDTH, 5.2), layout="constrained")
    upper, lower = figure.subfigures(2, 1, squeeze=False, height_ratios=(1.35, 1))[:, 0]
    by_settings = {tuple(sorted(cell["settings"].items())): cell for cell in cells}

    def at(**change: float) -> TrainedCell:
        return by_settings[tuple(sorted({**centre, **change}.items()))]

    (row, rows), (column, columns) = grid.items()
    table = [[at(**{row: a, column: b}) for b in columns] for a in rows]
    most = np.ceil(
        max(abs(cell.ahead_of(rival).mean) for line in table for cell in line for rival in RIVALS)
    )
    panels = upper.subplots(1, 2, sharey=True)
    for panel, rival in zip(panels, RIVALS, strict=True):
        image = _heat(panel, table, rival, most)
        panel.set_xticks(range(len(columns)), [f"{b:g}" for b in columns])
        panel.set_yticks(range(len(rows)), [f"{a:g}" for a in rows])
        panel.set_xlabel(LABELS[column])
        panel.set_title(f"PCQC − {RIVALS[rival]}")
    panels[0].set_ylabel(LABELS[row])
    upper.colorbar(image, ax=list(panels), label="points of accuracy", shrink=0.9)
    below = lower.subplots(1, len(axes) + 1, sharey=True)
    for panel, (name, values) in zip(below, axes.items(), strict=False):
        ticks = sorted({*values, centre[name]})
        _dots(panel, [f"{v:g}" for v in ticks], [(at(**{name: v}), None) for v in ticks])
        panel.set_xlabel(LABELS[name])
    budgets = at()["budgets"][1:]
    _dots(below[-1], [str(b) for b in budgets], [(at(), b) for b in budgets])
    below[-1].set_xlabel("budget")
    below[0].set_ylabel("PCQC ahead (points)")
    handles = below[0].get_legend_handles_labels()[0]
    lower.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _heat(
    panel: Axes, table: Sequence[Sequence[TrainedCell]], rival: str, most: float
) -> AxesImage:
    """Differences as colours and numbers, with intervals and the prediction.

    Args:
        panel: to draw on.
        table: rows of cells, from below.
        rival: method that PCQC is compared with.
        most: points at which the colours end.
    """
    values = np.array([[cell.ahead_of(rival).mean for cell in row] for row in table])
    norm = Normalize(-most, most)
    image = panel.imshow(values, cmap="PuOr_r", norm=norm, aspect="auto", origin="lower")
    for (y, x), value in np.ndenumerate(values):
        cell = table[y][x]
        difference = cell.ahead_of(rival)
        mark = "?" if cell.outcome(rival) == UNDECIDED else ""
        exact = f"exact {cell.number('best_over_average'):.1f}: {cell['prediction']['predicted']}"
        lines = (
            (0.2, _signed(value) + mark, 10, "bold"),
            (-0.1, f"[{_signed(difference.low)}, {_signed(difference.high)}]", 6.5, "normal"),
            (-0.32, exact if rival == GRPO else "", 6.5, "normal"),
        )
        for up, text, size, weight in lines:
            panel.text(
                x, y + up, text, ha="center", va="center", fontsize=size, weight=weight,
                color="white" if abs(value) > 0.7 * most else "black",
            )  # fmt: skip
    panel.grid(False)
    return image


def _dots(
    panel: Axes, ticks: Sequence[str], cells: Sequence[tuple[TrainedCell, int | None]]
) -> None:
    """PCQC less each rival, with intervals."""
    for shift, (rival, title) in zip((-0.12, 0.12), RIVALS.items(), strict=True):
        colour, marker = look(rival)
        differences = [cell.ahead_of(rival, budget=budget) for cell, budget in cells]
        places = [x + shift for x in range(len(differences))]
        lows, highs = [d.low for d in differences], [d.high for d in differences]
        means = [d.mean for d in differences]
        panel.vlines(places, lows, highs, color=colour)
        panel.plot(places, means, marker, color=colour, markersize=4.5, label=f"PCQC − {title}")
        for place, mean in zip(places, means, strict=True):
            if not LOW < mean < HIGH:
                edge, arrow, side = (LOW, "↓", "bottom") if mean < LOW else (HIGH, "↑", "top")
                panel.text(
                    place - 0.08, edge, f"{_signed(mean)} {arrow}", ha="right", va=side,
                    color=colour,
                )  # fmt: skip
    panel.set_ylim(LOW, HIGH)
    panel.axhline(0, color="#555555", linewidth=0.8)
    panel.set_xticks(range(len(ticks)), ticks)
    panel.set_xlim(-0.5, len(ticks) - 0.5)


def _signed(value: float) -> str:
    return Number(value, digits=1, signed=True).text()
