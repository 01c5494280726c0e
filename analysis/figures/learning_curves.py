"""Validation accuracy and inquiry turns by update, all methods."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.collected import Collected
from analysis.drawing.style import WIDTH, legend_below, look

START = "shared_sft"
METRICS = {
    "accuracy": (100, "Validation accuracy (%)"),
    "turns": (1, "Validation inquiry turns (Q/ep.)"),
}


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    benchmark = collected.benchmarks[collected.study.development]
    return (
        f"Validation on {benchmark.title} by RL update: means over runs (lines) and every run "
        "(points). Checkpoints are selected from these values. All methods start from Shared SFT "
        "(dotted), drawn at update 0. Controls are dashed. Methods differ in complete "
        "consultations per update, so equal updates are not "
        f"equal cost.{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """Two panels, with every RL method of the study."""
    figure = Figure(figsize=(WIDTH, 3.1), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, (metric, (factor, label)) in zip(axes, METRICS.items(), strict=True):
        start = collected.estimate(START, collected.study.development, metric).mean
        colour, _ = look(START)
        ax.axhline(start, color=colour, linestyle=":", label=collected.title(START), zorder=1)
        for method in collected.methods():
            if collected.study.method(method).kind == "rl":
                _curve(ax, collected, method, metric, factor, start)
        ax.set_xlabel("RL update")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(label, loc="left", fontweight="bold")
    legend_below(figure, axes[0].get_legend_handles_labels()[0])
    return figure


def _curve(
    ax: Axes, collected: Collected, method: str, metric: str, factor: float, start: float
) -> None:
    """The mean over runs as a line from the common start, the runs as points."""
    runs = [
        factor * collected.curve(method, run, "validation", metric)
        for run in collected.runs(method)
    ]
    colour, marker = look(method)
    control = collected.study.method(method).role == "control"
    mean = pd.concat(runs, axis=1).mean(axis=1)
    ax.plot(
        [0, *mean.index],
        [start, *mean],
        color=colour,
        linestyle="--" if control else "-",
        linewidth=1.2 if control else 1.9,
        marker=marker,
        markersize=3.5,
        markevery=slice(1, None),
        label=collected.title(method),
        zorder=2 if control else 3,
    )
    updates, values = np.concatenate([[r.index, r.to_numpy()] for r in runs], axis=1)
    ax.scatter(updates, values, s=5, color=colour, alpha=0.35, linewidths=0, zorder=1)
