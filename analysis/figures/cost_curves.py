"""Validation accuracy against what training had cost: consultations, tokens, compute."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.budgets import COSTS, COUNTED, VALIDATED, Budgets, budgets, start_of, trained
from analysis.collected import Collected
from analysis.drawing.style import WIDTH, legend_below
from analysis.figures.learning_curves import ENDED, line_from_start, mean_over_runs, name_rows
from analysis.notices import on_base_models

METRIC = "accuracy"


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    benchmark = collected.benchmarks[collected.study.development]
    return (
        f"Validation accuracy (%) on {benchmark.title} against the cost of training so far"
        f"{on_base_models(len(collected.on_each_base))}; an update does not "
        "cost the same in all methods. A line is a method, a point a checkpoint, both means over "
        f"runs; {ENDED}. Controls are dashed. Lines start from Shared SFT. "
        f"{COUNTED}{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """A row of panels for each base model, a column for each cost that runs recorded."""
    kinds = {cost: spent for cost in COSTS if (spent := budgets(collected, cost))}
    bases = collected.on_each_base
    figure = Figure(figsize=(WIDTH, 0.6 + 1.9 * len(bases)), layout="constrained")
    size = len(bases), max(1, len(kinds))
    axes = figure.subplots(*size, sharex="col", sharey=True, squeeze=False)
    for number, row in enumerate(axes):
        for ax, (cost, budget) in zip(row, kinds.items(), strict=False):
            for method in trained(bases[number]):
                _line(ax, bases[number], method, cost, budget, number)
            ax.xaxis.set_major_locator(MaxNLocator(5))
    axes[0][0].set_title("Validation accuracy (%)", loc="left", fontsize=8.5, fontweight="bold")
    name_rows(axes[:, 0], collected)
    for ax, cost in zip(axes[-1], kinds, strict=False):
        unit = COSTS[cost].unit
        ax.set_xlabel(unit[0].upper() + unit[1:])
    if handles := axes[0][0].get_legend_handles_labels()[0]:
        legend_below(figure, handles)
    return figure


def _line(
    ax: Axes, collected: Collected, method: str, cost: str, budget: Budgets, base: int
) -> None:
    """A method's mean accuracy over its runs, by what they had spent on one base model."""
    runs = collected.runs(method)
    spent = mean_over_runs(
        [pd.Series(budget.spent[base][method, run]).sort_index() for run in runs]
    )
    reached = mean_over_runs([collected.curve(method, run, "validation", METRIC) for run in runs])
    x, y = COSTS[cost].factor * spent[reached.index], VALIDATED[METRIC] * reached
    line_from_start(ax, collected.study, method, x, y, start_of(collected, METRIC), 3)
