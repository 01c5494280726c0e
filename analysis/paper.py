"""All tables and figures of a study in one document for print: `paper.tex`, and `paper.pdf`."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from analysis.beside_the_paper import comparable
from analysis.collected import Collected
from analysis.figures import caption, module
from analysis.notices import notice
from analysis.table_formats import escape_tex as escape
from analysis.tables_and_figures import Item, Part, fillable_parts
from pcqc_base.errors import UserError
from pcqc_base.system.files import write_atomic

_HEAD = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
% The figures' own width, so that none is scaled.
\usepackage[a4paper,textwidth=7in,vmargin=20mm]{geometry}
\usepackage{array,booktabs,graphicx}
% Equal inputs give equal bytes: no dates, no identifier of the run.
\pdfinfoomitdate=1
\pdftrailerid{}
\pdfsuppressptexinfo=-1
\setcounter{totalnumber}{6}
\setcounter{topnumber}{4}
\renewcommand{\topfraction}{0.95}
\renewcommand{\textfraction}{0.03}
\renewcommand{\floatpagefraction}{0.7}
\makeatletter\setlength{\@fptop}{0pt}\setlength{\@fpsep}{24pt}\makeatother
"""
_NAME = "pdflatex"


def latex() -> str | None:
    """The LaTeX that is installed, if one is."""
    return shutil.which(_NAME)


def write(collected: Collected, folder: Path) -> list[Path]:
    """Write `paper.tex` and, where LaTeX can set it, `paper.pdf`, beside tables and figures.

    LaTeX is optional: where it is missing, lacks a package or has no letters for a title, a line
    says so.

    Returns:
        the files written; equal inputs give equal bytes.
    """
    text, pdf = folder / "paper.tex", folder / "paper.pdf"
    write_atomic(text, document(collected))
    pdf.unlink(missing_ok=True)  # that of an earlier text
    try:
        write_atomic(pdf, compiled(text)[0])
    except UserError as problem:
        print(f"{problem}; paper.tex was written, paper.pdf was skipped")
        return [text]
    return [text, pdf]


def document(collected: Collected) -> str:
    """The text of `paper.tex`; it reads the files beside it."""
    study = collected.study
    parts = "\n".join(_part(collected, part) for part in fillable_parts(study))
    words = notice(study)
    warning = f"\\noindent {escape(' '.join(words))}\n" if words else ""
    return (
        f"{_HEAD}\\title{{{escape(study.title)}: PCQC against its baselines and controls}}\n"
        "\\author{}\n\\date{}\n\\begin{document}\n\\maketitle\n\\vspace{-3em}\n"
        f"{warning}{parts}\\end{{document}}\n"
    )


def _part(collected: Collected, part: Part) -> str:
    """A section; what floats in it is set before the next begins."""
    set_by = {"table": _table, "figure": _figure}
    items = [set_by[item.kind](collected, item) for item in part.items]
    head = f"\\section{{{escape(part.title)}}}\n{escape(part.lead)}\n"
    return "\n".join([head, *items, "\\clearpage\n"])


def _table(collected: Collected, item: Item) -> str:
    """A table's file; the companion alone where that repeats the table beside the paper's."""
    shown = [item.name, item.beside] if item.paper else [item.name]
    shown = shown if comparable(collected.study) else shown[-1:]
    return "".join(f"\\input{{tables/{stem}}}\n" for stem in shown)


def _figure(collected: Collected, item: Item) -> str:
    """A figure, and the paper's below it."""
    captions = {item.name: caption(item.name, collected)}
    if item.paper:
        captions[item.beside] = module(item.name).caption_paper()
    return "".join(
        "\\begin{figure}[htbp]\n\\centering\n"
        f"\\includegraphics{{figures/{stem}.pdf}}\n"
        f"\\caption{{{escape(text)}}}\n\\label{{fig:{stem}}}\n\\end{{figure}}\n"
        for stem, text in captions.items()
    )


def compiled(path: Path) -> tuple[bytes, str]:
    """The PDF of a .tex file and LaTeX's log; LaTeX runs in its folder and leaves nothing there.

    Raises:
        UserError: LaTeX is missing, cannot be started, or stops.
    """
    if not latex():
        raise UserError(f"{_NAME} is not installed")
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            latex(), "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape",
            f"-output-directory={scratch}", path.name,
        ]  # fmt: skip
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "FORCE_SOURCE_DATE": "1"}
        try:
            done = subprocess.run(
                command, cwd=path.parent, env=environment, capture_output=True, check=False
            )
        except OSError as problem:
            raise UserError(f"{path}: {_NAME}: {problem.strerror}") from None
        log = done.stdout.decode(errors="replace")
        made = Path(scratch) / path.with_suffix(".pdf").name
        if done.returncode or not made.exists():
            reason = next((line for line in log.splitlines() if line.startswith("!")), "it stopped")
            raise UserError(f"{path}: {_NAME}: {reason.strip('! .')}; run it there to see more")
        return made.read_bytes(), log
