"""The map of where question credit pays (docs/map.md), from the files of its cells."""

from dataclasses import asdict
from pathlib import Path

from analysis.drawing.style import encode, house_style
from analysis.render import render
from credit_lab.map.figure import draw
from credit_lab.map.outcomes import FOLDER, load
from credit_lab.map.settings import load_map
from credit_lab.map.table import NAME, build
from pcqc.system.files import write_atomic


def write(folder: Path = FOLDER) -> list[Path]:
    """Write `map.csv`, `map.md`, `map.svg` and `map.png`; the files."""
    settings = load_map()
    cells = load(list(settings.cells), folder)
    contents: dict[Path, str | bytes] = {
        folder / f"{NAME}.{form}": render(form, [build(cells)]) for form in ("csv", "md")
    }
    with house_style():
        figure = draw(cells, settings.grid, settings.axes, asdict(settings.centre))
        for form in ("svg", "png"):
            contents[folder / f"{NAME}.{form}"] = encode(figure, form)
    for path, content in contents.items():
        write_atomic(path, content)
    return list(contents)
