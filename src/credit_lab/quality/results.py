"""The table and the figure `credit_quality` of a study (docs/credits.md)."""

from collections.abc import Sequence
from pathlib import Path

from analysis.figures import FIGURES
from analysis.tables import TABLES
from credit_lab.quality.figure import draw
from credit_lab.quality.measures import load
from credit_lab.quality.table import NAME, build
from credit_lab.write import write
from pcqc.study import Study


def outputs(study: Study) -> list[Path]:
    """The files, beside the study's other tables and figures."""
    return [
        study.results / f"{registry.kind}s" / f"{NAME}.{form}"
        for registry in (TABLES, FIGURES)
        for form in registry.forms
    ]


def write_results(study: Study) -> Sequence[Path]:
    """Write them."""
    judged = load(study)
    return write(outputs(study), build(judged), lambda: draw(judged))
