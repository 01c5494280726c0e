"""The map of where question credit pays (docs/map.md), from the files of its cells."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from analysis.drawing.style import encode, house_style
from analysis.render import render
from credit_lab.map.figure import draw
from credit_lab.map.outcomes import load
from credit_lab.map.settings import load_map
from credit_lab.map.table import NAME, build
from pcqc.system.files import write_atomic


def write(cell_folders: Mapping[str, Path], folder: Path) -> None:
    """Write `map.csv`, `map.md`, `map.svg` and `map.png`."""
    settings = load_map()
    cells = load(cell_folders)
    contents: dict[Path, str | bytes] = {
        folder / f"{NAME}.{form}": render(form, [build(cells)]) for form in ("csv", "md")
    }
    with house_style():
        figure = draw(cells, settings.grid, settings.axes, asdict(settings.centre))
        for form in ("svg", "png"):
            contents[folder / f"{NAME}.{form}"] = encode(figure, form)
    for path, content in contents.items():
        write_atomic(path, content)
