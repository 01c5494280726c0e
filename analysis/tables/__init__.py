"""The paper's tables and their companions, one module each, in the order of the report."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from pcqc.config import Study
from pcqc.errors import UserError
from pcqc.files import write_atomic

# Table -> methods without which it has nothing to say.
NEEDS = {
    "claims": (),
    "main_accuracy": (),
    "inquiry_turns": (),
    "question_supervision": ("pcqc", "terminal_only", "executed_local"),
    "pcqc_runs": ("pcqc",),
    "paired": ("pcqc",),
    "question_supervision_paired": ("pcqc", "terminal_only", "executed_local"),
    "same_state_q1": ("pcqc", "same_state_q1"),
    "continuation": (),
    "grounded_continuation": (),
    "utility_validity": (),
    "generation_length": ("grpo", "pcqc"),
    "training_cost": (),
    "instrument": ("shared_sft",),
    "configuration": (),
    "information_access": (),
}
CLINIC_ONLY = {"instrument"}
CONTINUED = {"continuation", "grounded_continuation", "utility_validity"}
WITHOUT_PAPER = {"claims", "instrument", "utility_validity"}
FORMS = ("tex", "csv", "md")


def names(study: Study) -> list[str]:
    """Tables that the study can fill: it has their methods and what else some of them need."""
    return [
        name
        for name, methods in NEEDS.items()
        if all(m in study.methods and study.methods[m].runs for m in methods)
        and (study.clinic or name not in CLINIC_ONLY)
        and (study.continuation or name not in CONTINUED)
    ]


def outputs(study: Study) -> list[Path]:
    """Every file that `write` makes for a study; what a workflow rule declares."""
    folder = study.results / "tables"
    stems = [stem for name in names(study) for stem in _stems(name)]
    return [folder / f"{stem}.{form}" for stem in stems for form in FORMS]


def _setting(name: str) -> str:
    return "the settings 'continuation'" if name in CONTINUED else "a synthetic clinic"


def _stems(name: str) -> list[str]:
    return [name] if name in WITHOUT_PAPER else [name, f"{name}_vs_paper"]


def module(name: str):
    """The module of a table; UserError for an unknown name."""
    if name not in NEEDS:
        raise UserError(f"no table '{name}'; known are {', '.join(NEEDS)}")
    return import_module(f"analysis.tables.{name}")


def write(collected, only: Sequence[str] | None = None) -> list[Path]:
    """Write tables and companions in every form; all that the study can fill, or `only` some.

    Args:
        collected: an `analysis.collected.Collected`.

    Returns:
        the files written.
    """
    from analysis.companion import companion
    from analysis.render import render

    possible = names(collected.study)
    written = []
    for name in only or possible:
        build = module(name).build
        if name not in possible:
            raise UserError(
                f"study '{collected.study.name}' cannot fill the table '{name}': it needs "
                f"{', '.join(NEEDS[name]) or _setting(name)}"
            )
        table = build(collected)
        files = {name: [table]}
        if name not in WITHOUT_PAPER:
            files[f"{name}_vs_paper"] = companion(table, module(name).paper(), collected.study)
        for stem, tables in files.items():
            for form in FORMS:
                path = collected.folder / "tables" / f"{stem}.{form}"
                write_atomic(path, render(form, tables))
                written.append(path)
    return written
