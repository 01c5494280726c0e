"""The figures, one module each; `analysis.tables_and_figures` lists them."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from analysis.tables_and_figures import FIGURES, FORMS, chosen
from pcqc_base.system.files import write_atomic

if TYPE_CHECKING:
    from analysis.collected import Collected


def module(name: str) -> ModuleType:
    """A figure's module, with `draw` and `caption`, and `draw_paper` where the paper has it."""
    return import_module(f"analysis.figures.{name}")


def caption(name: str, collected: "Collected") -> str:
    """What a figure shows, for a study."""
    item = FIGURES[name]
    return item.captioned(collected.study, module(name).caption(item.shown(collected)))


def write(collected: "Collected", folder: Path, only: Sequence[str] | None = None) -> list[Path]:
    """Write figures as pdf, svg and png: all that the study can fill, or some; the files."""
    from analysis.drawing.style import encode, house_style

    study, written = collected.study, []
    for item in chosen(FIGURES, study, only):
        paths = item.paths(folder)
        with house_style():
            figures = [module(item.name).draw(item.shown(collected))]
            figures += [module(item.name).draw_paper()] if item.paper else []
            contents = [encode(figure, form) for figure in figures for form in FORMS["figure"]]
        for path, content in zip(paths, contents, strict=True):
            write_atomic(path, content)
        written += paths
    return written
