"""Every file of a finished study is damaged in turn, and the workflow asked what it says.

What is done to the letter of an error line is tried with a file of every kind, all damaged at
once in one way; see `tests/integration/workflow/test_damage.py` for one alone.
"""

import random

import pytest
from damage import DAMAGES
from sweep import leads_back, of_each_kind, results, sweep


def test_no_damaged_file_of_a_finished_study_goes_unnoticed(copy, tmp_path, monkeypatch):
    monkeypatch.chdir(copy.folder)
    sweep(copy, results(copy.results), tmp_path / "kept")


@pytest.mark.parametrize("how", DAMAGES)
def test_what_an_error_line_says_leads_back_to_the_results(mini, copy, tmp_path, monkeypatch, how):
    monkeypatch.chdir(copy.folder)
    names = of_each_kind(results(mini.results), random.Random(how))
    said = leads_back(mini, copy, names, how, tmp_path / "aside")
    print(f"{len(names)} files {how}:", *said, sep="\n  ", flush=True)
