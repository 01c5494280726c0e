"""The paper's tables and their companions, one module each; `contents` has their order."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.registry import Entry, Registry
from pcqc.system.files import write_atomic

if TYPE_CHECKING:
    # It imports scipy and pandas: seconds that the other commands of `pcqc` need not wait.
    from analysis.table import Table

_CONTROLS = ("pcqc", "terminal_only", "executed_local")
TABLES = Registry(
    kind="table",
    forms=("tex", "csv", "md"),
    beside="_vs_paper",
    load=lambda name: import_module(f"analysis.tables.{name}"),
    entries={
        "claims": Entry(shows="all"),
        "claims_at_budgets": Entry(("pcqc",), shows="all"),
        "main_accuracy": Entry(paper=True, shows="pooled"),
        "inquiry_turns": Entry(paper=True, shows="pooled"),
        "question_supervision": Entry(_CONTROLS, paper=True, shows="pooled"),
        "pcqc_runs": Entry(("pcqc",), paper=True),
        "paired": Entry(("pcqc",), paper=True),
        "question_supervision_paired": Entry(_CONTROLS, paper=True),
        "same_state_q1": Entry(("pcqc", "same_state_q1"), paper=True),
        "continuation": Entry(setting="continuation", paper=True),
        "grounded_continuation": Entry(setting="continuation", paper=True),
        "utility_validity": Entry(setting="continuation"),
        "generation_length": Entry(("grpo", "pcqc"), paper=True),
        "training_cost": Entry(paper=True),
        "equal_budgets": Entry(),
        "instrument": Entry(("shared_sft",), setting="clinic"),
        "question_quality": Entry(setting="clinic"),
        "question_quality_by_base": Entry(setting="clinic", shows="all"),
        "thoughts": Entry(setting="clinic", shows="all"),
        "configuration": Entry(paper=True),
        "information_access": Entry(paper=True, shows="all"),
        "data_cards": Entry(setting="data", shows="all"),
        "overlap": Entry(setting="data", shows="all"),
    },
)


def build(name: str, collected) -> "Table":
    """A table of a study, with what must be known of the study below it."""
    from analysis.notices import PATH_TEST

    study = collected.study
    notes = [" ".join(PATH_TEST)] if study.path_test else []
    if study.absent:
        files = ", ".join(f"{benchmark} ({file})" for benchmark, file in study.absent.items())
        notes.append(f"Benchmarks left out, as their files were missing: {files}.")
    table = TABLES.module(name).build(TABLES.shown(collected, name))
    caption = TABLES.captioned(study, name, table.caption)
    return replace(table, caption=caption, notes=(*table.notes, *notes))


def write(collected, folder: Path, only: Sequence[str] | None = None) -> list[Path]:
    """Write tables and companions in every form; all that the study can fill, or `only` some.

    Ablations have a table once some are evaluated.

    Args:
        collected: an `analysis.collected.Collected`.
        folder: where the files go.
        only: names.

    Returns:
        the files written.
    """
    from analysis.companion import companion
    from analysis.render import render
    from analysis.tables import ablations

    study, written = collected.study, []
    for name in TABLES.chosen(study, only):
        module = TABLES.module(name)
        table = build(name, collected)
        shown = [[table]]
        if TABLES.entries[name].paper:
            shown.append(companion(table, module.paper(), study))
        contents = [render(form, tables) for tables in shown for form in TABLES.forms]
        written += TABLES.write(folder, name, contents)
    if not only and (made := ablations.build(study)):
        for form in TABLES.forms:
            path = folder / "tables" / f"{ablations.NAME}.{form}"
            write_atomic(path, render(form, [made]))
            written.append(path)
    return written
