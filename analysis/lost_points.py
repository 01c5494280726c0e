"""Where doctors lose their points, by method: tables and figures after the last update.

Points are rows of one frame: `base` (the study of a base model), `method`, `run`, `update`,
`case_id`, and in shares of a right diagnosis `policy`, `exact` and each of `PLACES`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.drawing.style import WIDTH, encode, house_style, legend_below, look
from analysis.figures.learning_curves import line_from_start
from analysis.notices import on_base_models
from analysis.statistics.intervals_over_runs_and_cases import Sample, crossed_effect
from analysis.table import Cell, Column, Row, Table, difference, listed, mean_of_runs
from analysis.tables import write_forms
from analysis.tables_and_figures import FORMS
from pcqc.recipes.graph import latest
from pcqc.recipes.job_inputs import PLACES
from pcqc.recipes.manifest import checked
from pcqc.settings import START, Study
from pcqc.system.files import write_atomic

if TYPE_CHECKING:
    from pcqc.recipes.tasks import Task

POINTS = "points.parquet"
RIGHT = {"policy": "Right (%)", "exact": "All exact (%)"}
QUESTIONS = ("pcqc", "executed_local", "same_state_q1")  # credit questions
OUTCOMES = (START, "grpo", "terminal_only")  # have no credit for questions


def run(task: "Task", study: Study) -> None:
    """Write `lost_points.*`, `lost_points_by_update.*` and all points."""
    points = pd.concat([_read(name, path, study) for name, path in task.inputs.items()])
    write_atomic(task.folder / POINTS, points.to_parquet(index=False))
    write_forms(task.folder, "lost_points", tables(study, points))
    for form in FORMS["figure"]:
        for name, _, content in figures(study, points, form):
            write_atomic(task.folder / f"{name}.{form}", content)


def _read(name: str, folder: Path, study: Study) -> pd.DataFrame:
    """Points of an input: `METHOD RUN` of this study, or all of a replicate."""
    points = pd.read_parquet(checked(folder / POINTS))
    if name.startswith("replicate "):
        return points
    method, letter = name.split()
    return points.assign(base=study.name, method=method, run=letter)


def made(study: Study) -> pd.DataFrame | None:
    """All points that the newest table has; None where there is none."""
    folder = latest(study, "lost_points_table")
    return pd.read_parquet(checked(folder / POINTS)) if folder.exists() else None


def tables(study: Study, points: pd.DataFrame) -> list[Table]:
    """Points lost in each place, and their differences between methods."""
    return [table(study, points), differences(study, points)]


def figures(study: Study, points: pd.DataFrame, form: str) -> Iterator[tuple[str, str, bytes]]:
    """Name, caption and file of each figure, in a form such as `svg`."""
    where = f"on {study.benchmarks[study.development].title}"
    with house_style():
        for name, draw, caption in (
            (
                "lost_points",
                by_place,
                f"Points lost {where} after the last update. A dot is a run, a bar the mean of a "
                f"method's{on_base_models(points.base.nunique())}.",
            ),
            (
                "lost_points_by_update",
                by_update,
                f"Points lost {where} in the course of each method's first run.",
            ),
        ):
            yield name, caption, encode(draw(study, points), form)


def table(study: Study, points: pd.DataFrame) -> Table:
    """Right diagnoses and points lost in each place, mean and SD over runs."""
    columns = (
        Column("method", "Method", numeric=False),
        *(Column(key, title) for key, title in RIGHT.items()),
        *(Column(place, place.capitalize(), "Points lost in") for place in PLACES),
    )
    last, rows = _last(points), []
    for method in _methods(points):
        means = 100 * last[last.method == method].groupby(["base", "run"])[[*RIGHT, *PLACES]].mean()
        cells: list[Cell] = [study.methods[method].title]
        cells += [mean_of_runs(means[key], 1) for key in (*RIGHT, *PLACES)]
        rows.append(Row(method, tuple(cells)))
    return Table(
        "lost_points",
        f"Where points are lost: {study.title}.",
        f"On {last.case_id.nunique()} cases of {study.benchmarks[study.development].title}, after "
        f"the last update; mean ± SD over runs{on_base_models(last.base.nunique())}. Right: "
        "percent of right diagnoses of the doctor as trained. All exact: the same, had an exact "
        f"doctor played every part of it ({listed(PLACES)}). Every consultation is played with "
        "each set of parts taken over by the exact doctor, and Shapley values split the difference "
        "of the two into points lost in each part, case by case. A negative number: the part does "
        "better than the exact doctor, by luck or because it makes up for other parts.",
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
    last, methods = _last(points), _methods(points)
    figure = Figure(figsize=(WIDTH, 0.9 + 0.22 * len(methods)), layout="constrained")
    panels = figure.subplots(1, len(PLACES), sharex=True, sharey=True)
    for ax, place in zip(panels, PLACES, strict=True):
        for height, method in enumerate(methods):
            _dots(
                ax,
                100 * last[last.method == method].groupby(["base", "run"])[place].mean(),
                -height,
                method,
            )
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
    figure = Figure(figsize=(WIDTH, 2.5), layout="constrained")
    panels = figure.subplots(1, len(PLACES), sharey=True)
    for ax, place in zip(panels, PLACES, strict=True):
        start = (
            100 * float(own.loc[own.method == START, place].mean())
            if START in set(own.method)
            else None
        )
        for method in _methods(own):
            of_method = own[own.method == method]
            first_run = of_method[of_method.run == study.methods[method].runs[0]]
            course = 100 * first_run.groupby("update")[place].mean()
            begun = None if method == START else start
            line_from_start(ax, study, method, course.index, course, begun, 3.5)
        ax.axhline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.set_title(place.capitalize(), loc="left", fontsize=8.5, fontweight="bold")
        ax.set_xlabel("RL update")
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panels[0].set_ylabel("Points lost")
    legend_below(figure, panels[0].get_legend_handles_labels()[0])
    return figure


def _methods(points: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(points.method))


def _last(points: pd.DataFrame) -> pd.DataFrame:
    """The rows of each run's last update."""
    last = points.groupby(["base", "method", "run"])["update"].transform("max")
    return points[points["update"] == last]


def _sample(last: pd.DataFrame, method: str, place: str) -> Sample:
    """A method's lost points, a row for each run; the cases in one order."""
    own = last[last.method == method].pivot(index=["base", "run"], columns="case_id", values=place)
    bases, runs = zip(*own.index, strict=True)
    return Sample((100 * own.to_numpy(),), runs, bases, drawn=method != START)
