"""A damaged file of a finished study is never taken for a result: one line, and its remedy works.

All files, and the remedy of every kind, are tried in `tests/long/test_damage_sweep.py`.
"""

import random

from sweep import leads_back, of_each_kind, results, sweep


def test_no_damaged_file_goes_unnoticed(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(copy.folder)
    sweep(copy, of_each_kind(results(copy.results), random.Random(0)), tmp_path / "kept")


def test_what_the_line_says_leads_back_to_the_results(mini, copy, tmp_path, monkeypatch):
    monkeypatch.chdir(copy.folder)
    (name,) = [n for n in results(copy.results) if n.match("report/*/tables/main_accuracy.csv")]
    (line,) = leads_back(mini, copy, [name], "cut short", tmp_path / "aside")
    assert f"{name}: altered since it was written; move " in line
