"""Pages to read consultations: static, offline, ten thousands of them.

`results/<study>/transcripts/index.html` filters and shows them. Its data lie beside it, a hundred
consultations or cases a file, which the page loads as scripts: a browser lets a page from a disk
read nothing else.
"""

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from markupsafe import Markup

from analysis.notices import notice
from analysis.pages import templates
from analysis.transcripts.consultations import Consultation, consultations, places
from pcqc.cases.case import Case
from pcqc.errors import UserError
from pcqc.settings import Study
from pcqc.system.files import write_atomic

FOLDER = Path(__file__).parent
PAGE = FOLDER / "page.html"
STYLES = (FOLDER.parent / "report" / "style.css", FOLDER / "page.css")
SCRIPTS = (FOLDER / "page.js", FOLDER / "consultation.js")
AT_ONCE = 100  # consultations or cases of one file


def write(study: Study, folder: Path) -> Path:
    """Write the page and its data below a folder; equal runs give equal bytes. Its path.

    Raises:
        UserError: nothing is evaluated yet, or a file is not the one that its job wrote.
    """
    target = folder / "transcripts"
    shutil.rmtree(target, ignore_errors=True)  # of a job that was cut short
    writer = _Writer(target / "data", study)
    for consultation in consultations(study, writer.places):
        writer.add(consultation)
    if not writer.rows["run"]:
        raise UserError(
            f"study '{study.name}' has no evaluated method yet; run `snakemake --cores all "
            f"--config study={study.name}`"
        )
    writer.finish()
    write_atomic(target / "index.html", _html(study))
    return target / "index.html"


def _html(study: Study) -> str:
    style, script = (
        Markup("".join(path.read_text(encoding="utf-8") for path in paths))
        for paths in (STYLES, SCRIPTS)
    )
    template = templates(FOLDER).get_template(PAGE.name)
    return template.render(study=study, notice=notice(study), style=style, script=script) + "\n"


class _Writer:
    """Collects rows of the list and writes their contents, `AT_ONCE` a file.

    Args:
        folder: of the data.
        study: whose consultations they are.
    """

    def __init__(self, folder: Path, study: Study):
        self.folder, self.study, self.places = folder, study, places(study)
        names = ("run", "place", "case", "right", "ending", "questions", "update", "compared")
        self.rows: dict[str, list[int]] = {name: [] for name in names}
        self.runs: dict[tuple[str, str], int] = {}
        self.endings: dict[str, int] = {}
        self.cases: dict[tuple[str, str], tuple[int, Case]] = {}
        self.waiting: list[dict] = []
        self.files = 0

    def add(self, consultation: Consultation) -> None:
        """Add a consultation; a full file is written."""
        key = (consultation.place.name, consultation.row["case_id"])
        if key not in self.cases:
            self.cases[key] = (len(self.cases), consultation.place.cases[key[1]])
        values = {
            "run": self.runs.setdefault((consultation.method, consultation.run), len(self.runs)),
            "place": self.places.index(consultation.place),
            "case": self.cases[key][0],
            "right": int(consultation.row["correct"]),
            "ending": self.endings.setdefault(consultation.row["ending"], len(self.endings)),
            "questions": sum(t["action"] != "final" for t in consultation.row["turns"]),
            "update": consultation.update,
            "compared": int(any(consultation.states)),
        }
        for name, value in values.items():
            self.rows[name].append(value)
        self.waiting.append(consultation.contents())
        if len(self.waiting) == AT_ONCE:
            self._write_waiting()

    def finish(self) -> None:
        """Write what is left, the cases, and the list."""
        self._write_waiting()
        cases = [_case(case) for _, case in self.cases.values()]
        for number, start in enumerate(range(0, len(cases), AT_ONCE)):
            self._write(f"cases-{number}", cases[start : start + AT_ONCE])
        titles = [[method, self.study.method(method).title, run] for method, run in self.runs]
        contents = {
            "title": self.study.title,
            "at_once": AT_ONCE,
            "places": [[place.name, place.title] for place in self.places],
            "runs": titles,
            "endings": list(self.endings),
            "cases": [case.case_id for _, case in self.cases.values()],
            "rows": self.rows,
        }
        self._write("list", contents)

    def _write_waiting(self) -> None:
        if self.waiting:
            self._write(f"consultations-{self.files}", self.waiting)
            self.files, self.waiting = self.files + 1, []

    def _write(self, name: str, contents: Any) -> None:
        text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        write_atomic(self.folder / f"{name}.js", f"arrived({json.dumps(name)},{text});\n")


def _case(case: Case) -> dict[str, Any]:
    names: Iterable[str] = ("case_id", "initial", "question", "options", "facts", "answer")
    return {name: getattr(case, name) for name in names}
