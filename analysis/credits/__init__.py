"""How well each credit ranks questions, beside what the clinic knows exactly (docs/credits.md)."""

from pathlib import Path

from analysis.credits.figure import draw
from analysis.credits.measures import load
from analysis.credits.table import build
from analysis.drawing.style import encode, house_style
from analysis.render import render
from pcqc.config import Study
from pcqc.files import write_atomic

FORMS = ("csv", "md", "tex")
PICTURES = ("pdf", "svg", "png")


def write(study: Study) -> list[Path]:
    """Write `results/<study>/credit_quality/credit_quality.*`; the files."""
    judged, written = load(study), []
    contents: dict[str, str | bytes] = {form: render(form, [build(judged)]) for form in FORMS}
    with house_style():
        figure = draw(judged)
        contents |= {form: encode(figure, form) for form in PICTURES}
    for form, content in contents.items():
        path = study.results / "credit_quality" / f"credit_quality.{form}"
        write_atomic(path, content)
        written.append(path)
    return written
