"""A simulated study on disk, shared by the tests of the analysis."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "fixtures" / "analysis"))

import simulated

from analysis.collected import load


@pytest.fixture(scope="session")
def study_folder(tmp_path_factory):
    """A folder with `results/clinic/`, written once."""
    root = tmp_path_factory.mktemp("study")
    simulated.write_study(root)
    return root


@pytest.fixture
def collected(study_folder, monkeypatch):
    """The simulated study as the analysis reads it, from its folder."""
    monkeypatch.chdir(study_folder)
    return load(simulated.load_study("clinic"))
