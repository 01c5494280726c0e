"""How training went: validation by update, and beside it reward and what credit was made of."""

from collections.abc import Iterable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.budgets import BEST_QUESTIONS, VALIDATED, start_of, trained
from analysis.collected import Collected
from analysis.drawing.style import WIDTH, legend_below, look
from analysis.metrics import METRICS
from pcqc_study.settings import START, Study
from turn_credit.arithmetic import SMALL_SPREAD

TICKS = 5  # at most, on an axis of updates
ENDED = "a run that ended before others keeps its last value"
VALIDATION = {
    "accuracy": "Validation accuracy (%)",
    "turns": "Validation turns (Q/ep.)",
    "best_questions": "Best questions (%)",
}
# Metrics of the updates themselves, smoothed over a tenth of the training: factor to their printed
# unit, title, and what they are.
TRAINING = {
    "accuracy": (100, "Reward: right in\ntraining (%)", "the share of right diagnoses"),
    "credit/utility_spread": (
        1,
        "Spread of utility\nwithin a state",
        "the standard deviation of utilities within a state, from which credit is made",
    ),
    "credit/zero_group_share": (
        100,
        "Silent question\ngroups (%)",
        "the share of states whose candidates are all alike and earn none",
    ),
    "credit/small_spread_share": (
        100,
        f"Credit from spreads\nbelow {SMALL_SPREAD:g} (%)",
        f"the share of all credit that stems from deviations below {SMALL_SPREAD:g}",
    ),
}


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    benchmark = collected.benchmarks[collected.study.development]
    drawn = [words for name, (*_, words) in TRAINING.items() if name in collected.updates]
    drawn[-1] = f"and {drawn[-1]}" if len(drawn) > 1 else drawn[-1]
    quality = BEST_QUESTIONS if "best_questions" in collected.updates else ""
    return (
        f"Above: validation on {benchmark.title} by RL update. Lines are means over runs, points "
        f"single runs; {ENDED}. All methods start from Shared SFT (dotted), at update 0. "
        "Checkpoints are selected by accuracy, equal ones by fewer turns."
        f"{quality} Below, in training itself: {', '.join(drawn)}. These are running means over a "
        "tenth of the updates, up to where the first run ends. Controls are dashed. An update has "
        "not the same number of consultations in all methods, so equal updates are not equal cost."
        f"{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """Panels of validation above and of training below, as far as the runs have them."""
    shown = [name for name in TRAINING if name in collected.updates]
    figure = Figure(figsize=(WIDTH, 5.6), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=(3.1, 2.5))
    metrics = validated(collected)
    axes = above.subplots(1, len(metrics))
    for ax, metric in zip(axes, metrics, strict=True):
        factor, label = VALIDATED[metric], VALIDATION[metric]
        start = start_of(collected, metric)
        if start is not None:
            colour, _ = look(START)
            ax.axhline(start, color=colour, linestyle=":", label=collected.title(START), zorder=1)
        for method in trained(collected):
            runs = [
                factor * collected.curve(method, run, "validation", metric)
                for run in collected.runs(method)
            ]
            mean = mean_over_runs(runs)
            line_from_start(ax, collected.study, method, mean.index, mean, start, 3.5)
            updates, values = np.concatenate([[r.index, r.to_numpy()] for r in runs], axis=1)
            colour, _ = look(method)
            ax.scatter(updates, values, s=5, color=colour, alpha=0.35, linewidths=0, zorder=1)
        ax.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
        ax.set_title(label, loc="left", fontsize=8.5, fontweight="bold")
    for ax, metric in zip(below.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        factor, label, _ = TRAINING[metric]
        for method in trained(collected):
            runs = [
                collected.curve(method, run, "update", metric) for run in collected.runs(method)
            ]
            mean = factor * mean_over_runs(runs)
            if len(mean):
                mean = mean.loc[: min(run.index[-1] for run in runs if len(run))]
                smooth = mean.rolling(max(1, round(len(mean) / 10)), min_periods=1).mean()
                ax.plot(smooth, **style_of(collected.study, method))
        ax.set_xlabel("RL update")
        ax.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))
        ax.set_title(label, loc="left", fontsize=8, fontweight="bold")
    legend_below(figure, axes[0].get_legend_handles_labels()[0])
    return figure


def validated(collected: Collected) -> list[str]:
    """What to draw of the validations: best questions only where the runs recorded them."""
    return [m for m in VALIDATION if m in METRICS or m in collected.updates]


def mean_over_runs(runs: list[pd.Series]) -> pd.Series:
    """Mean by update; a run that ended before others stays what it was, as in equal budgets."""
    known = [run for run in runs if len(run)]
    if not known:
        return pd.Series(dtype=float)
    return pd.concat(known, axis=1).sort_index().ffill().mean(axis=1)


def style_of(study: Study, method: str) -> dict:
    control = study.method(method).role == "control"
    return {
        "color": look(method)[0],
        "linestyle": "--" if control else "-",
        "linewidth": 1.2 if control else 1.9,
        "zorder": 2 if control else 3,
    }


def line_from_start(
    ax: Axes,
    study: Study,
    method: str,
    x: Iterable[float],
    y: Iterable[float],
    start: float | None,
    markersize: float,
) -> None:
    """A method's line, from Shared SFT at 0 where its value is known, with a marker at each point.

    Args:
        ax: to draw on.
        study: has the method.
        method: whose line it is.
        x, y: points in their printed units.
        start: the value of Shared SFT; None where unknown.
        markersize: in points.
    """
    begun = [] if start is None else [start]
    ax.plot(
        [*([0] * len(begun)), *x],
        [*begun, *y],
        marker=look(method)[1],
        markersize=markersize,
        markevery=slice(len(begun), None),
        label=study.method(method).title,
        **style_of(study, method),
    )
