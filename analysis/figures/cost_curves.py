"""Validation against what training had cost: consultations, tokens, compute."""

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.budgets import COSTS, COUNTED, VALIDATED, budgets, start_of, trained
from analysis.collected import Collected
from analysis.drawing.style import WIDTH, legend_below
from analysis.figures.learning_curves import (
    ENDED,
    VALIDATION,
    line_from_start,
    mean_over_runs,
    validated,
)


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    benchmark = collected.benchmarks[collected.study.development]
    return (
        f"Validation on {benchmark.title} against the cost of training so far; an update does not "
        "cost the same in all methods. A line is a method, a point a checkpoint, both means over "
        f"runs; {ENDED}. Controls are dashed. Lines start from Shared SFT where it has the number. "
        f"{COUNTED}{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """A row of panels for each validated metric, a column for each cost that runs recorded."""
    kinds = {cost: spent for cost in COSTS if (spent := budgets(collected, cost))}
    metrics = validated(collected)
    figure = Figure(figsize=(WIDTH, 0.6 + 1.9 * len(metrics)), layout="constrained")
    size = len(metrics), max(1, len(kinds))
    axes = figure.subplots(*size, sharex="col", sharey="row", squeeze=False)
    for row, metric in zip(axes, metrics, strict=True):
        row[0].set_title(VALIDATION[metric], loc="left", fontsize=8.5, fontweight="bold")
        factor, start = VALIDATED[metric], start_of(collected, metric)
        for ax, (cost, budget) in zip(row, kinds.items(), strict=False):
            for method in trained(collected):
                runs = collected.runs(method)
                spent = mean_over_runs(
                    [pd.Series(budget.spent[0][method, run]).sort_index() for run in runs]
                )
                reached = mean_over_runs(
                    [collected.curve(method, run, "validation", metric) for run in runs]
                )
                x, y = COSTS[cost].factor * spent[reached.index], factor * reached
                line_from_start(ax, collected.study, method, x, y, start, 3)
            ax.xaxis.set_major_locator(MaxNLocator(5))
    for ax, cost in zip(axes[-1], kinds, strict=False):
        ax.set_xlabel(COSTS[cost].unit.capitalize())
    if handles := axes[0][0].get_legend_handles_labels()[0]:
        legend_below(figure, handles)
    return figure
