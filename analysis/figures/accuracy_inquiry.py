"""fig:accuracy_inquiry: diagnostic accuracy against inquiry turns, one panel per benchmark."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.collected import Collected
from analysis.drawing.style import WIDTH, legend_below, look, mark
from analysis.notices import on_base_models
from analysis.published import RUNS, published
from analysis.statistics.estimates import Estimate
from analysis.table import listed
from pcqc_study.study_file import START

FAINT = 0.65  # opacity of controls
# Towards a point outside a panel: to its left, level or right, and below, level or above.
ARROWS = {-1: "↙←↖", 0: "↓ ↑", 1: "↘→↗"}


@dataclass(frozen=True)
class Point:
    """A method on a benchmark; `main` methods are drawn boldly, controls faintly."""

    turns: Estimate
    accuracy: Estimate
    main: bool

    @property
    def marker(self) -> tuple[float, float]:
        """Size of its marker in points, and opacity."""
        return (6.5, 1.0) if self.main else (4.5, FAINT)


Panels = Mapping[str, Mapping[str, Point]]  # benchmark title -> method -> point


def caption(collected: Collected) -> str:
    """What the figure shows, for the study."""
    several = [m for m in collected.methods() if len(collected.runs(m)) > 1]
    titles = listed([collected.title(m) for m in several])
    within = " over the runs of a base model" if collected.base_models > 1 else ""
    bars = f", bars one SD{within} ({titles})" if several else ""
    away = any(map(_away, _panels(collected).values()))
    note = " Where Shared SFT lies far from the others, a note in the corner gives its place."
    return (
        f"Diagnostic accuracy against inquiry turns: {collected.study.title}. Upward is more "
        "accurate, rightward is fewer turns; the arrow leads from GRPO to PCQC. Markers: means "
        f"over runs{on_base_models(collected.base_models)}{bars}. Controls are faint."
        f"{note * away}{collected.not_run()}"
    )


def draw(collected: Collected) -> Figure:
    """All methods of the study, means over runs."""
    titles = {method: collected.title(method) for method in collected.methods()}
    return panelled(_panels(collected), titles)


def _panels(collected: Collected) -> Panels:
    main = collected.methods("method")
    return {
        benchmark.title: {
            method: Point(
                _within_bases(collected, method, name, "turns"),
                _within_bases(collected, method, name, "accuracy"),
                method in main,
            )
            for method in collected.methods()
        }
        for name, benchmark in collected.benchmarks.items()
    }


def _within_bases(collected: Collected, method: str, benchmark: str, metric: str) -> Estimate:
    """Mean over all runs, and the SD among runs of the same base model.

    Base models lie further apart than a method's runs on them, and are no sample of anything.
    """
    mean = collected.average(method, [benchmark], metric)
    parts = collected.parts or (collected,)
    deviations = [part.average(method, [benchmark], metric).sd for part in parts]
    known = [sd for sd in deviations if sd is not None]
    return replace(mean, sd=float(np.sqrt(np.mean(np.square(known)))) if known else None)


def caption_paper() -> str:
    """What the companion shows."""
    return (
        f"The same from the paper's tables: means over {RUNS} RL runs, bars one SD; "
        "Shared SFT is one checkpoint."
    )


def draw_paper() -> Figure:
    """The published numbers."""
    paper = published()
    methods = [row.key for row in paper.tables["main_accuracy"].rows]
    panels = {
        benchmark.title: {
            method: Point(
                paper.estimate("inquiry_turns", method, name),
                paper.estimate("main_accuracy", method, name),
                True,
            )
            for method in methods
        }
        for name, benchmark in paper.benchmarks.items()
    }
    return panelled(panels, {method: paper.methods[method] for method in methods})


def panelled(panels: Panels, titles: Mapping[str, str]) -> Figure:
    """One panel per benchmark, two to a row, a shared legend below."""
    rows = (len(panels) + 1) // 2
    figure = Figure(figsize=(WIDTH, 2.45 * rows + 0.45), layout="constrained")
    axes = figure.subplots(rows, 2, squeeze=False)
    for ax, (title, points) in zip(axes.flat, panels.items(), strict=False):
        _panel(ax, points, titles)
        ax.set_title(title, loc="left", fontweight="bold")
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel("Diagnostic accuracy (%)")
    for ax in axes[-1]:
        ax.set_xlabel("Q/ep. (fewer inquiry turns →)")
    points = next(iter(panels.values()))
    marks = [mark(method, titles[method], *point.marker) for method, point in points.items()]
    legend_below(figure, marks)
    return figure


def _panel(ax: Axes, points: Mapping[str, Point], titles: Mapping[str, str]) -> None:
    if away := _away(points):
        _note(ax, points[START], titles[START], *away)
    for method, point in points.items():
        if away and method == START:
            continue
        colour, marker = look(method)
        size, opacity = point.marker
        ax.errorbar(
            point.turns.mean,
            point.accuracy.mean,
            xerr=point.turns.sd,
            yerr=point.accuracy.sd,
            fmt=marker,
            color=colour,
            markersize=size,
            alpha=opacity,
            elinewidth=0.9,
            capsize=2,
            zorder=3 if point.main else 2,
        )
    if {"grpo", "pcqc"} <= set(points):
        start, end = points["grpo"], points["pcqc"]
        ax.annotate(
            "",
            (end.turns.mean, end.accuracy.mean),
            (start.turns.mean, start.accuracy.mean),
            arrowprops={
                "arrowstyle": "-|>",
                "color": "#333333",
                "linewidth": 1.0,
                "shrinkA": 0,
                "shrinkB": 5,
            },
            zorder=2.5,  # below the markers: where they touch there is no way to show
        )
    ax.margins(0.12)
    ax.invert_xaxis()


def _note(ax: Axes, start: Point, title: str, across: int, up: int) -> None:
    """A start that is not drawn, in the corner of its panel that lies towards it."""
    arrow = ARROWS[across][up + 1]
    text = f"{title} {start.accuracy.mean:.1f}% at {start.turns.mean:.2f}"
    ax.text(
        0.02 if across < 0 else 0.98,
        0.97 if up > 0 else 0.03,
        f"{arrow} {text}" if across < 0 else f"{text} {arrow}",
        transform=ax.transAxes,
        ha="left" if across < 0 else "right",
        va="top" if up > 0 else "bottom",
        fontsize=7,
        color=look(START)[0],
    )


def _away(points: Mapping[str, Point]) -> tuple[int, int] | None:
    """Where the start lies, across and up, if it is so far off that it would take half of an axis.

    1 where it has fewer turns, or is more accurate, than all trained methods, -1 the other way.
    """
    others = [point for method, point in points.items() if method != START]
    if START not in points or len(others) < 2:
        return None
    far, sides = False, []
    for axis in ("turns", "accuracy"):
        means = [getattr(point, axis).mean for point in others]
        own, low, high = getattr(points[START], axis).mean, min(means), max(means)
        far = far or max(low - own, own - high) > high - low
        sides.append((own > high) - (own < low))
    return (-sides[0], sides[1]) if far else None
