"""`paper.tex` and `paper.pdf`: everything of a study in one document for print."""

import re
import shutil
from pathlib import Path

import pytest

from analysis import figures, paper, tables
from analysis.collected import Collected
from analysis.figures import FIGURES
from analysis.tables import TABLES
from pcqc.errors import UserError


@pytest.fixture
def drawn() -> Path:
    """Where the study's tables and figures are."""
    return Path("results/simulated/drawn")


@pytest.fixture
def written(collected, drawn) -> Collected:
    """The study with its tables and figures, written once for all tests."""
    for registry, write in ((TABLES, tables.write), (FIGURES, figures.write)):
        if not all(path.exists() for path in registry.outputs(collected.study, drawn)):
            write(collected, drawn)
    return collected


def test_document_has_every_table_and_figure_once(written):
    text = paper.document(written)
    files = re.findall(r"\\(?:input|includegraphics)\{(?:tables|figures)/([^}]*)\}", text)
    assert len(files) == len(set(files))
    shown = {name.removesuffix(".pdf") for name in files}
    study = written.study
    assert shown >= set(FIGURES.names(study))
    assert {name.removesuffix("_vs_paper") for name in shown} >= set(TABLES.names(study))
    assert "This clinic is synthetic" in text


def test_comparable_study_shows_differences_and_no_notice(comparable):
    text = paper.document(comparable)
    for stem in ("main_accuracy", "main_accuracy_vs_paper"):
        assert rf"\input{{tables/{stem}}}" in text
    assert "This clinic is synthetic" not in text


def test_pdf_compiles_and_repeats_byte_for_byte(written, drawn):
    if not paper.latex():
        pytest.skip("pdflatex is not installed: paper.tex was not compiled")
    made = paper.write(written, drawn)
    assert [path.name for path in made] == ["paper.tex", "paper.pdf"]
    before = [path.read_bytes() for path in made]
    assert before[1].startswith(b"%PDF")
    assert b"CreationDate" not in before[1]
    paper.write(written, drawn)
    assert [path.read_bytes() for path in made] == before
    assert {path.name for path in drawn.glob("paper.*")} == {
        "paper.tex",
        "paper.pdf",
    }


def test_no_line_of_the_document_is_too_wide(written, drawn, tmp_path):
    if not paper.latex():
        pytest.skip("pdflatex is not installed: paper.tex was not compiled")
    paper.write(written, drawn)
    shutil.copytree(drawn, tmp_path / "study")
    log = paper.compiled(tmp_path / "study" / "paper.tex")[1]
    assert not re.findall(r"Overfull \\hbox.*", log)


def test_without_latex_the_text_alone_is_written(written, drawn, monkeypatch):
    monkeypatch.setattr(paper, "latex", lambda: None)
    assert [path.name for path in paper.outputs(drawn)] == ["paper.tex"]
    assert paper.write(written, drawn) == paper.outputs(drawn)


def test_missing_files_and_latex_errors_are_said_in_a_line(written, drawn, tmp_path):
    (path,) = (p for p in FIGURES.outputs(written.study, drawn) if p.name == "teaser.pdf")
    hidden = path.rename(tmp_path / path.name)
    with pytest.raises(
        UserError, match=r"teaser\.pdf: missing; run `pcqc figures simulated` first"
    ):
        paper.write(written, drawn)
    hidden.rename(path)
    if not paper.latex():
        pytest.skip("pdflatex is not installed: its errors were not tested")
    broken = tmp_path / "paper.tex"
    broken.write_text(r"\documentclass{article}\begin{document}\nosuchcommand\end{document}")
    with pytest.raises(UserError, match=r"paper\.tex: pdflatex: Undefined control sequence"):
        paper.compiled(broken)
