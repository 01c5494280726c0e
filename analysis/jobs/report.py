"""Tables, figures, transcripts, paper and report of a study, in one folder."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import figures, paper, report, tables, transcripts
from analysis.load import load
from pcqc.settings import Study

if TYPE_CHECKING:
    from pcqc.recipes.tasks import Task

# Linked at the top of a study's results, where a person looks for them.
SHOWN = ("report.html", "tables", "figures", "transcripts", "paper.tex", "paper.pdf")


def run(task: "Task", study: Study) -> None:
    """Write everything that a study shows."""
    collected, folder = load(study), task.folder
    tables.write(collected, folder)
    figures.write(collected, folder)
    paper.write(collected, folder)
    if not paper.latex():
        print("pdflatex is not installed: paper.tex was written, paper.pdf was skipped")
    transcripts.write(study, folder)
    report.write(collected, folder)
    show(study, folder)


def show(study: Study, folder: Path) -> None:
    """Link what a report's folder has at the top of the study's results."""
    for name in SHOWN:
        if (folder / name).exists():
            link(study.results / name, Path("report") / "latest" / name)


def link(path: Path, target: Path) -> None:
    """Let a symbolic link point at a target; what is no link stays."""
    if path.is_symlink() or not path.exists():
        new = path.with_name(f".{path.name}.link")
        new.unlink(missing_ok=True)
        new.symlink_to(target)
        os.replace(new, path)
