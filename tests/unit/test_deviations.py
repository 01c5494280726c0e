"""`docs/deviations.md` points to code that is there."""

import re

import pytest

from pcqc.study import ROOT

PAGE = ROOT / "docs" / "deviations.md"
CELLS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Subject")
]
COMMENTED = [ROOT / "config" / "studies" / "paper.yaml", ROOT / "config" / "methods.yaml"]


def test_comments_of_the_settings_and_rows_of_the_page_are_in_step():
    """A comment names its rows; a choice of a setting on which the paper is silent has one."""
    named, marks = set(), 0
    for file in COMMENTED:
        text = re.sub(r"\n\s*# *", " ", file.read_text(encoding="utf-8"))
        marks += len(re.findall(r"Not in the paper(?!\",)", text))
        for subjects in re.findall(r"Not in the paper \(([^)]+)\)", text):
            named |= {" ".join(subject.split()) for subject in subjects.split(";")}
            marks -= 1
    assert marks == 0, "a comment says 'Not in the paper' and names no row"
    assert named <= {cells[0] for cells in CELLS}
    settings = (
        *("`config/methods.yaml`", "`config/studies/paper.yaml`", "`src/pcqc/study/"),
        "`src/pcqc/methods/atpo/settings.py`",
    )
    silent = {c[0] for c in CELLS if "silent" in c[1] and c[4].startswith(settings)}
    assert len(silent) >= 15
    assert silent <= named


@pytest.mark.parametrize("cells", CELLS, ids=lambda cells: cells[0])
def test_a_declared_choice_names_a_file_and_a_word_in_it(cells):
    assert len(cells) == 5
    assert all(cells)
    places = re.findall(r"`([^`]+)`", cells[-1])
    path, words = ROOT / places[0], places[1:]
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files, f"{path} is not there"
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert all(word in text for word in words)
