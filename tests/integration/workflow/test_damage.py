"""A damaged file of a finished study is never taken for a result: one line, and its remedy works.

All files, and every remedy, are tried in `tests/long/test_damage_sweep.py`.
"""

import random
import re
from pathlib import Path

import pytest
from damage import leads_back, of_each_kind, results, sweep


def test_no_damaged_file_goes_unnoticed(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(copy.folder)
    counts = sweep(copy, of_each_kind(results(copy.results), random.Random(0)), tmp_path / "kept")
    assert counts["refused"] > 4 * counts["made again"] > 0


@pytest.mark.parametrize(
    ("name", "how", "said"),
    [
        ("data/clinic_wide.jsonl", "a line doubled", "move .*data away"),
        ("evaluation/terminal_only/A/selection.json", "{}", "remove .*selection.json and"),
        ("tracking/terminal_only.json", "a byte flipped", "move .*terminal_only.json away"),
        ("tables/main_accuracy.csv", "cut short", "move .*tables away"),
    ],
)
def test_what_the_line_says_leads_back_to_the_results(mini, copy, tmp_path, name, how, said):
    line = leads_back(mini, copy, Path(name), how, tmp_path / "aside")
    assert re.search(f"{name}: altered since it was written; {said}", line)
