"""Validation against what training had cost: consultations, tokens, device-hours."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.budgets import COSTS, COUNTED, Budgets, budgets, start_of, trained
from analysis.collected import Collected
from analysis.drawing.style import WIDTH, legend_below, look
from analysis.figures.learning_curves import (
    VALIDATION,
    mean_over_runs,
    style_of,
    validated,
)


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    benchmark = collected.benchmarks[collected.study.development]
    return (
        f"Validation on {benchmark.title} against the cost of training so far, which differs among "
        "methods at equal updates: a line is one method, each point a checkpoint, both means over "
        "runs, of which one that ended before others stays what it was. Controls are dashed. "
        f"{COUNTED} Where Shared SFT has the number too, lines start from it.{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """A row of panels for each validated metric, a column for each cost that runs recorded."""
    kinds = {cost: found for cost in COSTS if (found := budgets(collected, cost))}
    metrics = validated(collected)
    figure = Figure(figsize=(WIDTH, 0.6 + 1.9 * len(metrics)), layout="constrained")
    size = len(metrics), max(1, len(kinds))
    axes = figure.subplots(*size, sharex="col", sharey="row", squeeze=False)
    for row, metric in zip(axes, metrics, strict=True):
        row[0].set_title(VALIDATION[metric][1], loc="left", fontsize=8.5, fontweight="bold")
        for ax, (cost, found) in zip(row, kinds.items(), strict=False):
            for method in trained(collected):
                _curve(ax, collected, found, method, metric, COSTS[cost].factor)
            ax.xaxis.set_major_locator(MaxNLocator(5))
    for ax, cost in zip(axes[-1], kinds, strict=False):
        ax.set_xlabel(COSTS[cost].unit.capitalize())
    if handles := axes[0][0].get_legend_handles_labels()[0]:
        legend_below(figure, handles)
    return figure


def _curve(
    ax: Axes, collected: Collected, found: Budgets, method: str, metric: str, unit: float
) -> None:
    """A method's means over runs, checkpoint by checkpoint, from Shared SFT where it is known."""
    letters, (factor, _) = collected.runs(method), VALIDATION[metric]
    spent = mean_over_runs([pd.Series(found.spent[0][method, run]).sort_index() for run in letters])
    reached = mean_over_runs(
        [collected.curve(method, run, "validation", metric) for run in letters]
    )
    start = start_of(collected, metric)
    begun = [] if start is None else [start]
    ax.plot(
        [*([0] * len(begun)), *(unit * spent[reached.index])],
        [*begun, *(factor * reached)],
        marker=look(method)[1],
        markersize=3,
        markevery=slice(len(begun), None),
        label=collected.title(method),
        **style_of(collected, method),
    )
