"""One self-contained HTML file with everything a study found: no network, no scripts."""

from pathlib import Path

from analysis.collected import Collected
from analysis.report import sections
from analysis.report.markup import escape
from pcqc.files import write_atomic

STYLE = Path(__file__).with_name("style.css")


def write(collected: Collected) -> Path:
    """Write `results/<study>/report.html`; equal inputs give equal bytes."""
    path = collected.paths.root / "report.html"
    write_atomic(path, build(collected))
    return path


def build(collected: Collected) -> str:
    """The report's HTML."""
    parts = sections.all_sections(collected)
    links = "".join(f"<a href='#{part.key}'>{escape(part.title)}</a>" for part in parts)
    body = "".join(
        f"<section id='{part.key}'><h2>{escape(part.title)}</h2>{part.body}</section>"
        for part in parts
    )
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(collected.study.title)}: PCQC study report</title>"
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f"<body><div class='page'><nav>{links}</nav><main>{sections.head(collected)}{body}"
        f"<footer>Written by <code>pcqc report {escape(collected.study.name)}</code> from "
        f"<code>{escape(str(collected.paths.collected))}</code>.</footer>"
        "</main></div></body></html>\n"
    )
