"""`docs/deviations.md` points to code that is there."""

import re

import pytest

from pcqc.config import ROOT

ROWS = [
    line
    for line in (ROOT / "docs" / "deviations.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| Subject")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_a_declared_choice_names_a_file_and_a_word_in_it(row):
    cells = re.split(r"(?<!\\)\|", row)[1:-1]
    assert len(cells) == 5
    assert all(cell.strip() for cell in cells)
    places = re.findall(r"`([^`]+)`", cells[-1])
    path, words = ROOT / places[0], places[1:]
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    assert files, f"{path} is not there"
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert all(word in text for word in words)
