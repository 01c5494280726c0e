"""Pages to read consultations: static, offline, ten thousands of them.

`results/<study>/transcripts/index.html` filters and shows them. Its data lie beside it, a hundred
consultations or cases a file, which the page loads as scripts: a browser lets a page from a disk
read nothing else.
"""

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from markupsafe import Markup

from analysis.html_templates import templates
from analysis.notices import notice
from analysis.transcripts.consultations import consultations, places
from pcqc_base.errors import UserError
from pcqc_base.system.files import write_atomic
from pcqc_study.study_file import Study

FOLDER = Path(__file__).parent
PAGE = FOLDER / "page.html"
STYLES = (FOLDER.parent / "report" / "style.css", FOLDER / "page.css")
SCRIPTS = (FOLDER / "page.js", FOLDER / "consultation.js")
AT_ONCE = 100  # consultations or cases of one file
OF_CASE = ("case_id", "initial", "question", "options", "facts", "answer")


class _Numbers(dict):
    """What was asked for -> its number, from 0 on in the order of asking."""

    def __missing__(self, key: Any) -> int:
        return self.setdefault(key, len(self))


def write(study: Study, folder: Path) -> Path:
    """Write the page and its data below a folder; equal runs give equal bytes. Its path.

    Raises:
        UserError: nothing is evaluated yet, or a file is not the one that its job wrote.
    """
    target = folder / "transcripts"
    shutil.rmtree(target, ignore_errors=True)  # of a job that was cut short
    held_at = places(study)
    runs, cases, endings = _Numbers(), _Numbers(), _Numbers()
    rows: list[dict[str, int]] = []

    def contents() -> Iterator[dict[str, Any]]:
        """What the page shows of each consultation, which gets a row of the list."""
        for consultation in consultations(study, held_at):
            row, place = consultation.row, held_at.index(consultation.place)
            entry = {
                "run": runs[consultation.method, consultation.run],
                "place": place,
                "case": cases[place, row["case_id"]],
                "right": int(row["correct"]),
                "ending": endings[row["ending"]],
                "questions": sum(turn["action"] != "final" for turn in row["turns"]),
                "update": consultation.update,
                "compared": int(any(consultation.states)),
            }
            rows.append(entry)
            yield consultation.contents()

    _write_parts(target, "consultations", contents())
    if not rows:
        raise UserError(
            f"study '{study.name}' has no evaluated method yet; run `snakemake --cores all "
            f"--config study={study.name}`"
        )
    shown = [held_at[place].cases[case_id] for place, case_id in cases]
    _write_parts(target, "cases", ({n: getattr(case, n) for n in OF_CASE} for case in shown))
    listed = {
        "title": study.title,
        "at_once": AT_ONCE,
        "places": [[place.name, place.title] for place in held_at],
        "runs": [[method, study.method(method).title, run] for method, run in runs],
        "endings": list(endings),
        "cases": [case.case_id for case in shown],
        "rows": {name: [row[name] for row in rows] for name in rows[0]},
    }
    _write_data(target, "list", listed)
    write_atomic(target / "index.html", _html(study))
    return target / "index.html"


def _write_parts(target: Path, name: str, items: Iterator[dict[str, Any]]) -> None:
    """Write `AT_ONCE` items a file."""
    for number, part in enumerate(iter(lambda: list(islice(items, AT_ONCE)), [])):
        _write_data(target, f"{name}-{number}", part)


def _write_data(target: Path, name: str, contents: Any) -> None:
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_atomic(target / "data" / f"{name}.js", f"arrived({json.dumps(name)},{text});\n")


def _html(study: Study) -> str:
    style, script = (
        Markup("".join(path.read_text(encoding="utf-8") for path in paths))
        for paths in (STYLES, SCRIPTS)
    )
    template = templates(FOLDER).get_template(PAGE.name)
    return template.render(study=study, notice=notice(study), style=style, script=script) + "\n"
