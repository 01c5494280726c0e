"""The split of lost points, as a table and a figure."""

from typing import TYPE_CHECKING

import pandas as pd

from analysis import lost_points
from analysis.drawing.style import encode, house_style
from analysis.tables import write_forms
from analysis.tables_and_figures import FORMS
from pcqc.recipes.manifest import checked
from pcqc.settings import Study
from pcqc.system.files import write_atomic

if TYPE_CHECKING:
    from pcqc.recipes.tasks import Task


def run(task: "Task", study: Study) -> None:
    """Write `lost_points.*` of every run of methods and controls."""
    runs = {}
    for name, folder in task.inputs.items():
        method, letter = name.split()
        runs[method, letter] = pd.read_parquet(checked(folder / "points.parquet"))
    write_forms(task.folder, "lost_points", [lost_points.table(study, runs)])
    with house_style():
        drawn = lost_points.figure(study, runs)
        for form in FORMS["figure"]:
            write_atomic(task.folder / f"lost_points_by_update.{form}", encode(drawn, form))
