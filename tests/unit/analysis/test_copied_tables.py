"""Tables in README and docs are copies of a study's tables."""

import ast
import re

import pandas as pd
import pytest

from analysis.archive import ARCHIVES
from analysis.copied_tables import copy_pictures, copy_tables, edited, shown, with_tables
from pcqc_base.errors import UserError
from pcqc_base.system.checkout import ROOT
from pcqc_study.graph import latest
from pcqc_study.intervals_over_cases import CONFIDENCE
from pcqc_study.study_file import load_study


def test_no_copied_table_of_this_repository_was_edited():
    assert edited() == []


def test_a_page_gets_the_tables_it_asks_for_and_an_edited_copy_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study, page = load_study("clinic-full"), tmp_path / "README.md"
    other = "<!-- real: claims -->\n<!-- end -->\n"
    page.write_text(f"Results:\n\n<!-- clinic-full: main_accuracy -->\n<!-- end -->\n{other}")
    with pytest.raises(
        UserError, match=r"main_accuracy\.md: missing; run `pcqc report clinic-full`"
    ):
        copy_tables(study, tmp_path)
    table = latest(study, "report") / "tables" / "main_accuracy.md"
    table.parent.mkdir(parents=True)
    table.write_text("| PCQC | 67.25 |\n")
    assert copy_tables(study, tmp_path) == [page]
    assert page.read_text().startswith(
        "Results:\n\n<!-- clinic-full: main_accuracy -->\n\n| PCQC | 67.25 |\n\n<!-- end "
    )
    assert page.read_text().endswith(other)
    assert edited(tmp_path) == ["README.md: real: claims"]  # never copied
    page.write_text(page.read_text().replace("67.25", "97.25"))
    assert edited(tmp_path) == ["README.md: clinic-full: main_accuracy", "README.md: real: claims"]


def test_a_page_without_the_marks_of_a_table_is_told(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("<!-- bench: scores -->\n<!-- end -->\n")
    filled = with_tables(page, "bench", {"scores": "| a |"})
    assert filled.startswith("<!-- bench: scores -->\n\n| a |\n\n<!-- end ")
    with pytest.raises(UserError, match=r"README\.md: no marks `<!-- bench: others -->`"):
        with_tables(page, "bench", {"scores": "| a |", "others": "| b |"})


def test_a_page_gets_the_pictures_it_shows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic-full")
    shown = "![a](docs/pictures/clinic-full-teaser.svg) ![b](docs/pictures/real-teaser.svg)\n"
    (tmp_path / "README.md").write_text(shown)
    with pytest.raises(
        UserError, match=r"teaser\.svg: missing; run `pcqc report clinic-full` first"
    ):
        copy_pictures(study, tmp_path)
    figures = latest(study, "report") / "figures"
    figures.mkdir(parents=True)
    (figures / "teaser.svg").write_text("<svg/>")
    (copy,) = copy_pictures(study, tmp_path)
    assert copy.relative_to(tmp_path).as_posix() == "docs/pictures/clinic-full-teaser.svg"
    assert copy.read_text() == "<svg/>"


def strings(path):
    """The strings of a module that can reach a caption: all but docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_captions_have_no_typed_numbers():
    """All come from the study or the paper, but for the 95 % of every interval and small counts."""
    assert CONFIDENCE == 0.95
    folders = ("tables", "figures", "report")
    paths = [p for name in folders for p in (ROOT / "analysis" / name).glob("*.py")]
    paths += [
        ROOT / "analysis" / f"{n}.py" for n in ("claims", "beside_the_paper", "tables_and_figures")
    ]
    typed = {
        (path.stem, text)
        for path in paths
        for text in strings(path)
        for number in re.findall(r"(?<![\w.-])\d[\d,.]*\d(?!\w)", text)
        if " " in text and number != "95"
    }
    assert typed == set()


def test_what_readme_says_of_credit_for_stopping_is_in_the_archive():
    """Its runs have no table in README: they are not of the archived study."""
    page = ROOT / "README.md"
    runs = pd.read_csv(ARCHIVES / "ablations.csv").query("method == 'pcqc_stopping_last'")
    assert (runs.groupby("study").size() == 5 * 4).all()  # runs, benchmarks
    reached = runs.groupby("study")["accuracy"].mean()
    rows = shown(page, "clinic-full", "overview_by_base").splitlines()
    first = next(n for n, row in enumerate(rows) if row.startswith("| GRPO "))
    grpo = [float(row.split("|")[7].split("±")[0]) for row in rows[first : first + 3]]
    gains = [f"{a - b:.1f}" for a, b in zip(reached, grpo, strict=True)]
    claim = "leads GRPO on all three base models, by {}, {} and {} points".format(*gains)
    assert claim in " ".join(page.read_text(encoding="utf-8").split())
