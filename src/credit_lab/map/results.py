"""The table and the figure of the map (docs/map.md), from the files of its cells."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from credit_lab.map.figure import draw
from credit_lab.map.outcomes import load
from credit_lab.map.settings import load_map
from credit_lab.map.table import NAME, build
from credit_lab.write import write

FORMS = ("csv", "md", "svg", "png")


def write_results(cell_folders: Iterable[Path], folder: Path) -> None:
    """Write `map.csv`, `map.md`, `map.svg` and `map.png` into a folder."""
    settings = load_map()
    cells = load(cell_folders)
    write(
        folder,
        NAME,
        FORMS,
        build(cells),
        lambda: draw(cells, settings.grid, settings.axes, asdict(settings.centre)),
    )
