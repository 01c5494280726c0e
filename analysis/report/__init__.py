"""One self-contained HTML file with everything a study found: no network, no scripts."""

import re
from pathlib import Path

from markupsafe import Markup, escape

from analysis.collected import Collected
from analysis.render.html import templates
from analysis.report import sections
from analysis.statistics.verdicts import VERDICTS
from pcqc.system.files import write_atomic

FOLDER = Path(__file__).parent
_SYMBOL = re.compile(r"\b([GOq])_([A-Za-z0-9])")


def write(collected: Collected) -> Path:
    """Write `results/<study>/report.html`; equal inputs give equal bytes."""
    path = collected.study.results / "report.html"
    write_atomic(path, build(collected))
    return path


def build(collected: Collected) -> str:
    """The report's HTML; the templates escape every text that they are given."""
    environment = templates(FOLDER)
    environment.filters["symbols"] = symbols
    environment.globals["VERDICTS"] = (*VERDICTS, "not tested")
    style = Markup((FOLDER / "style.css").read_text(encoding="utf-8"))
    report = environment.get_template("report.html")
    return report.render(style=style, **sections.content(collected)) + "\n"


def symbols(text: str) -> Markup:
    """Escaped text with the paper's subscripts."""
    return Markup(_SYMBOL.sub(r"<i>\1</i><sub>\2</sub>", str(escape(text))))
