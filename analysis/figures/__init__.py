"""The figures, one module each; `contents` has their order."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from analysis.registry import Entry, Registry

FIGURES = Registry(
    kind="figure",
    forms=("pdf", "svg", "png"),
    beside="_paper",
    load=lambda name: import_module(f"analysis.figures.{name}"),
    entries={
        "teaser": Entry(setting="continuation"),
        "method_overview": Entry(("pcqc",), own_runs=False),
        "accuracy_inquiry": Entry(paper=True),
        "learning_curves": Entry(("shared_sft",)),
        "cost_curves": Entry(("shared_sft",)),
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
    return FIGURES.captioned(collected.study, name, FIGURES.module(name).caption(collected))


def write(collected, only: Sequence[str] | None = None) -> list[Path]:
    """Write figures as pdf, svg and png; all that the study can fill, or `only` some.

    Those of settings that the study no longer has are removed.

    Args:
        collected: an `analysis.collected.Collected`.

    Returns:
        the files written.
    """
    from analysis.drawing.style import encode, house_style

    study, written = collected.study, []
    FIGURES.clear(study)
    for name in FIGURES.chosen(study, only):
        module = FIGURES.module(name)
        with house_style():
            shown = [module.draw(collected)]
            if FIGURES.entries[name].paper:
                shown.append(module.draw_paper())
            contents = [encode(figure, form) for figure in shown for form in FIGURES.forms]
        written += FIGURES.write(study, name, contents)
    return written
