"""Where doctors lose their points, by method: tables and figures after the last update.

Points are rows of one frame: `base` (the study of a base model), `method`, `run`, `update`,
`case_id`, and in shares of a right diagnosis `policy`, `exact` and each of `PLACES`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.drawing.style import WIDTH, encode, house_style, legend_below, look
from analysis.figures.learning_curves import line_from_start
from analysis.notices import on_base_models
from analysis.statistics.intervals import Sample, crossed_effect
from analysis.table import Cell, Column, Row, Table, difference, listed, mean_of_runs
from analysis.tables import write_forms
from analysis.tables_and_figures import FORMS
from pcqc_base.system.files import write_atomic
from pcqc_base.system.manifest import checked
from pcqc_clinic.world import PLACES
from pcqc_study.study_file import START, Study

if TYPE_CHECKING:
    from pcqc_base.task import Task

POINTS = "points.parquet"
RIGHT = {"policy": "Right (%)", "exact": "All exact (%)"}
QUESTIONS = ("pcqc", "executed_local", "same_state_q1")  # credit questions
OUTCOMES = (START, "grpo", "terminal_only")  # have no credit for questions


def run(task: "Task", study: Study) -> None:
    """Write `lost_points.*`, `lost_points_by_update.*` and all points."""
    points = pd.concat([_read(name, path, study) for name, path in task.inputs.items()])
    write_atomic(task.folder / POINTS, points.to_parquet(index=False))
    write_forms(task.folder, "lost_points", tables(study, points))
    for name, draw in FIGURES.items():
        with house_style():
            drawn = draw(study, points)
            for form in FORMS["figure"]:
                write_atomic(task.folder / f"{name}.{form}", encode(drawn, form))


def _read(name: str, folder: Path, study: Study) -> pd.DataFrame:
    """Points of an input: `METHOD RUN` of this study, or all of a replicate."""
    points = read(folder)
    if name.startswith("replicate "):
        return points
    method, letter = name.split()
    return points.assign(base=study.name, method=method, run=letter)


def read(folder: Path) -> pd.DataFrame:
    """All points of a table, from its folder."""
    return pd.read_parquet(checked(folder / POINTS))


def tables(study: Study, points: pd.DataFrame) -> list[Table]:
    """Points lost in each place, and their differences between methods."""
    return [table(study, points), differences(study, points)]


def captions(study: Study, points: pd.DataFrame) -> dict[str, str]:
    """Name of each figure -> what it shows."""
    where = f"on {study.benchmarks[study.development].title}"
    return {
        "lost_points": f"Points lost {where} after the last update. A dot is a run, a bar the mean "
        f"of a method's{on_base_models(points.base.nunique())}.",
        "lost_points_by_update": f"Points lost {where} in the course of each method's first run.",
    }


def table(study: Study, points: pd.DataFrame) -> Table:
    """Right diagnoses and points lost in each place, mean and SD over runs."""
    columns = (
        Column("method", "Method", numeric=False),
        *(Column(key, title) for key, title in RIGHT.items()),
        *(Column(place, place.capitalize(), "Points lost in") for place in PLACES),
    )
    means, rows = _means(points), []
    for method in _methods(points):
        cells: list[Cell] = [study.methods[method].title]
        cells += [mean_of_runs(means.loc[method, key], 1) for key in (*RIGHT, *PLACES)]
        rows.append(Row(method, tuple(cells)))
    return Table(
        "lost_points",
        f"Where points are lost: {study.title}.",
        f"On {points.case_id.nunique()} cases of {study.benchmarks[study.development].title}, "
        f"after the last update; mean ± SD over runs{on_base_models(points.base.nunique())}. "
        "Right: percent of right diagnoses of the doctor as trained. All exact: the same, had an "
        f"exact doctor played every part of it ({listed(PLACES)}). Every consultation is played "
        "with each set of parts taken over by the exact doctor, and Shapley values split the "
        "difference of the two into points lost in each part, case by case. A negative number: the "
        "part does better than the exact doctor, by luck or because it makes up for other parts.",
        columns,
        tuple(rows),
    )


def differences(study: Study, points: pd.DataFrame) -> Table:
    """Points that methods with credit for questions lose, less what those without lose."""
    columns = [Column("pair", "Pair", numeric=False)]
    for place in PLACES:
        group = f"Lost in {place}"
        columns += [Column(place, "pp", group), Column(f"{place}_interval", "95% CI", group)]
    known, last, rows = _methods(points), _last(points), []
    for method in (name for name in QUESTIONS if name in known):
        for other in (name for name in OUTCOMES if name in known):
            titles = [study.methods[name].title for name in (method, other)]
            cells: list[Cell] = [" − ".join(titles)]
            for place in PLACES:
                pair = (_sample(last, name, place) for name in (method, other))
                cells += difference(crossed_effect(*pair), 1)
            rows.append(Row(f"{method}-{other}", tuple(cells), rule=other == OUTCOMES[0]))
    return Table(
        "lost_points_differences",
        "Lost points with and without credit for questions.",
        "Differences of the table above. Intervals are over cases and runs; Shared SFT has no runs "
        "to draw.",
        tuple(columns),
        tuple(rows),
    )


def by_place(study: Study, points: pd.DataFrame) -> Figure:
    """Points that every run lost in each place after its last update, with each method's mean."""
    means, methods = _means(points), _methods(points)
    figure = Figure(figsize=(WIDTH, 0.9 + 0.22 * len(methods)), layout="constrained")
    panels = figure.subplots(1, len(PLACES), sharex=True, sharey=True)
    for ax, place in zip(panels, PLACES, strict=True):
        for height, method in enumerate(methods):
            _dots(ax, means.loc[method, place], -height, method)
        ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
        ax.set_title(place.capitalize(), loc="left", fontsize=8.5, fontweight="bold")
    panels[0].set_yticks([-height for height in range(len(methods))])
    panels[0].set_yticklabels([study.methods[method].title for method in methods])
    figure.supxlabel("points lost", fontsize=8)
    return figure


def _dots(ax: Axes, means: pd.Series, height: float, method: str) -> None:
    """A dot for each run, base models one below the other, and a bar at their mean."""
    lanes = {base: i for i, base in enumerate(dict.fromkeys(means.index.get_level_values("base")))}
    heights = [height + 0.2 * (0.5 * (len(lanes) - 1) - lanes[base]) for base, _ in means.index]
    ax.scatter(means, heights, s=9, color=look(method)[0], alpha=0.6, linewidths=0)
    ax.vlines(means.mean(), height - 0.33, height + 0.33, color=look(method)[0], linewidth=2)


def by_update(study: Study, points: pd.DataFrame) -> Figure:
    """Points that a method's first run lost in each place, by RL update; Shared SFT stands at 0."""
    own = points[points.base == study.name]
    courses = {}
    for method in _methods(own):
        first = own[(own.method == method) & (own.run == study.methods[method].runs[0])]
        courses[method] = 100 * first.groupby("update")[[*PLACES]].mean()
    start = courses.get(START)
    figure = Figure(figsize=(WIDTH, 2.5), layout="constrained")
    panels = figure.subplots(1, len(PLACES), sharey=True)
    for ax, place in zip(panels, PLACES, strict=True):
        for method, course in courses.items():
            begun = None if method == START or start is None else float(start[place].iloc[0])
            line_from_start(ax, study, method, course.index, course[place], begun, 3.5)
        ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.set_title(place.capitalize(), loc="left", fontsize=8.5, fontweight="bold")
        ax.set_xlabel("RL update")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panels[0].set_ylabel("Points lost")
    legend_below(figure, panels[0].get_legend_handles_labels()[0])
    return figure


FIGURES = {"lost_points": by_place, "lost_points_by_update": by_update}


def _methods(points: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(points.method))


def _last(points: pd.DataFrame) -> pd.DataFrame:
    """The rows of each run's last update."""
    last = points.groupby(["base", "method", "run"])["update"].transform("max")
    return points[points["update"] == last]


def _means(points: pd.DataFrame) -> pd.DataFrame:
    """Means over cases after the last update, in percent: a row for each method, base and run."""
    runs = _last(points).groupby(["method", "base", "run"])
    return 100 * runs[[*RIGHT, *PLACES]].mean()


def _sample(last: pd.DataFrame, method: str, place: str) -> Sample:
    """A method's lost points, a row for each run; the cases in one order."""
    own = last[last.method == method].pivot(index=["base", "run"], columns="case_id", values=place)
    bases, runs = zip(*own.index, strict=True)
    # A case's points in a place lie between -100 and 100.
    return Sample((100 * own.to_numpy(),), runs, bases, drawn=method != START, reach=200)
