"""Every archived trial of settings, for docs/tuning.md."""

from collections.abc import Iterable
from pathlib import Path

from analysis.copied_tables import with_tables
from analysis.notices import in_words
from analysis.table import MISSING, Cell, Column, Number, Row, Table
from analysis.table_formats import render
from pcqc_base.system.checkout import ROOT
from pcqc_base.system.files import write_atomic
from pcqc_study.study_file import load_study
from pcqc_study.trials import Outcome, read_archive
from pcqc_study.tuning import Trials, Tuning, load_tuning

OWNER, PAGE = "tuning", ROOT / "docs" / "tuning.md"
COLUMNS = (
    Column("study", "Study", numeric=False),
    Column("method", "Method", numeric=False),
    Column("settings", "Settings", numeric=False),
    Column("mean", "Mean (%)"),
)


def build(tuning: Tuning, known: Iterable[Outcome]) -> Table:
    """A row for each trial, the rates of a method in order; the best of a method is bold."""
    known, rows = list(known), []
    every = [Trials(load_study(name), tuning, known) for name in tuning.studies]
    most = max(len(trials.members) for trials in every)
    for trials in every:
        for method in trials.methods:
            tried = {
                (o.settings, o.base, o.run): trials.accuracy(o)
                for o in trials.known
                if o.method == method
            }
            chosen = trials.chosen(method)
            for trial in trials.of(method):
                score = trials.score(trial)
                if score is None:
                    continue
                cells: list[Cell] = [MISSING] * most
                for place, base in enumerate(trials.bases(method)):
                    runs = [tried[trial.settings, base, run] for run in trials.tried.runs]
                    cells[place] = ", ".join(f"{accuracy:.1f}" for accuracy in runs)
                mean = Number(score, best=trial == chosen)
                labels = (trials.study.name, trials.study.method(method).title, trial.settings)
                key = f"{trials.study.name}:{trial.name}"
                first = not rows or rows[-1].cells[:2] != labels[:2]
                rows.append(Row(key, (*labels, mean, *cells), rule=first))
    count = in_words(tuning.checkpoints)
    caption = (
        f"Accuracy on the development benchmark, a mean over the last {count} checkpoints: of all "
        "runs, then of each run on each base model. Bold: the best of a method."
        if rows
        else "No trial has been made yet."
    )
    bases = [Column(f"base_{n}", f"Base model {n}", numeric=False) for n in range(1, most + 1)]
    return Table("trials", "Trials of settings.", caption, (*COLUMNS, *bases), tuple(rows))


def write_page(page: Path = PAGE) -> Path:
    """Copy the table of the archived trials into the page."""
    text = render("md", [build(load_tuning(), read_archive())])
    write_atomic(page, with_tables(page, OWNER, {"trials": text}))
    return page
