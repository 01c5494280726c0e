"""The notebook runs on the archive in git, and its stored outputs are what it prints today."""

import json

import notebook
import pytest

from analysis.bundle import restore
from pcqc_base.system.checkout import ROOT
from pcqc_study.study_file import load_study

PAGE = ROOT / "examples" / "look_at_a_run.ipynb"


@pytest.mark.slow  # `test_finished_runs.py` has what its cells call
def test_the_notebook_runs_on_the_restored_archive_and_prints_what_is_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    restore(load_study("clinic-full"))
    stored = [cell["outputs"] for cell in notebook.code_cells(json.loads(PAGE.read_text()))]
    made = notebook.run(PAGE)
    assert [texts(outputs) for outputs in made] == [texts(outputs) for outputs in stored]
    assert sum("image/png" in output.get("data", {}) for o in made for output in o) == 2


def texts(outputs) -> list[str]:
    """What was printed, and tables; pictures depend on the fonts of a machine."""
    every = [output.get("text") or output["data"].get("text/html", "") for output in outputs]
    return [text for text in every if text]
