"""How downstream success rises with diagnostic utility."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.collected import Collected
from analysis.continuation import BINS, policies
from analysis.drawing.style import WIDTH, legend_below, look, panels_of_bases
from analysis.notices import on_base_models


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    titles = " and ".join(policy.title for policy in policies(collected))
    return (
        "How often a consultation that continues from a candidate question ends in the right "
        "diagnosis, by the question's utility (the scorer's probability of that diagnosis after "
        f"the answer), in {BINS} bins of equally many candidates, under {titles}"
        f"{on_base_models(len(collected.on_each_base))}. Bars: 95% "
        "intervals, a bootstrap over cases. Dotted: success equals utility."
    )


def draw(collected: Collected) -> Figure:
    """One curve per policy, a panel for each base model."""
    several = bool(collected.others)
    size = (WIDTH, 2.7) if several else (WIDTH * 0.62, 3.4)
    figure = Figure(figsize=size, layout="constrained")
    for ax, base in panels_of_bases(figure, collected, sharey=True):
        _curves(ax, base)
        ax.set_xlabel("Diagnostic utility u (%)")
    first = figure.axes[0]
    first.set_ylabel("Downstream success (%)")
    handles = first.get_legend_handles_labels()[0]
    if several and handles:
        legend_below(figure, handles)
    else:  # where utility is high success is not low: that corner is free
        first.legend(loc="lower right")
    return figure


def _curves(ax: Axes, collected: Collected) -> None:
    ax.plot([0, 100], [0, 100], color="#888888", linestyle=":", zorder=1)
    for policy in policies(collected):
        if not (bins := policy.calibration()):
            continue
        colour, marker = look(policy.policy[0])
        form = f"{'--' if policy.early else '-'}{marker}"
        x = 100 * np.array([b.utility for b in bins])
        y, low, high = (
            100 * np.array(column)
            for column in zip(
                *[(b.success, b.interval.low, b.interval.high) for b in bins], strict=True
            )
        )
        ax.errorbar(
            x, y, yerr=np.abs([y - low, high - y]), fmt=form, color=colour, markersize=5,
            capsize=2, elinewidth=0.9, label=policy.title, zorder=3,
        )  # fmt: skip
    ax.set_xlim(0, 100)
    ax.set_ylim(0, 102)
