"""The tables: a function each; `analysis/tables_and_figures.py` lists them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.notices import PATH_TEST
from analysis.tables_and_figures import FORMS, TABLES, chosen
from pcqc_base.system.files import write_atomic

if TYPE_CHECKING:
    # It imports scipy and pandas: seconds that the other commands of `pcqc` need not wait.
    from analysis.collected import Collected
    from analysis.table import Table


def maker(name: str) -> "Callable[[Collected], Table]":
    """The function that makes a table."""
    module, function = (TABLES[name].made_by or f"{name}.build").split(".")
    return getattr(import_module(f"analysis.tables.{module}"), function)


@lru_cache
def build(name: str, collected: "Collected") -> "Table":
    """A table of a study, with what must be known of the study below it."""
    study, item = collected.study, TABLES[name]
    from analysis.table import with_exactness

    table = with_exactness(maker(name)(item.shown(collected)))
    notes = [" ".join(PATH_TEST)] if study.path_test else []
    if study.absent:
        files = ", ".join(f"{benchmark} ({file})" for benchmark, file in study.absent.items())
        notes.append(f"Benchmarks left out, as their files were missing: {files}.")
    caption = item.captioned(study, table.caption)
    return replace(table, caption=caption, notes=(*table.notes, *notes))


def write(collected: "Collected", folder: Path, only: Sequence[str] | None = None) -> list[Path]:
    """Write tables, the paper's beside them, in every form: all that the study fills, or some.

    Ablations have a table once some are evaluated.

    Returns:
        the files written, below `folder`.
    """
    from analysis.beside_the_paper import companion
    from analysis.tables import ablations

    study, folder, written = collected.study, folder / "tables", []
    for item in chosen(TABLES, study, only):
        table = build(item.name, collected)
        written += write_forms(folder, item.name, [table])
        if item.paper:
            written += write_forms(folder, item.beside, companion(table, study))
    if not only and (ablated := ablations.build(study)):
        written += write_forms(folder, ablated.name, [ablated])
    return written


def write_forms(folder: Path, name: str, tables: "Sequence[Table]") -> list[Path]:
    """Write tables into one file of each form; the files."""
    from analysis.table_formats import render

    paths = [folder / f"{name}.{form}" for form in FORMS["table"]]
    for path in paths:
        write_atomic(path, render(path.suffix[1:], tables))
    return paths
