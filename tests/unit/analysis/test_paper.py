"""`paper.tex` and `paper.pdf`: everything of a study in one document for print."""

import re
import shutil
from pathlib import Path

import pytest

from analysis import figures, paper
from analysis.table_formats import escape_tex
from analysis.tables_and_figures import FORMS, fillable_parts
from pcqc_base.errors import UserError

LATEX = pytest.mark.skipif(not paper.latex(), reason="pdflatex is not installed")


@pytest.fixture
def drawn(collected, reported, tmp_path, monkeypatch) -> Path:
    """A copy of the study's tables, with its figures for print."""
    folder = shutil.copytree(reported, tmp_path / "drawn")
    monkeypatch.setitem(FORMS, "figure", ("pdf",))
    figures.write(collected, folder)
    return folder


def test_document_has_every_table_and_figure_once(collected):
    text = paper.document(collected)
    files = re.findall(r"\\(?:input|includegraphics)\{(?:tables|figures)/([^}]*)\}", text)
    assert len(files) == len(set(files))
    shown = {name.removesuffix(".pdf").removesuffix("_vs_paper") for name in files}
    assert shown >= {item.name for part in fillable_parts(collected.study) for item in part.items}
    assert "This clinic is synthetic" in text


def test_comparable_study_shows_differences_and_no_notice(comparable):
    text = paper.document(comparable)
    for stem in ("main_accuracy", "main_accuracy_vs_paper"):
        assert rf"\input{{tables/{stem}}}" in text
    assert "This clinic is synthetic" not in text


@LATEX
def test_pdf_fits_its_pages_and_repeats_byte_for_byte(collected, drawn, tmp_path):
    made = paper.write(collected, drawn)
    before = [path.read_bytes() for path in made]
    assert before[1].startswith(b"%PDF")
    assert b"CreationDate" not in before[1]
    assert paper.write(collected, drawn) == made
    assert [path.read_bytes() for path in made] == before
    assert {path.name for path in drawn.glob("paper.*")} == {"paper.tex", "paper.pdf"}
    shutil.copytree(drawn, tmp_path / "study")
    log = paper.compiled(tmp_path / "study" / "paper.tex")[1]
    assert not re.findall(r"Overfull \\hbox.*", log)


STOPS = {
    "no package": (
        r"echo '! LaTeX Error: File `booktabs.sty'\'' not found.'; exit 1",
        "LaTeX Error: File `booktabs.sty' not found; run it there to see more",
    ),
    "no letter": (
        "echo '! LaTeX Error: Unicode character 中 (U+4E2D)'; exit 1",
        "LaTeX Error: Unicode character 中 (U+4E2D); run it there to see more",
    ),
    "killed": ("kill -9 $$", "it stopped; run it there to see more"),
    "no pages": ("exit 0", "it stopped; run it there to see more"),
}


@pytest.mark.parametrize(("script", "reason"), STOPS.values(), ids=STOPS)
def test_a_latex_that_stops_is_a_line_and_no_failure(
    collected, tmp_path, monkeypatch, capsys, script, reason
):
    program = tmp_path / "pdflatex"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(paper, "latex", lambda: str(program))
    text = tmp_path / "paper.tex"
    text.with_suffix(".pdf").write_bytes(b"of an earlier text")
    assert paper.write(collected, tmp_path) == [text]
    assert not text.with_suffix(".pdf").exists()
    assert capsys.readouterr().out == (
        f"{text}: pdflatex: {reason}; paper.tex was written, paper.pdf was skipped\n"
    )


def test_without_latex_the_text_alone_is_written(collected, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(paper, "latex", lambda: None)
    assert paper.write(collected, tmp_path) == [tmp_path / "paper.tex"]
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "pdflatex is not installed; paper.tex was written, paper.pdf was skipped"


def test_greek_letters_of_a_title_are_set_as_math():
    assert escape_tex("γ of μ, Ω") == r"$\gamma$ of $\mu$, $\Omega$"


@LATEX
def test_latex_errors_are_said_in_a_line(tmp_path):
    broken = tmp_path / "paper.tex"
    broken.write_text(r"\documentclass{article}\begin{document}\nosuchcommand\end{document}")
    with pytest.raises(UserError, match=r"paper\.tex: pdflatex: Undefined control sequence"):
        paper.compiled(broken)
