"""A job writes everything that a study shows; its report is one self-contained HTML file.

The report needs no network and has no script.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from analysis import figures, paper, tables, transcripts
from analysis.collected import Collected
from analysis.conclusion import whole_answer
from analysis.html_templates import templates
from analysis.load import load
from analysis.report import sections
from analysis.statistics.verdicts import DECIDED, VERDICTS
from analysis.table_formats import html_text
from pcqc_base.errors import UserError
from pcqc_base.system.end_with_parent import end_with
from pcqc_base.system.files import write_atomic, write_json
from pcqc_study.job_kinds.whole_study import ANSWER, LOST_POINTS
from pcqc_study.study_file import Study

if TYPE_CHECKING:
    from pcqc_base.task import Task

FOLDER = Path(__file__).parent
# Linked at the top of a study's results, where a person looks for them.
SHOWN = ("report.html", "tables", "figures", "transcripts", "paper.tex", "paper.pdf")


def run(task: "Task", study: Study) -> None:
    """Write tables, figures, transcripts, paper and report into one folder."""
    folder = task.folder
    with beside(transcripts.write, study, folder), beside(_draw, study, task.inputs, folder):
        collected = load(study, task.inputs)
        tables.write(collected, folder)
    paper.write(collected, folder)
    write(collected, folder, task.inputs.get(LOST_POINTS))
    write_json(folder / ANSWER, whole_answer(collected))
    show(study, folder)


def _draw(study: Study, inputs: Mapping[str, Path], folder: Path) -> None:
    figures.write(load(study, inputs), folder)


@contextmanager
def beside(work: Callable[..., object], *arguments: Any) -> Iterator[None]:
    """Do work in another process while the block runs; its error is raised when both have ended.

    That process ends with this one, however this one ends.

    Args:
        work: function of a module.
        arguments: its own, which another process can be handed.
    """
    told, tell = multiprocessing.Pipe(duplex=False)
    given = (os.getpid(), tell, work, *arguments)
    process = multiprocessing.Process(target=_do, args=given, daemon=True)
    process.start()
    tell.close()  # so that the other end is the last one
    yield
    try:
        error = told.recv()
    except EOFError:
        error = UserError("a process that wrote a part of the report was killed; run it again")
    process.join()
    if error:
        raise error


def _do(parent: int, tell: Connection, work: Callable[..., object], *arguments: Any) -> None:
    """Work, then tell which error ended it, or None."""
    end_with(parent)  # a job that is killed leaves nobody who writes and holds its lock
    try:
        work(*arguments)
    except Exception as error:
        tell.send(error)
    else:
        tell.send(None)


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


def write(collected: Collected, folder: Path, lost: Path | None = None) -> Path:
    """Write `report.html` into a folder; equal inputs give equal bytes. See `sections.content`."""
    path = folder / "report.html"
    write_atomic(path, build(collected, folder, lost))
    return path


def build(collected: Collected, folder: Path, lost: Path | None = None) -> str:
    """The report's HTML, of what `sections.content` has; every text is escaped."""
    environment = templates(FOLDER)
    environment.filters["symbols"] = lambda text: Markup(html_text(str(text)))
    environment.globals |= {"verdicts": (*VERDICTS, "not tested"), "decided": DECIDED}
    style = Markup((FOLDER / "style.css").read_text(encoding="utf-8"))
    report = environment.get_template("report.html")
    return report.render(style=style, **sections.content(collected, folder, lost)) + "\n"
