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
from analysis.notices import on_base_models
from pcqc_study.study_file import START, Study
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
        "Groups without\ncredit (%)",
        "the share of groups without credit, as all candidates are alike",
    ),
    "credit/small_spread_share": (
        100,
        "Share of credit\nfrom near ties (%)",
        f"the share of all credit from near ties, deviations below {SMALL_SPREAD:g}",
    ),
}


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    benchmark = collected.benchmarks[collected.study.development]
    drawn = [words for name, (*_, words) in TRAINING.items() if name in collected.updates]
    drawn[-1] = f"and {drawn[-1]}" if len(drawn) > 1 else drawn[-1]
    quality = BEST_QUESTIONS if "best_questions" in collected.updates else ""
    return (
        f"Above: validation on {benchmark.title} by RL update"
        f"{on_base_models(len(collected.on_each_base))}. Lines are means over runs, points "
        f"single runs; {ENDED}. All methods start from Shared SFT (dotted), at update 0. "
        "Checkpoints are selected by accuracy, equal ones by fewer turns."
        f"{quality} Below, in training itself: {', '.join(drawn)}. These are running means over a "
        "tenth of the updates, up to where the first run ends. Controls are dashed. An update has "
        "not the same number of consultations in all methods, so equal updates are not equal cost."
        f"{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """Panels of validation above and of training below, a row of each for each base model."""
    bases = collected.on_each_base
    metrics, shown = validated(collected), [name for name in TRAINING if name in collected.updates]
    # Inches of a row of either kind; its titles stand above the first alone.
    heights = [0.5 + tall * len(bases) for tall in ((2.6, 2.0) if len(bases) == 1 else (1.7, 1.45))]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=heights)
    grid = above.subplots(len(bases), len(metrics), sharey="col", squeeze=False)
    for base, axes in zip(bases, grid, strict=True):
        for ax, metric in zip(axes, metrics, strict=True):
            _validation(ax, base, metric)
    lower = below.subplots(len(bases), max(1, len(shown)), sharey="col", squeeze=False)
    for base, axes in zip(bases, lower, strict=True):
        for ax, metric in zip(axes, shown, strict=False):
            _training(ax, base, metric)
    for panels, titles in (
        (grid, [VALIDATION[metric] for metric in metrics]),
        (lower, [TRAINING[metric][1] for metric in shown]),
    ):
        for ax, title in zip(panels[0], titles, strict=False):
            ax.set_title(title, loc="left", fontsize=8, fontweight="bold")
        name_rows(panels[:, 0], collected)
    for ax in lower[-1]:
        ax.set_xlabel("RL update")
    legend_below(figure, grid[0][0].get_legend_handles_labels()[0])
    return figure


def name_rows(axes: Iterable[Axes], collected: Collected) -> None:
    """The base model of each row, on the left, where there are several."""
    for number, ax in enumerate(axes, 1):
        if collected.others:
            ax.set_ylabel(f"Base model {number}", fontweight="bold")


def _validation(ax: Axes, collected: Collected, metric: str) -> None:
    """A validated metric by update: means over runs as lines, single runs as points."""
    factor, start = VALIDATED[metric], start_of(collected, metric)
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


def _training(ax: Axes, collected: Collected, metric: str) -> None:
    """A metric of the updates, smoothed, up to where the first run ends."""
    for method in trained(collected):
        runs = [collected.curve(method, run, "update", metric) for run in collected.runs(method)]
        mean = TRAINING[metric][0] * mean_over_runs(runs)
        if len(mean):
            mean = mean.loc[: min(run.index[-1] for run in runs if len(run))]
            smooth = mean.rolling(max(1, round(len(mean) / 10)), min_periods=1).mean()
            ax.plot(smooth, **style_of(collected.study, method))
    ax.xaxis.set_major_locator(MaxNLocator(TICKS, integer=True))


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
