"""One self-contained HTML file with everything a study found: no network, one line of script."""

from pathlib import Path

from markupsafe import Markup

from analysis.collected import Collected
from analysis.formats import html_text
from analysis.pages import templates
from analysis.report import sections
from analysis.statistics.verdicts import VERDICTS
from pcqc.system.files import write_atomic

FOLDER = Path(__file__).parent


def write(collected: Collected, folder: Path) -> Path:
    """Write `report.html` into a folder; equal inputs give equal bytes."""
    path = folder / "report.html"
    write_atomic(path, build(collected, folder))
    return path


def build(collected: Collected, folder: Path) -> str:
    """The report's HTML with the figures that are drawn in a folder; every text is escaped."""
    environment = templates(FOLDER)
    environment.filters["symbols"] = lambda text: Markup(html_text(str(text)))
    environment.globals["verdicts"] = (*VERDICTS, "not tested")
    style = Markup((FOLDER / "style.css").read_text(encoding="utf-8"))
    report = environment.get_template("report.html")
    return report.render(style=style, **sections.content(collected, folder)) + "\n"
