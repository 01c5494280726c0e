"""Every number in README and docs has a source, and an edit to one is noticed."""

import ast
import shutil

import pytest

from analysis import prose
from analysis.statistics import CONFIDENCE
from pcqc.config import ROOT, load_study
from pcqc.errors import UserError

RATIO = "published training_cost.pcqc.device_hours over published training_cost.grpo.device_hours"


@pytest.fixture
def copy(tmp_path):
    """The pages and their sources, to be edited."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for name in ("README.md", "results/README.md", "Makefile", "pyproject.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("tests", "data_prep", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def edit(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_every_number_in_the_pages_has_a_source_that_agrees():
    assert prose.problems() == []


def test_untouched_copy_has_no_problems(copy):
    assert prose.problems(copy) == []


@pytest.mark.parametrize(
    ("page", "old", "new", "problem"),
    [
        ("README.md", "Python 3.11", "Python 3.12", "does not say 'Python 3.11'"),
        ("docs/clinic.md", "Eight diseases", "Nine diseases", "does not say 'Eight diseases"),
        ("docs/clinic.md", "0.95", "0.94", "does not say 'probability 0.95"),
        ("docs/analysis.md", "1.96", "1.64", "does not say 'and 1.96"),
        ("docs/clinic.md", "**Limits.**", "It gains 4.38 points.", "'4.38' has no source"),
        ("docs/figures.yaml", "clinic.noise 1-x", "clinic.noise", "'0.95' in 'probability 0.95"),
        ("docs/figures.yaml", "docs/clinic.md:", "docs/clinics.md:", "no page docs/clinics.md"),
        (
            "docs/figures.yaml",
            "is: tested tests/unit/test_clinic_page.py",
            "is: tested tests/no.py",
            "no.py",
        ),
    ],
)
def test_an_edited_number_is_noticed(copy, page, old, new, problem):
    edit(copy / page, old, new)
    assert any(problem in found for found in prose.problems(copy))


@pytest.mark.parametrize(
    ("number", "source", "right"),
    [
        ("1,268", "published benchmarks.medqa.cases", True),
        ("1,267", "published benchmarks.medqa.cases", False),
        ("62.54", "published main_accuracy.pcqc.medqa.0", True),
        ("62.5", "published main_accuracy.pcqc.medqa.0", True),
        ("62.55", "published main_accuracy.pcqc.medqa.0", False),
        ("10⁻⁴", "code pcqc.credit.standardise THRESHOLD", True),
        ("10⁻³", "code pcqc.credit.standardise THRESHOLD", False),
        ("60", "config clinic benchmarks.clinic_sparse.recorded_facts x100", True),
        ("eight", "config clinic clinic.diseases", True),
        ("seven", "config clinic clinic.diseases", False),
        ("204,800", "plan paper methods.grpo.trajectories", True),
        ("44.5", "published prose.trajectory_reduction", True),
        ("0.97", RATIO, True),
        ("0.98", RATIO, False),
        ("3.11", "file pyproject.toml", True),
        ("3.10", "file pyproject.toml", False),
    ],
)
def test_sources(number, source, right):
    assert prose.agrees(number, source) is right


def test_code_links_and_lists_are_no_prose():
    text = "1. Run `pcqc 7` [here](a-8.md)\n```\n9\n```\nand U1 or Apache-2.0.\n"
    assert prose._DIGITS.findall(prose.plain(text)) == []


def test_tables_are_copied_from_a_study_and_an_edit_is_noticed(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = load_study("clinic")
    table = study.results / "tables" / "main_accuracy.md"
    (copy / "README.md").write_text("Found:\n\n<!-- clinic: main_accuracy -->\n<!-- end -->\n")
    edit(
        copy / "docs/figures.yaml",
        "{text: Python 3.11, is: file pyproject.toml}",
        "{lines: x, is: defined}",
    )
    edit(
        copy / "docs/figures.yaml", "{text: two CPU cores, is: defined}", "{lines: x, is: defined}"
    )
    with pytest.raises(
        UserError, match=r"main_accuracy\.md: missing; run `pcqc tables clinic` first"
    ):
        prose.copy_tables(study, copy)
    table.parent.mkdir(parents=True)
    table.write_text("| PCQC | 67.25 |\n")
    assert prose.copy_tables(study, copy) == [copy / "README.md"]
    assert "| PCQC | 67.25 |" in (copy / "README.md").read_text()
    assert prose.problems(copy) == []
    edit(copy / "README.md", "67.25", "97.25")
    assert prose.problems(copy) == [
        "README.md: the table 'clinic: main_accuracy' is not as copied; `pcqc docs` copies it again"
    ]
    prose.copy_tables(study, copy)
    assert prose.problems(copy) == []


def strings(path):
    """The texts that a module can put into a caption, without its docstrings."""
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
    """All come from the study or from the published numbers.

    But for the 95 % of every interval, and single digits, which stand in names.
    """
    assert CONFIDENCE == 0.95
    folders = ("tables", "figures", "report")
    paths = [p for name in folders for p in (ROOT / "analysis" / name).glob("*.py")]
    paths += [ROOT / "analysis" / f"{n}.py" for n in ("claims", "companion", "contents")]
    typed = {
        (path.stem, text)
        for path in paths
        for text in strings(path)
        for number in prose._DIGITS.findall(text)
        if " " in text and len(number) > 1 and number != "95"
    }
    assert typed == set()
