"""A table and a figure as files."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from analysis.drawing.style import encode, house_style
from analysis.formats import render
from analysis.table import Table
from analysis.tables_and_figures import FORMS
from pcqc.system.files import write_atomic


def write(
    folder: Path, name: str, forms: Sequence[str], table: Table, draw: Callable[[], Figure]
) -> None:
    """Write `<name>.<form>` in every form, the figure or the table as `FORMS` says.

    Args:
        folder: where the files go.
        name: of the files.
        forms: file endings.
        table: to write.
        draw: makes the figure, in the house style.
    """
    with house_style():
        figure = draw()
        for form in forms:
            drawn = form in FORMS["figure"]
            content = encode(figure, form) if drawn else render(form, [table])
            write_atomic(folder / f"{name}.{form}", content)
