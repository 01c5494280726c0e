"""How well each credit ranks questions, beside what the clinic knows exactly (docs/credits.md)."""

from pathlib import Path

from analysis.drawing.style import encode, house_style
from analysis.figures import FIGURES
from analysis.render import render
from analysis.tables import TABLES
from credit_lab.quality.figure import draw
from credit_lab.quality.measures import load
from credit_lab.quality.table import NAME, build
from pcqc.study import Study
from pcqc.system.files import write_atomic


def write(study: Study, folder: Path) -> None:
    """Write the table and the figure `credit_quality` into a folder."""
    judged = load(study)
    tables = figures = folder / NAME
    contents: dict[Path, str | bytes] = {
        tables.with_suffix(f".{form}"): render(form, [build(judged)]) for form in TABLES.forms
    }
    with house_style():
        figure = draw(judged)
        for form in FIGURES.forms:
            contents[figures.with_suffix(f".{form}")] = encode(figure, form)
    for path, content in contents.items():
        write_atomic(path, content)
