"""The figures, one module each; `contents` has their order."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.registry import Entry, Registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = Registry(
    kind="figure",
    forms=("pdf", "svg", "png"),
    beside="_paper",
    load=lambda name: import_module(f"analysis.figures.{name}"),
    entries={
        "teaser": Entry(setting="continuation"),
        "method_overview": Entry(("pcqc",), shows="all"),
        "accuracy_inquiry": Entry(paper=True, shows="pooled"),
        "learning_curves": Entry(("shared_sft",), trained=True),
        "cost_curves": Entry(("shared_sft",), trained=True),
        "equal_turns": Entry(setting="clinic"),
        "continuation_gains": Entry(setting="continuation", paper=True),
        "utility_calibration": Entry(setting="continuation"),
    },
)


def caption(name: str, collected) -> str:
    """What a figure shows, for a study.

    Args:
        collected: an `analysis.collected.Collected`.
    """
    text = FIGURES.module(name).caption(FIGURES.shown(collected, name))
    return FIGURES.captioned(collected.study, name, text)


def draw(name: str, collected) -> "list[Figure]":
    """A figure of a study, and the paper's where it has one; within `house_style`."""
    module = FIGURES.module(name)
    own = module.draw(FIGURES.shown(collected, name))
    return [own, module.draw_paper()] if FIGURES.entries[name].paper else [own]


def write(collected, folder: Path, only: Sequence[str] | None = None) -> list[Path]:
    """Write figures as pdf, svg and png; all that the study can fill, or `only` some.

    Args:
        collected: an `analysis.collected.Collected`.
        folder: where the files go.
        only: names.

    Returns:
        the files written.
    """
    from analysis.drawing.style import encode, house_style

    study, written = collected.study, []
    for name in FIGURES.chosen(study, only):
        with house_style():
            shown = draw(name, collected)
            contents = [encode(figure, form) for figure in shown for form in FIGURES.forms]
        written += FIGURES.write(folder, name, contents)
    return written
