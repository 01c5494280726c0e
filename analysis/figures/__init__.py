"""The figures, one module each, in the order of the report."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from pcqc.config import Study
from pcqc.errors import UserError

FIGURES = (
    "teaser",
    "method_overview",
    "accuracy_inquiry",
    "learning_curves",
    "equal_turns",
    "continuation_gains",
    "utility_calibration",
)
CLINIC_ONLY = {"equal_turns"}
CONTINUED = {"teaser", "continuation_gains", "utility_calibration"}
WITH_PAPER = {"accuracy_inquiry", "continuation_gains"}
FORMS = ("pdf", "svg", "png")


def names(study: Study) -> list[str]:
    """Figures that the study can fill."""
    return [
        name
        for name in FIGURES
        if (study.clinic or name not in CLINIC_ONLY)
        and (study.continuation or name not in CONTINUED)
    ]


def outputs(study: Study) -> list[Path]:
    """Every file that `write` makes for a study; what a workflow rule declares."""
    stems = [stem for name in names(study) for stem in _stems(name)]
    return [study.results / "figures" / f"{stem}.{form}" for stem in stems for form in FORMS]


def _setting(name: str) -> str:
    return "the settings 'continuation'" if name in CONTINUED else "a synthetic clinic"


def _stems(name: str) -> list[str]:
    return [name, f"{name}_paper"] if name in WITH_PAPER else [name]


def module(name: str):
    """The module of a figure; UserError for an unknown name."""
    if name not in FIGURES:
        raise UserError(f"no figure '{name}'; known are {', '.join(FIGURES)}")
    return import_module(f"analysis.figures.{name}")


def write(collected, only: Sequence[str] | None = None) -> list[Path]:
    """Write figures as pdf, svg and png; all that the study can fill, or `only` some.

    Args:
        collected: an `analysis.collected.Collected`.

    Returns:
        the files written.
    """
    from analysis.figures.style import house_style, save

    possible = names(collected.study)
    written = []
    for name in only or possible:
        figure = module(name)
        if name not in possible:
            raise UserError(
                f"study '{collected.study.name}' cannot fill the figure '{name}': it needs "
                f"{_setting(name)}"
            )
        folder = collected.folder / "figures"
        with house_style():
            written += save(figure.draw(collected), folder / name)
            if name in WITH_PAPER:
                written += save(figure.draw_paper(), folder / f"{name}_paper")
    return written
