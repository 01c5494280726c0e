"""A table and a figure as files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from analysis.drawing.style import encode, house_style
from analysis.formats import render
from analysis.table import Table
from pcqc.system.files import write_atomic

FIGURE_FORMS = ("pdf", "png", "svg")


def write(paths: Sequence[Path], table: Table, draw: Callable[[], Figure]) -> Sequence[Path]:
    """Write each file in the form that its ending names; returns the paths.

    Args:
        paths: of figures (`FIGURE_FORMS`) and tables (all other endings).
        table: to write.
        draw: makes the figure, in the house style.
    """
    with house_style():
        figure = draw()
        contents = {
            path: encode(figure, form) if form in FIGURE_FORMS else render(form, [table])
            for path in paths
            for form in [path.suffix.removeprefix(".")]
        }
    for path, content in contents.items():
        write_atomic(path, content)
    return paths
