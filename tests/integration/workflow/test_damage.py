"""A damaged file of a finished study is never taken for a result: one line, and its remedy works.

All files, and the remedy of every kind, are tried in `tests/long/test_damage_sweep.py`.
"""

import random
import re
from pathlib import Path

from damage import leads_back, of_each_kind, results, sweep


def test_no_damaged_file_goes_unnoticed(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(copy.folder)
    counts = sweep(copy, of_each_kind(results(copy.results), random.Random(0)), tmp_path / "kept")
    assert counts["refused"] > 4 * counts["made again"] > 0


def test_what_the_line_says_leads_back_to_the_results(mini, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(copy.folder)
    name = Path("tables/main_accuracy.csv")
    (line,) = leads_back(mini, copy, [name], "cut short", tmp_path / "aside")
    assert re.search(f"{name}: altered since it was written; move .*tables away", line)
