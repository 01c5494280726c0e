"""The table and the figure `credit_quality` of a study (docs/credits.md)."""

from pathlib import Path

from analysis.figures import FIGURES
from analysis.tables import TABLES
from credit_lab.quality.figure import draw
from credit_lab.quality.measures import load
from credit_lab.quality.table import NAME, build
from credit_lab.write import write
from pcqc.study import Study


def write_results(study: Study, folder: Path) -> None:
    """Write the table and the figure `credit_quality` into a folder."""
    judged = load(study)
    forms = (*TABLES.forms, *FIGURES.forms)
    write(folder, NAME, forms, build(judged), lambda: draw(judged))
