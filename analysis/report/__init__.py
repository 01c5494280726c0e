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


def write(collected: Collected, folder: Path) -> Path:
    """Write `report.html` into a folder; equal inputs give equal bytes."""
    path = folder / "report.html"
    write_atomic(path, build(collected, folder))
    return path


def build(collected: Collected, folder: Path) -> str:
    """The report's HTML with the figures that are drawn in a folder; every text is escaped."""
    environment = templates(FOLDER)
    environment.filters["symbols"] = symbols
    environment.globals["VERDICTS"] = (*VERDICTS, "not tested")
    style = Markup((FOLDER / "style.css").read_text(encoding="utf-8"))
    report = environment.get_template("report.html")
    return report.render(style=style, **sections.content(collected, folder)) + "\n"


def symbols(text: str) -> Markup:
    """Escaped text with the paper's subscripts."""
    return Markup(_SYMBOL.sub(r"<i>\1</i><sub>\2</sub>", str(escape(text))))
