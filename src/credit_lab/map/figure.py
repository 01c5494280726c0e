"""The map as a figure: heat maps over noise and turns, and the other axes one at a time."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from analysis.drawing.style import WIDTH, look
from analysis.table import Number
from credit_lab.map.outcomes import GRPO, TERMINAL, UNDECIDED, Trained
from credit_lab.map.table import LABELS

RIVALS = {GRPO: "GRPO", TERMINAL: "Terminal-only"}
BUDGET = "budget"
LOW, HIGH = -7.5, 10.0  # points that the dot plots show; what lies beyond stands as a number


def draw(
    cells: Sequence[Trained],
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
    by_place = {tuple(sorted(cell["settings"].items())): cell for cell in cells}

    def at(**change: float) -> Trained:
        return by_place[tuple(sorted({**centre, **change}.items()))]

    panels = upper.subplots(1, 2, sharey=True)
    (row, rows), (column, columns) = grid.items()
    table = [[at(**{row: a, column: b}) for b in columns] for a in rows]
    gaps = [abs(cell.ahead_of(rival).mean) for line in table for cell in line for rival in RIVALS]
    for panel, rival in zip(panels, RIVALS, strict=True):
        image = _heat(panel, table, rival, np.ceil(max(gaps)))
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
    below[-1].set_xlabel(BUDGET)
    below[0].set_ylabel("PCQC ahead (points)")
    handles = below[0].get_legend_handles_labels()[0]
    lower.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return figure


def _heat(panel: Axes, table: Sequence[Sequence[Trained]], rival: str, most: float) -> AxesImage:
    """Differences as colours and numbers, with intervals and what was known before.

    Args:
        panel: to draw on.
        table: rows of cells, from below.
        rival: whom PCQC is compared with.
        most: points at which the colours end.
    """
    values = np.array([[cell.ahead_of(rival).mean for cell in row] for row in table])
    norm = Normalize(-most, most)
    image = panel.imshow(values, cmap="PuOr_r", norm=norm, aspect="auto", origin="lower")
    for (y, x), value in np.ndenumerate(values):
        cell = table[y][x]
        found = cell.ahead_of(rival)
        weak = "?" if cell.outcome(rival) == UNDECIDED else ""
        lines = (
            (0.2, _signed(value) + weak, 10, "bold"),
            (-0.1, f"[{_signed(found.low)}, {_signed(found.high)}]", 6.5, "normal"),
            (-0.32, _known(cell) if rival == GRPO else "", 6.5, "normal"),
        )
        for up, text, size, weight in lines:
            panel.text(
                x, y + up, text, ha="center", va="center", fontsize=size, weight=weight,
                color="white" if abs(value) > 0.7 * most else "black",
            )  # fmt: skip
    panel.grid(False)
    return image


def _known(cell: Trained) -> str:
    value = cell.number("best_over_average")
    return f"exact {value:.1f}: {cell['prediction']['predicted']}"


def _signed(value: float) -> str:
    return Number(value, digits=1, signed=True).text()


def _dots(panel: Axes, ticks: Sequence[str], cells: Sequence[tuple[Trained, int | None]]) -> None:
    """PCQC less each rival, with intervals."""
    for shift, (rival, title) in zip((-0.12, 0.12), RIVALS.items(), strict=True):
        colour, marker = look(rival)
        found = [cell.ahead_of(rival, budget=budget) for cell, budget in cells]
        places = [x + shift for x in range(len(found))]
        panel.vlines(places, [d.low for d in found], [d.high for d in found], color=colour)
        panel.plot(
            places, [d.mean for d in found], marker, color=colour, markersize=4.5,
            label=f"PCQC − {title}",
        )  # fmt: skip
        for place, one in zip(places, found, strict=True):
            if not LOW < one.mean < HIGH:
                edge = LOW if one.mean < LOW else HIGH
                arrow = "↓" if one.mean < LOW else "↑"
                panel.text(
                    place - 0.08, edge, f"{_signed(one.mean)} {arrow}", ha="right",
                    va="bottom" if one.mean < LOW else "top", color=colour,
                )  # fmt: skip
    panel.set_ylim(LOW, HIGH)
    panel.axhline(0, color="#555555", linewidth=0.8)
    panel.set_xticks(range(len(ticks)), ticks)
    panel.set_xlim(-0.5, len(ticks) - 0.5)
