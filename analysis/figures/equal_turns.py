"""Accuracy at equal turns: each method before what its questions and best ones would bring."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.bayes_doctor import BayesDoctor, bayes_doctor_of
from analysis.collected import Collected
from analysis.drawing.style import WIDTH, legend_below, look, panels_of_bases
from analysis.notices import on_base_models
from analysis.statistics.estimates import over_runs

GREY = "#777777"
APART = 0.15  # rows between the two markers of a method, which would hide each other
KEY = tuple(
    Line2D([], [], color=GREY, linestyle="", label=label, markersize=5.5, **look)
    for label, look in {
        "Method's diagnosis": {"marker": "o"},
        "Bayes diagnosis, own questions": {"marker": "o", "markerfacecolor": "white"},
        "Bayes diagnosis, best questions": {"marker": ">"},
    }.items()
)


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    benchmark = collected.benchmarks[collected.study.development]
    return (
        f"Accuracy at equal turns on {benchmark.title}"
        f"{on_base_models(len(collected.on_each_base))}. Filled markers: each method's accuracy, "
        "mean over runs, bars one SD. Open markers: a Bayes-optimal diagnosis on the answers to "
        "the method's own questions. Arrowheads: the same diagnosis after as many best questions "
        "as the method asks on average (Q/ep., on the right). From filled to open is "
        "accuracy lost in diagnosis, from open to the arrowhead accuracy "
        f"lost in questioning.{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """A panel for each base model of a synthetic study, a row for each method."""
    methods = collected.methods()
    figure = Figure(figsize=(WIDTH, 1.1 + 0.3 * len(methods)), layout="constrained")
    for ax, base in panels_of_bases(figure, collected, sharex=True, sharey=True):
        for row, method in enumerate(methods):
            _row(ax, bayes_doctor_of(base), method, row)
        ax.set_xlabel("Diagnostic accuracy (%)")
        ax.margins(x=0.06)
        ax.grid(axis="y", visible=False)
        ax.text(1.02, 1.0, "Q/ep.", transform=ax.transAxes, fontsize=7, color=GREY)
    first = figure.axes[0]
    first.set_yticks(range(len(methods)), [collected.title(method) for method in methods])
    first.set_ylim(len(methods) - 0.5, -0.5)
    legend_below(figure, KEY)
    return figure


def _row(ax: Axes, bayes: BayesDoctor, method: str, row: int) -> None:
    """A method's accuracy above, and below it what a Bayes diagnosis would have reached."""
    runs, (colour, marker) = bayes.runs(method), look(method)
    asked = float(np.mean([run.questions.mean() for run in runs]))
    accuracy = over_runs([run.accuracy.mean() for run in runs])
    evidence = over_runs([run.bayes.mean() for run in runs]).mean
    above, below, best = row - APART, row + APART, bayes.best.after(asked)
    ax.plot([evidence, best], [below, below], color="#dddddd", linewidth=1.5, zorder=1)
    ax.plot(best, below, ">", color=GREY, markersize=5, zorder=2)
    ax.plot(evidence, below, marker, color=colour, markerfacecolor="white", markersize=5, zorder=3)
    ax.errorbar(
        accuracy.mean, above, xerr=accuracy.sd, fmt=marker, color=colour, markersize=5.5,
        capsize=2, elinewidth=0.9, zorder=4,
    )  # fmt: skip
    right = {"transform": ax.get_yaxis_transform(), "fontsize": 7, "color": GREY}
    ax.text(1.02, row, f"{asked:.1f}", va="center", **right)
