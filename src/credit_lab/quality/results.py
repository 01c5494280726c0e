"""The table and the figure `credit_quality` of a study (docs/credits.md)."""

from pathlib import Path

from analysis.tables_and_figures import FORMS
from credit_lab.quality.figure import draw
from credit_lab.quality.measures import load
from credit_lab.quality.table import NAME, build
from credit_lab.write import write
from pcqc.study import Study


def write_results(study: Study, folder: Path) -> None:
    """Write the table and the figure `credit_quality` into a folder."""
    judged, forms = load(study), (*FORMS["table"], *FORMS["figure"])
    write(folder, NAME, forms, build(judged), lambda: draw(judged))
